"""stdout and stderr: at once, whole, in order, and robust."""

import os

from kernel import DriverCase


class Output(DriverCase):
    def test_each_print_is_one_write(self):
        code = "import os\nfor i in range(3):\n    print('line', i, 'é', sep='-', end='!\\n')\n    os.read(r, 1)"
        self.kernel.execute("import os\nr, w = os.pipe()\nos.write(w, b'...')")
        self.kernel.execute(code)
        self.assert_printed("line-0-é!\nline-1-é!\nline-2-é!\n")
        for piece in self.kernel.stdout.pieces[:-1]:
            self.assertTrue(piece.endswith(b"\n"), piece)

    def test_unfinished_line_goes_out_at_once(self):
        for start in ("print('no newline', end='')", "sys.stdout.write('no newline')", "sys.stdout.buffer.write(b'no newline')"):
            kernel = self.boot()
            os.mkfifo(f"{self.cwd}/fifo")
            kernel.start(f"import sys\n{start}\nopen('fifo').read()\nNone")
            kernel.stdout.wait_for("no newline")  # before the execution ends
            with open(f"{self.cwd}/fifo", "wb"):
                pass
            kernel.done()
            os.unlink(f"{self.cwd}/fifo")

    def test_children_and_descriptors_are_in_their_place(self):
        self.kernel.execute(
            "import subprocess, sys, os\n"
            "print('before')\n"
            "subprocess.run(['echo', 'from child'])\n"
            "subprocess.run(['echo', 'through sys.stdout'], stdout=sys.stdout)\n"
            "os.write(1, b'by number\\n')\n"
            "print('raw', file=sys.__stdout__.buffer.raw and sys.stdout)\n"
            "print('after')"
        )
        self.assert_printed("before\nfrom child\nthrough sys.stdout\nby number\nraw\nafter\n")

    def test_looks_like_a_text_stream(self):
        self.assertEqual(
            self.value(
                "import io, sys\nf = sys.stdout\n"
                "[isinstance(f, io.TextIOWrapper), f.encoding, f.errors, f.fileno(), f.isatty(), f.writable(), f.readable(),"
                " f.name, f.mode, f.closed, f.line_buffering, f.write('abc'), f.writelines(['d', 'e\\n']), f.flush()]"
            ),
            [True, "utf-8", "backslashreplace", 1, False, True, False, "<stdout>", "w", False, True, 3, None, None],
        )
        self.assert_printed("abcde\n")

    def test_print_takes_all_that_the_builtin_takes(self):
        self.value(
            "import io, sys\n"
            "print(); print(1, None, sep=None, end=None); print('a', 'b', sep='', flush=True); print(*[], end='')\n"
            "box = io.StringIO(); print('boxed', 2, file=box); print(box.getvalue(), end='')\n"
            "class Log:\n    say = print\n"
            "Log().say('bound')\n"
            "import contextlib\n"
            "with contextlib.redirect_stdout(box): print('redirected')\n"
            "box.getvalue()"
        )
        self.assert_printed("\n1 None\nab\nboxed 2\nbound\n")
        self.assertEqual(self.failure("print(1, sep=2)")["name"], "TypeError")
        self.assertEqual(self.failure("print(1, nope=2)")["name"], "TypeError")
        self.assertEqual(self.value("import pickle; pickle.loads(pickle.dumps(print)) == print"), True)
        self.assertIn("sep=' '", self.value("import inspect; str(inspect.signature(print))"))

    def test_what_utf8_cannot_carry_is_printed_in_letters(self):
        self.value("import sys\nprint('ok \\udead', 'x')\nsys.stdout.write('\\ud800\\n')\nprint('\\udc80', file=sys.stderr)")
        self.assert_printed("ok \\udead x\n\\ud800\n")
        self.assert_printed("\\udc80\n", "stderr")

    def test_large_writes_are_complete(self):
        self.value("import sys\nprint('x' * 3000000)\nsys.stdout.buffer.write(memoryview(b'y' * 3000000)) and None")
        self.assert_printed("x" * 3000000 + "\n" + "y" * 3000000)

    def test_large_writes_survive_alarms(self):
        self.value(
            "import signal\nhits = []\nold = signal.signal(signal.SIGALRM, lambda *_: hits.append(1))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
            "for _ in range(20): print('z' * 400000)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0)"
        )
        self.assert_printed(("z" * 400000 + "\n") * 20)

    def test_threads_do_not_mix_their_lines(self):
        self.value(
            "import threading\n"
            "def work(c, size):\n    for _ in range(200): print(c * size)\n"
            "all = [threading.Thread(target=work, args=(c, s)) for c, s in (('a', 50), ('b', 9000), ('c', 90000))]\n"
            "for t in all: t.start()\nfor t in all: t.join()"
        )
        self.kernel.stdout.wait_for("a\n")
        self.value("print('[end]')")
        self.kernel.stdout.wait_for("[end]")
        lines = self.kernel.stdout.text().split("\n")
        for line, size in (("a", 50), ("b", 9000), ("c", 90000)):
            self.assertEqual(lines.count(line * size), 200)

    def test_non_blocking_stdout_loses_nothing(self):
        self.value("import os\nos.set_blocking(1, False)\nfor _ in range(50): print('n' * 100000)\nfor _ in range(9999): print('s')")
        self.assert_printed(("n" * 100000 + "\n") * 50 + "s\n" * 9999)

    def test_closing_detaching_and_rewrapping_harm_nothing(self):
        self.value("import sys, io\nsys.stdout.close()\nprint('one')")
        self.value("with sys.stdout as f: print('two')")
        self.value("sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')\nprint('three')")
        self.value("sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='latin-1')\nprint('four')")
        self.value("sys.stdout = sys.__stdout__\nprint('five')")
        self.value("sys.stdout.reconfigure(encoding='latin-1', errors='replace')\nprint('six €')")
        self.value("sys.stdout = None\nprint('nowhere')")
        self.value("del sys.stdout")
        self.value("sys.stdout.reconfigure(encoding='utf-8')\nprint('seven €')")
        self.assert_printed("one\ntwo\nthree\nfour\nfive\nsix ?\nseven €\n")

    def test_closed_descriptors_come_back(self):
        self.kernel.execute("import os\nos.close(1); os.close(2)\nkeep = open('mine', 'w')")
        self.value("print('still here')")
        self.value("os.dup2(os.open('other', os.O_RDWR | os.O_CREAT), 1)")
        self.value("print('again')")
        self.assert_printed("still here\nagain\n")

    def test_logging_warnings_and_threads_write_to_stderr(self):
        self.value("import logging, warnings\nlogging.basicConfig()\nlogging.warning('logged')\nwarnings.warn('warned')")
        self.value("warnings.warn('warned')")
        self.value("import threading\nt = threading.Thread(target=lambda: 1/0); t.start(); t.join()")
        text = self.kernel.stderr
        text.wait_for("ZeroDivisionError: division by zero")
        self.assertIn("WARNING:root:logged\n", text.text())
        self.assertEqual(text.text().count("UserWarning: warned\n"), 2)
        self.assertIn('File "<cell 3>", line 2, in <lambda>\n', text.text())

    def test_c_library_output_comes_with_the_execution_that_made_it(self):
        self.value("import ctypes\nctypes.CDLL(None).printf(b'from C\\n')\nNone")
        self.kernel.stdout.wait_for("from C\n")

    def test_input_prints_its_prompt_and_finds_no_input(self):
        self.assertEqual(self.failure("input('who? ')")["name"], "EOFError")
        self.assertEqual(self.failure("import getpass\ngetpass.getpass()")["name"], "EOFError")
        self.assert_printed("who? Password: ")
        self.assert_printed("", "stderr")

    def test_broken_streams_of_the_user_harm_nothing(self):
        self.value("import sys\nclass Bad:\n    def write(self, text): raise OSError\n    def flush(self): raise OSError\nsys.stdout = Bad()")
        self.assertEqual(self.failure("print('x')")["name"], "OSError")
        self.value("sys.stdout = sys.__stdout__\nsys.displayhook = None\nimport builtins\nbuiltins.print = None")
        self.assert_usable()
