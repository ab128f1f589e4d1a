"""Which modules a program may import: asks before each import of the user's own, and lets libraries import what they
need. Advice with an early and clear error; what the program can do is decided by the kernel. Who wants to get around it
can: through the modules that a library holds, through frames, or by undoing what this file does.

The user's own are the cells, what they compile, and the modules whose files lie where only the program can write.

Why the file is called so: `warnings` passes over frames of files with "importlib" and "_bootstrap" in their names, and so
blames whoever wrote the import, as it does without us.
"""

import builtins
import sys
from _frozen_importlib_external import PathFinder

jsontext = load("jsontext")

LIST = __file__.rpartition("/")[0] + "/imports.json"
OWN_PLACES = "/workspace/", "/tmp/"
MAX_REPORTED = 16
MAX_NAME = 100

_getframe, _exc_info = sys._getframe, sys.exc_info
_with_traceback = BaseException.with_traceback


class Imports:
    """What the list says, and which modules it would keep out that this execution has asked for."""

    def __init__(self, level, action, modules, way_out):
        self._everything = "*" in modules
        self._denied = frozenset(entry[1:] for entry in modules if entry[0] == "!")
        self._allowed = frozenset(modules)
        self._refuses = action == "refuse"
        self._why = f"is not allowed in the level {level}; {way_out}"
        self._found = {}

    def are_free(self):
        return self._everything and not self._denied

    def take_violations(self):
        """The field of a `done` message for what was found since the last one, with a comma behind it; or nothing."""
        if not self._found:
            return ""
        found, self._found = self._found, {}
        listed = ",".join(f'{{"rule":"import","detail":{jsontext.quote(name)}}}' for name in found)
        return f'"violations":[{listed}],'

    def check(self, name, parts=()):
        """Raises `ImportError` for `import name`, or `from name import parts`, if that is to be refused."""
        if type(name) is not str:
            return  # the import itself will say so
        refused = self._refused(name, parts)
        if refused is None or _is_own_module(refused):
            return
        shown = refused[:MAX_NAME]
        if len(self._found) < MAX_REPORTED:
            self._found[shown] = True
        if self._refuses:
            raise ImportError(f"import {shown} {self._why}", name=refused)

    def _refused(self, name, parts):
        """The module that is not allowed, if one is not. A package may be closed and some of its modules open."""
        inner = [f"{name}.{part}" for part in parts or () if type(part) is str and part != "*"]
        if self._allows(name):
            return next((module for module in inner if module in self._denied), None)
        return None if inner and all(map(self._allows, inner)) else name

    def _allows(self, name):
        allowed = self._everything
        while name:
            if name in self._denied:
                return False
            allowed = allowed or name in self._allowed
            name = name.rpartition(".")[0]
        return allowed


def _is_own_code(variables):
    """Whether code with these globals is the user's. What has no specification is no module: a cell, or made by one."""
    if type(variables) is not dict:
        return True
    spec = variables.get("__spec__")
    if spec is None:
        return True
    origin = getattr(spec, "origin", None)
    return type(origin) is str and origin.startswith(OWN_PLACES)


def _is_own_module(name):
    """Whether a module is the user's, or does not exist: the import itself will say so."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return False
    module = sys.modules.get(top)
    spec = PathFinder.find_spec(top) if module is None else getattr(module, "__spec__", None)
    return spec is None or _is_own_place(spec)


def _is_own_place(spec):
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return all(str(place).startswith(OWN_PLACES) for place in places)


def _is_by_c(variables, local, parts):
    """Whether C code has asked: what a library imports while it works for a cell bears the globals of the cell."""
    return local is variables and type(parts) is list and not parts


def _trimmed(traceback):
    """Without our frames: libraries print tracebacks too."""
    while traceback is not None and traceback.tb_frame.f_globals is globals():
        traceback = traceback.tb_next
    return traceback


def _guarded_import(imports):
    call = builtins.__import__

    def __import__(name, globals=None, locals=None, fromlist=(), level=0):
        try:
            variables = _getframe(1).f_globals if globals is None else globals
            if _is_own_code(variables) and level == 0 and not _is_by_c(globals, locals, fromlist):
                imports.check(name, fromlist)
            return call(name, globals, locals, fromlist, level)
        except BaseException as error:
            _with_traceback(error, _trimmed(_exc_info()[2]))
            raise  # adds no frame

    __import__.__module__, __import__.__qualname__, __import__.__doc__ = "builtins", "__import__", call.__doc__
    return __import__


def _guard(module, name, check):
    """Has a function of a library call `check` with its arguments first, when the user's own code calls it."""
    call = getattr(module, name)

    def guarded(*args, **named):
        try:
            if _is_own_code(_getframe(1).f_globals):
                check(*args, **named)
            return call(*args, **named)
        except BaseException as error:
            _with_traceback(error, _trimmed(_exc_info()[2]))
            raise

    for attribute in "__module__", "__name__", "__qualname__", "__doc__":
        setattr(guarded, attribute, getattr(call, attribute))
    setattr(module, name, guarded)


def install():
    """Begins to ask. Returns (the imports, patches for modules by name); no imports if everything may be imported."""
    try:
        with open(LIST, encoding="utf-8") as file:
            imports = Imports(**jsontext.decode(file.read()))
    except FileNotFoundError:
        return None, {}
    if imports.are_free():
        return None, {}
    builtins.__import__ = _guarded_import(imports)

    def check_name(name="", package=None, **_):
        imports.check(package if type(name) is str and name[:1] == "." else name)

    def check_spec(spec):
        if not _is_own_place(spec):
            imports.check(spec.name)

    def patch_importlib(module):
        _guard(module, "import_module", check_name)
        module.__import__ = builtins.__import__

    return imports, {
        "importlib": patch_importlib,
        "importlib.util": lambda module: _guard(module, "module_from_spec", check_spec),
        "runpy": lambda module: _guard(module, "run_module", lambda mod_name, *_, **__: imports.check(mod_name)),
    }
