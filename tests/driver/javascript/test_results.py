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
        self.check("true", True, "true")
        self.check("0", 0, "0")
        self.check("null", None, "null")
        self.check("-1.5e300", -1.5e300)
        self.check("-0", -0.0, "-0")
        self.check("'é\\n\\x00\"'", 'é\n\x00"')
        self.check("({a: [1, {b: null}], '': [], __proto__: null})", {"a": [1, {"b": None}], "": []})
        self.check("[[], {}, '']", [[], {}, ""])

    def test_no_value_is_no_text(self):
        for code in ("undefined", "var x = 1", "", "// nothing", "if (true) {}", "console.log()", "void 0", "function f() {}"):
            done = self.kernel.execute(code)
            self.assertEqual((done["success"], done["result"], done["result_text"]), (True, None, None), code)

    def test_large_integers_and_special_numbers_are_strings_also_inside(self):
        self.check("2 ** 53 - 1", 2**53 - 1)
        self.check("[2 ** 53, -(2 ** 53), 1n, {n: 2n ** 70n}]", ["9007199254740992", "-9007199254740992", "1", {"n": str(2**70)}])
        self.check("[NaN, Infinity, -Infinity, 1.5]", ["NaN", "Infinity", "-Infinity", 1.5])
        self.check("2n ** 70n", str(2**70), f"{2**70}n")
        self.check("NaN", "NaN", "NaN")

    def test_anything_else_comes_as_its_printed_form(self):
        self.check("new Map([[1, 2]])", "Map(1) { 1 => 2 }", "Map(1) { 1 => 2 }")
        self.check("[1, , 3]", "[ 1, <1 empty item>, 3 ]")
        self.check("[undefined]", "[ undefined ]")
        self.check("({get a() { return 1 }})", "{ a: [Getter] }")
        self.check("class P { x = 1 }; new P()", "P { x: 1 }")
        self.check("new Date(0)", "1970-01-01T00:00:00.000Z")
        self.check("new Uint8Array(2)", "Uint8Array(2) [ 0, 0 ]")
        self.check("Symbol('s')", "Symbol(s)")
        self.check("x => x", "[Function (anonymous)]")
        self.check("({[Symbol('s')]: 1})", "{ [Symbol(s)]: 1 }")
        self.check("Object.assign([1], {extra: 2})", "[ 1, extra: 2 ]")
        self.check("new Proxy({a: 1}, {ownKeys() { for (;;); }})", "{ a: 1 }")
        self.check("({toJSON() { return 5 }})", "{ toJSON: [Function: toJSON] }")
        self.check("new String('x')", "[String: 'x']")
        self.check("[1, new Error('inside')].length", 2)

    def test_value_that_is_no_json_keeps_its_digits(self):
        done = self.kernel.execute("({n: 2n ** 70n, list: [9007199254740993n], f() {}, s: Symbol('tag')})")
        self.assertIn("1180591620717411303424", done["result"])
        self.assertIn("9007199254740993", done["result"])

    def test_lone_surrogate_is_replaced(self):
        self.check('"\\udead!"', "\ufffd!")
        self.check('({"\\ud800": ["\\udfff"]})', {"\ufffd": ["\ufffd"]})

    def test_self_reference_and_depth_are_harmless(self):
        self.check("const o = {name: 'loop', list: []}; o.self = o; o.list.push(o); o.name", "loop")
        self.check("o", "<ref *1> { name: 'loop', list: [ [Circular *1] ], self: [Circular *1] }")
        self.check("let n = 1; for (let i = 0; i < 100; i++) n = [n]; n", json.loads("[" * 100 + "1" + "]" * 100))
        self.check("n = [n]; n", "[ [ [ [Array] ] ] ]")
        self.check("for (let i = 0; i < 1e5; i++) n = [n]; n", "[ [ [ [Array] ] ] ]")

    def test_value_that_cannot_describe_itself_says_so(self):
        self.check(
            "({[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('no text for me') }, f() {}})",
            "[cannot be shown: no text for me]",
        )
        self.check("({get [Symbol.toStringTag]() { throw 5 }, f() {}}) && 1", 1)
        self.assert_usable()

    def test_text_is_cut_at_64_kib_and_json_kept_up_to_1_mib(self):
        done = self.kernel.execute("'é'.repeat(100000)")
        self.assertEqual(done["result"], "é" * 100000)
        self.assertEqual(done["result_text"], "'" + "é" * 32767)
        self.assertTrue(done["truncated"])
        done = self.kernel.execute("'x'.repeat(2 ** 20 - 2)")
        self.assertEqual(len(done["result"]), 2**20 - 2)

    def test_result_above_1_mib_is_null_and_says_so(self):
        for code in ("'x'.repeat(2 ** 20 - 1)", "'é'.repeat(600000)", "Array(600000).fill(0)", "'\\x00'.repeat(300000)", "'x'.repeat(3e7)"):
            done = self.kernel.execute(code)
            self.assertEqual((done["success"], done["result"], done["truncated"]), (True, None, True), code)
            self.assertLessEqual(len(done["result_text"].encode()), 65536)

    def test_shared_arrays_do_not_blow_up(self):
        done = self.kernel.execute("let n = 'x'.repeat(100); for (let i = 0; i < 15; i++) n = [n, n]; n")
        self.assertEqual((done["result"], done["truncated"]), (None, True))

    def test_last_value_is_underscore_but_undefined_is_not(self):
        self.run_all("6 * 7", "undefined", "var x = 1")
        self.check("_", 42)
        self.check("_ = 5; 1", 1)
        self.check("_", 5)
        self.check("const _ = 'mine'; _", "mine")
        self.run_all("7")
        self.check("_", "mine")

    def test_object_or_block(self):
        self.check("{ a: 1, b: 2 }", {"a": 1, "b": 2})
        self.check("{ var x = 4; x + 1 }", 5)
        self.check("x", 4)
        self.check("{}", {})
        self.check("// a comment\n/* and another */ {a: 1} // and one more", {"a": 1})
        self.check("{ let y = 1 }\n{ x }", 4)
        self.check("{a: 1}.a", 1)
        self.check("{ f() { return 1 } }.f()", 1)
        self.check("{ a: await Promise.resolve(3) }", {"a": 3})

    def test_comments_at_the_end(self):
        self.check("6 * 7 // the answer", 42)
        self.check("await Promise.resolve(6) // waited", 6)
        self.check("6 /* block */", 6)
        self.check("5 <!-- html", 5)

    def test_promises_are_awaited(self):
        self.check("Promise.resolve(77)", 77)
        self.check("(async () => ({a: 1}))()", {"a": 1})
        self.check("new Promise(r => setTimeout(r, 5, 'later'))", "later")
        self.check("[Promise.resolve(1)]", "[ Promise { 1 } ]")
        self.assertEqual(self.failure("Promise.reject(new TypeError('no'))")["name"], "TypeError")
        self.assert_printed("", "stderr")

    def test_value_is_the_same_whether_or_not_a_word_of_the_console_stands_in_the_code(self):
        self.kernel.execute("globalThis.throws = (it) => { throw it; }; globalThis.count = 0")
        for code in (
            "1 + 1", "-0", "0", "NaN", "-Infinity", "1e21", "12345678901234567890n", "'text'", "null", "undefined", "true", "Symbol('s')",
            "", ";", "x = 5", "x += 1; x -= 1", "if (x) 'yes'; else 'no'", "for (i of [1, 2]) i * 2", "label: { 1; break label; }",
            "[1, , 3]", "({ a: 1, b: [2] })", "{ a: 1 }", "{}", "this === globalThis", "typeof this", "(() => 7)()", "new Map([[1, 2]])",
            "Promise.resolve(8)", "Promise.reject(new Error('late'))", "new Promise((done) => setTimeout(done, 5, 9))",
            "missing", "null.field", "throws(new TypeError('t'))", "throws({ code: 1 })", "throws('text')", "throws(undefined)",
            "\n\n  throws(new Error('deep'))", "[1].map((it) => it.a.b)", "1 +", "'open", "return 1", "a b", "var_", "'use strict'; undeclared = 1",
            "arguments", "new.target", "yield_ = 1", "08", "`${1 + 1}`", "/a/.test('a')", "delete globalThis.x", "count += 1; 'counted'", "#!not", "<!-- old",
            "eval('1 + 1')", "Function('return 3')()", "_", "new Error('shown')", "throws(new AggregateError([new Error('in')], 'out'))",
        ):  # fmt: skip
            with self.subTest(code):
                self.assertEqual(self.shown(code), self.shown(f"{code}\n// let"))
        self.assertEqual(self.value("count"), 2)

    def shown(self, code):
        """All that a client sees of how code ended, but the number of the cell and where a mistake of syntax is."""
        done = self.kernel.execute(code)
        exception = done["exception"] or {}
        if exception.get("name") == "SyntaxError":
            del exception["traceback"]
        text = json.dumps([done[key] for key in ("success", "result", "result_text", "exception", "truncated")])
        return text.replace(f"<cell {self.kernel.executions}>", "<cell>")
