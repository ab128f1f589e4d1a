"""Completion, documentation, and whether code is complete."""

import os
import pathlib

from kernel import DriverCase


class Queries(DriverCase):
    def setUp(self):
        super().setUp()
        self.n = 2**32
        os.mkdir(f"{self.cwd}/sub")
        pathlib.Path(f"{self.cwd}/süß.txt").touch()
        self.kernel.execute("myvar=3; declare -A mymap=([a]=b); myfun() { echo hi; }; alias myalias=ls; kept=yes")

    def ask(self, kind, code, cursor=None):
        self.n += 1
        question = {"t": "query", "n": self.n, "kind": kind, "code": code}
        if cursor is not None:
            question["cursor"] = cursor
        self.kernel.send(**question)
        answer = self.kernel.receive()
        self.assertEqual((answer["t"], answer["n"]), ("reply", self.n))
        return answer["body"]

    def complete(self, code, cursor=None):
        body = self.ask("complete", code, len(code) if cursor is None else cursor)
        return [code[: body["cursor_start"]] + match + code[body["cursor_end"] :] for match in body["matches"]]

    def test_commands_functions_and_keywords(self):
        self.assertEqual(self.complete("myf"), ["myfun"])
        self.assertEqual(self.complete("é; myfu"), ["é; myfun"])
        self.assertEqual(self.complete("x=$(myfu"), ["x=$(myfun"])
        self.assertEqual(self.complete("if myfu"), ["if myfun"])
        self.assertEqual(self.complete("ls | myal x", 9), ["ls | myalias x"])
        self.assertIn("printf", self.complete("print"))
        self.assertEqual(self.complete("untila"), [])
        self.assertEqual(len(self.ask("complete", "", 0)["matches"]), 500)

    def test_variables(self):
        self.assertEqual(self.complete("echo $myv"), ["echo $myvar"])
        self.assertEqual(self.complete('echo "${mym'), ['echo "${mymap'])
        self.assertEqual(self.complete("echo $__repl"), [])

    def test_files(self):
        self.assertEqual(self.complete("cat s"), ["cat sub/", "cat süß.txt"])
        self.assertEqual(self.complete("cat <sü"), ["cat <süß.txt"])
        self.assertEqual(self.complete("ls /usr/bi"), ["ls /usr/bin/"])

    def test_inspection(self):
        def text(code, cursor):
            body = self.ask("inspect", code, cursor)
            return body["data"]["text/plain"] if body["found"] else None

        self.assertIn("echo hi", text("myfun x", 2))
        self.assertEqual(text("echo $myvar", 8), 'declare -- myvar="3"')
        self.assertIn('([a]="b" )', text("mymap", 5))
        self.assertIn("Change the shell working directory.", text("cd /", 1))
        self.assertIn("ls", text("myalias", 3))
        self.assertIsNone(text("nonesuch", 3))
        self.assertIsNone(text("a  b", 2))
        self.kernel.execute("long=$(printf '%0100000d' 0); binary=$'\\xff\\x01\\xe2\\x82'")
        self.assertEqual(len(text("long", 1)), 65536)
        self.assertIn("binary", text("binary", 1))

    def test_completeness(self):
        for status, codes in {
            "complete": ("", "echo hi", "# c", "if true; then :; fi", "cat <<EOF\nx\nEOF", "f() { :; }", "a=(1 2)"),
            "incomplete": ("if true; then", 'echo "a', "echo 'a", "echo |", "a &&", "echo a \\", "cat <<EOF\nx", "for i in 1; do", "f() {", "case x in", "x=$(", "((1+", "a=(1 2", "{ echo", "( echo"),
            "invalid": ("fi", "}", "echo; }", "echo )", "if; then", "a | | b", "x=$( ) )"),
        }.items():
            for code in codes:
                body = self.ask("is_complete", code)
                self.assertEqual(body["status"], status, code)
                self.assertEqual(body["indent"], "    " if status == "incomplete" else "")

    def test_questions_run_nothing(self):
        for code in ("}; touch evil; kept=no; {", "touch evil", "}\ntouch evil\nf() {", "$(touch evil)", "}; while ((1)); do ((1)); done; {", "} >evil; {"):
            self.ask("is_complete", code)
            self.ask("complete", code, len(code))
            self.ask("inspect", code, 3)
        self.assertEqual(self.output("echo $kept; ls"), ("yes\nsub\nsüß.txt\n", ""))

    def test_questions_change_nothing(self):
        self.kernel.execute("[[ ab =~ a(b) ]]; REPLY=mine; (exit 3)")
        for kind in ("is_complete", "complete", "inspect"):
            self.ask(kind, "echo", None if kind == "is_complete" else 2)
        self.assertEqual(self.output("echo $? $REPLY ${BASH_REMATCH[1]} $kept"), ("3 mine b yes\n", ""))

    def test_code_in_parts(self):
        self.kernel.send(t="part", n=self.n + 1, i=0, s="if true")
        self.kernel.receive()
        self.kernel.send(t="query", n=self.n + 1, kind="is_complete", parts=1)
        self.assertEqual(self.kernel.receive()["body"]["status"], "incomplete")
