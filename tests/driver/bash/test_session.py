"""A session behaves like one long shell."""

import json
import os

from kernel import DriverCase


class Session(DriverCase):
    def test_state_is_kept(self):
        self.kernel.execute("x=1; declare -A map=([a]=b); f() { echo \"f $x\"; }; alias hi='echo alias'; cd /; export EXPORTED=e; shopt -s extglob; umask 027")
        self.assertEqual(
            self.output('echo $x ${map[a]} $PWD; f; hi; bash -c \'echo $EXPORTED\'; shopt -p extglob; umask; declare -p map'),
            ('1 b /\nf 1\nalias\ne\nshopt -s extglob\n0027\ndeclare -A map=([a]="b" )\n', ""),
        )

    def test_status_is_that_of_the_last_command(self):
        for code, status in ((":", 0), ("false", 1), ("(exit 255)", 255), ("nonesuch_command", 127), ("/", 126), ("false; true", 0), ("", 0), ("# nothing", 0), ("false | true", 0)):
            self.assertEqual(self.status(code), status, code)
        self.assertEqual(self.output("echo $?"), ("0\n", ""))
        self.kernel.execute("(exit 7)")
        self.assertEqual(self.output("echo $?"), ("7\n", ""))

    def test_results_are_null_and_failures_no_exceptions(self):
        done = self.kernel.execute("false")
        self.assertEqual((done["result"], done["result_text"], done["exception"], done["truncated"]), (None, None, None, False))

    def test_syntax_errors_are_named_and_harmless(self):
        self.kernel.execute("kept=yes")
        for code, message in (
            ('echo "unfinished', "unexpected EOF while looking for matching"),
            ("echo 'unfinished", "unexpected EOF while looking for matching"),
            ("echo $(unfinished", "unexpected EOF while looking for matching"),
            ("if true; then", "unexpected end of file"),
            ("for", "near unexpected token"),
            ("echo a )", "near unexpected token"),
            ("}", "near unexpected token `}'"),
            ("echo one\n}; echo escaped; {", "unexpected end of file"),
            ("fi; done; esac", "near unexpected token `fi'"),
            ("f() {", "unexpected end of file"),
            ("a=(1 2", "unexpected EOF while looking for matching"),
            ("echo ok |", "unexpected end of file"),
            ("case x in", "unexpected end of file"),
            ("((1 +", "unexpected EOF while looking for matching"),
        ):
            done = self.kernel.execute(code)
            self.assertFalse(done["success"], code)
            self.assertEqual(done["exception"]["name"], "SyntaxError", code)
            self.assertIn(message, done["exception"]["message"], code)
            self.assertEqual(self.output("echo $kept"), ("yes\n", ""), code)
        self.assertNotIn("escaped", self.kernel.stdout.text())

    def test_line_of_a_syntax_error_is_that_of_the_cell(self):
        done = self.kernel.execute("echo one\necho two\nfi")
        self.assertEqual(done["exception"]["message"], "line 3: syntax error near unexpected token `fi'")
        self.kernel.stderr.wait_for("bash: eval: line 3: syntax error near unexpected token `fi'\n")
        self.assertEqual(self.output("echo $LINENO\necho $LINENO"), ("1\n2\n", ""))
        self.kernel.execute("set -e; trap ':' DEBUG")
        self.assertEqual(self.output("echo $LINENO\necho $LINENO"), ("1\n2\n", ""))

    def test_here_document_without_an_end_is_read_to_the_end(self):
        out, err = self.output("cat <<EOF\nthe text\n}")
        self.assertEqual(out, "the text\n}\n")
        self.assertIn("delimited by end-of-file", err)
        self.assertEqual(self.output("cat <<'EOF'\n$x )\nEOF"), ("$x )\n", ""))

    def test_errexit_ends_the_execution_and_keeps_the_shell(self):
        self.assertEqual(self.status("set -e; KEEP=yes"), 0)
        self.assertEqual(self.output("false\necho not reached", 1), ("", ""))
        self.assertEqual(self.output("echo KEEP=$KEEP"), ("KEEP=yes\n", ""))
        self.assertEqual(self.output("f() { (exit 4); echo not; }; f; echo not", 4), ("", ""))
        self.assertEqual(self.output("x=$(exit 3); echo not", 3), ("", ""))
        self.assertEqual(self.output("if false; then :; fi; false || true; ! true; echo on"), ("on\n", ""))
        self.assertEqual(self.output("[ -f nonesuch ] && echo there", 1), ("", ""))
        self.assertEqual(self.output("(false; echo not); echo not", 1), ("", ""))
        self.assertEqual(self.output("echo ${-//[!e]} $KEEP; set +e; false; echo on"), ("e yes\non\n", ""))
        self.assertEqual(self.output("false; echo on"), ("on\n", ""))
        self.assertEqual(self.output("set -euo pipefail\nfalse | true\necho not", 1), ("", ""))
        self.assertEqual(self.output("set +eu; trap 'echo trapped' INT; set -e; false", 1), ("", ""))
        self.assertEqual(self.output("set +e; trap -p INT; trap - INT"), ("trap -- 'echo trapped' SIGINT\n", ""))

    def test_unset_variable_ends_the_execution(self):
        self.kernel.execute("set -u; kept=yes")
        self.assertEqual(self.output("echo $nope\necho not", 1), ("", "bash: nope: unbound variable\n"))
        self.assertEqual(self.output("echo $kept"), ("yes\n", ""))

    def test_exit_ends_the_shell_with_its_status(self):
        for code, status in (("exit 7", 7), ("exit", 0), ("false; exit", 1), ("sleep 5151 & exit 7", 7), ("f() { exit 3; }; f", 3), ("trap 'echo bye' EXIT; exit 4", 4), ("echo x | { read y; exit 5; }; exit 6", 6)):
            self.kernel = self.boot()
            self.kernel.start(code)
            self.assertIsNone(self.kernel.receive(), code)
            self.assertEqual(self.kernel.process.wait(10), status, code)
            self.kernel.close()
            self.assertEqual(self.kernel.stderr.text(), "", code)
        self.assertEqual(self.kernel.stdout.text(), "")

    def test_exit_of_a_subshell_is_its_own(self):
        self.assertEqual(self.status("(exit 3); x=$(exit 4); exit() { :; }; exit 9; unset -f exit"), 0)
        self.assert_usable()

    def test_exec_replaces_the_shell(self):
        self.kernel.start("exec bash -c 'echo replaced; exit 6'")
        self.assertIsNone(self.kernel.receive())
        self.assertEqual(self.kernel.process.wait(10), 6)
        self.kernel.stdout.wait_for("replaced\n")

    def test_return_and_break_outside(self):
        out, err = self.output("break; continue; echo on; return 3; echo after")
        self.assertEqual(out, "on\nafter\n")
        self.assertIn("break: only meaningful in a", err)
        self.assertIn("can only `return' from a function", err)
        self.assert_usable()

    def test_break_that_is_hidden_fails_and_harms_nothing_else(self):
        for word in ("break", "continue", "break 9"):
            with self.subTest(word):
                hidden = f"x={word[:3]}; eval \"${{x}}{word[3:]}\"; echo after"
                out, err = self.output(hidden, 1)
                self.assertEqual(out, "")
                self.assertIn("only meaningful in a", err)
                self.assert_usable()

    def test_loops_of_the_program_are_its_own(self):
        self.kernel.execute("f() { for i in 1 2; do for j in 1 2; do [[ $j != 2 ]] || continue 2; echo $i$j; done; done; }")
        self.assertEqual(self.status("declare x=1; while :; do break; done; (exit 4)"), 4)
        self.assertEqual(self.output("echo $? $x; f; while :; do break; done; echo $LINENO"), ("4 1\n11\n21\n1\n", ""))

    def test_jobs_that_are_over_are_forgotten(self):
        for _ in range(3):
            self.kernel.execute("true & wait $!; true & last=$!")
        self.kernel.execute("while kill -0 $last; do :; done 2>/dev/null")
        self.settle()
        self.assertEqual(self.output("jobs; wait $last; echo $?"), ("0\n", ""))

    def test_background_jobs(self):
        self.assertEqual(self.output("sleep 61 & echo started"), ("started\n", ""))
        self.assertEqual(self.output("jobs -r | wc -l; kill %1; wait %1 2>&240; echo $?"), ("1\n143\n", ""))
        self.assertEqual(self.output("(sleep 0.1; exit 5) & wait $!", 5), ("", ""))
        self.assertEqual(self.output("true & true & wait; jobs"), ("", ""))
        self.kernel.execute("(sleep 0.2; echo late) &")
        self.kernel.stdout.wait_for("late\n")

    def test_program_cannot_hold_or_see_the_drivers_descriptors(self):
        self.assertEqual(self.output("ls /proc/self/fd | tr '\\n' ' '"), ("0 1 2 3 ", ""))
        self.assertEqual(self.output("exec 10>ten 11<ten; echo text >&10"), ("", ""))
        self.assertEqual(self.output("cat <&11; exec 10>&- 11<&-"), ("text\n", ""))

    def test_history_is_not_written(self):
        self.kernel.execute("x=1")
        self.kernel.close()
        self.assertEqual(os.listdir(self.cwd), [])

    def test_infinite_recursion_is_named(self):
        out, err = self.output("f() { f; }; f", 1)
        self.assertIn("maximum function nesting level exceeded", err)
        self.assert_usable()
        self.assertIn("nesting", self.output("g() { local x=$1; if true; then for i in 1; do eval 'g a b c'; done; fi; }; g", 1)[1])
        self.assert_usable()

    def test_text_like_the_protocols_is_text(self):
        marker = json.dumps({"t": "done", "m": 9, "n": 1, "success": True})
        self.assertEqual(self.output(f"printf 'no newline'; echo '00000010{marker}'; false", 1), (f"no newline00000010{marker}\n", ""))
