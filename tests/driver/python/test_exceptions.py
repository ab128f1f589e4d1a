"""How uncaught exceptions and exits are told."""

from kernel import DriverCase


class Exceptions(DriverCase):
    def traceback(self, code):
        return "\n".join(self.failure(code)["traceback"])

    def test_traceback_shows_the_lines_of_all_executions_and_no_frame_of_the_driver(self):
        self.kernel.execute("def inverse(x):\n    return 1 / x\n")
        exception = self.failure("y = 0\ninverse(y)")
        self.assertEqual((exception["name"], exception["message"]), ("ZeroDivisionError", "division by zero"))
        lines = [line for line in exception["traceback"] if set(line) - set(" ~^")]
        self.assertEqual(
            lines,
            [
                "Traceback (most recent call last):",
                '  File "<cell 2>", line 2, in <module>',
                "    inverse(y)",
                '  File "<cell 1>", line 2, in inverse',
                "    return 1 / x",
                "ZeroDivisionError: division by zero",
            ],
        )

    def test_first_execution_already_has_its_lines(self):
        self.assertIn("    1 / 0", self.traceback("1 / 0"))
        kernel = self.kernel = self.boot()
        kernel.execute("import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()")
        kernel.stderr.wait_for("    1 / 0")

    def test_syntax_error_has_line_and_caret(self):
        exception = self.failure("x = 1\ny = = 2")
        self.assertEqual(exception["name"], "SyntaxError")
        self.assertEqual(exception["traceback"][:3], ['  File "<cell 1>", line 2', "    y = = 2", "        ^"])
        self.assertEqual(self.failure("return 5")["message"], "'return' outside function (<cell 2>, line 1)")
        self.assertEqual(self.failure("if True:")["name"], "IndentationError")
        self.assertEqual(self.failure("x = '\x00'")["name"] in ("SyntaxError", "ValueError"), True)
        self.assertEqual(self.failure("x")["name"], "NameError")  # nothing of it ran

    def test_chains_notes_and_groups_are_told(self):
        chained = self.traceback("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
        self.assertIn("direct cause", chained)
        self.assertIn("KeyError: 'k'", chained)
        self.assertIn("note here", self.traceback("e = ValueError()\ne.add_note('note here')\nraise e"))
        group = self.traceback("raise ExceptionGroup('many', [ValueError(1), ExceptionGroup('in', [KeyError('q')])])")
        self.assertIn("many (2 sub-exceptions)", group)
        self.assertIn("KeyError: 'q'", group)

    def test_frames_of_the_driver_are_hidden_in_await_and_print(self):
        self.kernel.execute("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1 / 0")
        for code in ("await f()", "class B:\n    def __str__(self): 1 / 0\nprint(B())", "asyncio.run(f())"):
            text = self.traceback(code)
            self.assertNotIn("driver", text)
            self.assertNotIn("runtime/python", text)
            self.assertTrue(text.split("\n")[1].startswith('  File "<cell '), text)

    def test_exceptions_that_cannot_describe_themselves(self):
        broken = "class E(Exception):\n    def __str__(self): raise {0}\nraise E"
        self.assertEqual(self.failure(broken.format("ValueError('deep')"))["name"], "E")
        self.assertEqual(self.failure(broken.format("SystemExit(3)"))["name"], "E")
        self.assertEqual(self.failure(broken.format("KeyboardInterrupt"))["name"], "E")
        self.assertEqual(self.failure("class E(Exception):\n    def __str__(self): return 5\nraise E")["name"], "E")
        self.assertEqual(self.failure("class M(type):\n    __name__ = 5\nclass E(Exception, metaclass=M): pass\nraise E")["name"], "E")
        self.assertEqual(self.failure("raise type('N' * 100000, (Exception,), {})")["name"], "N" * 65536)
        self.assertEqual(self.failure("class E(Exception):\n    def __bool__(self): raise OSError\nraise E")["name"], "E")
        self.assertEqual(self.failure("raise RuntimeError(chr(0xD8FF))")["message"], "\\ud8ff")
        self.assert_usable()

    def test_message_and_traceback_are_cut_and_keep_their_ends(self):
        done = self.kernel.execute("raise ValueError('m' * 10**6 + 'END')")
        self.assertTrue(done["truncated"])
        self.assertEqual(done["exception"]["message"], "m" * 65536)
        text = "\n".join(done["exception"]["traceback"])
        self.assertLessEqual(len(text), 65536)
        self.assertTrue(text.startswith("Traceback") and text.endswith("END"))

    def test_deep_recursion_is_told_shortly(self):
        text = self.traceback("def f(n): return f(n + 1)\nf(0)")
        self.assertIn("RecursionError", text)
        self.assertLess(len(text), 2000)
        self.assert_usable()

    def test_exit_ends_the_execution_only(self):
        self.kernel.execute("kept = 41")
        done = self.kernel.execute("print('checking')\nraise SystemExit('stopped: bad input')")
        self.assertEqual((done["success"], done["exit_code"]), (False, 1))
        self.assertEqual((done["exception"]["name"], done["exception"]["message"]), ("SystemExit", "stopped: bad input"))
        self.assertEqual(self.value("kept + 1"), 42)
        self.assert_printed("stopped: bad input\n", "stderr")

    def test_exit_codes(self):
        for code, success, status in (
            ("import sys; sys.exit()", True, 0),
            ("exit()", True, 0),
            ("quit(0)", True, 0),
            ("raise SystemExit(7)", False, 7),
            ("sys.exit(300)", False, 44),
            ("sys.exit(-1)", False, 255),
            ("sys.exit(True)", False, 1),
            ("sys.exit(1.5)", False, 1),
            ("import asyncio\nawait asyncio.sleep(0); sys.exit(9)", False, 9),
            ("1", True, None),
            ("1/0", False, None),
        ):
            done = self.kernel.execute(code)
            self.assertEqual((done["success"], done["exit_code"], done["exception"] is None), (success, status, success), code)

    def test_memory_error_leaves_the_session_usable(self):
        self.kernel.execute("import resource\nresource.setrlimit(resource.RLIMIT_AS, (300 << 20, -1))\nkept = 1")
        self.assertEqual(self.failure("hog = []\nwhile True: hog.append(bytearray(1 << 20))")["name"], "MemoryError")
        self.assertEqual(self.failure("hog = []\nwhile True: hog.append(object())")["name"], "MemoryError")
        self.assertEqual(self.value("del hog\nkept"), 1)

    def test_failed_execution_frees_its_frames(self):
        self.kernel.execute("import gc, weakref\ngc.disable()\nclass Big: pass")
        self.kernel.execute("def f():\n    global ref\n    big = Big()\n    ref = weakref.ref(big)\n    raise OSError\nf()")
        self.assertEqual(self.value("ref() is None"), True)
