"""Completion, documentation, and whether an input is finished."""

from kernel import DriverCase


class Query(DriverCase):
    def complete(self, code, cursor=None):
        body = self.kernel.query("complete", code, len(code) if cursor is None else cursor)
        return body["matches"], body["cursor_start"], body["cursor_end"]

    def status(self, code):
        body = self.kernel.query("is_complete", code)
        return body["status"], body["indent"]

    def test_names_and_properties_are_completed(self):
        self.value("const myLexical = 1; var myVar = {alpha: 1, alter: 2}; function myFunction() {}")
        self.assertEqual(sorted(self.complete("my")[0]), ["myFunction", "myLexical", "myVar"])
        self.assertEqual(self.complete("x + myVar.al"), (["alpha", "alter"], 10, 12))
        self.assertEqual(self.complete("myVar?.alp"), (["alpha"], 7, 10))
        self.assertEqual(self.complete("Math.ab + 1", 7), (["abs"], 5, 7))
        self.assertIn("padStart", self.complete("'abc'.")[0])
        self.assertIn("readFileSync", self.complete("fs.readF")[0])
        self.assertIn("function", self.complete("func")[0])
        self.assertLessEqual(len(self.complete("")[0]), 500)

    def test_cursors_count_code_points(self):
        self.value("var größe = 1")
        self.assertEqual(self.complete("'😀😀'; grö"), (["größe"], 6, 9))

    def test_nothing_is_completed_in_comments_strings_and_calls(self):
        for code in ("// pro", "/* pro", "'pro", "`pro", "f().x", "1"):
            self.assertEqual(self.complete(code)[0], [], code)

    def test_questions_run_no_code_of_the_user(self):
        self.value("var touched = 0; var o = {get trap() { touched++; return {inner: 1} }, loop: new Proxy({}, {get() { for (;;); }, ownKeys() { for (;;); }})}")
        self.assertEqual(self.complete("o.trap.in")[0], [])
        self.assertEqual(self.complete("o.loop.in")[0], [])
        self.assertEqual(self.kernel.query("inspect", "o.trap", 6)["found"], False)
        self.assertEqual(self.kernel.query("inspect", "o.loop", 6)["found"], True)
        self.assertEqual(self.kernel.query("inspect", "o", 1)["found"], True)
        self.assertEqual(self.value("touched"), 0)

    def test_documentation(self):
        self.value("function add(a, b = 2) { return a + b } class Box extends Map {} const n = 5; var list = {k: 'v'}")
        inspect = lambda code, cursor: self.kernel.query("inspect", code, cursor)["data"]["text/plain"]
        self.assertEqual(inspect("1 + add(1)", 5), "function add(a, b = 2)\n\nfunction add(a, b = 2) { return a + b }")
        self.assertTrue(inspect("add(", 4).startswith("function add"))
        self.assertTrue(inspect("Box", 3).startswith("class Box extends Map"))
        self.assertEqual(inspect("n", 1), "number\n\n5")
        self.assertIn('k: "v"', inspect("list", 2))
        self.assertIn("[native code]", inspect("Math.max", 8))
        for code in ("nope", "", " ", "a.b", "'s'"):
            self.assertEqual(self.kernel.query("inspect", code, len(code)), {"found": False, "data": {}}, code)

    def test_finished_and_unfinished_input(self):
        for code in ("1 + 1", "", "{ a: 1 }", "await x", "import x from 'y'", "function f() {}", "// c", "for (;;) {}"):
            self.assertEqual(self.status(code), ("complete", ""), code)
        for code, indent in (("function f() {", "  "), ("if (x) {\n  f([", "      "), ("{ a: 1,", "  "), ("`abc", ""), ("/* c", ""), ("x +", ""), ("if (x)", ""), ("let x =", ""), ("try {}", ""), ("f(", "  ")):
            self.assertEqual(self.status(code), ("incomplete", indent), code)
        for code in ("x = = 3", ")", "'abc", "let 5", "a b", "return 5"):
            self.assertEqual(self.status(code), ("invalid", ""), code)

    def test_code_in_parts(self):
        for i, text in enumerate(("Math", ".sqr")):
            self.kernel.send(t="part", n=1 << 33, i=i, s=text)
            self.kernel.receive()
        self.kernel.send(t="query", n=1 << 33, kind="complete", parts=2, cursor=8)
        self.assertEqual(self.kernel.receive()["body"]["matches"], ["sqrt"])
