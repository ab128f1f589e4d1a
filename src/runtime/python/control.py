"""The driver's end of the control socket: frames, numbers, acknowledgements.

A frame is 8 decimal digits and as many bytes of JSON. Messages that must not be lost carry a number "m" and are
kept until they are acknowledged; after a `hello` they are sent again, in order. This file knows no user code; what
is malformed ends the process.

Requests come to the main thread, between executions. Displays and requests for input go out from any thread, which
waits until its message is acknowledged. So several threads may wait for something from the socket: one of them reads,
the others sleep until it has read a message, and who has what it waited for leaves the reading to the next.

Handlers of signals run in the main thread between any two instructions and may raise. So nothing of such an exchange
happens there: a thread of its own does it, and goes on with it when the wait for it is interrupted.
"""

import sys
from _signal import SIGINT, signal
from _thread import RLock, allocate_lock, get_ident, start_new_thread
from posix import WNOHANG, _exit, close, dup2, fstat, getpid, read, set_blocking, waitpid, write
from select import select

jsontext = load("jsontext")
quote = jsontext.quote

MAX_FRAME = 65536
MAX_DISPLAY = 4 << 20
MAX_PROMPT = 4096
EX_PROTOCOL = 76


class Control:
    """All methods are for the main thread, while no user code runs, but `display` and `ask`.

    `descriptor` and `spare` are two descriptors of the socket.
    """

    def __init__(self, descriptor, spare):
        self._descriptor = descriptor
        self._spare = spare
        self._file = fstat(descriptor).st_ino
        self._process = getpid()
        self._inbox = bytearray()
        self._mail = []  # messages that the main thread answers, in order
        self._reading = allocate_lock()
        self._reader = 0  # the thread that holds it
        self._sleepers = []  # a lock for each thread that waits for the reader
        self._sending = RLock()
        self._waiting = False  # whether there was nothing to read
        self._taken = False  # whether a request may have been read that is not answered
        self._running = 0  # the execution that runs; 0 if none does
        self._asking = False  # whether its input is asked for
        self._interrupted = False
        self._unacknowledged = {}  # number -> payload, in order
        self._numbered = 0
        self._finished = 0  # the highest execution that is done
        self._parts_of = None
        self._parts = []

    def ready(self):
        version = ".".join(map(str, sys.version_info[:3]))
        self._send_reliable("ready", f'"version":"{version}"')

    def done(self, fields):
        """Reports the end of the execution that runs; `fields` are the rest of the message, without the braces."""
        self._taken = self._interrupted = False
        with self._sending:
            n = self._running
            self._send_reliable("done", f'"n":{n},{fields}', finished=n)
            self._running = 0

    def reply(self, n, body):
        """Answers query `n`; `body` is JSON."""
        self._taken = self._interrupted = False
        with self._sending:
            self._send(f'{{"t":"reply","n":{n},"body":{body}}}'.encode())

    def leave(self):
        """In a child made by fork: gives up the socket. A child of that child has it no more."""
        if self._descriptor >= 0:
            for descriptor in self._descriptor, self._spare:
                try:
                    close(descriptor)
                except OSError:
                    pass  # the program has done so
            self._descriptor = -1

    def has_mail(self):
        """Whether something is waiting to be read or answered."""
        return bool(self._mail or self._inbox or select([self._descriptor], (), (), 0)[0])

    def note_interrupt(self, _signum, _frame):
        """Handles SIGINT while no user code runs. It counts for a request that has come, and else for nothing."""
        if self._taken or not self._waiting or self.has_mail():
            self._interrupted = True

    def check(self):
        """Ends the process if the program has put another file in the place of the socket: nobody would speak there."""
        try:
            same = fstat(self._descriptor).st_ino == self._file
        except OSError:
            same = False
        if not same:
            _exit(EX_PROTOCOL)

    def take_interrupt(self):
        """Whether an interrupt came for the request that is about to run."""
        interrupted, self._interrupted = self._interrupted, False
        return interrupted

    def next_request(self):
        """Waits for the next execution that is not a repeat, or query. Returns the message, with the whole code."""
        while True:
            self._serve(self._mail.__len__)
            self._taken = True
            message = self._mail.pop(0)
            kind = message["t"]
            if kind == "query" or kind == "exec" and message["n"] > self._finished:
                if "parts" in message:
                    message["code"] = self._code(message)
                if kind == "exec":
                    self._asking = message.get("stdin") == "ask"
                    self._running = message["n"]
                return message
            self._taken = False
            if kind == "begin":
                load("beginning").begin(message)
            if kind == "hello":
                if message.get("reap"):
                    _reap()
                self._greet_idle(message["nonce"])

    def speaks(self):
        """Whether the socket can be used here: not in a child, nor by a finaliser in the midst of using it."""
        if self._descriptor < 0 or getpid() != self._process:
            return False
        return not self._sending._is_owned() and self._reader != get_ident()

    def display(self, data, metadata):
        """Shows a display, both as JSON, and returns when it is in its place in the output.

        Raises `ValueError` if it is too large.
        """
        fields = f'"data":{data},"metadata":{metadata}'
        size = len(fields.encode())
        if size > MAX_DISPLAY - 128:
            raise ValueError(f"a display of {size} bytes is above the limit of 4 MiB ({MAX_DISPLAY} bytes)")
        self._exchange("display", fields, None)

    def ask(self, prompt, password):
        """Asks the client for input to the execution that runs. Returns False if that is not to be done."""
        n = self._running
        if not n or not self._asking or not self.speaks():
            return False
        prompt = jsontext.clean(prompt).encode()[:MAX_PROMPT].decode(errors="ignore")
        self._exchange("input_request", f'"prompt":{quote(prompt)},"password":{"true" if password else "false"}', n)
        return True

    def _exchange(self, kind, fields, execution):
        gate = allocate_lock()
        gate.acquire()
        failures = []
        start_new_thread(self._send_and_wait, (kind, fields, execution, gate, failures))
        gate.acquire()
        if failures:
            raise failures[0]

    def _send_and_wait(self, kind, fields, execution, gate, failures):
        try:
            with self._sending:
                if execution is not None and execution != self._running:
                    return  # it was interrupted and has ended meanwhile
                number = self._send_reliable(kind, f'"n":{self._running},{fields}')
            self._serve(lambda: number not in self._unacknowledged)
        except MemoryError as error:
            failures.append(error)
        finally:
            gate.release()

    def _serve(self, arrived):
        """Handles messages, or sleeps while another thread does, until `arrived()`."""
        while not arrived():
            if not self._reading.acquire(False):
                self._sleep(arrived)
                continue
            try:
                self._reader = get_ident()
                self._handle(self._receive())
            finally:
                self._reader = 0
                self._reading.release()
                if self._sleepers:
                    self._wake_sleepers()

    def _sleep(self, arrived):
        gate = allocate_lock()
        gate.acquire()
        self._sleepers.append(gate)
        if not arrived() and self._reading.locked():  # else the reader may have missed this sleeper
            gate.acquire()

    def _wake_sleepers(self):
        while self._sleepers:
            try:
                self._sleepers.pop().release()
            except IndexError:
                return  # two threads wake at once

    def _handle(self, message):
        kind = message["t"]
        if kind in ("exec", "query", "begin") or kind == "hello" and not self._taken:
            if "ack" in message:
                self._forget(message["ack"])
            self._mail.append(message)
        elif kind == "ack":
            self._forget(message["m"])
        elif kind == "part":
            self._collect(message)
        elif kind == "hello":
            self._greet(message["nonce"])

    def _greet_idle(self, nonce):
        """What was signalled before the answer has left is not meant for what comes after it.

        All of that has reached the process by now, as it was sent before the hello. What is noticed when the next
        request is here, even while this still runs, is meant for that one.
        """
        self._waiting = True
        signal(SIGINT, self.note_interrupt)  # makes Python call the handler now if there is cause to
        self._interrupted = False
        self._greet(nonce)

    def _greet(self, nonce):
        """Answers a gateway that wants to synchronise. It looks for these very bytes: the order of keys matters."""
        with self._sending:
            self._send(f'{{"t":"hello","nonce":{quote(nonce)},"last":{self._finished}}}'.encode())
            for payload in list(self._unacknowledged.values()):
                self._send(payload)

    def _collect(self, message):
        n, i = message["n"], message["i"]
        if i == 0:
            self._parts_of, self._parts = n, []
        if self._parts_of != n or i > len(self._parts):
            _exit(EX_PROTOCOL)
        if i == len(self._parts):
            self._parts.append(message["s"])
        with self._sending:
            self._send(f'{{"t":"part","n":{n},"i":{i}}}'.encode())

    def _code(self, message):
        parts, self._parts = self._parts, []
        if self._parts_of != message["n"] or len(parts) != message["parts"]:
            _exit(EX_PROTOCOL)
        self._parts_of = None
        return "".join(parts)

    def _forget(self, number):
        for kept in list(self._unacknowledged):
            if kept <= number:
                self._unacknowledged.pop(kept, None)

    def _send_reliable(self, kind, fields, finished=None):
        number = self._numbered + 1
        payload = f'{{"t":"{kind}","m":{number},{fields}}}'.encode()
        frame = _frame(payload)
        self._numbered = number
        self._unacknowledged[number] = payload
        if finished is not None:
            self._finished = finished
        self._write(frame)
        return number

    def _send(self, payload):
        self._write(_frame(payload))

    def _write(self, frame):
        try:
            dup2(self._spare, self._descriptor, False)  # the program may have closed or replaced it
        except OSError:
            pass  # it has closed both
        rest = memoryview(frame)
        while rest:
            rest = rest[self._unblocked(write, rest) :]

    def _receive(self):
        """The next message. Nothing leaves the inbox before all of it is there."""
        inbox = self._inbox
        while len(inbox) < 8:
            self._fill()
        size = bytes(inbox[:8])
        if not size.isdigit() or int(size) > MAX_FRAME:
            _exit(EX_PROTOCOL)
        end = 8 + int(size)
        while len(inbox) < end:
            self._fill()
        text = inbox[8:end].decode()
        del inbox[:end]
        return jsontext.decode(text)

    def _fill(self):
        if self._interrupted and not self._taken and not self.has_mail():
            self._interrupted = False
        self._waiting = True
        select([self._descriptor], (), ())
        self._waiting = False
        some = self._unblocked(read, MAX_FRAME)
        if not some:
            _exit(0)
        self._inbox += some

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


def _reap():
    """Waits for children that are dead. They were killed from outside, and nothing may ever ask for them."""
    try:
        while waitpid(-1, WNOHANG)[0]:
            pass
    except OSError:
        pass  # there are none
