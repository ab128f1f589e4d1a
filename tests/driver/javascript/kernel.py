"""Starts the real driver over a socket pair and pipes, as a gateway would, for the tests beside this file."""

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wire import Collected, Wire, put_policy  # noqa: E402

DRIVER = Path(__file__).resolve().parents[3] / "src/runtime/javascript/driver.js"
NODE = os.environ.get("DRIVER_NODE", "/usr/bin/node")
FLAGS = ["--no-force-async-hooks-checks"]
DEADLINE = float(os.environ.get("DRIVER_DEADLINE_S", 30))
PATIENCE = 2
CONTROL, INTERRUPTS = 3, 4


class Kernel(Wire):
    """`stdin` is a FIFO, whose write end this side may open; without a writer a read finds the end."""

    def __init__(self, cwd, read_output=True, flags=(), policy=None):
        """With `policy`, the arguments of `put_policy`, the driver asks it before a program imports something."""
        self._driver_directory = tempfile.TemporaryDirectory(dir="/var/tmp")  # not where programs write
        driver = DRIVER if policy is None else put_policy(DRIVER, self._driver_directory.name, "javascript", **policy)
        control, theirs = socket.socketpair()
        control.settimeout(DEADLINE)
        super().__init__(control)
        self.executions = 0
        self.queries = 1 << 32
        interrupts, self.interrupts = os.pipe()
        self.fifo = tempfile.mktemp(prefix="stdin-")
        os.mkfifo(self.fifo)
        stdin = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(stdin, True)
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50) for fd in (theirs.fileno(), interrupts)]
        self.process = subprocess.Popen(
            [NODE, *FLAGS, *flags, str(driver), str(CONTROL), str(INTERRUPTS)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: (os.dup2(high[0], CONTROL), os.dup2(high[1], INTERRUPTS)),
            pass_fds=(CONTROL, INTERRUPTS),
            cwd=cwd,
            env={"LANG": "C.UTF-8", "TZ": "UTC", "HOME": cwd, "PATH": "/usr/bin:/bin"},
        )
        for fd in high:
            os.close(fd)
        theirs.close()
        os.close(interrupts)
        os.close(stdin)
        self.stdout = Collected(self.process.stdout, DEADLINE) if read_output else None
        self.stderr = Collected(self.process.stderr, DEADLINE)

    def start(self, code, stdin="none"):
        self.executions += 1
        self.send(t="exec", n=self.executions, count=self.executions, code=code, stdin=stdin)

    def execute(self, code, stdin="none"):
        """Runs code and returns its `done`, which is acknowledged."""
        self.start(code, stdin)
        return self.done()

    def expect(self, kind):
        """Receives a message of a kind, and acknowledges it."""
        message = self.receive()
        if message is None:
            raise AssertionError(f"the driver has ended: {self.stderr.text()}")
        if message["t"] != kind:
            raise AssertionError(f"not {kind}, but {message}")
        self.send(t="ack", m=message["m"])
        return message

    def done(self):
        return self.expect("done")

    def query(self, kind, code, cursor=None):
        self.queries += 1
        more = {} if cursor is None else {"cursor": cursor}
        self.send(t="query", n=self.queries, kind=kind, code=code, **more)
        reply = self.receive()
        if reply["t"] != "reply" or reply["n"] != self.queries:
            raise AssertionError(f"no reply, but {reply}")
        return reply["body"]

    def interrupt(self):
        os.write(self.interrupts, b"!")

    def close(self):
        if self.control.fileno() < 0:
            return self.process.returncode
        self.control.close()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # while an execution runs, the driver does not look at the socket
            self.process.kill()
            status = self.process.wait()
        os.close(self.interrupts)
        os.unlink(self.fifo)
        if self.stdout:
            self.stdout.finish()
        else:
            self.process.stdout.close()
        self.stderr.finish()
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

    def value(self, code):
        """Runs code that must succeed; returns its result."""
        done = self.kernel.execute(code)
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
        self.value(f"require('fs').writeSync({1 if stream == 'stdout' else 2}, '[mark]'); undefined")
        collected.wait_for("[mark]")
        self.assertEqual(collected.text(), text + "[mark]")
