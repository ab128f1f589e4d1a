"""sys.stdout and sys.stderr: each write goes out at once, and each `print` is one write(2).

A TextIOWrapper gives one or the other: with line buffering `print(x, end="")` waits, with write-through a line and
its newline are two writes. So there is a raw stream of ours below it, and a `print` that joins its pieces first; it
takes 0.7 of the time that the builtin one takes with line buffering.

Closing or detaching them does nothing, because others of the session still need them.
"""

import builtins
import sys
from _io import FileIO, TextIOWrapper
from _thread import RLock
from posix import register_at_fork, set_blocking, write

PIPE_BUF = 4096  # Linux writes as much to a pipe in one piece

_builtin_print = builtins.print
_large = RLock()  # keeps the pieces of a large write together
_large_now = 0
register_at_fork(after_in_child=_large._at_fork_reinit)


def write_whole(descriptor, data):
    """Writes all of the bytes, whatever signals, full pipes and a non-blocking mode do to the call."""
    if len(data) <= PIPE_BUF and not _large_now:
        try:
            return write(descriptor, data)
        except BlockingIOError:
            pass
    return _write_large(descriptor, data)


def _write_large(descriptor, data):
    global _large_now
    with _large:
        _large_now += 1
        try:
            rest = memoryview(data)
            while rest:
                try:
                    rest = rest[write(descriptor, rest) :]
                except BlockingIOError:
                    set_blocking(descriptor, True)
        finally:
            _large_now -= 1
    return len(data)


class _Raw(FileIO):
    """What `sys.stdout.buffer` is."""

    def __init__(self, descriptor, name):
        super().__init__(descriptor, "wb", closefd=False)
        self.name = name

    @property
    def raw(self):
        return self

    def write(self, data):
        if type(data) is not bytes:
            data = memoryview(data).cast("B")
        return write_whole(self.fileno(), data)

    def detach(self):
        return self

    def close(self):
        pass


class Stream(TextIOWrapper):
    """What `sys.stdout` is. `direct` is its descriptor while a print may go there without the layers between."""

    def __init__(self, descriptor, name):
        super().__init__(_Raw(descriptor, name), "utf-8", "backslashreplace", "\n", True, write_through=True)
        self.mode = "w"
        self.direct = descriptor

    def reconfigure(self, **changes):
        changes["write_through"] = True
        super().reconfigure(**changes)
        if self.encoding.lower() not in ("utf-8", "utf8") or changes.get("newline", "\n") not in ("", "\n", None):
            self.direct = None
        if self.errors != "backslashreplace":
            self.direct = None

    def detach(self):
        return self.buffer

    def close(self):
        self.flush()


class _Builtins:
    """`print` is a bound method of this, because a plain function would bind again as an attribute of a class."""

    def __reduce__(self):
        return __import__, ("builtins",)

    def __repr__(self):
        return "builtins"

    def print(self, *args, sep=" ", end="\n", file=None, flush=False):
        """Prints the values to a stream, or to sys.stdout by default.

        sep
          string inserted between values, default a space.
        end
          string appended after the last value, default a newline.
        file
          a file-like object (stream); defaults to the current sys.stdout.
        flush
          whether to forcibly flush the stream."""
        if file is None:
            file = sys.stdout
        if type(file) is not Stream or file.direct is None or type(sep) is not str or type(end) is not str:
            return _builtin_print(*args, sep=sep, end=end, file=file, flush=flush)
        text = f"{args[0]!s}{end}" if len(args) == 1 else sep.join(map(str, args)) + end
        data = text.encode("utf-8", "backslashreplace")
        if data:
            write_whole(file.direct, data)


def install():
    """Puts the streams and `print` in their places. Returns the two streams."""
    out, err = Stream(1, "<stdout>"), Stream(2, "<stderr>")
    sys.stdout = sys.__stdout__ = out
    sys.stderr = sys.__stderr__ = err
    _Builtins.print.__module__, _Builtins.print.__qualname__ = "builtins", "print"
    builtins.print = _Builtins().print
    return out, err
