"""What comes back as the value of a trailing expression."""

import json

from kernel import DriverCase


class Results(DriverCase):
    def check(self, code, result, text=None):
        done = self.kernel.execute(code)
        self.assertTrue(done["success"], done)
        self.assertEqual(json.dumps(done["result"]), json.dumps(result), code)
        if text is not None:
            self.assertEqual(done["result_text"], text)
        self.assertFalse(done["truncated"])

    def test_exactly_json_comes_as_json(self):
        self.check("True", True, "True")
        self.check("0", 0, "0")
        self.check("-1.5e300", -1.5e300)
        self.check("-0.0", -0.0)
        self.check("'é\\n\\x00\"'", 'é\n\x00"')
        self.check("{'a': [1, {'b': None}], '': []}", {"a": [1, {"b": None}], "": []})
        self.check("[[], {}, '']", [[], {}, ""])

    def test_no_value_is_no_text(self):
        for code in ("None", "x = 1", "", "# nothing", "if True:\n    5", "print()"):
            done = self.kernel.execute(code)
            self.assertEqual((done["success"], done["result"], done["result_text"]), (True, None, None), code)

    def test_one_expression_means_the_same_with_a_line_break_and_without(self):
        codes = "1 + 1", " 1 + 1", "\t1", "1 +", "(1", "lambda: (yield)", "[x for x in 'ab']", "1 # one", "1 / 0", "import json"
        codes += "__import__('asyncio').sleep(0, 5)", "await __import__('asyncio').sleep(0, 5)", "'\\d'", "del nothing", "pass"
        for code in codes:
            told = []
            for text in (code, code + "\n"):
                done = self.kernel.execute(text)
                exception = done["exception"] or {"name": None}
                told.append((done["success"], done["result_text"] and done["result_text"].split(" at 0x")[0], exception["name"]))
            self.assertEqual(told[0], told[1], code)
        self.assertEqual(self.failure(" 1 + 1")["name"], "IndentationError")

    def test_large_integers_and_special_floats_are_strings_also_inside(self):
        self.check("2**53 - 1", 2**53 - 1)
        self.check("[2**53, -2**53, {'n': 2**70}]", ["9007199254740992", "-9007199254740992", {"n": str(2**70)}])
        self.check("[float('nan'), float('inf'), -float('inf'), 1.5]", ["NaN", "Infinity", "-Infinity", 1.5])

    def test_anything_else_comes_as_its_printed_form(self):
        self.check("(1, 2)", "(1, 2)", "(1, 2)")
        self.check("{1: 2}", "{1: 2}", "{1: 2}")
        self.check("[(1,)]", "[(1,)]")
        self.check("b'x'", "b'x'")
        self.check("1j", "1j")
        self.check("import enum\nclass E(enum.IntEnum):\n    A = 1\n[E.A]", "[<E.A: 1>]")
        self.check("class S(str):\n    pass\nS('x')", "'x'")
        self.check("import collections\ncollections.deque([1])", "deque([1])")

    def test_subclasses_and_library_types_come_as_their_printed_form(self):
        self.check("import decimal, enum, fractions, datetime, collections, dataclasses, pathlib, uuid, types\n1", 1)
        for code, text in (
            ("decimal.Decimal('1.10')", "Decimal('1.10')"),
            ("fractions.Fraction(1, 3)", "Fraction(1, 3)"),
            ("datetime.date(2026, 1, 2)", "datetime.date(2026, 1, 2)"),
            ("{1, 2}", "{1, 2}"),
            ("frozenset()", "frozenset()"),
            ("[{1}]", "[{1}]"),
            ("{'a': (1,)}", "{'a': (1,)}"),
            ("{None: 1}", "{None: 1}"),
            ("{'a': 1, 2: 3}", "{'a': 1, 2: 3}"),
            ("{True: 1}", "{True: 1}"),
            ("bytearray(b'x')", "bytearray(b'x')"),
            ("collections.OrderedDict(a=1)", "OrderedDict([('a', 1)])"),
            ("collections.Counter('a')", "Counter({'a': 1})"),
            ("class I(int):\n    pass\n[I(5)]", "[5]"),
            ("class F(float):\n    pass\nF('nan')", "nan"),
            ("class L(list):\n    pass\nL([1])", "[1]"),
            ("class D(dict):\n    pass\nD(a=1)", "{'a': 1}"),
            ("class S(str):\n    pass\n{S('k'): 1}", "{'k': 1}"),
            ("class C(enum.Enum):\n    A = 1\nC.A", "<C.A: 1>"),
            ("class B(enum.Flag):\n    A = 1\n    B = 2\nB.A | B.B", "<B.A|B: 3>"),
            ("@dataclasses.dataclass\nclass P:\n    x: int\nP(1)", "P(x=1)"),
            ("range(3)", "range(0, 3)"),
            ("types.SimpleNamespace(a=1)", "namespace(a=1)"),
            ("...", "Ellipsis"),
            ("NotImplemented", "NotImplemented"),
            ("int", "<class 'int'>"),
        ):
            self.check(code, text, text)

    def test_representation_may_print_loop_or_recurse(self):
        self.check("class P:\n    def __repr__(self):\n        print('printed')\n        return 'p'\nP()", "p", "p")
        self.assert_printed("printed\n")
        self.assertEqual(self.failure("class R:\n    def __repr__(self): return repr(self)\nR()")["name"], "RecursionError")
        self.kernel.start("class E:\n    def __repr__(self):\n        print('go')\n        while True: pass\n[E()]")
        self.kernel.stdout.wait_for("go")
        self.assertEqual(self.kernel.interrupt_until_done()["exception"]["name"], "KeyboardInterrupt")
        self.kernel.hello()
        self.check("class S(str): pass\nclass T:\n    def __repr__(self): return S('sub')\nT()", "sub", "sub")
        self.check("class U:\n    def __repr__(self): return '\\ud800'\nU()", "\\ud800", "\\ud800")

    def test_list_that_changes_while_it_is_told(self):
        code = "class G:\n    def __repr__(self):\n        held.clear()\n        return 'g'\nheld = [1, G(), 2]\nheld"
        self.assertTrue(self.kernel.execute(code)["success"])
        self.assert_usable()

    def test_lone_surrogate_is_told_in_letters(self):
        self.check('"\\udead"', "\\udead", "'\\udead'")
        self.check('{"\\ud800": ["\\udfff"]}', {"\\ud800": ["\\udfff"]})

    def test_self_reference_and_depth_are_harmless(self):
        self.check("a = []; a.append(a); a", "[[...]]")
        self.check("d = {}; d['d'] = d; d", "{'d': {...}}")
        self.check("n = 1\nfor _ in range(100): n = [n]\nn", json.loads("[" * 100 + "1" + "]" * 100))
        self.check("n = [n]; n", "[" * 101 + "1" + "]" * 101)
        self.assertEqual(self.failure("for _ in range(10**5): n = [n]\nn")["name"], "RecursionError")
        self.assert_usable()

    def test_value_that_cannot_describe_itself_is_an_exception_with_its_message(self):
        broken = "class Broken:\n    def __repr__(self):\n        raise ValueError('no text for me')\nBroken()"
        self.assertEqual(self.failure(broken)["message"], "no text for me")
        self.check("type(_).__name__", "Broken")
        self.assertEqual(self.failure("class N:\n    def __repr__(self):\n        return 5\nN()")["name"], "TypeError")
        self.assertEqual(self.failure("class X:\n    def __repr__(self):\n        raise SystemExit(4)\nX()")["name"], "SystemExit")
        self.assert_usable()

    def test_integer_beyond_the_text_limit_is_the_interpreters_own_error(self):
        self.assertIn("digits", self.failure("10 ** 5000")["message"])
        self.check("n = 10 ** 5000\nn.bit_length()", 16610)

    def test_text_is_cut_at_64_kib_and_json_kept_up_to_1_mib(self):
        done = self.kernel.execute("'é' * 100000")
        self.assertEqual(done["result"], "é" * 100000)
        self.assertEqual(done["result_text"], "'" + "é" * 32767)
        self.assertTrue(done["truncated"])
        done = self.kernel.execute("'x' * (2**20 - 2)")
        self.assertEqual(len(done["result"]), 2**20 - 2)

    def test_result_above_1_mib_is_null_and_says_so(self):
        for code in ("'x' * (2**20 - 1)", "'é' * 600000", "[0] * 600000", "'\\x00' * 300000", "bytes(400000)"):
            done = self.kernel.execute(code)
            self.assertEqual((done["success"], done["result"], done["truncated"]), (True, None, True), code)
            self.assertLessEqual(len(done["result_text"].encode()), 65536)

    def test_shared_lists_do_not_blow_up(self):
        done = self.kernel.execute("n = 'x' * 100\nfor _ in range(15): n = [n, n]\nn")
        self.assertEqual((done["result"], done["truncated"]), (None, True))

    def test_last_value_is_underscore_but_none_is_not(self):
        self.run_all("6 * 7", "None", "x = 1")
        self.check("_", 42)
        self.check("_ = 5\n1", 1)
        self.check("_", 5)

    def test_trailing_semicolon_is_still_a_value(self):
        self.check("1; 2;", 2)
