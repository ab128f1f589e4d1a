"""Synchronising, numbering, parts: every way a gateway may die and come back."""

import os
import time

from kernel import DriverCase, Kernel

NONCE = "0123456789abcdef" * 2
OTHER_NONCE = "fedcba9876543210" * 2


class Protocol(DriverCase):
    def test_hello_while_idle_repeats_nothing_that_was_acknowledged(self):
        self.kernel.execute("1")
        self.assertEqual(self.kernel.hello(NONCE)["last"], 1)
        self.assertEqual(self.kernel.execute("2")["n"], 2)

    def test_hello_at_start_repeats_ready(self):
        self.kernel = Kernel(self.cwd)
        self.addCleanup(self.kernel.close)
        self.assertEqual(self.kernel.hello(NONCE)["last"], 0)
        self.assertEqual(self.kernel.receive()["t"], "ready")
        self.assertEqual(self.kernel.execute("1")["n"], 1)

    def test_hello_while_running_is_answered_after_the_end(self):
        fifo = os.path.join(self.cwd, "fifo")
        os.mkfifo(fifo)
        self.kernel.start("open('fifo').read(); 'end'")
        with open(fifo, "wb"):  # opens when the execution does
            self.kernel.send(t="hello", nonce=NONCE)
        first = self.kernel.receive()
        self.assertEqual((first["t"], first["result"]), ("done", "end"))
        self.assertEqual(self.kernel.receive(), {"t": "hello", "nonce": NONCE, "last": 1})
        self.assertEqual(self.kernel.receive(), first)
        self.kernel.send(t="ack", m=first["m"])
        self.assert_usable()

    def test_done_that_was_half_read_is_found_again_by_the_nonce(self):
        self.kernel.start("'x' * 300000")
        self.kernel.receive_bytes(1000)  # and then that gateway died
        hello = self.kernel.hello(NONCE)
        self.assertEqual(hello["last"], 1)
        again = self.kernel.receive()
        self.assertEqual((again["t"], again["n"], len(again["result"])), ("done", 1, 300000))

    def test_two_hellos_are_two_answers_each_with_all_that_is_unacknowledged(self):
        self.kernel.start("'kept'")
        self.kernel.send(t="hello", nonce=NONCE)
        self.kernel.send(t="hello", nonce=OTHER_NONCE)
        done = self.kernel.receive()
        for nonce in (NONCE, OTHER_NONCE):
            self.assertEqual(self.kernel.receive(), {"t": "hello", "nonce": nonce, "last": 1})
            self.assertEqual(self.kernel.receive(), done)
        self.kernel.send(t="ack", m=done["m"])
        self.assertEqual(self.kernel.hello(NONCE)["last"], 1)
        self.assertEqual(self.kernel.execute("2")["n"], 2)

    def test_unacknowledged_messages_come_in_order(self):
        for n in (1, 2, 3):
            self.kernel.send(t="exec", n=n, count=n, code=f"{n} * 10")
        sent = [self.kernel.receive() for _ in range(3)]
        self.kernel.hello(NONCE)
        self.assertEqual([self.kernel.receive() for _ in range(3)], sent)
        self.assertEqual([done["m"] for done in sent], [2, 3, 4])
        self.kernel.send(t="exec", n=4, count=4, code="40", ack=sent[1]["m"])
        last = self.kernel.receive()
        self.kernel.hello(OTHER_NONCE)
        self.assertEqual([self.kernel.receive(), self.kernel.receive()], [sent[2], last])

    def test_repeated_exec_runs_once(self):
        self.kernel.execute("runs = 0")
        self.kernel.start("runs += 1; runs")
        self.kernel.send(t="exec", n=2, count=2, code="runs += 1; runs")
        self.kernel.send(t="exec", n=1, count=1, code="runs += 1; runs")
        self.assertEqual(self.kernel.done()["result"], 1)
        self.assertEqual(self.value("runs"), 1)

    def send_part(self, n, i, text):
        self.kernel.send(t="part", n=n, i=i, s=text)
        self.assertEqual(self.kernel.receive(), {"t": "part", "n": n, "i": i})

    def test_parts_make_one_code(self):
        pieces = ["long = '", "é" * 20000, "€" * 15000, "'", "; len(long)"]
        for i, piece in enumerate(pieces):
            self.send_part(1, i, piece)
        self.kernel.send(t="exec", n=1, count=1, parts=len(pieces))
        self.assertEqual(self.kernel.done()["result"], 35000)

    def test_repeated_part_is_answered_and_added_once(self):
        self.send_part(1, 0, "'a' ")
        self.send_part(1, 1, "'b'")
        self.send_part(1, 1, "'b'")
        self.kernel.send(t="exec", n=1, count=1, parts=2)
        self.assertEqual(self.kernel.done()["result"], "ab")

    def test_part_zero_starts_anew(self):
        self.send_part(1, 0, "'a' ")
        self.send_part(1, 1, "'b'")
        self.send_part(1, 0, "'c'")
        self.kernel.send(t="exec", n=1, count=1, parts=1)
        self.assertEqual(self.kernel.done()["result"], "c")

    def test_code_of_four_mebibytes_runs(self):
        piece = "#" * 65000
        self.send_part(1, 0, "#")
        for i in range(1, 65):
            self.send_part(1, i, piece)
        self.send_part(1, 65, "\n'ran'")
        self.kernel.send(t="exec", n=1, count=1, parts=66)
        self.assertEqual(self.kernel.done()["result"], "ran")

    def test_unknown_message_is_ignored(self):
        self.kernel.send(t="from the future", n=1)
        self.assert_usable()

    def test_malformed_frame_ends_the_driver(self):
        self.kernel.control.sendall(b"nonsense")
        self.assertEqual(self.kernel.process.wait(30), 76)

    def test_end_of_control_ends_the_driver_at_once(self):
        self.kernel.execute("import threading, atexit, time; threading.Thread(target=time.sleep, args=(99,)).start()")
        self.assertEqual(self.kernel.close(), 0)

    def test_end_ns_is_the_monotonic_clock(self):
        before = time.monotonic_ns()
        done = self.kernel.execute("1")
        self.assertTrue(before < done["end_ns"] < time.monotonic_ns())

    def test_done_comes_when_the_gateway_reads_late(self):
        self.kernel.start("'x' * 1000000")
        self.kernel.send(t="hello", nonce=NONCE)
        done = self.kernel.receive()
        self.assertEqual(len(done["result"]), 1000000)
        self.assertEqual(self.kernel.receive()["last"], 1)
        self.assertEqual(self.kernel.receive(), done)

    def test_execution_sent_again_while_it_waits_is_not_run_twice(self):
        self.kernel.start("seen = globals().get('seen', 0) + 1\ndisplay('x')")
        shown = self.kernel.receive()
        self.assertEqual(shown["t"], "display")
        n = self.kernel.executions
        for nonce in (NONCE, OTHER_NONCE):
            self.kernel.send(t="hello", nonce=nonce)
            self.assertEqual(self.kernel.receive(), {"t": "hello", "nonce": nonce, "last": n - 1})
            self.assertEqual(self.kernel.receive(), shown)
            self.kernel.send(t="exec", n=n, count=n, code="seen = globals().get('seen', 0) + 1\ndisplay('x')", stdin="none")
        self.kernel.send(t="ack", m=shown["m"])
        self.assertEqual(self.kernel.done()["n"], n)
        self.assertEqual(self.value("seen"), 1)
