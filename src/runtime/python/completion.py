"""Completion: what may stand at a place in unfinished code."""

import sys

_library = load("imports").library
ast, inspect, keyword, pkgutil, re = map(_library, ("ast", "inspect", "keyword", "pkgutil", "re"))
PathFinder = _library("importlib.machinery").PathFinder
expressions = load("expressions")

IMPORTED = re.compile(r"\s*(?:import\s+(?:[\w.\s]+,\s*)*|from\s+)([\w.]*)")
IMPORTED_FROM = re.compile(r"\s*from\s+([\w.]+)\s+import\s+\(?(?:[\w\s]+,\s*)*(\w*)")


def complete(code, namespace):
    """Completes the end of the code. Returns (matches, where in the code the part begins that they replace)."""
    scan = expressions.Scan(code)
    if scan.comment:
        return [], len(code)
    if scan.string is not None:
        return _keys(scan, namespace), scan.string
    start = scan.start_of_name(len(code))
    prefix = code[start:]
    statement = re.split(r"[\n;]", code)[-1] if not scan.open else code[code.rfind("\n", 0, scan.open[0]) + 1 :]
    imported = IMPORTED.fullmatch(statement)
    if imported:
        return _matching(_modules(imported[1].rpartition(".")[0]), prefix), start
    taken = IMPORTED_FROM.fullmatch(statement)
    if taken:
        return _matching(_names_in_module(taken[1]), prefix), start
    if prefix[:1].isdigit():
        return [], start
    if code[:start].endswith("."):
        end = start - 1
        return _matching(_attributes(code[scan.start_of_primary(end) : end], namespace), prefix), start
    return _parameters(scan, start, namespace) + _matching(_names(namespace), prefix), start


def _matching(names, prefix):
    """Those that begin so, sorted; private ones only if they are asked for."""
    return sorted({name for name in names if name.startswith(prefix) and (prefix or name[:1] != "_")})


def _names(namespace):
    return [*filter(_is_text, list(namespace)), *vars(sys.modules["builtins"]), *keyword.kwlist]


def _is_text(name):
    return type(name) is str


def _attributes(source, namespace):
    try:
        value = expressions.resolve(source, namespace)
    except expressions.Unknown:
        return []
    try:
        names = list(type(value).__dir__(value))  # not `dir`, which fails to sort what is not all text
    except Exception:
        names = object.__dir__(value)
    return filter(_is_text, names)


def _keys(scan, namespace):
    """The keys of a mapping, inside the string that subscribes it."""
    code, quote = scan.code, scan.code[scan.string - 1]
    if not scan.open or code[scan.open[-1] + 1 : scan.string].strip() not in (quote, "r" + quote):
        return []
    end = scan.open[-1]
    if code[end] != "[":
        return []
    try:
        value = expressions.resolve(code[scan.start_of_primary(end) : end], namespace)
    except expressions.Unknown:
        return []
    typed = code[scan.string :]
    fitting = {key for key in _keys_of(value) if _is_text(key) and key.startswith(typed)}
    return sorted(key for key in fitting if key.isprintable() and quote not in key and "\\" not in key)


def _keys_of(value):
    if isinstance(value, dict):
        return list(dict.keys(value))
    if hasattr(type(value), "_ipython_key_completions_"):
        return value._ipython_key_completions_()
    pandas = sys.modules.get("pandas")
    return list(value.columns) if pandas and isinstance(value, pandas.DataFrame) else []


def _parameters(scan, start, namespace):
    """Names of parameters, with "=", at the beginning of an argument."""
    if not scan.open or scan.code[scan.open[-1]] != "(" or scan.code[:start].rstrip()[-1:] not in ("(", ","):
        return []
    end = scan.open[-1]
    try:
        called = expressions.resolve(scan.code[scan.start_of_primary(end) : end], namespace)
        parameters = inspect.signature(called).parameters.values()
    except Exception:  # it is no callable, or its signature is not known
        return []
    prefix = scan.code[start:]
    named = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return [f"{name}=" for name in named if name.startswith(prefix)]


def _modules(package):
    """The modules that can be imported, at the top or from a package."""
    if package:
        return [module.name for module in pkgutil.iter_modules(_places(package) or [])]
    return [*sys.builtin_module_names, *(module.name for module in pkgutil.iter_modules())]


def _names_in_module(name):
    """What can be imported from a module. One that is not loaded is read, not run."""
    module = sys.modules.get(name)
    if module is not None:
        return [*filter(_is_text, dir(module)), *_modules(name)]
    spec = _spec(name)
    if spec is None:
        return []
    try:
        tree = ast.parse(spec.loader.get_source(name) or "")
    except Exception:  # it has no source, or none that is Python
        return _modules(name)
    return [*_defined(tree.body), *_modules(name)]


def _defined(statements):
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                if alias.name != "*":
                    yield alias.asname or alias.name.partition(".")[0]
        else:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    yield inner.id


def _places(package):
    """The folders of a package, or None."""
    module = sys.modules.get(package)
    if module is not None:
        return getattr(module, "__path__", None)
    spec = _spec(package)
    return spec and spec.submodule_search_locations


def _spec(name):
    """Finds a module without importing the packages that it is in."""
    package = name.rpartition(".")[0]
    places = _places(package) if package else None
    if package and not places:
        return None
    return PathFinder.find_spec(name, places)
