"""Starts the real driver over a socket pair and pipes, as a gateway would, for the tests beside this file."""

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wire import Collected, Wire  # noqa: E402

DRIVER = Path(__file__).resolve().parents[3] / "src/runtime/bash/driver.bash"
BASH = os.environ.get("DRIVER_BASH", "/usr/bin/bash")
DEADLINE = 10
COMPLAINTS = (
    b"bash: cannot set terminal process group (-1): Inappropriate ioctl for device\n"
    b"bash: no job control in this shell\n"
)


def drop_complaints(collected):
    """Of bash, that there is no terminal; a gateway throws away all that comes before `ready`."""
    collected.wait_until(lambda data: data == COMPLAINTS)
    collected.forget()


class Kernel(Wire):
    def __init__(self, cwd):
        control, theirs = socket.socketpair()
        control.settimeout(DEADLINE)
        super().__init__(control)
        stdin, self.stdin = os.pipe()
        own = os.pipe()
        # High numbers, so that none is placed over another.
        passed = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs.fileno(), *own)]
        self.process = subprocess.Popen(
            [BASH, "-c", 'exec 3<&"$1"- 4<&"$2"- 5>&"$3"-; shift 3; exec "$@"', "start", *map(str, passed), BASH]
            + ["--noprofile", "--noediting", "--rcfile", str(DRIVER), "-i"],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            cwd=cwd,
            env={"LANG": "C.UTF-8", "TZ": "UTC", "HOME": cwd, "PATH": "/usr/local/bin:/usr/bin:/bin"},
            start_new_session=True,
        )
        theirs.close()
        for fd in (stdin, *own, *passed):
            os.close(fd)
        self.stdout, self.stderr = Collected(self.process.stdout, DEADLINE), Collected(self.process.stderr, DEADLINE)
        self.executions = 0
        self.status = None

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
        drop_complaints(kernel.stderr)
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
