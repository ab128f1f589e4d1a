"""JSON by the C half of the library's json: the Python half would pull in `re` and cost 8 ms at start."""

from _json import encode_basestring, make_scanner


class _Options:
    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = None
    memo = {}


_scan = make_scanner(_Options())


def decode(text):
    """The value of a JSON text without white space around it."""
    return _scan(text, 0)[0]


def clean(text):
    """The text as an exact `str` that UTF-8 can carry: halves of surrogate pairs become `\\udead` in letters."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def quote(text):
    """The text as a JSON string."""
    return encode_basestring(clean(text))
