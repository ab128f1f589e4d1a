# Starts whatever is hard to get rid of, and prints `all` when every process is in place: 13, of which one is dead.
import ctypes, mmap, os, signal, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
here, tell = os.pipe()

def forever():
    os.write(tell, b'.')
    while True: time.sleep(600)

def deaf():
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))

def daemon():
    os.setsid()
    if os.fork(): os._exit(0)
    deaf()
    os.chdir('/')
    forever()

def stopped():
    deaf()
    os.write(tell, b'.')
    os.kill(os.getpid(), signal.SIGSTOP)

def spinning():
    deaf()
    os.write(tell, b'.')
    while True: pass

# Its parent waits, and cannot be interrupted, until the child executes something.
def suspended():
    CLONE_VFORK, SYS_clone = 0x4000, 56
    if libc.syscall(SYS_clone, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0) == 0: forever()
    os._exit(1)

def threaded():
    for _ in range(4): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    forever()

def without_descriptors():
    os.write(tell, b'.')
    os.closerange(0, 4096)
    while True: time.sleep(600)

# A socket that is bound to a name, and that is held only by a message that nobody will receive.
def in_flight():
    named = socket.socket(socket.AF_UNIX)
    named.bind('\0left-behind')
    one, other = socket.socketpair()
    socket.send_fds(one, [b'x'], [one.fileno(), other.fileno(), named.fileno()])
    os.write(tell, b'.')
    os.closerange(0, 4096)
    while True: time.sleep(600)

def hoarding():
    for folder in ('/tmp', '/dev/shm'):
        with open(folder + '/hoard', 'wb') as hoard: hoard.write(b'x' * (6 << 20))
    # Refused where nobody counts it.
    try: mmap.mmap(-1, 6 << 20).write(b'x' * (6 << 20))
    except OSError: pass
    forever()

def waiting_for_a_lock():
    import fcntl
    file = open('/tmp/lock', 'w')
    if os.fork() == 0:
        file = open('/tmp/lock', 'w')
        fcntl.flock(file, fcntl.LOCK_EX)
        forever()
    fcntl.flock(file, fcntl.LOCK_EX)
    time.sleep(0.05)
    forever()

kinds = [daemon, stopped, spinning, suspended, threaded, without_descriptors, in_flight, hoarding, waiting_for_a_lock]
for kind in kinds:
    if os.fork() == 0:
        kind()
        os._exit(0)
there = 0
while there < len(kinds): there += len(os.read(here, 16))
print('all', flush=True)
deaf()
while True: time.sleep(600)
