"""`display`: shows objects to the client, at their place in the output.

What objects look like is found out in `bundles.py`, which is loaded with the first one that is more than its text.
"""

import sys

streams = load("streams")

_plain = 0, 0.0, 0j, "", b"", True, None, [], {}, (), set(), frozenset(), type, len, load
PLAIN = frozenset(map(id, map(type, _plain)))  # by identity, because a class may refuse to be hashed


class Display:
    """Shows objects, each in all the forms that it offers (`_repr_html_`, `_repr_png_`, `_repr_mimebundle_`, ...).

    metadata
      a dictionary that is sent along with each of them.
    raw
      whether the objects are dictionaries from MIME types to data, and not things to be shown.

    HTML, Markdown, Latex, SVG, JSON and Image are attributes of it: `display(display.HTML("<b>bold</b>"))`.
    """

    def __init__(self, control):
        self._control = control

    def __call__(self, *objects, metadata=None, raw=False):
        for value in objects:
            data, told = load("bundles").describe(value, metadata, raw)
            if data:
                self._send(data, told)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return load("bundles").OFFERED[name]
        except KeyError:
            raise AttributeError(f"display has no attribute {name!r}") from None

    def __dir__(self):
        return [*super().__dir__(), *load("bundles").OFFERED]

    def __repr__(self):
        return "<built-in display>"

    def __reduce__(self):
        return "display"

    def _show_forms(self, value):
        """Shows an object if it has a form that is more than its text."""
        if load("bundles").is_rich(value):
            data, told = load("bundles").describe(value, None, False)
            if data.keys() - {"text/plain"}:
                self._send(data, told)

    def _send(self, data, metadata):
        """Shows a bundle; where the client cannot be reached, in a child made by fork, prints its text."""
        if self._control.speaks():
            streams.flush()
            self._control.display(*load("bundles").as_json(data, metadata))
        elif "text/plain" in data:
            print(data["text/plain"])

    def show_value(self, value):
        """Shows the value of a trailing expression, if it has another form than its text; then figures left open."""
        if id(type(value)) not in PLAIN:
            self._try(self._show_forms, value)
        if "matplotlib.pyplot" in sys.modules:
            self._try(self._show_figures, value)

    def show_figures(self, *_args, **_named):
        """Shows the figures that pyplot holds, and closes them: what `pyplot.show` does."""
        self._try(self._show_figures, None)

    def drop_figures(self):
        """Closes the figures that an interrupted execution leaves."""
        if "matplotlib.pyplot" in sys.modules:
            self._try(load("figures").take_open, None)

    def _show_figures(self, shown):
        for figure in load("figures").take_open(shown):
            self._try(self._show_forms, figure)

    def _try(self, call, argument):
        try:
            call(argument)
        except Exception as error:
            streams.tell(f"display: {type(error).__name__}: {error}")


Display.__module__, Display.__qualname__, Display.__name__ = "builtins", "display", "display"
