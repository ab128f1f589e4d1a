"""Completion, documentation and "is this input finished?"."""

import json

from kernel import DriverCase

FIRST_QUERY = 1 << 32


class Queries(DriverCase):
    def setUp(self):
        super().setUp()
        self.queries = FIRST_QUERY

    def ask(self, kind, code, cursor=None):
        """Asks with the cursor at the end of the code, or at its "|"."""
        if cursor is None:
            cursor = code.index("|") if "|" in code else len(code)
            code = code.replace("|", "")
        self.queries += 1
        self.kernel.send(t="query", n=self.queries, kind=kind, code=code, cursor=cursor)
        reply = self.kernel.receive()
        self.assertEqual((reply["t"], reply["n"]), ("reply", self.queries))
        return reply["body"]

    def matches(self, code):
        return self.ask("complete", code)["matches"]

    def text(self, code):
        body = self.ask("inspect", code)
        self.assertTrue(body["found"], code)
        return body["data"]["text/plain"]

    def status(self, code):
        body = self.ask("is_complete", code, 0)
        return body["status"], body["indent"]

    def test_names_of_the_session_builtins_and_keywords(self):
        self.kernel.execute("property_tax = 1\n_private = 2")
        self.assertEqual(self.ask("complete", "x = (prop|erty"), {"matches": ["property", "property_tax"], "cursor_start": 5, "cursor_end": 9})
        self.assertEqual(self.matches("whi"), ["while"])
        self.assertEqual(self.matches("_priv"), ["_private"])
        self.assertEqual(self.matches("nothing_like_it"), [])
        self.assertEqual([name for name in self.matches("") if name.startswith("_")], [])

    def test_cursors_count_code_points(self):
        self.kernel.execute("größe = 1")
        self.assertEqual(self.ask("complete", "'😀' + grö"), {"matches": ["größe"], "cursor_start": 6, "cursor_end": 9})
        self.assertEqual(self.ask("complete", "gr", 99)["cursor_end"], 2)

    def test_attributes_without_running_properties(self):
        self.kernel.execute(
            "class A:\n    kind = 'a'\n    def method(self): pass\n    @property\n    def costly(self): print('ran')\n    def __getattr__(self, name): print('ran', name)\n"
            "a = A()\na.own = {'k': [a]}\nclass B: __slots__ = ('slot',)\nb = B(); b.slot = a"
        )
        self.assertEqual(self.matches("a."), ["costly", "kind", "method", "own"])
        self.assertEqual(self.matches("a.kind.upp"), ["upper"])
        self.assertEqual(self.matches("a.own['k'][0].met"), ["method"])
        self.assertEqual(self.matches("b.slot.me"), ["method"])
        self.assertEqual(self.matches("a.costly.real"), [])
        self.assertEqual(self.matches("a.unknown.x"), [])
        self.assertEqual(self.matches("a.method().x"), [])
        self.assertEqual(self.matches("a.__cla"), ["__class__"])
        self.assert_printed("")

    def test_attributes_of_literals_and_in_the_middle_of_code(self):
        for code, match in (
            ("'abc'.upp", "upper"),
            ('f"{x}".upp', "upper"),
            ("b'x'.hex", "hex"),
            ("[1, (2)].app", "append"),
            ("{}.setd", "setdefault"),
            ("{1}.uni", "union"),
            ("print('(', str.capi|, 5)", "capitalize"),
            ("if x:\n    y = [str.capi", "capitalize"),
            ("x = 1; str.capi", "capitalize"),
            ("'''a\n\"'''.upp", "upper"),
            ("not str.capi", "capitalize"),
        ):
            self.assertEqual(self.matches(code)[:1], [match], code)

    def test_nothing_is_offered_in_strings_comments_and_numbers(self):
        for code in ("'pri", "# pri", "x = 1  # pri", '"""\npri', "12", "1e", "f('pri"):
            self.assertEqual(self.matches(code), [], code)

    def test_modules_and_their_names(self):
        self.assertIn("json", self.matches("import js"))
        self.assertIn("json", self.matches("import os, js"))
        self.assertIn("json", self.matches("x = 1; from js"))
        self.assertEqual(self.matches("import xml.et"), ["etree"])
        self.assertEqual(self.matches("from os import pathc"), ["pathconf", "pathconf_names"])
        self.assertEqual(self.matches("from os.path import (join, dirn"), ["dirname"])
        self.assertIn("minidom", self.matches("from xml.dom import m"))
        self.assertEqual(self.matches("from nowhere import x"), [])
        self.assertIn("sys", self.matches("import sy"))

    def test_module_that_is_not_loaded_is_read_and_not_run(self):
        self.value("open('mine.py', 'w').write('print(\"ran\")\\ndef mine_function(): pass\\nmine_value, (mine_other, _) = 1, (2, 3)\\nimport os as mine_os\\nif x:\\n    mine_too = 1\\n')")
        self.assertEqual(self.matches("import min"), ["mine"])
        self.assertEqual(self.matches("from mine import mine_"), ["mine_function", "mine_os", "mine_other", "mine_too", "mine_value"])
        self.assertEqual(self.value("import sys\n'mine' in sys.modules"), False)
        self.assert_printed("")

    def test_keys_of_mappings(self):
        self.kernel.execute("d = {'apple': 1, 'apricot': {'in': 1}, 5: 2, 'it\\'s': 3, 'b\\n': 4}\nclass D(dict):\n    def keys(self): print('ran')\ne = D(x=1)\nclass K:\n    def _ipython_key_completions_(self): return ['key', 7]\nk = K()")
        self.assertEqual(self.ask("complete", 'd["ap|"]'), {"matches": ["apple", "apricot"], "cursor_start": 3, "cursor_end": 5})
        self.assertEqual(self.matches("d['"), ["apple", "apricot"])
        self.assertEqual(self.matches('d["i'), ["it's"])
        self.assertEqual(self.matches("d['apricot']['"), ["in"])
        self.assertEqual(self.matches("print(d[ 'app"), ["apple"])
        self.assertEqual(self.matches("e['"), ["x"])
        self.assertEqual(self.matches("k['"), ["key"])
        self.assertEqual(self.matches("d['x', 'ap"), [])
        self.assertEqual(self.matches("['ap"), [])
        self.assert_printed("")

    def test_columns_of_tables(self):
        self.assertTrue(self.kernel.execute("import pandas\ndf = pandas.DataFrame({'first': [1], 'second col': [2]})")["success"], "Debian's package python3-pandas is needed")
        self.assertEqual(self.matches("df['"), ["first", "second col"])
        self.assertIn("first", self.matches("df.fir"))

    def test_parameters_of_calls(self):
        self.kernel.execute("def f(name, /, nation=1, *args, north, **kw): pass\nclass C:\n    def __init__(self, width, *, height=2): pass")
        self.assertEqual(self.matches("f(n"), ["nation=", "north=", "next", "nonlocal", "not"])
        self.assertEqual(self.matches("f(1, [2, 3], no")[0], "north=")
        self.assertEqual(self.matches("C(wid"), ["width="])
        self.assertEqual(self.matches("C(1 + wid"), [])
        self.assertEqual(self.matches("C(width=wid"), [])
        self.assertEqual(self.matches("'x'.split(se")[0], "sep=")
        self.assertEqual(self.matches("g(wid"), [])

    def test_matches_have_limits(self):
        self.kernel.execute("for i in range(1000): globals()[f'many_{i:04}'] = i\nfor i in range(100): globals()[f'long_{i:02}' + 'x' * 5000] = i\nglobals()['\\ud800odd'] = 1; globals()[5] = 2")
        self.assertEqual(len(self.matches("many_")), 500)
        self.assertEqual(len(self.matches("long_")), 13)
        self.assertLess(len(json.dumps(self.ask("complete", "long_"))), 65536)

    def test_documentation_of_what_the_cursor_is_on(self):
        self.kernel.execute("def f(a, b=2):\n    '''Doc of f.'''\nclass A:\n    @property\n    def p(self):\n        'doc of p'\n        print('ran')\na = A()\nx = 5")
        for code in ("f", "f?", "f??", "|f(1)", "f|(1)", "f(|)", "f(1, [2|", "y = f|"):
            self.assertIn("Signature: f(a, b=2)\nType: function\nDocumentation:\nDoc of f.", self.text(code), code)
        self.assertIn("Return the number of items", self.text("print(len|(x))"))
        self.assertIn("doc of p", self.text("a.p"))
        self.assertEqual(self.text("x")[:17], "Type: int\nValue: ")
        for code in ("", "unknown", "# f", "a.missing", "f().x", "if", "'f|'"):
            self.assertEqual(self.ask("inspect", code), {"found": False, "data": {}}, code)
        self.assert_printed("")

    def test_documentation_has_a_limit_and_may_be_strange(self):
        self.kernel.execute("def f(): pass\nf.__doc__ = 'é' * 100000\nclass A: __doc__ = 5\nclass B:\n    @property\n    def __doc__(self): raise OSError\n    __signature__ = 7\n    def __call__(self): pass\nb = B()")
        self.assertLessEqual(len(self.text("f").encode()), 65536)
        self.assertEqual(self.text("A").split("\n")[-1], "Type: type")
        self.assertEqual(self.text("b"), "Type: B")

    def test_whether_an_input_is_finished(self):
        for code, expected in {
            "1 + 1": ("complete", ""),
            "": ("complete", ""),
            "# only a comment": ("complete", ""),
            "for i in x: print(i)": ("complete", ""),
            "await f()": ("complete", ""),
            "async with a as b:\n    await c\n": ("complete", ""),
            "x = '\\d'": ("complete", ""),
            "x is 1": ("complete", ""),
            "f(1,\n  2)": ("complete", ""),
            "x = '''a\n  b'''": ("complete", ""),
            "if x:": ("incomplete", "    "),
            "if x:  # why": ("incomplete", "    "),
            "if x:\n    y": ("incomplete", "    "),
            "if x:\n    y\n": ("complete", ""),
            "if x:\n    y\n    ": ("complete", ""),
            "def f():\n    return 1": ("incomplete", ""),
            "class A:\n  def f(self):": ("incomplete", "      "),
            "try:\n    x": ("incomplete", "    "),
            "@decorator": ("incomplete", ""),
            "f(": ("incomplete", "    "),
            "x = [\n    1,": ("incomplete", "    "),
            "x = '''abc": ("incomplete", ""),
            "x = 1 + \\": ("incomplete", "    "),
            "x = 'abc": ("invalid", ""),
            "a b": ("invalid", ""),
            "else:": ("invalid", ""),
            "return 1": ("invalid", ""),
            "x = )": ("invalid", ""),
            "\x00": ("invalid", ""),
        }.items():
            self.assertEqual(self.status(code), expected, code)
        self.assert_printed("", "stderr")

    def test_future_statements_of_the_session_count(self):
        self.assertEqual(self.status("1 <> 2")[0], "invalid")
        self.kernel.execute("from __future__ import barry_as_FLUFL")
        self.assertEqual(self.status("1 <> 2")[0], "complete")

    def test_queries_change_nothing(self):
        before = self.value("x = 41\nsorted(globals())")
        for kind in ("complete", "inspect", "is_complete"):
            self.ask(kind, "x = 1; y = input()")
        self.assertEqual(self.value("sorted(globals())"), before)
        self.assertEqual(self.value("x + 1"), 42)
        self.assertEqual(self.value("_"), 42)

    def test_query_comes_in_parts_too(self):
        for i, piece in enumerate(("'" + "x" * 60000, "'.upp")):
            self.kernel.send(t="part", n=FIRST_QUERY, i=i, s=piece)
            self.assertEqual(self.kernel.receive(), {"t": "part", "n": FIRST_QUERY, "i": i})
        self.kernel.send(t="query", n=FIRST_QUERY, kind="complete", parts=2, cursor=60006)
        self.assertEqual(self.kernel.receive()["body"], {"matches": ["upper"], "cursor_start": 60003, "cursor_end": 60006})

    def test_hostile_objects_give_no_answer_and_no_harm(self):
        self.kernel.execute(
            "class Bad:\n    def __dir__(self): raise OSError\nbad = Bad(); bad.x = 1\n"
            "class Worse:\n    def __dir__(self): raise SystemExit\nworse = Worse()\n"
            "class Odd:\n    def __dir__(self): return [1, 'ok', None]\nodd = Odd()"
        )
        self.assertEqual(self.matches("bad.x"), ["x"])
        self.assertEqual(self.ask("complete", "worse."), {"matches": [], "cursor_start": 6, "cursor_end": 6})
        self.assertEqual(self.matches("odd."), ["ok"])
        self.assertEqual(self.matches("(" * 5000), self.matches("((((("))
        self.assertEqual(self.ask("is_complete", "(" * 5000)["status"] in ("invalid", "incomplete"), True)
        self.kernel.execute("import sys\nsys.setrecursionlimit(60)")
        self.assertEqual(self.status("1"), ("complete", ""))
        self.assertEqual(self.ask("complete", "prin")["cursor_end"], 4)
        self.assert_usable()

    def test_query_can_be_interrupted(self):
        self.kernel.execute("class Slow:\n    def __dir__(self):\n        print('go')\n        while True: pass\nslow = Slow()")
        self.kernel.send(t="query", n=FIRST_QUERY, kind="complete", code="slow.", cursor=5)
        self.kernel.stdout.wait_for("go")
        self.kernel.interrupt()
        self.assertEqual(self.kernel.receive()["body"], {"matches": [], "cursor_start": 5, "cursor_end": 5})
        self.kernel.hello()
        self.assert_usable()

    def test_files_of_the_user_cannot_answer_queries(self):
        self.value("for name in ('inspect', 'keyword', 'pkgutil', 'ast', 'codeop', 're', 'warnings'):\n    open(name + '.py', 'w').write('raise RuntimeError(1)')\nimport sys\nsys.path.insert(0, '')")
        self.assertEqual(self.matches("whi"), ["while"])
        self.assertIn("Signature", self.text("len"))
        self.assertEqual(self.status("if x:"), ("incomplete", "    "))
