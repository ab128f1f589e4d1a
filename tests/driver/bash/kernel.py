"""Starts the real driver over a socket pair and pipes, as a gateway would, for the tests beside this file."""

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

DRIVER = Path(__file__).resolve().parents[3] / "src/runtime/bash/driver.bash"
BASH = os.environ.get("DRIVER_BASH", "/usr/bin/bash")
DEADLINE = 10
COMPLAINTS = (
    b"bash: cannot set terminal process group (-1): Inappropriate ioctl for device\n"
    b"bash: no job control in this shell\n"
)


class Collected:
    """What has come out of a pipe so far."""

    def __init__(self, pipe):
        self.data = b""
        self._pipe = pipe
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while piece := os.read(self._pipe.fileno(), 65536):
            with self._news:
                self.data += piece
                self._news.notify_all()

    def text(self):
        with self._news:
            return self.data.decode()

    def wait_for(self, text):
        wanted = text.encode()
        self.wait_until(lambda data: wanted in data, f"{text!r} did not come")

    def wait_until(self, holds, message="it did not come"):
        with self._news:
            if not self._news.wait_for(lambda: holds(self.data), DEADLINE):
                raise AssertionError(f"{message}, but {self.data!r}")

    def drop_complaints(self):
        """Of bash, that there is no terminal; a gateway throws away all that comes before `ready`."""
        self.wait_until(lambda data: data == COMPLAINTS)
        self.data = b""

    def finish(self):
        self._thread.join(DEADLINE)
        self._pipe.close()


class Kernel:
    def __init__(self, cwd):
        self.control, theirs = socket.socketpair()
        self.control.settimeout(DEADLINE)
        self.inbox = b""
        stdin, self.stdin = os.pipe()
        self.process = subprocess.Popen(
            [BASH, "-c", 'exec 3<&"$1"-; shift; exec "$@"', "start", str(theirs.fileno()), BASH]
            + ["--noprofile", "--noediting", "--rcfile", str(DRIVER), "-i"],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            cwd=cwd,
            env={"LANG": "C.UTF-8", "TZ": "UTC", "HOME": cwd, "PATH": "/usr/local/bin:/usr/bin:/bin"},
            start_new_session=True,
        )
        theirs.close()
        os.close(stdin)
        self.stdout, self.stderr = Collected(self.process.stdout), Collected(self.process.stderr)
        self.executions = 0
        self.status = None

    def send(self, **message):
        self.send_raw(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode())

    def send_raw(self, payload):
        self.control.sendall(b"%08d%b" % (len(payload), payload))

    def receive(self):
        """The next message, or None at the end."""
        header = self.receive_bytes(8)
        return header and json.loads(self.receive_bytes(int(header)))

    def receive_bytes(self, size):
        while len(self.inbox) < size:
            if not self.receive_more():
                return None
        data, self.inbox = self.inbox[:size], self.inbox[size:]
        return data

    def receive_more(self):
        try:
            piece = self.control.recv(65536)
        except ConnectionResetError:  # it ended with something unread
            piece = b""
        self.inbox += piece
        return bool(piece)

    def start(self, code, stdin="none"):
        self.executions += 1
        self.send(t="exec", n=self.executions, count=self.executions, code=code, stdin=stdin)

    def execute(self, code, stdin="none"):
        """Runs code and returns its `done`, which is acknowledged."""
        self.start(code, stdin)
        return self.done()

    def done(self):
        message = self.receive()
        if message is None:
            raise AssertionError(f"the driver has ended ({self.process.wait(DEADLINE)}): {self.stderr.text()}")
        if message["t"] != "done":
            raise AssertionError(f"not done, but {message}")
        self.send(t="ack", m=message["m"])
        return message

    def write(self, data):
        """Fills the program's standard input."""
        os.write(self.stdin, data)

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def interrupt_until_done(self):
        """Bash drops a SIGINT while it waits for a program that ends by itself just then, so one is not always enough."""
        self.interrupt()
        while not select.select([self.control], [], [], 0.1)[0]:
            self.interrupt()
        return self.done()

    def close_stdin(self):
        if self.stdin is not None:
            os.close(self.stdin)
            self.stdin = None

    def close(self):
        if self.status is None:
            self.status = self.end()
        return self.status

    def end(self):
        self.control.close()
        self.close_stdin()
        try:
            status = self.process.wait(DEADLINE)
        finally:
            self.process.kill()
            try:
                os.killpg(self.process.pid, signal.SIGKILL)  # jobs that a test has left
            except ProcessLookupError:
                pass
        self.stdout.finish()
        self.stderr.finish()
        return status


class DriverCase(unittest.TestCase):
    """Each test has a driver of its own, `self.kernel`, in an empty working directory, `self.cwd`."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.cwd = directory.name
        self.kernel = self.boot()
        self.marks = 0

    def boot(self, acknowledge=True):
        kernel = Kernel(self.cwd)
        self.addCleanup(kernel.close)
        ready = kernel.receive()
        self.assertEqual((ready["t"], ready["m"]), ("ready", 1), kernel.stderr.text())
        if acknowledge:
            kernel.send(t="ack", m=1)
        kernel.stderr.drop_complaints()
        return kernel

    def status(self, code, **options):
        """Runs code; returns its exit status."""
        done = self.kernel.execute(code, **options)
        self.assertEqual(done["success"], done["exit_code"] == 0, done)
        return done["exit_code"]

    def output(self, code, status=0, **options):
        """Runs code that ends with this status; returns what it wrote to standard output and to standard error."""
        before = len(self.kernel.stdout.text()), len(self.kernel.stderr.text())
        self.assertEqual(self.status(code, **options), status, self.kernel.stderr.text())
        mark = self.settle()
        texts = self.kernel.stdout.text()[before[0] :], self.kernel.stderr.text()[before[1] :]
        return tuple(text.partition(mark)[0] for text in texts)

    def settle(self):
        """Waits until all that has been written is here; returns the mark that follows it."""
        self.marks += 1
        mark = f"[mark {self.marks}]"
        self.kernel.execute(f"/usr/bin/printf '{mark}'; /usr/bin/printf '{mark}' >&2")
        self.kernel.stdout.wait_for(mark)
        self.kernel.stderr.wait_for(mark)
        return mark

    def assert_usable(self):
        self.assertEqual(self.output("echo usable"), ("usable\n", ""))
