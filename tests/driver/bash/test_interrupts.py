"""SIGINT to the process group of the shell, at any moment."""

import random
import signal
import time

from kernel import DriverCase

NONCE = "ab" * 16


class Interrupts(DriverCase):
    def interrupted(self, code, **options):
        """Starts code that says "go", interrupts it, and expects it to end soon."""
        before = self.kernel.stdout.text().count("go\n")
        self.kernel.start(code, **options)
        self.kernel.stdout.wait_until(lambda data: data.count(b"go\n") > before)
        time.sleep(0.03)
        started = time.monotonic()
        done = self.kernel.interrupt_until_done()
        self.assertLess(time.monotonic() - started, 2, code)
        return done

    def assert_interrupted(self, done):
        self.assertEqual((done["success"], done["exit_code"], done["exception"]["name"]), (False, 130, "Interrupted"), done)

    def test_whatever_runs_is_ended_and_the_state_kept(self):
        self.kernel.execute("kept=yes; f() { while :; do :; done; }")
        for code in (
            "echo go; sleep 60; echo not",
            "echo go; while :; do :; done",
            "echo go; while :; do sleep 0.01; done\necho not",
            "echo go; f; echo not",
            "echo go; sleep 60 | cat | cat; echo not",
            "( echo go; while sleep 0.01; do :; done ) | cat; echo not",
            "echo go; x=$(sleep 60); echo not",
            "echo go; ( sleep 60 ); echo not",
            "echo go; eval 'eval \"sleep 60\"'; echo not",
            "sleep 60 & echo go; wait; echo not",
            "sleep 60 & echo go; wait $!; echo not",
            "echo go; for ((i = 0; ; i++)); do :; done",
            "echo go; for i in {1..2000000}; do :; done; for i in {1..2000000}; do :; done; sleep 60",
            "set -e; echo go; sleep 60; echo not",
            "set +e; set -u; echo go; sleep 60; echo not",
            "set +u; trap : ERR; echo go; sleep 60; echo not",
            "trap - ERR; source <(echo 'echo go; sleep 60; echo not'); echo not",
            "echo go; { sleep 60; } > file; echo not",
        ):
            self.assert_interrupted(self.interrupted(code))
            self.assertEqual(self.output("echo $kept"), ("yes\n", ""), code)
        self.assertNotIn("not", self.kernel.stdout.text())
        self.assertEqual(self.kernel.stderr.text().replace("[mark", "").strip("0123456789 ]"), "")

    def test_read_is_ended_and_the_next_one_reads(self):
        self.assert_interrupted(self.interrupted("echo go; read x; echo not", stdin="ask"))
        self.kernel.start('read x; echo "<$x>"', stdin="ask")
        self.kernel.write(b"line\n")
        self.assertTrue(self.kernel.done()["success"])
        self.kernel.stdout.wait_for("<line>\n")

    def fence(self, nonce=NONCE):
        self.kernel.send(t="hello", nonce=nonce)
        self.assertEqual(self.kernel.receive(), {"t": "hello", "nonce": nonce, "last": self.kernel.executions})

    def test_idle_interrupts_have_no_effect(self):
        self.kernel.execute("kept=yes")
        for _ in range(20):
            self.kernel.interrupt()
            self.fence()
            self.assertEqual(self.status("[[ $kept == yes ]]"), 0)
        self.kernel.interrupt()
        time.sleep(0.1)
        self.assert_usable()

    def test_interrupt_before_the_answer_to_hello_is_void(self):
        for _ in range(30):
            self.kernel.start("(exit 4)")
            self.kernel.interrupt()
            self.kernel.send(t="hello", nonce=NONCE)
            done = self.kernel.done()
            self.assertIn(done["exit_code"], (4, 130))
            self.assertEqual(self.kernel.receive()["t"], "hello")
            self.assertEqual(self.kernel.done(), done)
            self.assertEqual(self.status("(exit 5)"), 5)

    def test_interrupt_that_comes_with_the_code_counts(self):
        for _ in range(30):
            self.kernel.start("sleep 60")
            self.assert_interrupted(self.kernel.interrupt_until_done())

    def test_trap_of_the_user_runs_and_stays(self):
        self.kernel.execute("trap 'echo caught; stop=1' INT")
        for _ in range(3):
            done = self.interrupted("stop=; echo go; while [[ -z $stop ]]; do sleep 0.01; done; echo after")
            self.assertTrue(done["success"], done)
        self.kernel.stdout.wait_for("go\ncaught\nafter\n" * 3)
        self.assertEqual(self.output("trap -p INT")[0], "trap -- 'echo caught; stop=1' SIGINT\n")
        self.kernel.execute("trap - INT")
        self.assert_interrupted(self.interrupted("echo go; sleep 60"))

    def test_ignored_interrupt_is_survived(self):
        self.kernel.execute("trap '' INT")
        self.kernel.start("echo go; sleep 0.3; echo end")
        self.kernel.stdout.wait_for("go\n")
        self.kernel.interrupt()
        self.assertTrue(self.kernel.done()["success"])
        self.kernel.stdout.wait_for("end\n")
        self.assertEqual(self.output("trap")[0], "trap -- '' SIGINT\n")
        self.kernel.execute("trap - INT")
        self.assert_interrupted(self.interrupted("echo go; sleep 60"))

    def test_prompt_command_of_the_user_does_no_harm(self):
        self.kernel.execute("PROMPT_COMMAND='echo prompt; f() { :; }'; PS1='$(echo prompt) > '; PS0='zero'")
        self.assert_interrupted(self.interrupted("echo go; sleep 60"))
        self.assertEqual(self.output("echo $PROMPT_COMMAND"), ("echo prompt; f() { :; }\n", ""))
        self.assertNotIn("prompt\n> ", self.kernel.stdout.text() + self.kernel.stderr.text())

    def test_background_job_does_not_mind_idle_interrupts(self):
        self.kernel.execute("(echo up; sleep 0.3; echo late) &")
        self.kernel.stdout.wait_for("up\n")
        self.kernel.interrupt()
        self.kernel.stdout.wait_for("late\n")

    def test_storm_loses_no_done(self):
        """Bash itself has two moments, of a microsecond each, in which a SIGINT ends it or has it send SIGINT to itself
        for ever: within `trap - INT`, and when it begins to wait for a child. Both cost the state, honestly."""
        chance = random.Random(1)
        codes = (":", "((++count))", "sleep 0.01", "x=$(echo hi)", "echo a | cat >/dev/null", "f() { :; }; f", "if", "set -u", "set +u")
        unlucky = 0
        for round in range(250):
            self.kernel.start(codes[round % len(codes)])
            for _ in range(chance.randrange(3)):
                time.sleep(chance.random() * 0.004)
                self.kernel.interrupt()
            message = self.done_unless_unlucky()
            if message is None:
                unlucky += 1
                self.assertLess(unlucky, 3)
                self.kernel = self.boot()
                continue
            self.assertEqual((message["t"], message["n"]), ("done", self.kernel.executions))
            self.kernel.send(t="ack", m=message["m"])
            self.fence(f"{round:032x}")
        self.assertEqual(self.status("(exit 5)"), 5)
        self.assert_usable()

    def done_unless_unlucky(self):
        try:
            message = self.kernel.receive()
        except TimeoutError:
            self.kernel.process.kill()
            return None
        if message is None:
            self.assertEqual(self.kernel.process.wait(10), -signal.SIGINT)
        return message
