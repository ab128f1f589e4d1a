"""The Python driver: runs executions for a gateway and keeps their variables.

Started as `python3 -I -S driver.py FD` where FD is the control socket. This file only prepares the
interpreter; the files beside it do the work, each loaded by `load` below:

    control.py     frames, numbers and acknowledgements on the control socket
    jsontext.py    JSON without the library's json
    streams.py     sys.stdout, sys.stderr and print: nothing waits in a buffer
    shield.py      what may interrupt user code, and what may not interrupt the driver
    execution.py   compiles and runs one execution in the session's namespace
    awaiting.py    top-level await, on one event loop a session
    report.py      values and exceptions as the text that a client sees

It refuses to know about sandboxes, time limits and clients. It never speaks over stdio.

Rules that keep a session from harming its own driver:
- Nothing of the driver is in `sys.modules` or in the user's namespace, and its modules have a copy of the
  builtins, so patching `builtins`, `os` or `signal` does not reach it.
- The working directory is the last place where imports look: a file `json.py` written there never stands in
  for the library's.
- `ready` is sent before the larger part is loaded; the gateway's first message waits in the socket meanwhile.
  What only tracebacks need comes after the first execution, if one is waiting already (`prepare`).
"""

import sys
from _signal import SIGINT, signal
from posix import close, dup2, stat, sysconf


def void(_signum, _frame):
    """Stands in for handlers of the user while no user code runs. It cannot raise, so no signal can hurt the driver."""


HERE = __file__.rpartition("/")[0]


def load(name):
    """Runs a file beside this one as a module that only the driver can see; the second time, returns the first."""
    module = LOADED.get(name)
    if module is None:
        module = LOADED[name] = type(sys)("repltool." + name)
        path = f"{HERE}/{name}.py"
        vars(module).update(__builtins__=BUILTINS, __file__=path, load=load, void=void)
        with open(path, encoding="utf-8") as source:
            exec(compile(source.read(), path, "exec", dont_inherit=True), vars(module))
    return module


def set_import_path():
    """Does what `site` would (it is off: it costs 6 ms), and puts the working directory last."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    places = [f"{sys.prefix}/lib/{version}/site-packages"]
    if sys.prefix == "/usr":  # Debian's own interpreter
        places = [f"/usr/local/lib/{version}/dist-packages", "/usr/lib/python3/dist-packages"]
    for place in places:
        try:
            stat(place)
        except OSError:
            continue
        sys.path.append(place)
    sys.path.append("")
    sys.dont_write_bytecode = True  # no __pycache__ among the user's files


def move_high(descriptor, below_top):
    """Moves a descriptor to the upper end, away from the numbers that programs count on. Not inherited by exec."""
    limit = sysconf("SC_OPEN_MAX")
    target = (min(limit, 1024) if limit > 0 else 1024) - below_top
    dup2(descriptor, target, inheritable=False)
    return target


signal(SIGINT, void)  # nothing can be meant yet
LOADED = {}
BUILTINS = dict(vars(__builtins__))


def main():
    """Never returns: the process ends when the control socket does."""
    inherited = int(sys.argv[1])
    control = load("control").Control(move_high(inherited, 1))
    close(inherited)
    signal(SIGINT, control.note_interrupt)
    sys.argv = [""]
    set_import_path()
    control.ready()
    spares = {1: move_high(1, 2), 2: move_high(2, 3)}
    execution = load("execution").Interpreter(spares, control)
    if not control.has_mail():
        execution.prepare()
    while True:
        n, count, code = control.next_execution()
        try:
            control.done(n, execution.run(code, count))
        except MemoryError:
            control.done(n, execution.no_memory())
        execution.prepare()


main()
