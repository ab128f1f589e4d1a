"""Settings of the user's that change what the shell does: the driver must not be hurt, and must not show."""

import contextlib

from kernel import DriverCase

# Each is followed by an execution that must work and be clean.
HARMLESS = (
    "PS1='prompt$(echo x) '; PS2='> '; PS0='zero'; PS4='four '",
    "PROMPT_COMMAND='echo prompt'",
    "PROMPT_COMMAND=('echo one' 'echo two')",
    "PROMPT_COMMAND=exit",
    "trap 'echo exit' EXIT",
    "trap 'echo err' ERR",
    "trap 'echo int' INT",
    "trap '' INT TERM HUP",
    "trap 'echo return' RETURN",
    "trap 'echo chld' CHLD; trap - CHLD",
    "shopt -s extdebug; set -T; set -E",
    "set -u",
    "set -f; set -C; set -k; set -h; set +B",
    "set -a",
    "set -e",
    "set -o pipefail; set -b; set -P",
    "set -n",
    "set -H",
    "set -o posix",
    "POSIXLY_CORRECT=1",
    "set -o vi; set -o emacs",
    "set -o ignoreeof; IGNOREEOF=3",
    "IFS=; IFS=0123456789; IFS=abet",
    "unset IFS",
    "LC_ALL=C.UTF-8 LANG=C LANGUAGE=de",
    "LC_ALL=POSIX",
    "BASH_ENV=/nonexistent ENV=/nonexistent; export BASH_ENV ENV",
    "TMOUT=1; sleep 0",
    "FUNCNEST=1",
    "unset FUNCNEST PS1 PS4",
    "readonly PS1 FUNCNEST",
    "readonly __repltool_mine=1 line code rest frame status n",
    "declare -i n; declare -u code; declare -r rest=1; declare -n frame=rest",
    "alias read=false printf=false builtin=false eval=false set=false trap=false if=false local=false",
    "read() { echo hijacked; }; printf() { echo hijacked; }; local() { echo hijacked; }; return() { echo hijacked; }",
    "eval() { echo hijacked; }; exec() { echo hijacked; }; exit() { echo hijacked; }; unset() { echo hijacked; }",
    "set() { echo hijacked; }; trap() { echo hijacked; }; declare() { echo hijacked; }; source() { echo hijacked; }",
    "builtin() { echo hijacked; }",
    "builtin() { command builtin \"$@\"; }",
    "command() { echo hijacked; }; test() { echo hijacked; }; kill() { echo hijacked; }; shopt() { echo hijacked; }",
    "enable -n read printf eval trap set local kill",
    "unset -f __repltool_receive; unset -f __repltool_next",
    "__repltool_receive() { echo mine; }",
    "unset -v __repltool_end __repltool_cycle __repltool_home",
    "hash -r; hash -p /bin/false echo_not; set +h",
    "ulimit -c 0; ulimit -n 300; umask 777",
    "shopt -s nocasematch nocaseglob nullglob failglob dotglob extglob globstar localvar_inherit localvar_unset lastpipe",
    "shopt -u expand_aliases promptvars sourcepath interactive_comments patsub_replacement; shopt -s xpg_echo assoc_expand_once",
    "shopt -s compat50; BASH_COMPAT=4.2",
    "shopt -s inherit_errexit; shopt -s checkjobs; shopt -s huponexit; shopt -s execfail",
    "set -- a b c; shift; OPTIND=9; REPLY=mine",
    "set -m",
    "HISTFILE=$PWD/history; set -o history",
    "stty sane",
    "cd /; PWD=/nonexistent; unset PWD HOME PATH; PATH=/usr/bin:/bin",
    "exec 3>&1 10>&2 20</dev/null",
    "nice=1; renice -n 5 $$ >/dev/null",
    "mkdir gone; cd gone; rmdir ../gone",
)

TRACED = (
    ("set -x", "+++ echo x\n"),
    ("PS4='> '; set -x", ">>> echo x\n"),
    ("set -v", "echo x\n"),
)

# After these the shell ends, with a status that tells of a fault, or works.
FATAL = (
    "enable -n builtin",
    "enable -n enable",
    "readonly __repltool",
    "unset __repltool",
    "__repltool=()",
    "readonly PROMPT_COMMAND",
    "readonly LC_ALL=C.UTF-8",
    "builtin() { :; }; readonly -f builtin",
    "shopt -s extdebug; trap false DEBUG",
    "exec 241>&-",
    "exec 243>&- 244>&-",
    "exec 245<&-",
    "exec 240>&-",
    "ulimit -n 20",
    "ulimit -n 5",
    "set -r",
    "set -t",
)


class Settings(DriverCase):
    def test_harmless_settings_neither_show_nor_hurt(self):
        for setting in HARMLESS:
            with self.subTest(setting):
                self.kernel = self.boot()
                self.kernel.execute(setting)
                self.settle()
                out = [self.output("/bin/echo x | /bin/cat; /bin/echo \"$((6 * 7))\""), self.output("! true; (true)")]
                self.assertEqual([text for _, text in out], ["", ""])
                if "RETURN" not in setting and "ERR" not in setting:
                    self.assertEqual([text for text, _ in out], ["x\n42\n", ""])
                self.kernel.close()

    def test_traces_show_the_users_commands_alone(self):
        for setting, trace in TRACED:
            with self.subTest(setting):
                self.kernel = self.boot()
                self.kernel.execute(setting)
                self.assertEqual(self.output("echo x")[0], "x\n")
                self.assertTrue(self.kernel.stderr.text().startswith(trace), self.kernel.stderr.text())
                self.assertNotIn("__repltool", self.kernel.stderr.text())

    def test_driver_exports_nothing(self):
        self.kernel.execute("set -a")
        self.kernel.execute("false")
        self.assertEqual(self.output("env | grep -c repltool; set +a", 0), ("0\n", ""))
        self.assertEqual(self.output("env | grep -c repltool || true"), ("0\n", ""))

    def test_aliases_of_keywords_are_the_programs_alone_after_an_interrupt(self):
        self.kernel.execute("shopt -s expand_aliases; alias if=false until=false then=false eval=false")
        self.kernel.start("while :; do :; done")
        self.kernel.interrupt_until_done()
        self.assertEqual(self.output("if; echo $?; unalias -a"), ("1\n", ""))
        self.assertEqual(self.output("if true; then echo x; fi"), ("x\n", ""))

    def test_debug_trap_sees_the_users_commands_alone(self):
        self.kernel.execute("trap 'echo \"$BASH_COMMAND\"' DEBUG")
        self.kernel.execute("true")
        self.kernel.execute("echo end; trap - DEBUG")
        self.settle()
        self.assertEqual(self.output(":"), ("", ""))
        self.assertEqual(self.kernel.stdout.text().split("[")[0], "true\necho end\nend\ntrap - DEBUG\n")

    def test_settings_are_still_there_in_the_next_execution(self):
        for setting, question, answer in (
            ("set -aefukCTE -o posix -o pipefail", "\\builtin echo $-", "aefhikuBCETs"),
            ("shopt -s nocasematch extdebug localvar_inherit", "shopt -p nocasematch extdebug localvar_inherit", "shopt -s nocasematch\nshopt -s extdebug\nshopt -s localvar_inherit"),
            ("trap 'a b' EXIT; trap 'c' INT; trap -- '' TERM", "trap", "trap -- 'a b' EXIT\ntrap -- 'c' SIGINT\ntrap -- '' SIGTERM"),
            ("trap $'echo 1\\ntrap -- \\'x\\' QUIT' RETURN", "trap -p RETURN", "trap -- 'echo 1\ntrap -- '\\''x'\\'' QUIT' RETURN"),
            ("PROMPT_COMMAND=(a 'b c'); PS1='$ '; FUNCNEST=77", 'echo "${PROMPT_COMMAND[1]}$PS1$FUNCNEST"', "b c$ 77"),
            ("IFS=xyz LC_ALL=C.UTF-8", 'declare -p IFS LC_ALL', 'declare -- IFS="xyz"\ndeclare -- LC_ALL="C.UTF-8"'),
            ("builtin() { command builtin \"$@\"; }; eval() { :; }", "declare -F builtin eval", "builtin\neval"),
            ("POSIXLY_CORRECT=", "shopt -po posix; declare -p POSIXLY_CORRECT", 'set -o posix\ndeclare -- POSIXLY_CORRECT="y"'),
            ("REPLY=r; declare -n ref=REPLY; set -- 1 '2 3'", 'echo "$REPLY $ref $2"', "r r 2 3"),
        ):
            with self.subTest(setting):
                self.kernel = self.boot()
                self.kernel.execute(setting)
                for _ in range(2):
                    text = self.output(question)[0].strip()
                    self.assertEqual(sorted(text) if answer.isalpha() else text, sorted(answer) if answer.isalpha() else answer)

    def test_driver_that_is_broken_ends_or_works_but_never_lies(self):
        for setting in FATAL:
            with self.subTest(setting):
                self.kernel = self.boot()
                self.kernel.start(setting)
                with contextlib.suppress(BrokenPipeError):  # it has ended already
                    self.kernel.send(t="exec", n=2, count=2, code="(exit 9)", stdin="none")
                while (message := self.kernel.receive()) is not None:
                    self.assertEqual(message["t"], "done")
                    if message["n"] == 2:
                        self.assertEqual(message["exit_code"], 9)
                        break
                else:
                    self.assertIsNotNone(self.kernel.process.wait(10))
                self.kernel.close()
