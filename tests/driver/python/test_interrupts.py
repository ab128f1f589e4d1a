"""SIGINT ends user code and nothing else; no signal of any kind ends the driver."""

import collections
import random
import subprocess
import sys
import threading
import time

from kernel import DriverCase, Kernel


class Interrupts(DriverCase):
    def interrupted(self, code):
        """Runs code that prints "go", interrupts it then, and returns the exception."""
        self.kernel.start(code)
        self.kernel.stdout.wait_for("go")
        done = self.kernel.interrupt_until_done()
        self.kernel.hello()
        self.assertFalse(done["success"], done)
        return done["exception"]

    def test_endless_loop_ends_and_keeps_the_state(self):
        self.kernel.execute("kept = 41")
        exception = self.interrupted("print('go')\nwhile True:\n    pass")
        self.assertEqual(exception["name"], "KeyboardInterrupt")
        self.assertTrue(exception["traceback"][1].startswith('  File "<cell 2>", line '), exception)
        self.assertEqual(self.value("kept + 1"), 42)

    def test_second_interrupt_spoils_no_traceback(self):
        for round in range(80):
            self.kernel.start("print('go')\nwhile True:\n    pass")
            self.kernel.stdout.wait_for("go\n" * (round + 1))
            self.kernel.interrupt()
            time.sleep(round % 20 * 0.0002)
            self.kernel.interrupt()
            exception = self.kernel.done()["exception"]
            self.kernel.hello()
            self.assertIn('  File "<cell', "\n".join(exception["traceback"]), exception)

    def test_sleep_ends(self):
        self.assertEqual(self.interrupted("import time\nprint('go')\ntime.sleep(99)")["name"], "KeyboardInterrupt")
        self.assert_usable()

    def test_code_that_catches_the_interrupt_goes_on(self):
        self.kernel.start("try:\n    print('go')\n    while True: pass\nexcept KeyboardInterrupt:\n    x = 'caught'\nx")
        self.kernel.stdout.wait_for("go")
        self.kernel.interrupt()
        self.assertEqual(self.kernel.done()["result"], "caught")

    def test_repr_of_the_result_can_be_interrupted(self):
        code = "class Slow:\n    def __repr__(self):\n        print('go')\n        while True: pass\nSlow()"
        self.assertEqual(self.interrupted(code)["name"], "KeyboardInterrupt")
        self.assert_usable()

    def test_message_of_an_exception_can_be_interrupted(self):
        code = "class E(Exception):\n    def __str__(self):\n        print('go')\n        while True: pass\nraise E"
        self.assertEqual(self.interrupted(code)["name"], "E")
        self.assert_usable()

    def test_print_into_a_full_pipe_can_be_interrupted(self):
        kernel = self.kernel = self.boot(read_output=False)
        kernel.start("import sys\nprint('go', file=sys.stderr)\nwhile True: print('x' * 100000)")
        kernel.stderr.wait_for("go")
        self.assertEqual(kernel.interrupt_until_done()["exception"]["name"], "KeyboardInterrupt")

    def test_await_can_be_interrupted_and_is_cancelled(self):
        code = (
            "import asyncio, os, threading\nasync def wait():\n    try:\n"
            "        threading.Timer(0.2, os.kill, (os.getpid(), 2)).start()\n        await asyncio.sleep(99)\n"
            "    finally:\n        global cleaned\n        cleaned = True\nawait wait()"
        )
        exception = self.failure(code)
        self.assertEqual(exception["name"], "KeyboardInterrupt")
        self.assertIn("await asyncio.sleep(99)", "\n".join(exception["traceback"]))
        self.assertEqual(self.value("await asyncio.sleep(0, cleaned)"), True)

    def test_loop_inside_a_coroutine_can_be_interrupted(self):
        code = "import asyncio\nawait asyncio.sleep(0)\nprint('go')\nwhile True: pass"
        self.assertEqual(self.interrupted(code)["name"], "KeyboardInterrupt")
        self.assertEqual(self.value("await asyncio.sleep(0, 5)"), 5)

    def test_asyncio_run_can_be_interrupted(self):
        code = "import asyncio\nasync def f():\n    print('go')\n    await asyncio.sleep(99)\nasyncio.run(f())"
        self.assertEqual(self.interrupted(code)["name"], "KeyboardInterrupt")
        self.assertEqual(self.value("await asyncio.sleep(0, 5)"), 5)

    def busy(self):
        """Keeps a processor busy beside the driver, so that it is interrupted in odd places."""
        loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.addCleanup(loop.wait)
        self.addCleanup(loop.kill)

    def test_idle_driver_ignores_interrupts(self):
        self.assert_usable()
        self.busy()
        for i in range(1000):
            for _ in range(i % 3 + 1):
                self.kernel.interrupt()
            self.kernel.hello()
            self.assert_usable()

    def test_interrupt_right_after_the_code_counts_for_it_and_for_no_other(self):
        self.assert_usable()
        self.busy()
        for i in range(300):
            self.kernel.start("while True: pass")
            if i % 2:
                time.sleep(random.uniform(0, 0.0005))
            self.kernel.interrupt()
            self.assertEqual(self.kernel.done()["exception"]["name"], "KeyboardInterrupt")
            self.kernel.hello()
            self.assert_usable()

    def test_interrupt_around_the_end_of_an_execution_hits_no_other(self):
        self.assert_usable()
        for _ in range(300):
            self.kernel.start("sum(range(300))")
            time.sleep(random.uniform(0, 0.0004))
            self.kernel.interrupt()
            self.kernel.done()
            self.kernel.hello()
            self.assert_usable()

    def test_interrupt_of_the_programs_own_hits_at_most_itself(self):
        self.value("import os, subprocess\nkill = ['sh', '-c', f'kill -INT {os.getpid()}']")
        for _ in range(50):
            self.kernel.execute("child = None\nchild = subprocess.Popen(kill)")
            while not self.kernel.execute("child and child.wait()")["success"]:
                pass  # the signal has come meanwhile
            self.kernel.execute("None")  # if the child is not known, its signal is for this one at the latest
            self.kernel.hello()
            self.assert_usable()

    def test_interrupt_counts_although_the_driver_is_still_loading(self):
        for _ in range(10):
            self.kernel = Kernel(self.cwd)
            self.addCleanup(self.kernel.close)
            self.assertEqual(self.kernel.receive()["t"], "ready")
            self.kernel.start("while True: pass")
            self.kernel.interrupt()
            self.assertEqual(self.kernel.done()["exception"]["name"], "KeyboardInterrupt")

    def test_interrupts_at_any_moment_lose_no_done_and_no_driver(self):
        self.kernel.execute("import asyncio\nawait asyncio.sleep(0)")
        over = threading.Event()

        def storm():
            while not over.wait(random.uniform(0, 0.001)):
                self.kernel.interrupt()

        thread = threading.Thread(target=storm)
        thread.start()
        ends = collections.Counter()
        try:
            until = time.monotonic() + 3
            while time.monotonic() < until:
                n = self.kernel.executions + 1
                code = ("[i for i in range(3000)]", "asyncio.sleep and await asyncio.sleep(0.001)", "1 / 0", "object()")[n % 4]
                done = self.kernel.execute(code)
                self.assertEqual(done["n"], n)
                ends[done["exception"] and done["exception"]["name"]] += 1
        finally:
            over.set()
            thread.join()
        self.assertEqual(set(ends), {None, "KeyboardInterrupt", "ZeroDivisionError"})
        self.kernel.hello()  # the last interrupts are for no later one
        self.assert_usable()

    def test_handlers_of_the_user_wait_while_nothing_runs(self):
        self.value(
            "import signal, time\n"
            "def late(*_):\n    raise TimeoutError('late')\n"
            "_ = signal.signal(signal.SIGALRM, late)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\nNone"
        )
        names = {(self.kernel.execute("time.sleep(1)")["exception"] or {}).get("name") for _ in range(20)}
        self.assertEqual(names, {"TimeoutError"})
        while not self.kernel.execute("signal.setitimer(signal.ITIMER_REAL, 0)")["success"]:
            pass
        self.assertEqual(self.value("signal.getsignal(signal.SIGALRM) is late"), True)

    def test_replaced_interrupt_handler_lasts_one_execution(self):
        self.kernel.start("import signal, time\ngot = []\n_ = signal.signal(signal.SIGINT, lambda *_: got.append(1))\nprint('go')\nwhile not got: time.sleep(0.01)")
        self.kernel.stdout.wait_for("go")
        self.kernel.interrupt()
        self.assertTrue(self.kernel.done()["success"])
        self.kernel.interrupt()
        self.kernel.hello()
        self.kernel.start("print('again')\nwhile True: pass")
        self.kernel.stdout.wait_for("again")
        self.kernel.interrupt()
        self.assertEqual(self.kernel.done()["exception"]["name"], "KeyboardInterrupt")
        self.assertEqual(self.value("got"), [1])
