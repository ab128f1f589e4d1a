"""The control protocol, and what it must withstand: every death of a gateway."""

import time

from kernel import DriverCase

NONCE, OTHER_NONCE = "ab" * 16, "cd" * 16


class Protocol(DriverCase):
    def hello(self, nonce=NONCE, last=None):
        self.kernel.send(t="hello", nonce=nonce)
        header = self.kernel.receive_bytes(8)
        payload = self.kernel.receive_bytes(int(header)).decode()
        last = self.kernel.executions if last is None else last
        self.assertEqual(payload, f'{{"t":"hello","nonce":"{nonce}","last":{last}}}')

    def test_done_has_all_that_is_promised(self):
        done = self.kernel.execute("echo hi")
        self.assertEqual(list(done), ["t", "m", "n", "success", "result", "result_text", "exception", "exit_code", "truncated", "end_ns"])
        self.assertEqual((done["m"], done["n"], done["success"], done["result"], done["exception"], done["exit_code"]), (2, 1, True, None, None, 0))

    def test_hello_when_nothing_has_run_and_nothing_is_kept(self):
        self.hello()
        self.hello(OTHER_NONCE)
        self.assert_usable()

    def test_ready_is_repeated_until_acknowledged(self):
        self.kernel = self.boot(acknowledge=False)
        self.hello()
        self.assertEqual(self.kernel.receive()["t"], "ready")
        self.kernel.send(t="ack", m=1)
        self.hello()
        self.assert_usable()

    def test_hello_during_an_execution_is_answered_after_it_with_done_again(self):
        self.kernel.start("sleep 0.2; exit_status() { return 3; }; exit_status")
        self.kernel.send(t="hello", nonce=NONCE)
        done = self.kernel.receive()
        self.assertEqual((done["t"], done["exit_code"]), ("done", 3))
        self.assertEqual(self.kernel.receive(), {"t": "hello", "nonce": NONCE, "last": 1})
        self.assertEqual(self.kernel.receive(), done)
        self.hello(OTHER_NONCE)
        self.assertEqual(self.kernel.receive(), done)
        self.kernel.send(t="ack", m=done["m"])
        self.hello()
        self.assert_usable()

    def test_unacknowledged_messages_come_in_order(self):
        for n in (1, 2, 3):
            self.kernel.send(t="exec", n=n, count=n, code=f"(exit {n})", stdin="none")
        sent = [self.kernel.receive() for _ in range(3)]
        self.hello(last=3)
        self.assertEqual([self.kernel.receive() for _ in range(3)], sent)
        self.assertEqual([done["m"] for done in sent], [2, 3, 4])
        self.kernel.send(t="exec", n=4, count=4, code=":", ack=sent[1]["m"], stdin="none")
        last = self.kernel.receive()
        self.hello(OTHER_NONCE, last=4)
        self.assertEqual([self.kernel.receive(), self.kernel.receive()], [sent[2], last])

    def test_repeated_exec_runs_once(self):
        self.kernel.execute("runs=0")
        self.kernel.start("((++runs)); (exit $runs)")
        self.kernel.send(t="exec", n=2, count=2, code="((++runs)); (exit $runs)", stdin="none")
        self.kernel.send(t="exec", n=1, count=1, code="((++runs)); (exit $runs)", stdin="none")
        self.assertEqual(self.kernel.done()["exit_code"], 1)
        self.assertEqual(self.status("(exit $runs)"), 1)

    def send_part(self, n, i, text):
        self.kernel.send(t="part", n=n, i=i, s=text)
        self.assertEqual(self.kernel.receive(), {"t": "part", "n": n, "i": i})

    def run_parts(self, pieces):
        self.kernel.executions += 1
        n = self.kernel.executions
        for i, piece in enumerate(pieces):
            self.send_part(n, i, piece)
        self.kernel.send(t="exec", n=n, count=n, parts=len(pieces), ack=1, stdin="none")
        return self.kernel.done()["exit_code"]

    def test_parts_make_one_code(self):
        self.assertEqual(self.run_parts(["long='", "é" * 4000, '€"\\\\\n' * 500, "'", "; ((${#long} == 4000 + 2500))"]), 0)

    def test_repeated_part_is_answered_and_added_once(self):
        self.send_part(1, 0, "x=a; ")
        self.send_part(1, 1, "x+=b; ")
        self.send_part(1, 1, "x+=b; ")
        self.kernel.send(t="exec", n=1, count=1, parts=2, stdin="none")
        self.kernel.executions = 1
        self.kernel.done()
        self.assertEqual(self.output('echo "$x"'), ("ab\n", ""))

    def test_part_zero_starts_anew(self):
        self.send_part(1, 0, "x=a; ")
        self.send_part(1, 1, "x+=b; ")
        self.send_part(1, 0, "x=c")
        self.kernel.send(t="exec", n=1, count=1, parts=1, stdin="none")
        self.kernel.executions = 1
        self.kernel.done()
        self.assertEqual(self.output('echo "$x"'), ("c\n", ""))

    def test_code_of_a_mebibyte_runs(self):
        line = "# " + "x" * 997 + "\n"
        pieces = [line * 8 for _ in range(131)]
        self.assertEqual(self.run_parts([*pieces, "(exit 5)"]), 5)

    def test_all_text_arrives_as_it_was_sent(self):
        text = "".join(map(chr, range(1, 0x100))) + "\u20ac\U0001f600\\n \\\\u0041 \\\" \\'"
        self.assertEqual(self.output("cat <<'END_OF_TEXT'\n" + text + "\nEND_OF_TEXT")[0], text + "\n")
        for code in range(1, 32):
            self.assertEqual(self.output(f"x='{chr(code)}'; printf '%d' \"'$x\"")[0], str(code))

    def test_unknown_message_is_ignored(self):
        self.kernel.send(t="from the future", n=1)
        self.assert_usable()

    def test_malformed_frame_ends_the_driver(self):
        self.kernel.control.sendall(b"nonsense")
        self.assertEqual(self.kernel.process.wait(10), 76)

    def test_end_of_control_ends_the_driver_at_once(self):
        self.kernel.execute("sleep 99 & trap 'sleep 99' EXIT")
        started = time.monotonic()
        self.assertEqual(self.kernel.close(), 0)
        self.assertLess(time.monotonic() - started, 2)

    def test_lost_control_socket_ends_the_driver(self):
        self.kernel.start("exec 241>&-")
        self.assertNotEqual(self.kernel.process.wait(10), None)
        self.assertIsNone(self.kernel.receive())

    def test_done_comes_when_the_gateway_reads_late(self):
        self.kernel.start("(exit 9)")
        self.kernel.send(t="hello", nonce=NONCE)
        time.sleep(0.1)
        done = self.kernel.receive()
        self.assertEqual(done["exit_code"], 9)
        self.assertEqual(self.kernel.receive()["last"], 1)
        self.assertEqual(self.kernel.receive(), done)
