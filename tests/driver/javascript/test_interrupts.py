"""An interrupt ends user code and nothing else, at any moment, and the state is kept."""

import collections
import os
import random
import signal
import threading
import time

from kernel import DriverCase, Kernel

NONCE = "0123456789abcdef" * 2


class Interrupts(DriverCase):
    def fence(self):
        self.kernel.send(t="hello", nonce=NONCE)
        self.assertEqual(self.kernel.receive()["t"], "hello")

    def interrupted(self, code):
        """Runs code that prints "go", interrupts it then, and returns how long its end took."""
        before = self.kernel.stdout.text().count("go")
        self.kernel.start(code)
        while self.kernel.stdout.text().count("go") == before:
            time.sleep(0.001)
        started = time.monotonic()
        self.kernel.interrupt()
        done = self.kernel.done()
        self.assertFalse(done["success"], done)
        self.assertEqual((done["exception"]["name"], done["exception"]["message"]), ("Interrupted", "execution was interrupted"))
        self.fence()
        return time.monotonic() - started

    def test_loops_and_waits_end_and_keep_the_state(self):
        self.kernel.execute("let kept = 41")
        for code in (
            "console.log('go'); for (;;);",
            "console.log('go'); for (;;) { try { for (;;); } catch {} finally { for (;;); } }",
            "console.log('go'); await new Promise(() => {})",
            "Promise.resolve().then(() => { console.log('go'); for (;;); }); 'returned'",
            "await 1; console.log('go'); for (;;);",
            "await new Promise(r => setTimeout(r, 5)); console.log('go'); for (;;);",
            "setTimeout(() => { console.log('go'); for (;;); }, 1); await new Promise(() => {})",
            "setImmediate(() => { console.log('go'); for (;;); }); await new Promise(() => {})",
            "process.nextTick(() => { console.log('go'); for (;;); }); await new Promise(() => {})",
            "console.log('go'); while (true) await null",
            "console.log('go'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
            "({[Symbol.for('nodejs.util.inspect.custom')]() { console.log('go'); for (;;); }, f() {}})",
            "throw {[Symbol.for('nodejs.util.inspect.custom')]() { console.log('go'); for (;;); }}",
            "console.log('go'); new Promise(() => {})",
            "const f = async () => { console.log('go'); for (;;) await f2() }, f2 = async () => {}; await f()",
        ):
            self.assertLess(self.interrupted(code), 5, code)
            self.assertEqual(self.value("kept + 1"), 42, code)

    def test_timers_and_promises_work_after_an_interrupt(self):
        self.interrupted("setInterval(() => globalThis.ticks = (globalThis.ticks ?? 0) + 1, 2); console.log('go'); for (;;);")
        self.assertEqual(self.value("await new Promise(r => setTimeout(r, 30)); await new Promise(setImmediate); ticks > 1"), True)
        self.assertEqual(self.value("const { AsyncLocalStorage } = require('async_hooks'); const s = new AsyncLocalStorage(); await s.run(5, async () => { await null; return s.getStore() })"), 5)

    def test_many_interrupts_leave_a_working_event_loop(self):
        for _ in range(20):
            self.interrupted("setTimeout(() => { console.log('go'); for (;;); }, 0); await new Promise(() => {})")
        self.assertEqual(self.value("await new Promise(r => setTimeout(r, 5, 'ok'))"), "ok")

    def test_print_into_a_full_pipe_can_be_interrupted(self):
        kernel = self.boot(read_output=False)
        kernel.start("console.error('go'); for (;;) process.stdout.write('x'.repeat(100000))")
        kernel.stderr.wait_for("go")
        kernel.interrupt()
        drain = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(kernel.process.stdout.fileno(), 65536), b"")])
        drain.start()
        self.assertEqual(kernel.done()["exception"]["name"], "Interrupted")
        kernel.process.kill()
        drain.join()

    def test_idle_interrupt_has_no_effect(self):
        self.assert_usable()
        for _ in range(20):
            self.kernel.interrupt()
            self.fence()
            self.assert_usable()
        self.kernel.interrupt()
        time.sleep(0.1)
        self.assertEqual(self.value("await new Promise(r => setTimeout(r, 20, 'whole'))"), "whole")

    def test_interrupt_before_the_fence_never_hits_the_next_execution(self):
        for i in range(40):
            self.kernel.start("1")
            for _ in range(i % 3 + 1):
                self.kernel.interrupt()
            self.kernel.done()
            self.fence()
            self.assertEqual(self.value("for (let i = 0; i < 1e5; i++); 'whole'"), "whole")

    def test_interrupt_counts_although_the_driver_is_still_loading(self):
        for _ in range(3):
            self.kernel = Kernel(self.cwd)
            self.addCleanup(self.kernel.close)
            self.assertEqual(self.kernel.receive()["t"], "ready")
            self.kernel.start("for (;;);")
            self.kernel.interrupt()
            self.assertEqual(self.kernel.done()["exception"]["name"], "Interrupted")

    def test_loop_between_executions_does_not_hold_up_the_next_for_ever(self):
        self.value("setTimeout(() => { console.log('go'); for (;;); }, 5); undefined")
        self.kernel.stdout.wait_for("go")
        self.kernel.start("'next'")
        self.kernel.interrupt()
        done = self.kernel.done()
        self.assertTrue(done["result"] == "next" or done["exception"]["name"] == "Interrupted", done)
        self.fence()
        self.assert_usable()

    def test_signals_of_the_terminal_end_nothing(self):
        self.assert_usable()
        self.kernel.process.send_signal(signal.SIGINT)
        self.assert_usable()
        self.value("var caught = 0; process.on('SIGINT', () => caught++); process.kill(process.pid, 'SIGINT'); await new Promise(r => setTimeout(r, 20)); undefined")
        self.assertEqual(self.value("caught"), 1)
        self.value("process.removeAllListeners(); undefined")
        self.kernel.process.send_signal(signal.SIGINT)
        self.assert_usable()

    def test_interrupts_at_any_moment_lose_no_done_and_no_driver(self):
        over = threading.Event()

        def storm():
            while not over.wait(random.uniform(0, 0.004)):
                self.kernel.interrupt()

        thread = threading.Thread(target=storm)
        thread.start()
        codes = (
            "[...Array(3000).keys()].length", "await new Promise(r => setTimeout(r, 2))", "throw new Error('z')", "({a: {b: 1}})",
            "for (let i = 0; i < 2e6; i++);", "display('x')", "for (;;);", "await new Promise(() => {})", "process.exit(2)",
            "console.log('x'.repeat(5000))", "setTimeout(() => { for (let i = 0; i < 1e7; i++); }, 0); 3",
        )
        ends = collections.Counter()
        try:
            until = time.monotonic() + 4
            while time.monotonic() < until:
                self.kernel.start(codes[self.kernel.executions % len(codes)])
                while (message := self.kernel.receive())["t"] == "display":
                    self.kernel.send(t="ack", m=message["m"])
                self.assertEqual((message["t"], message["n"]), ("done", self.kernel.executions))
                self.kernel.send(t="ack", m=message["m"])
                ends[message["exception"] and message["exception"]["name"]] += 1
                if random.random() < 0.5:
                    self.fence()
        finally:
            over.set()
            thread.join()
        self.assertLessEqual(set(ends), {None, "Interrupted", "Error"})
        self.fence()
        self.assert_usable()
