"""Standard input: what a program reads, and when the client is asked for it."""

import time

from kernel import DriverCase


class Input(DriverCase):
    def setUp(self):
        super().setUp()
        self.kernel.type("")

    def questions(self):
        return [(ask["prompt"], ask["password"]) for ask in self.kernel.asked]

    def test_input_asks_and_reads_a_line(self):
        self.kernel.answers = ["Ada\n", "\n", "é€😀\n"]
        self.assertEqual(self.value("[input('name? '), input(), input('ü')]", "ask"), ["Ada", "", "é€😀"])
        self.assertEqual(self.questions(), [("name? ", False), ("", False), ("ü", False)])
        self.assertEqual({ask["n"] for ask in self.kernel.asked}, {1})
        self.assert_printed("")

    def test_request_stands_at_its_place_in_the_output(self):
        self.kernel.start("import sys\nprint('before', end='')\nsys.stdout = open(1, 'w', closefd=False)\nprint('held')\ninput('?')", "ask")
        self.assertEqual(self.kernel.reliable()["prompt"], "?")
        self.kernel.stdout.wait_for("beforeheld\n")
        self.kernel.type("x\n")
        self.assertEqual(self.kernel.done()["result"], "x")

    def test_nothing_is_read_before_the_request_is_acknowledged(self):
        self.kernel.start("input('?')", "ask")
        ask = self.kernel.receive()
        self.kernel.type("typed\n")
        self.kernel.hello()
        self.assertEqual(self.kernel.receive(), ask)
        self.kernel.send(t="ack", m=ask["m"])
        self.assertEqual(self.kernel.done()["result"], "typed")

    def test_end_of_input_is_an_eof_error_and_not_final(self):
        self.kernel.start("input('?')", "ask")
        self.kernel.reliable()
        self.kernel.end_input()
        self.assertEqual(self.kernel.done()["exception"]["name"], "EOFError")
        self.kernel.type("last line without newline")
        self.kernel.end_input()
        self.assertEqual(self.value("input()", "ask"), "last line without newline")
        self.kernel.type("again\n")
        self.assertEqual(self.value("input()", "ask"), "again")

    def test_without_a_client_the_prompt_is_printed(self):
        self.assertEqual(self.failure("input('none? ')")["message"], "EOF when reading a line")
        self.kernel.type("piped\nsecret\n")
        self.assertEqual(self.value("import getpass\n[input('pipe? '), getpass.getpass('pw? ')]", "pipe"), ["piped", "secret"])
        self.assertEqual(self.kernel.asked, [])
        self.assert_printed("none? pipe? pw? ")
        self.assert_printed("", "stderr")

    def test_getpass_asks_for_a_password(self):
        self.kernel.answers = ["one\n", "two\n", "three\n"]
        code = "import getpass\nfrom getpass import getpass as ask\n[getpass.getpass(), ask(prompt='pw: '), getpass.unix_getpass('u', None)]"
        self.assertEqual(self.value(code, "ask"), ["one", "two", "three"])
        self.assertEqual(self.questions(), [("Password: ", True), ("pw: ", True), ("u", True)])
        self.assert_printed("")
        self.assert_printed("", "stderr")

    def test_getpass_survives_reloading(self):
        self.kernel.answers = ["one\n"]
        self.assertEqual(self.value("import getpass, importlib\nimportlib.reload(getpass)\ngetpass.getpass()", "ask"), "one")
        self.assertEqual(self.questions(), [("Password: ", True)])
        self.assertEqual(self.value("issubclass(getpass.GetPassWarning, UserWarning) and getpass.__spec__.loader.get_source('getpass')[:3]"), '"""')

    def test_stream_reads_without_asking(self):
        self.kernel.type("a\nb\nc\nd\n")
        self.kernel.end_input()
        self.assertEqual(self.value("import sys\n[sys.stdin.readline(), next(sys.stdin), sys.stdin.read()]", "ask"), ["a\n", "b\n", "c\nd\n"])
        self.assertEqual(self.value("sys.stdin.buffer.read().hex()", "ask"), "")
        self.kernel.type("x\ny\n")
        self.assertEqual(self.value("[sys.stdin.buffer.readline().decode(), sys.__stdin__ is sys.stdin]", "ask"), ["x\n", True])
        self.assertEqual(self.kernel.asked, [])

    def test_stream_looks_like_a_text_stream(self):
        code = "import io, sys\nf = sys.stdin\n[isinstance(f, io.TextIOWrapper), f.encoding, f.name, f.mode, f.fileno(), f.isatty(), f.readable(), f.writable()]"
        self.assertEqual(self.value(code), [True, "utf-8", "<stdin>", "r", 0, False, True, False])
        self.assertEqual(self.value("[f.read(), f.readline(), list(f), f.closed]"), ["", "", [], False])

    def test_what_one_execution_read_ahead_does_not_reach_the_next(self):
        self.kernel.type("one\nleft over\nmore\n")
        self.assertEqual(self.value("import sys\nfrom sys import stdin\nstdin.readline()", "pipe"), "one\n")
        self.kernel.type("two\nleft over\n")
        self.assertEqual(self.value("stdin.readline()", "pipe"), "two\n")
        self.kernel.type("three\nleft over\n")
        self.assertEqual(self.value("input()", "pipe"), "three")
        self.assertEqual(self.value("read = sys.stdin.buffer.readline\nsys.stdin.read()"), "")
        for line in ("four", "five"):
            self.kernel.type(f"{line}\nleft over\n")
            self.assertEqual(self.value("read().decode()", "pipe"), f"{line}\n")

    def test_what_was_read_ahead_is_forgotten_beside_threads_too(self):
        self.value("import sys, threading\ngate = threading.Event()\nthreading.Thread(target=gate.wait).start()")
        for line in ("one", "two"):
            self.kernel.type(f"{line}\nleft over\n")
            self.assertEqual(self.value("[sys.stdin.readline(), sys.stdin is sys.__stdin__]", "pipe"), [f"{line}\n", True])
        self.value("gate.set()")

    def test_broken_stream_is_whole_in_the_next_execution(self):
        for breaking in (
            "sys.stdin.close()",
            "sys.stdin.detach()",
            "sys.stdin.buffer.detach()",
            "sys.stdin = None",
            "del sys.stdin",
            "sys.stdin.reconfigure(encoding='latin-1')",
            "sys.stdin = open('/dev/null'); sys.stdin.close()",
            "import io; sys.stdin = io.TextIOWrapper(sys.stdin.buffer); sys.stdin.detach()",
            "os.close(0)",
            "os.dup2(os.open('/dev/zero', 0), 0)",
            "os.close(0); kept = open('/dev/zero', 'rb')",
        ):
            self.kernel.execute("import os, sys\n" + breaking)
            self.kernel.type("wörks\n")
            self.assertEqual(self.value("input()", "pipe"), "wörks", breaking)
            self.assertEqual(self.value("sys.stdin.read()"), "", breaking)

    def test_stream_of_the_program_stays_and_is_read_without_asking(self):
        self.value("import io, sys\nsys.stdin = io.StringIO('boxed\\nsecond\\n')")
        self.assertEqual(self.value("input('? ')", "ask"), "boxed")
        self.assertEqual(self.value("import getpass\ngetpass.getpass()", "ask"), "second")
        self.assertEqual(self.failure("input()")["name"], "EOFError")
        self.kernel.answers = ["wrapped\n"]
        self.value("sys.stdin = sys.__stdin__")
        self.assertEqual(self.value("sys.stdin = io.TextIOWrapper(sys.stdin.buffer, encoding='ascii')\ninput('? ')", "ask"), "wrapped")
        self.assertEqual(self.questions(), [("? ", False)])

    def test_input_of_the_program_stays(self):
        self.assertEqual(self.value("import builtins\nbuiltins.input = lambda prompt: prompt * 2\ninput('x')", "ask"), "xx")
        self.assertEqual(self.value("input('y')", "ask"), "yy")

    def test_input_takes_what_the_builtin_takes(self):
        self.kernel.answers = ["a\n", "b\n"]
        self.assertEqual(self.value("class Ask:\n    ask = input\n[Ask().ask(5), input(None)]", "ask"), ["a", "b"])
        self.assertEqual(self.questions(), [("5", False), ("None", False)])
        self.assertEqual(self.failure("input(prompt='x')")["name"], "TypeError")
        self.assertEqual(self.failure("input(1, 2)")["name"], "TypeError")
        self.assertEqual(self.value("import inspect, pickle\n[str(inspect.signature(input)), pickle.loads(pickle.dumps(input)) == input]"), ["(prompt='', /)", True])

    def test_long_prompt_is_cut_at_a_character(self):
        self.kernel.answers = ["a\n", "b\n"]
        self.assertEqual(self.value("[input('€' * 2000), input('\\udead' * 2)]", "ask"), ["a", "b"])
        self.assertEqual(self.questions(), [("€" * 1365, False), ("\\udead\\udead", False)])

    def test_line_larger_than_any_buffer_is_read_whole(self):
        self.kernel.start("len(input())", "ask")
        self.kernel.reliable()
        for _ in range(40):
            self.kernel.type("0123456789" * 1000)
        self.kernel.type("\n")
        self.assertEqual(self.kernel.done()["result"], 400000)

    def test_children_read_the_same_input(self):
        self.kernel.type("for the child\n")
        self.kernel.end_input()
        self.assertEqual(self.value("import subprocess\nsubprocess.run(['cat'], capture_output=True, text=True).stdout", "ask"), "for the child\n")
        self.kernel.type("")
        self.assertEqual(self.value("subprocess.run(['cat'], capture_output=True, text=True).stdout"), "")

    def test_threads_ask_too(self):
        self.kernel.answers = ["one\n", "two\n"]
        code = "import threading\nlines = []\ndef ask():\n    lines.append(input('thread? '))\nt = threading.Thread(target=ask); t.start(); t.join()\nask()\nlines"
        self.assertEqual(self.value(code, "ask"), ["one", "two"])
        self.assertEqual(self.questions(), [("thread? ", False)] * 2)

    def test_thread_that_outlives_its_execution_asks_nobody(self):
        self.value("import threading\ngate, lines = threading.Event(), []\ndef ask():\n    gate.wait()\n    try: lines.append(input('late? '))\n    except EOFError: lines.append('eof')\nt = threading.Thread(target=ask); t.start()")
        self.value("gate.set()\nt.join()\nlines")
        self.kernel.stdout.wait_for("late? ")
        self.assertEqual(self.value("lines"), ["eof"])

    def test_input_can_be_interrupted_while_it_reads(self):
        self.kernel.start("input('?')", "ask")
        self.kernel.reliable()
        self.assertEqual(self.kernel.interrupt_until_done()["exception"]["name"], "KeyboardInterrupt")
        self.kernel.hello()
        self.kernel.answers = ["next\n"]
        self.assertEqual(self.value("input('?')", "ask"), "next")

    def test_late_acknowledgement_keeps_the_protocol_in_step(self):
        self.kernel.start("input('first?')", "ask")
        first = self.kernel.receive()
        self.kernel.interrupt()
        done = self.kernel.receive()
        self.assertEqual(done["exception"]["name"], "KeyboardInterrupt")
        self.kernel.hello()
        self.assertEqual([self.kernel.receive(), self.kernel.receive()], [first, done])
        self.kernel.start("40 + 2")
        self.assertEqual(self.kernel.receive()["result"], 42)
        self.kernel.send(t="ack", m=first["m"])
        self.kernel.answers = ["second\n"]
        self.assertEqual(self.value("input('second?')", "ask"), "second")
        self.assertEqual([ask["prompt"] for ask in self.kernel.asked], ["second?"])

    def test_alarm_ends_a_wait_for_input(self):
        self.value("import signal\ndef late(*_): raise TimeoutError('too slow')\n_ = signal.signal(signal.SIGALRM, late)\nNone")
        for acknowledged in (True, False):
            self.kernel.start("_ = signal.setitimer(signal.ITIMER_REAL, 0.05)\ninput('?')", "ask")
            ask = self.kernel.receive()
            if acknowledged:
                self.kernel.send(t="ack", m=ask["m"])
            self.assertEqual(self.kernel.done()["exception"]["name"], "TimeoutError")
            self.kernel.send(t="ack", m=ask["m"])
        self.kernel.answers = ["in time\n"]
        self.assertEqual(self.value("input('?')", "ask"), "in time")

    def test_child_made_by_fork_asks_nobody(self):
        self.kernel.type("for the child\n")
        code = "import os, sys\npid = os.fork()\nif pid == 0:\n    print(input('child? '))\n    os._exit(0)\nos.waitpid(pid, 0)[1]"
        self.assertEqual(self.value(code, "ask"), 0)
        self.kernel.stdout.wait_for("child? for the child\n")
        self.assertEqual(self.kernel.asked, [])

    def test_debugger_talks_to_the_client(self):
        self.kernel.answers = ["p x + 1\n", "c\n"]
        self.assertEqual(self.value("x = 41\nbreakpoint()\nx", "ask"), 41)
        self.kernel.stdout.wait_for("42\n")
        self.assertEqual(self.questions(), [("(Pdb) ", False)] * 2)

    def test_ten_thousand_lines_come_fast(self):
        self.kernel.start("import sys\nsum(map(int, sys.stdin))", "pipe")
        before = time.monotonic()
        for _ in range(10):
            self.kernel.type("7\n" * 10000)
        self.kernel.end_input()
        self.assertEqual(self.kernel.done()["result"], 700000)
        self.assertLess(time.monotonic() - before, 5)
