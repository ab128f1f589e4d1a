"""sys.stdin, input and getpass.

Each execution has an input of its own on descriptor 0. A text stream reads ahead, and what it has read must not
reach the next execution: so a stream that was used is made anew before the next one. A stream that the program put
in its place stays.

`input` and `getpass` ask the client before they read, if the execution waits for its input. Everything else just
reads, as it would from a pipe.
"""

import builtins
import sys
from _io import BufferedReader, FileIO, TextIOWrapper
from _thread import _count

streams = load("streams")

_builtin_input = builtins.input


class _Raw(FileIO):
    """What `sys.stdin.buffer.raw` is."""

    def __init__(self):
        super().__init__(0, "rb", closefd=False)
        self.name = "<stdin>"
        self.used = True

    def readinto(self, buffer):
        self.used = True
        return super().readinto(buffer)

    def close(self):
        self.used = True
        super().close()


class _Buffer(BufferedReader):
    """What `sys.stdin.buffer` is."""

    def detach(self):
        self.raw.used = True
        return super().detach()


class Stream(TextIOWrapper):
    """What `sys.stdin` is."""

    def __init__(self):
        self.source = _Raw()
        self._middle = _Buffer(self.source)
        self.renew()

    def renew(self):
        """Makes it and what is below it new, as the same objects: a program may have bound them to other names."""
        self.source.__init__()
        self._middle.__init__(self.source)
        super().__init__(self._middle, "utf-8", "surrogateescape")
        self.mode = "r"
        self.source.used = False  # not before: an interrupt may come in between

    def reconfigure(self, **changes):
        """Changes what a TextIOWrapper can change, for this execution."""
        self.source.used = True
        super().reconfigure(**changes)

    def detach(self):
        self.source.used = True
        return super().detach()


class Input:
    """`ask(prompt, password)` asks the client, or returns False if that is not to be done."""

    def __init__(self, ask):
        self._ask = ask
        self.stream = sys.stdin = sys.__stdin__ = Stream()
        builtins.input = _Builtins(self.read_line).input

    def renew(self):
        """Forgets what an execution has read ahead. Beside other threads, which may be reading, by another stream."""
        old = self.stream
        if not _count():
            old.renew()
            return
        self.stream = Stream()
        for name in ("stdin", "__stdin__"):
            if getattr(sys, name, None) is old:
                setattr(sys, name, self.stream)

    def patch_getpass(self, getpass):
        """Right after the import of that module."""
        if hasattr(getpass, "unix_getpass"):
            getpass.getpass = getpass.unix_getpass = self.read_password

    def read_line(self, prompt):
        return _builtin_input() if self._has_asked(prompt, False) else _builtin_input(prompt)

    def read_password(self, prompt="Password: ", stream=None):
        """Prompts for a password, which the client does not show if it can."""
        if self._has_asked(prompt, True):
            return _builtin_input()
        if stream is None:
            return _builtin_input(prompt)
        print(prompt, end="", file=stream, flush=True)
        return _builtin_input()

    def _has_asked(self, prompt, password):
        if not self._reads_descriptor():
            return False
        streams.flush()
        return self._ask(str(prompt), password)

    def _reads_descriptor(self):
        """Whether sys.stdin is not one of the program's own that reads from elsewhere."""
        try:
            return sys.stdin is self.stream or sys.stdin.fileno() == 0
        except Exception:
            return False


class _Builtins(streams.Builtins):
    def __init__(self, read_line):
        self._read_line = read_line

    def input(self, prompt="", /):
        """Reads a line of the program's input, without its newline.

        The prompt, if given, is shown first. At the end of the input, EOFError is raised."""
        return self._read_line(prompt)


_Builtins.input.__module__, _Builtins.input.__qualname__ = "builtins", "input"
