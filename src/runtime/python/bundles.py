"""What an object looks like: its forms by MIME type, as libraries for notebooks offer them, and as JSON.

The functions call code of the user. A form that cannot be had is left out, with a line on stderr.
"""

from _json import make_encoder

figures = load("figures")
quote = load("jsontext").quote
library = load("imports").library
tell = load("streams").tell

FORMS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_latex_": "text/latex",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_json_": "application/json",
}
ALL_AT_ONCE = "_repr_mimebundle_"
BY_ITSELF = "_ipython_display_"
MAX_DEPTH = 100  # as for results


def is_rich(value):
    """Whether a value has another form than its text."""
    kind = type(value)
    return figures.is_figure(value) or any(_offers(kind, name) for name in (*FORMS, ALL_AT_ONCE, BY_ITSELF))


def describe(value, metadata, raw):
    """Returns (data by MIME type, metadata) of one argument of `display`; no data if it has shown itself."""
    if metadata is not None and not isinstance(metadata, dict):
        raise TypeError(f"metadata must be a dict, not {type(metadata).__name__}")
    if raw:
        if not isinstance(value, dict):
            raise TypeError(f"raw=True takes a dict from MIME types to data, not {type(value).__name__}")
        return dict(value), metadata or {}
    if _offers(type(value), BY_ITSELF):
        done, _ = _call(value, BY_ITSELF)
        if done:
            return {}, {}
    data, told = _forms(value)
    return data, {**told, **(metadata or {})}


def as_json(data, metadata):
    """The same as two JSON objects. Raises `TypeError` or `ValueError` if they are none."""
    members = []
    for kind, content in data.items():
        if type(kind) is not str:
            raise TypeError(f"a MIME type must be text, not {type(kind).__name__}")
        members.append(f"{quote(kind)}:{_content(kind, content)}")
    return "{" + ",".join(members) + "}", _any_json(metadata)


def _forms(value):
    data, metadata = {}, {}
    if figures.is_figure(value):
        data["image/png"] = figures.png(value)
    _, whole = _call(value, ALL_AT_ONCE, include=None, exclude=None)
    whole, told = _with_metadata(whole)
    if isinstance(whole, dict):
        data.update(whole)
        metadata.update(told or {})
    for name, kind in FORMS.items():
        if kind in data:
            continue
        content, told = _with_metadata(_call(value, name)[1])
        if content is not None:
            data[kind] = content
            if told:
                metadata[kind] = told
    if "text/plain" not in data:
        try:
            data["text/plain"] = repr(value)
        except Exception as error:
            _tell(value, "__repr__", error)
    return {kind: content for kind, content in data.items() if _fits(value, kind, content)}, metadata


def _offers(kind, name):
    """Looks at the class: an object may claim to have whatever it is asked for."""
    try:
        return getattr(kind, name, None) is not None
    except Exception:
        return False


def _call(value, name, **named):
    """Returns (whether the method is there and gave no error, what it gave)."""
    if isinstance(value, type) or not _offers(type(value), name):
        return False, None
    try:
        return True, getattr(value, name)(**named)
    except NotImplementedError:
        return False, None
    except Exception as error:
        _tell(value, name, error)
        return False, None


def _with_metadata(content):
    """Such a method may give its data alone, or a pair of data and metadata."""
    if isinstance(content, tuple) and len(content) == 2:
        return content
    return content, None


def _fits(value, kind, content):
    try:
        _content(kind, content)
        return True
    except (TypeError, ValueError, RecursionError) as error:
        _tell(value, kind, error)
        return False


def _tell(value, what, error):
    tell(f"display: no {what} of {type(value).__name__}: {type(error).__name__}: {error}")


def _content(kind, content):
    if kind == "application/json" or kind.endswith("+json"):
        return _any_json(content)
    if isinstance(content, (bytes, bytearray, memoryview)):
        if kind.startswith("text/") or kind == "image/svg+xml":
            return quote(bytes(content).decode("utf-8", "backslashreplace"))
        return quote(library("binascii").b2a_base64(content, newline=False).decode())
    if isinstance(content, str):
        return quote(content)
    raise TypeError(f"{kind} must be text or bytes, not {type(content).__name__}")


def _any_json(value):
    if _deeper_than(value, MAX_DEPTH):
        raise ValueError(f"JSON may be nested {MAX_DEPTH} levels deep")
    return "".join(make_encoder({}, _refuse, quote, None, ":", ",", False, False, False)(value, 0))


def _deeper_than(value, levels):
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return False
    return levels == 0 or any(_deeper_than(inner, levels - 1) for inner in value)


def _refuse(value):
    raise TypeError(f"{type(value).__name__} is no JSON")


class _Shown:
    """Something that is shown as what its class says. It is given, or read from the file `filename`."""

    _mode = "r"

    def __init__(self, data=None, *, filename=None):
        if filename is not None:
            with open(filename, self._mode) as file:
                data = file.read()
        self.data = data

    def __repr__(self):
        return f"<display.{type(self).__name__}>"


class HTML(_Shown):
    def _repr_html_(self):
        return self.data


class Markdown(_Shown):
    def _repr_markdown_(self):
        return self.data


class Latex(_Shown):
    def _repr_latex_(self):
        return self.data


class SVG(_Shown):
    def _repr_svg_(self):
        return self.data


class JSON(_Shown):
    def _repr_json_(self):
        return self.data


class Image(_Shown):
    """A PNG, JPEG, GIF or WebP image, as bytes or from a file."""

    _mode = "rb"

    def _repr_mimebundle_(self, include=None, exclude=None):
        head = bytes(self.data[:12])
        for start, kind in ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif")):
            if head.startswith(start):
                return {f"image/{kind}": self.data}
        if head[:4] == b"RIFF" and head[8:] == b"WEBP":
            return {"image/webp": self.data}
        raise ValueError("neither PNG nor JPEG, GIF or WebP")


OFFERED = {kind.__name__: kind for kind in (HTML, Markdown, Latex, SVG, JSON, Image)}
OFFERED["PNG"] = Image
for _kind in OFFERED.values():
    _kind.__module__, _kind.__qualname__ = "display", _kind.__name__
