"""The zygote: an interpreter that loads what every session needs, and then forks into one sandbox after the other.

It never runs code of a session. What `serve` returns in is a fork, behind all walls of a sandbox already: native.c, the
module that does that, says how. Such a fork is the driver of one session from then on, as if it had been started there.

Children of one zygote share the layout of their address space and the seed of the hashes of text, so a zygote is replaced
now and then.
"""

import gc
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from _imp import create_dynamic, exec_dynamic
from posix import close, putenv, unsetenv

NATIVE = "/run/zygote/native.so"
ORDERS, FILTER = 3, 4
# What the driver loads in the end, but for what a session may never need.
DRIVER = (
    "descriptors", "control", "beginning", "execution", "streams", "report", "jsontext", "stdin", "display", "awaiting",
    "shield", "importlib_bootstrap", "imports", "queries", "expressions", "completion",
)  # fmt: skip
# What has threads cannot be forked; the native half would end.
WITHOUT_THREADS = "OPENBLAS_NUM_THREADS", "1"
# Modules that programs import often, that a program cannot tell from ones it has loaded itself, and that do nothing
# until they are called: no threads, no descriptors, no handlers.
OFTEN = (
    "abc", "ast", "bisect", "collections", "contextlib", "copy", "dataclasses", "datetime", "enum", "functools", "heapq",
    "itertools", "json", "keyword", "linecache", "math", "numbers", "operator", "random", "re", "reprlib", "string",
    "textwrap", "tokenize", "traceback", "types", "typing", "weakref",
)  # fmt: skip


def serve(packages):
    """Imports these, then returns in each fork, and never in the zygote itself, which ends with the supervisor."""
    native = _native()
    native.load(FILTER)
    close(FILTER)
    for name in DRIVER:
        load(name)
    load("report").warm_up()
    putenv(*WITHOUT_THREADS)
    for name in (*OFTEN, *packages):
        try:
            __import__(name)
        except ImportError:
            pass  # a level may not have it
    unsetenv(WITHOUT_THREADS[0])
    gc.collect()
    gc.freeze()
    native.serve(ORDERS)


def _native():
    """The module, known to nobody else."""
    name = "repltool_native"
    module = create_dynamic(ModuleSpec(name, ExtensionFileLoader(name, NATIVE), origin=NATIVE))
    exec_dynamic(module)
    sys.modules.pop(name, None)
    return module
