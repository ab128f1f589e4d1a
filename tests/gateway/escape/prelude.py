# Comes before the Python of every attempt. Numbers of calls are those of x86-64.
import ctypes, errno, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    numbers = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *numbers)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def refused(error):
    name = errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)
    print("refused:", name, repr(error), flush=True)

def attempt(what, *arguments):
    try:
        result = what(*arguments)
    except (OSError, MemoryError, ValueError, ImportError, RuntimeError) as error:
        refused(error)
    else:
        print("ESCAPED:", repr(result), flush=True)

# What a program may do, and which shows nothing of others: it finds `nothing`, or it has escaped.
def find(what, *arguments, nothing):
    found = what(*arguments)
    print("ESCAPED:" if found != nothing else "refused: nothing", repr(found), flush=True)

# Where init has the program's own user (one line in the map) and Landlock knows no signals (Linux before 6.12), the call
# succeeds, and Linux drops what a process sends to the first one of its own pid namespace. Who gets past it sees it live.
def attempt_on_init(what, *arguments):
    shared = os.path.exists("/proc/self/uid_map") and len(open("/proc/self/uid_map").readlines()) == 1
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if shared and release < (6, 12):
        what(*arguments)
        print("refused: EPERM dropped, and init lives on", flush=True)
    else:
        attempt(what, *arguments)

def in_child(what, *arguments):
    try:
        pid = os.fork()
    except OSError as error:
        return refused(error)
    if pid == 0:
        try:
            what(*arguments)
            os._exit(7)
        except BaseException:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print("ESCAPED: the child did it" if code == 7 else f"refused: {code} in a child", flush=True)

def run(*argv):
    import subprocess
    done = subprocess.run(argv, capture_output=True, timeout=20)
    if done.returncode != 0:
        raise RuntimeError(done.returncode, done.stderr.decode(errors="replace")[-200:])
    return done.stdout

def machine_code(code):
    import mmap
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()
