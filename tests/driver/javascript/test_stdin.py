"""Standard input: a stream of its own for each execution, questions that reach the client, and the end."""

import os

from kernel import DriverCase

CALLBACKS = "var rl = require('readline').createInterface({input: process.stdin, output: process.stdout}); "
PROMISES = "var rl = require('readline/promises').createInterface({input: process.stdin, output: process.stdout}); "


class Stdin(DriverCase):
    def pipe(self):
        writer = os.open(self.kernel.fifo, os.O_WRONLY)
        self.addCleanup(lambda: self.shut(writer))
        return writer

    def shut(self, writer):
        try:
            os.close(writer)
        except OSError:
            pass

    def asked(self, code, *answers):
        """Runs code that asks; each question is answered, the ones after that find the end. Returns (prompts, done)."""
        writer = self.pipe()
        self.kernel.start(code, stdin="ask")
        answers, prompts = list(answers), []
        while (message := self.kernel.receive())["t"] == "input_request":
            self.assertEqual((message["n"], message["password"]), (self.kernel.executions, False))
            prompts.append(message["prompt"])
            self.kernel.send(t="ack", m=message["m"])
            if answers:
                os.write(writer, answers.pop(0).encode())
            else:
                self.shut(writer)
        self.assertEqual(message["t"], "done")
        self.kernel.send(t="ack", m=message["m"])
        self.shut(writer)
        return prompts, message

    def piped(self, code, text):
        writer = self.pipe()
        os.write(writer, text.encode())
        self.kernel.start(code, stdin="pipe")
        self.shut(writer)
        return self.kernel.done()

    def test_questions_reach_the_client_and_are_not_printed(self):
        prompts, done = self.asked(CALLBACKS + "await new Promise(r => rl.question('who? ', a => { rl.close(); r(a) }))", "Ada\n")
        self.assertEqual((prompts, done["result"]), (["who? "], "Ada"))
        prompts, done = self.asked(PROMISES + "const a = await rl.question('n1? '), b = await rl.question('n2? '); rl.close(); [a, b]", "A\n", "B\n")
        self.assertEqual((prompts, done["result"]), (["n1? ", "n2? "], ["A", "B"]))
        self.assert_printed("")

    def test_interface_that_is_left_open_asks_nothing_more(self):
        prompts, done = self.asked(PROMISES + "await rl.question('once? ')", "A\n")
        self.assertEqual((prompts, done["result"]), (["once? "], "A"))
        prompts, done = self.asked(PROMISES + "await rl.question('again? ')", "B\n")
        self.assertEqual((prompts, done["result"]), (["again? "], "B"))

    def test_lines_and_prompts(self):
        prompts, done = self.asked(CALLBACKS + "const lines = []; for await (const line of rl) lines.push(line); lines", "1\n", "2\n3\n")
        self.assertEqual((prompts, done["result"]), (["", "", ""], ["1", "2", "3"]))
        prompts, done = self.asked(CALLBACKS + "rl.setPrompt('> '); rl.prompt(); const got = []; await new Promise(r => rl.on('line', l => { got.push(l); if (l === 'q') { rl.close(); r() } else rl.prompt() })); got", "a\n", "q\n")
        self.assertEqual((prompts, done["result"]), (["> ", "> "], ["a", "q"]))

    def test_plain_reading_asks_for_each_piece(self):
        prompts, done = self.asked("let all = ''; for await (const c of process.stdin) all += c; all", "1\n", "2\n")
        self.assertEqual((prompts, done["result"]), (["", "", ""], "1\n2\n"))
        prompts, done = self.asked("await new Promise(r => process.stdin.once('data', d => { process.stdin.pause(); r(String(d)) }))", "data\n")
        self.assertEqual((prompts, done["result"]), ([""], "data\n"))

    def test_end_of_input_ends_a_question(self):
        prompts, done = self.asked(PROMISES + "await rl.question('eof? ')")
        self.assertEqual((prompts, done["exception"]["name"]), (["eof? "], "EndOfInput"))
        for code in (PROMISES + "await rl.question('none? ')", CALLBACKS + "await new Promise(r => rl.question('none? ', r))"):
            self.assertEqual(self.failure(code)["name"], "EndOfInput")
        self.assert_printed("none? none? ")

    def test_without_input_a_read_finds_the_end(self):
        self.assertEqual(self.value("let all = ''; for await (const c of process.stdin) all += c; all"), "")
        self.assertEqual(self.value("fs.readFileSync(0, 'utf8')"), "")
        self.assertEqual(self.value(CALLBACKS + "await new Promise(r => rl.on('close', () => r('closed')))"), "closed")

    def test_input_that_comes_with_the_request(self):
        self.assertEqual(self.piped("let all = ''; for await (const c of process.stdin) all += c; all.length", "x" * 60000)["result"], 60000)
        self.assertEqual(self.piped("fs.readFileSync(0, 'utf8')", "hello\nworld")["result"], "hello\nworld")
        done = self.piped(PROMISES + "const a = await rl.question('p1? '), b = await rl.question('p2? '); rl.close(); [a, b]", "A\nB\n")
        self.assertEqual(done["result"], ["A", "B"])
        self.assert_printed("p1? p2? ")

    def test_children_read_it(self):
        self.assertEqual(self.piped("require('child_process').execSync('cat', {stdio: ['inherit', 'pipe', 'inherit']}).toString()", "to a child")["result"], "to a child")
        self.value("process.stdin.on('data', () => {}); undefined")
        self.assertEqual(self.piped("require('child_process').execSync('cat', {stdio: ['inherit', 'pipe', 'inherit']}).toString()", "again")["result"], "again")

    def test_each_execution_has_a_stream_of_its_own(self):
        prompts, done = self.asked("var ended = 0, old = process.stdin; old.on('data', () => {}); old.on('end', () => ended++); 1")
        self.assertEqual(done["result"], 1)
        self.assertEqual(self.value("await new Promise(r => setTimeout(r, 5)); [ended, old === process.stdin]"), [1, False])
        prompts, done = self.asked("await new Promise(r => process.stdin.once('data', d => r('' + d)))", "mine\n")
        self.assertEqual(done["result"], "mine\n")

    def test_waiting_for_an_answer_can_be_interrupted(self):
        writer = self.pipe()
        self.kernel.start(PROMISES + "await rl.question('wait? ')", stdin="ask")
        self.kernel.expect("input_request")
        self.kernel.interrupt()
        self.assertEqual(self.kernel.done()["exception"]["name"], "Interrupted")
        self.shut(writer)
        self.assert_usable()

    def test_long_prompt_is_cut(self):
        prompts, _ = self.asked(PROMISES + "await rl.question('é'.repeat(5000))", "A\n")
        self.assertEqual(prompts, ["é" * 2048])
