"""The driver's end of the control socket: frames, numbers, acknowledgements.

A frame is 8 decimal digits and as many bytes of JSON. Messages that must not be lost carry a number "m" and are
kept until they are acknowledged; after a `hello` they are sent again, in order. The socket is read between
executions only. (Displays and input requests, when they come, are such messages too: send, then read until theirs
is acknowledged.) This file knows no user code; what is malformed ends the process.
"""

import sys
from posix import _exit, close, read, set_blocking, write
from select import select

jsontext = load("jsontext")

MAX_FRAME = 65536
EX_PROTOCOL = 76


class Control:
    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._inbox = bytearray()
        self._taken = False  # whether an execution may have been read that is not done
        self._interrupted = False
        self._unacknowledged = {}  # number -> payload, in order
        self._numbered = 0
        self._finished = 0  # the highest execution that is done
        self._parts_of = None
        self._parts = []

    def ready(self):
        version = ".".join(map(str, sys.version_info[:3]))
        self._send_reliable("ready", f'"version":"{version}"')

    def done(self, n, fields):
        """Reports the end of execution `n`; `fields` are the rest of the message, as JSON without the braces."""
        self._taken = self._interrupted = False
        self._send_reliable("done", f'"n":{n},{fields}', finished=n)

    def leave(self):
        """In a child made by fork: gives up the socket. A child of that child has it no more."""
        if self._descriptor >= 0:
            close(self._descriptor)
            self._descriptor = -1

    def has_mail(self):
        """Whether something is waiting to be read."""
        return bool(self._inbox or select([self._descriptor], (), (), 0)[0])

    def note_interrupt(self, _signum, _frame):
        """Handles SIGINT while no user code runs.

        It counts for an execution that has been read. One that is still in the socket may have been sent after the
        signal, which was then for the execution before; unless there was none before.
        """
        if self._taken or not self._finished and self.has_mail():
            self._interrupted = True

    def take_interrupt(self):
        """Whether an interrupt came for the execution that is about to run."""
        interrupted, self._interrupted = self._interrupted, False
        return interrupted

    def next_execution(self):
        """Waits for the next execution that is not a repeat: (n, count, code)."""
        while True:
            message = self._receive()
            kind = message["t"]
            if kind == "exec":
                self._forget(message.get("ack", 0))
                if message["n"] > self._finished:
                    self._taken = True
                    return message["n"], message["count"], self._code(message)
            elif kind == "part":
                self._collect(message)
            elif kind == "ack":
                self._forget(message["m"])
            elif kind == "hello":
                self._greet(message["nonce"])

    def _greet(self, nonce):
        """Answers a gateway that wants to synchronise. It looks for these very bytes: the order of keys matters."""
        self._send(f'{{"t":"hello","nonce":{jsontext.quote(nonce)},"last":{self._finished}}}'.encode())
        for payload in self._unacknowledged.values():
            self._send(payload)

    def _collect(self, message):
        n, i = message["n"], message["i"]
        if i == 0:
            self._parts_of, self._parts = n, []
        if self._parts_of != n or i > len(self._parts):
            _exit(EX_PROTOCOL)
        if i == len(self._parts):
            self._parts.append(message["s"])
        self._send(f'{{"t":"part","n":{n},"i":{i}}}'.encode())

    def _code(self, message):
        if "parts" not in message:
            return message["code"]
        parts, self._parts = self._parts, []
        if self._parts_of != message["n"] or len(parts) != message["parts"]:
            _exit(EX_PROTOCOL)
        self._parts_of = None
        return "".join(parts)

    def _forget(self, number):
        for kept in [m for m in self._unacknowledged if m <= number]:
            del self._unacknowledged[kept]

    def _send_reliable(self, kind, fields, finished=None):
        payload = f'{{"t":"{kind}","m":{self._numbered + 1},{fields}}}'.encode()
        frame = _frame(payload)
        self._numbered += 1
        self._unacknowledged[self._numbered] = payload
        if finished is not None:
            self._finished = finished
        self._write(frame)

    def _send(self, payload):
        self._write(_frame(payload))

    def _write(self, frame):
        rest = memoryview(frame)
        while rest:
            rest = rest[self._unblocked(write, rest) :]

    def _receive(self):
        size = self._take(8)
        if not size.isdigit() or int(size) > MAX_FRAME:
            _exit(EX_PROTOCOL)
        return jsontext.decode(self._take(int(size)).decode())

    def _take(self, size):
        while len(self._inbox) < size:
            self._taken = False
            if self._finished or not self.has_mail():
                self._interrupted = False
            select([self._descriptor], (), ())
            self._taken = True
            some = self._unblocked(read, MAX_FRAME)
            if not some:
                _exit(0)
            self._inbox += some
        taken = bytes(self._inbox[:size])
        del self._inbox[:size]
        return taken

    def _unblocked(self, call, argument):
        """Reads or writes, also if user code has made the socket non-blocking. A lost peer ends the process."""
        while True:
            try:
                return call(self._descriptor, argument)
            except BlockingIOError:
                set_blocking(self._descriptor, True)
            except OSError:
                _exit(0)


def _frame(payload):
    return b"%08d%b" % (len(payload), payload)
