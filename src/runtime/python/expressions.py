"""What stands at a place in unfinished code, and the live object that it names.

Finding that object runs no code of the user: an attribute that a property or `__getattr__` would have to compute is
not found.
"""

import sys

_library = load("imports").library
ast, inspect, types = map(_library, ("ast", "inspect", "types"))

OPENING = {")": "(", "]": "[", "}": "{"}
CONTAINERS = dict, list, tuple
LITERALS = ast.JoinedStr, ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.Tuple
BOUND_BY_THE_INTERPRETER = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    classmethod,
    staticmethod,
)
_missing = object()


class Unknown(Exception):
    """There is no such object, or finding it would run code."""


class Scan:
    """Strings, comments and brackets of the code before a place.

    `open` are the positions of brackets that are not closed, `string` is where the text of an unfinished string
    begins or None, `comment` whether the place is in a comment, `starts` maps the end of each string and bracketed
    part to where it starts.
    """

    def __init__(self, code):
        self.code = code
        self.open = []
        self.string = None
        self.comment = False
        self.starts = {}
        place = 0
        while place < len(code):
            place = self._step(place)

    def _step(self, place):
        c = self.code[place]
        if c == "#":
            end = self.code.find("\n", place)
            self.comment = end < 0
            return len(self.code) if end < 0 else end
        if c in "\"'":
            return self._skip_string(place)
        if c in "([{":
            self.open.append(place)
        elif c in ")]}" and self.open and self.code[self.open[-1]] == OPENING[c]:
            self.starts[place + 1] = self.open.pop()
        return place + 1

    def _skip_string(self, start):
        quote = self.code[start]
        if self.code.startswith(quote * 3, start):
            quote *= 3
        place = start + len(quote)
        while place < len(self.code):
            if self.code.startswith(quote, place):
                end = place + len(quote)
                self.starts[end] = start
                return end
            if self.code[place] == "\n" and len(quote) == 1:
                return place  # it is broken off; what follows is code again
            place += 2 if self.code[place] == "\\" else 1
        self.string = start + len(quote)
        return len(self.code)

    def start_of_primary(self, end):
        """Where the names, calls and subscripts that are joined without white space begin, which end there."""
        place = end
        while place:
            if place in self.starts:
                place = self.starts[place]
            elif self.code[place - 1] == "." or _in_name(self.code[place - 1]):
                place -= 1
            else:
                break
        return place

    def start_of_name(self, end):
        place = end
        while place and _in_name(self.code[place - 1]):
            place -= 1
        return place


def _in_name(character):
    return character == "_" or character.isalnum()


def resolve(source, namespace):
    """The object that an expression names. Raises `Unknown`."""
    try:
        return _resolve(ast.parse(source.strip(), mode="eval").body, namespace)
    except (SyntaxError, ValueError, MemoryError, RecursionError, LookupError, TypeError):
        raise Unknown from None


def _resolve(node, namespace):
    if isinstance(node, ast.Name):
        for names in (namespace, namespace.get("__builtins__"), vars(sys.modules["builtins"])):
            names = vars(names) if isinstance(names, types.ModuleType) else names
            if type(names) is dict and node.id in names:
                return names[node.id]
    elif isinstance(node, ast.Attribute):
        return attribute(_resolve(node.value, namespace), node.attr)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Constant, ast.UnaryOp)):
        container = _resolve(node.value, namespace)
        if type(container) in CONTAINERS:
            return container[ast.literal_eval(node.slice)]
    elif isinstance(node, ast.Constant):
        return node.value
    elif isinstance(node, LITERALS):
        kinds = {"JoinedStr": str, "List": list, "Dict": dict, "Set": set, "Tuple": tuple}
        return kinds[type(node).__name__.removesuffix("Comp")]()
    raise Unknown


def attribute(value, name):
    """The attribute, if no code of the user makes it; of a property, the property itself."""
    if isinstance(value, types.ModuleType):
        found = vars(value).get(name, _missing)
        if found is _missing:
            found = sys.modules.get(f"{value.__name__}.{name}", _missing)
    else:
        found = inspect.getattr_static(value, name, _missing)
    if found is _missing:
        raise Unknown
    if isinstance(found, BOUND_BY_THE_INTERPRETER):
        return getattr(value, name)
    return found
