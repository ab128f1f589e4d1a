"""Starts the real driver over a socket pair and pipes, as a gateway would, for the tests beside this file."""

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wire import Collected, Wire, put_policy  # noqa: E402

DRIVER = Path(__file__).resolve().parents[3] / "src/runtime/python/driver.py"
PYTHON = os.environ.get("DRIVER_PYTHON", sys.executable)
DEADLINE = 30

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # some tests crash their driver


class Kernel(Wire):
    def __init__(self, cwd, read_output=True, policy=None):
        """With `policy`, the arguments of `put_policy`, the driver asks it before a program imports something."""
        self._directory = tempfile.TemporaryDirectory()
        self._driver_directory = tempfile.TemporaryDirectory(dir="/var/tmp")  # not where programs write
        driver = DRIVER if policy is None else put_policy(DRIVER, self._driver_directory.name, "python", **policy)
        self._fifo = os.path.join(self._directory.name, "stdin")
        os.mkfifo(self._fifo)
        self._typing = None
        control, theirs = socket.socketpair()
        control.settimeout(DEADLINE)
        super().__init__(control)
        stdin = os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(stdin, True)
        self.process = subprocess.Popen(
            [PYTHON, "-I", "-S", str(driver), str(theirs.fileno())],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            cwd=cwd,
            env={"LANG": "C.UTF-8", "TZ": "UTC", "HOME": cwd},
        )
        theirs.close()
        os.close(stdin)
        self.stdout = Collected(self.process.stdout, DEADLINE) if read_output else None
        self.stderr = Collected(self.process.stderr, DEADLINE)
        self.executions = 0
        self.shown = []
        self.asked = []
        self.answers = []

    def start(self, code, stdin="none"):
        self.executions += 1
        self.send(t="exec", n=self.executions, count=self.executions, code=code, stdin=stdin)

    def execute(self, code, stdin="none"):
        """Runs code and returns its `done`, which is acknowledged."""
        self.start(code, stdin)
        return self.done()

    def done(self):
        """The next `done`. Displays before it go to `shown`; requests for input to `asked`, with one of `answers` typed."""
        while (message := self.reliable())["t"] != "done":
            if message["t"] == "display":
                self.shown.append(message)
            elif message["t"] == "input_request":
                self.asked.append(message)
                if self.answers:
                    self.type(self.answers.pop(0))
            else:
                raise AssertionError(f"not done, but {message}")
        return message

    def reliable(self):
        """The next message, which is acknowledged."""
        message = self.receive()
        if message is None:
            raise AssertionError(f"the driver has ended: {self.stderr.text()}")
        if "m" not in message:
            raise AssertionError(f"not acknowledged, but {message}")
        self.send(t="ack", m=message["m"])
        return message

    def hello(self, nonce="0123456789abcdef" * 2):
        """Synchronises: drops all bytes before the answer with the nonce, and returns the answer."""
        self.send(t="hello", nonce=nonce)
        start = b'{"t":"hello","nonce":"%b"' % nonce.encode()
        while start not in self.inbox:
            if not self.receive_more():
                raise AssertionError(f"no answer to hello: {self.stderr.text()}")
        self.inbox = self.inbox[self.inbox.index(start) - 8 :]
        return self.receive()

    def type(self, text):
        """Gives the program text to read. From the first one on it waits for more, until `end_input`."""
        if self._typing is None:
            self._typing = os.open(self._fifo, os.O_WRONLY)
        os.write(self._typing, text.encode())

    def end_input(self):
        os.close(self._typing)
        self._typing = None

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def interrupt_until_done(self):
        """Python handles a signal that comes just before a system call only after it, so one is not always enough."""
        self.interrupt()
        while not select.select([self.control], [], [], 0.5)[0]:
            self.interrupt()
        return self.done()

    def close(self):
        if self._typing is not None:
            self.end_input()
        self.control.close()
        try:
            status = self.process.wait(DEADLINE)
        finally:
            self.process.kill()
        if self.stdout:
            self.stdout.finish()
        else:
            self.process.stdout.close()
        self.stderr.finish()
        self._directory.cleanup()
        self._driver_directory.cleanup()
        return status


class DriverCase(unittest.TestCase):
    """Each test has a driver of its own, `self.kernel`, in an empty working directory, `self.cwd`."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.cwd = directory.name
        self.kernel = self.boot()

    def boot(self, **options):
        kernel = Kernel(self.cwd, **options)
        self.addCleanup(kernel.close)
        ready = kernel.receive()
        self.assertEqual((ready["t"], ready["m"]), ("ready", 1), kernel.stderr.text())
        kernel.send(t="ack", m=1)
        return kernel

    def run_all(self, *cells):
        return [self.kernel.execute(cell) for cell in cells]

    def value(self, code, stdin="none"):
        """Runs code that must succeed; returns its result."""
        done = self.kernel.execute(code, stdin)
        self.assertTrue(done["success"], done)
        return done["result"]

    def failure(self, code):
        """Runs code that must fail; returns its exception."""
        done = self.kernel.execute(code)
        self.assertFalse(done["success"], done)
        return done["exception"]

    def assert_usable(self):
        self.assertEqual(self.value("40 + 2"), 42)

    def assert_printed(self, text, stream="stdout"):
        """Both pipes are drained up to a mark that a last execution writes."""
        collected = getattr(self.kernel, stream)
        self.value(f"import os; os.write({1 if stream == 'stdout' else 2}, b'[mark]'); None")
        collected.wait_for("[mark]")
        self.assertEqual(collected.text(), text + "[mark]")
