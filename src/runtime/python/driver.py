"""The Python driver: runs executions for a gateway and keeps their variables.

Started as `python3 -I -S driver.py FD` where FD is the control socket, or with `zygote` and names of
packages in its place (zygote.py).
This file only prepares the interpreter; the files beside it do the work, each loaded by `load` below:

    control.py      frames, numbers and acknowledgements on the control socket
    beginning.py    variables and directory of a session that gets an interpreter which was ready before
    jsontext.py     JSON without the library's json
    descriptors.py  the descriptors 0, 1 and 2, and their return
    streams.py      sys.stdout, sys.stderr and print: nothing waits in a buffer
    stdin.py        sys.stdin, input and getpass
    shield.py       what may interrupt user code, and what may not interrupt the driver
    execution.py    compiles and runs one execution in the session's namespace
    awaiting.py     top-level await, on one event loop a session
    report.py       values and exceptions as the text that a client sees
    display.py      rich output; bundles.py is what objects look like, figures.py those of matplotlib
    imports.py      the driver's own imports, and changes to modules that a program imports
    importlib_bootstrap.py  which modules a program may import
    queries.py      completion (completion.py) and documentation; expressions.py finds what a place names

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
from posix import close, stat

__builtins__ = dict(vars(__builtins__))  # for all functions that are made from here on


def void(_signum, _frame):
    """Stands in for handlers of the user while no user code runs. It cannot raise, so no signal can hurt the driver."""


HERE = __file__.rpartition("/")[0]


def load(name):
    """Runs a file beside this one as a module that only the driver can see; the second time, returns the first."""
    module = LOADED.get(name)
    if module is None:
        module = type(sys)("repltool." + name)
        path = f"{HERE}/{name}.py"
        vars(module).update(__builtins__=__builtins__, __file__=path, load=load, void=void)
        with open(path, encoding="utf-8") as source:
            exec(compile(source.read(), path, "exec", dont_inherit=True), vars(module))
        LOADED[name] = module  # not before: an interrupt may end the loading of those that come late
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


signal(SIGINT, void)  # nothing can be meant yet
LOADED = {}


def main(inherited):
    """Never returns: the process ends when the control socket does. `inherited` is its descriptor."""
    descriptors = load("descriptors")
    control = load("control").Control(descriptors.move_high(inherited, 1), descriptors.move_high(inherited, 2))
    close(inherited)
    signal(SIGINT, control.note_interrupt)
    control.ready()
    execution = load("execution").Interpreter(descriptors.Descriptors(), control)
    if not control.has_mail():
        execution.prepare()
        execution.rehearse()
    while True:
        request = control.next_request()
        if request["t"] == "query":
            control.reply(request["n"], execution.answer(request))
            continue
        try:
            control.done(execution.run(request["code"], request["count"], request.get("stdin", "none")))
        except MemoryError:
            control.done(execution.no_memory())
        control.check()
        execution.prepare()


role, *packages = sys.argv[1:]
sys.argv = [""]
set_import_path()
if role == "zygote":
    load("zygote").serve(packages)
    main(3)
else:
    main(int(role))
