"""Values and exceptions as a client sees them: text and JSON, within their limits.

A value goes out as JSON only if it is exactly JSON: `None`, `bool`, `int`, `float`, `str`, `list`, and `dict` with
`str` keys, themselves and no subclasses. Anything else goes out as its printed form. The functions call code of the
user (`__repr__`, `__str__`), so they may raise anything; `plain_exception` calls none.
"""

jsontext = load("jsontext")
clean, quote = jsontext.clean, jsontext.quote

MAX_JSON = 1 << 20
MAX_TEXT = 1 << 16
MAX_DEPTH = 100  # parsers of JSON commonly stop at 128, and a result travels inside other objects
MAX_EXACT_INT = (1 << 53) - 1
MAX_SOURCES = 1 << 21

HIDDEN = __file__.rpartition("/")[0] + "/"

_linecache = None  # the dictionary of that module
_TracebackException = None
_sources = {}
_sources_size = 0
_name_of = type.__dict__["__name__"].__get__  # also of classes whose metaclass says otherwise


class _NotJson(Exception):
    pass


class _TooBig(Exception):
    pass


def warm_up():
    """Imports what tracebacks need. It takes as long as the interpreter's own start, so not before the first result."""
    global _linecache, _TracebackException
    if _TracebackException is None:
        import linecache
        import traceback

        _linecache, _TracebackException = linecache.cache, traceback.TracebackException
        _linecache.update(_sources)


def remember_source(name, code):
    """Lets tracebacks show the lines of an execution. The oldest are forgotten beyond `MAX_SOURCES` characters."""
    global _sources_size
    if _linecache is None and "import" in code:
        warm_up()  # the program may come to print tracebacks by itself
    lines = [line + "\n" for line in code.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    _keep_source(name, (len(code), None, lines, name))
    _sources_size += len(code)
    while _sources_size > MAX_SOURCES and len(_sources) > 1:
        oldest = next(iter(_sources))
        _sources_size -= _sources.pop(oldest)[0]
        if _linecache is not None:
            _linecache.pop(oldest, None)


def _keep_source(name, entry):
    _sources[name] = entry
    if _linecache is not None:
        _linecache[name] = entry


def value_fields(value):
    """Returns (JSON, printed form or None, whether one of them did not fit)."""
    if value is None:
        return "null", None, False
    printed = repr(value[: MAX_TEXT + 1]) if type(value) is str else repr(value)
    text, cut = clip(printed)
    try:
        return _json(value), text, cut
    except _TooBig:
        return "null", text, True
    except _NotJson:
        if len(printed) <= MAX_JSON:
            result = quote(printed)
            if len(result.encode()) <= MAX_JSON:
                return result, text, cut
        return "null", text, True


def _json(value):
    pieces = []
    _JsonWriter(pieces.append).write(value, 0)
    text = "".join(pieces)
    if len(text.encode()) > MAX_JSON:
        raise _TooBig
    return text


class _JsonWriter:
    def __init__(self, add):
        self._add = add
        self._room = MAX_JSON

    def _put(self, piece):
        self._room -= len(piece)
        if self._room < 0:
            raise _TooBig
        self._add(piece)

    def write(self, value, depth):
        kind = type(value)
        if kind is str:
            if len(value) > self._room:
                raise _TooBig
            self._put(quote(value))
        elif value is None:
            self._put("null")
        elif kind is bool:
            self._put("true" if value else "false")
        elif kind is int:
            self._put(str(value) if -MAX_EXACT_INT <= value <= MAX_EXACT_INT else f'"{value}"')
        elif kind is float:
            self._put(_float(value))
        elif kind is list or kind is dict:
            if depth == MAX_DEPTH:
                raise _NotJson
            self._list(value, depth + 1) if kind is list else self._dict(value, depth + 1)
        else:
            raise _NotJson

    def _list(self, values, depth):
        self._put("[")
        for place, value in enumerate(values):
            if place:
                self._put(",")
            self.write(value, depth)
        self._put("]")

    def _dict(self, values, depth):
        self._put("{")
        for place, (key, value) in enumerate(list(values.items())):
            if type(key) is not str:
                raise _NotJson
            self._put(f",{quote(key)}:" if place else f"{quote(key)}:")
            self.write(value, depth)
        self._put("}")


def _float(value):
    if value != value:
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def clip(text, keep_tail=0):
    """Returns (text of at most `MAX_TEXT` bytes, whether it was cut). Up to `keep_tail` bytes of its end are kept."""
    data = str.encode(text, "utf-8", "backslashreplace")
    if len(data) <= MAX_TEXT:
        return data.decode(), False
    if not keep_tail:
        return data[:MAX_TEXT].decode(errors="ignore"), True
    mark = f"\n  [{len(data) - MAX_TEXT} bytes left out]\n"
    head = data[: MAX_TEXT - keep_tail - 64].decode(errors="ignore")
    return head + mark + data[-keep_tail:].decode(errors="ignore"), True


def exception_parts(error):
    """Returns (name, message, lines of the traceback, whether something did not fit)."""
    try:
        message = str(error)
    except Exception:
        message = "<exception str() failed>"
    message, cut_message = clip(message)
    warm_up()
    for name, entry in _sources.items():
        _linecache.setdefault(name, entry)
    told = _TracebackException(type(error), error, error.__traceback__, compact=True)
    _cut_to_user_frames(told)
    text, cut_text = clip("".join(told.format()).rstrip("\n"), keep_tail=MAX_TEXT // 2)
    name, cut_name = clip(_name_of(type(error)))
    return name, message, text.split("\n"), cut_text or cut_message or cut_name


def plain_exception_parts(error, trouble):
    """The same without running code of the user, for when describing the exception ended in `trouble`."""
    name, why = clip(_name_of(type(error)))[0], clip(_name_of(type(trouble)))[0]
    return name, f"<no message: {why}>", [f"{name}: <no traceback: {why}>"], True


def exception_json(name, message, lines):
    traceback = ",".join(map(quote, lines))
    return f'{{"name":{quote(name)},"message":{quote(message)},"traceback":[{traceback}]}}'


def _cut_to_user_frames(told):
    """Takes the driver's frames out of an exception and all that it is chained to or made of."""
    todo, seen = [told], set()
    while todo:
        part = todo.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        todo += [part.__cause__, part.__context__, *(part.exceptions or ())]
        if part.stack is None:
            continue
        frames = [frame for frame in part.stack if not frame.filename.startswith(HIDDEN)]
        while frames and part is told and "/asyncio/" in frames[0].filename:
            del frames[0]
        if frames:
            part.stack[:] = frames
        else:
            part.stack = None
