"""Output, standard input and descriptors."""

import os

from kernel import DriverCase


class Output(DriverCase):
    def test_output_of_children_is_in_its_place(self):
        self.assertEqual(self.output("echo before; /bin/echo child; (echo sub); echo after; echo err >&2"), ("before\nchild\nsub\nafter\n", "err\n"))

    def test_bytes_pass_untouched(self):
        self.kernel.execute(r"printf '\xe2\x82'; sleep 0.05; printf '\xac and \xf0\x9f'; printf '\x98\x80\n\r\033[1m\x00\xff'")
        self.kernel.stdout.wait_until(lambda data: data == "€ and 😀\n\r\033[1m\0".encode() + b"\xff")

    def test_large_output_is_complete(self):
        self.kernel.execute("for ((i = 0; i < 20000; i++)); do echo row $i; done; head -c 3000000 /dev/zero | tr '\\0' z; echo END")
        self.kernel.stdout.wait_for("END\n")
        text = self.kernel.stdout.text()
        self.assertTrue(text.startswith("".join(f"row {i}\n" for i in range(20000))))
        self.assertEqual(text.count("z"), 3000000)

    def test_redirections_of_the_shell_do_not_silence_it(self):
        for code in ("exec >file", "exec 2>file", "exec >&- 2>&- <&-", "exec </dev/null", "exec >/dev/full", "exec 2>&1", "exec >/dev/stdout"):
            self.kernel.execute(code)
            self.assertEqual(self.output("echo out; echo err >&2"), ("out\n", "err\n"), code)
        self.assertEqual(self.output("exec >file; echo into; exec >/dev/null; cat file >&2"), ("", "into\n"))

    def test_other_descriptors_of_the_user_stay(self):
        self.kernel.execute("exec 3>three 4<three {named}<three")
        self.assertEqual(self.output("echo text >&3; cat <&4; cat <&$named"), ("text\ntext\n", ""))

    def test_without_standard_input_the_end_of_file_comes_at_once(self):
        self.assertEqual(self.output("cat; echo after-cat; wc -c; read line || echo no-input"), ("after-cat\n0\nno-input\n", ""))
        self.assertEqual(self.output("echo intact"), ("intact\n", ""))

    def test_standard_input_is_read_by_builtins_and_children(self):
        self.kernel.write(b"one\ntwo\nthree\nfour\n")
        for stdin in ("ask", "pipe"):
            answer = {"ask": "<one two>\n", "pipe": "<three four>\n"}[stdin]
            self.assertEqual(self.output('read x; read y; echo "<$x $y>"', stdin=stdin), (answer, ""))
        self.kernel.write(b"five\n")
        self.assertEqual(self.output("head -n 1", stdin="ask"), ("five\n", ""))
        self.assertEqual(self.output("cat"), ("", ""))

    def test_end_of_standard_input(self):
        self.kernel.write(b"rest")
        self.kernel.close_stdin()
        self.assertEqual(self.output("cat; read x || echo end", stdin="pipe"), ("restend\n", ""))
        self.assert_usable()

    def test_dev_stdout_and_stderr_can_be_opened(self):
        self.assertEqual(self.output("echo a >/dev/stdout; echo b >/dev/stderr; echo c | tee /dev/stderr"), ("a\nc\n", "b\nc\n"))

    def test_writing_to_every_descriptor_forges_no_done(self):
        forged = '00000060{"t":"done","m":99,"n":1,"success":true,"exit_code":99,"x":1}'
        self.kernel.start(f"for f in /proc/self/fd/*; do n=${{f##*/}}; ((n > 2)) && echo '{forged}' >&$n; done 2>/dev/null; true")
        self.kernel.receive_bytes(8)

    def test_output_of_a_job_comes_later(self):
        self.kernel.execute("(sleep 0.1; echo job; echo joberr >&2) &")
        self.kernel.stdout.wait_for("job\n")
        self.kernel.stderr.wait_for("joberr\n")
        self.assertEqual(self.kernel.stderr.text(), "joberr\n")

    def test_killed_child_is_told_as_bash_tells_it(self):
        self.assertEqual(self.status("sh -c 'kill -9 $$'"), 137)
        self.assert_usable()

    def test_files_of_the_driver_are_not_in_the_working_directory(self):
        self.assertEqual(self.status(":"), 0)
        self.assertEqual(os.listdir(self.cwd), [])
