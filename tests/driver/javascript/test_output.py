"""stdout and stderr: at once, whole, in order, and robust."""

import fcntl
import os

from kernel import DriverCase


class Output(DriverCase):
    def test_each_call_is_one_write(self):
        self.value("const { port1 } = new MessageChannel(); const pause = () => { const until = Date.now() + 20; while (Date.now() < until); }; undefined")
        self.value("for (let i = 0; i < 3; i++) { console.log('line', i, {é: 1}); pause() }")
        self.assert_printed("line 0 { 'é': 1 }\nline 1 { 'é': 1 }\nline 2 { 'é': 1 }\n")
        for piece in self.kernel.stdout.pieces[:-1]:
            self.assertTrue(piece.endswith(b"\n"), piece)

    def test_unfinished_line_goes_out_at_once(self):
        self.kernel.start("process.stdout.write('no newline'); while (!fs.existsSync('go')) {} undefined")
        self.kernel.stdout.wait_for("no newline")  # before the execution ends
        with open(os.path.join(self.cwd, "go"), "wb"):
            pass
        self.kernel.done()

    def test_children_and_descriptors_are_in_their_place(self):
        self.value(
            "const { execFileSync, spawnSync } = require('child_process');\n"
            "console.log('before');\n"
            "execFileSync('echo', ['from child'], { stdio: 'inherit' });\n"
            "spawnSync('echo', ['through stdout'], { stdio: ['ignore', process.stdout, process.stderr] });\n"
            "fs.writeSync(1, 'by number\\n');\n"
            "process.stdout.write('raw\\n'); console.table([[1]]); console.dir({ a: 1 });\n"
            "console.log('after')"
        )
        table = self.kernel.stdout.text().partition("raw\n")[2].partition("{ a: 1 }")[0]
        self.assertIn("(index)", table)
        self.assert_printed("before\nfrom child\nthrough stdout\nby number\nraw\n" + table + "{ a: 1 }\nafter\n")

    def test_console_methods_go_to_their_streams(self):
        self.value("console.error('e'); console.warn('w'); console.info('i'); console.debug('d'); console.trace('t'); console.assert(false, 'a')")
        self.assert_printed("i\nd\n")
        self.kernel.stderr.wait_for("Assertion failed: a\n")
        text = self.kernel.stderr.text()
        self.assertTrue(text.startswith("e\nw\nTrace: t\n"), text)

    def test_large_writes_are_complete(self):
        self.value("console.log('x'.repeat(3000000)); process.stdout.write(Buffer.alloc(3000000, 'y')); undefined")
        self.assert_printed("x" * 3000000 + "\n" + "y" * 3000000)

    def test_full_pipe_blocks_and_loses_nothing(self):
        kernel = self.boot(read_output=False)
        kernel.start("console.log('z'.repeat(500000)); console.error('written'); 1")
        self.assertEqual(kernel.stderr.text(), "")
        got = b""
        while len(got) < 500001:
            got += os.read(kernel.process.stdout.fileno(), 65536)
        self.assertEqual(kernel.done()["result"], 1)
        kernel.stderr.wait_for("written\n")

    def test_non_blocking_stdout_loses_nothing(self):
        pipe = self.kernel.process.stdout.fileno()
        other_end = f"/proc/{self.kernel.process.pid}/fd/1"
        self.value("const { spawnSync } = require('child_process'); const program = `import os; os.set_blocking(1, False)`; spawnSync('/usr/bin/python3', ['-c', program], { stdio: 'inherit' }).status")
        self.value("for (let i = 0; i < 50; i++) console.log('n'.repeat(100000)); for (let i = 0; i < 9999; i++) console.log('s')")
        self.assert_printed(("n" * 100000 + "\n") * 50 + "s\n" * 9999)
        self.assertTrue(os.path.exists(other_end) and fcntl.fcntl(pipe, fcntl.F_GETFL) >= 0)

    def test_looks_like_a_stream(self):
        self.assertEqual(
            self.value("[process.stdout.fd, process.stdout.isTTY ?? null, process.stdout.writable, process.stdout instanceof require('stream').Writable, process.stderr.fd]"),
            [1, None, True, True, 2],
        )
        self.assertEqual(self.value("await new Promise(done => process.stdout.write('abc', 'utf8', done)); process.stdout.write('00', 'hex') && 'sent'"), "sent")
        self.assertEqual(self.value("const { Readable, pipeline } = require('stream'); await require('util').promisify(pipeline)(Readable.from(['p', 'q']), process.stdout); 'piped'"), "piped")
        self.assertEqual(self.value("await new Promise(done => process.stdout.end('r', done)); 'ended'"), "ended")
        self.assert_printed("abc\x00pqr")

    def test_ending_and_destroying_harm_nothing(self):
        self.value("process.stdout.end(); console.log('one'); process.stdout.destroy(); console.log('two')")
        self.value("process.stdout.end(); process.stderr.end(); const captured = []; console.log('three'); console.error('four')")
        self.assert_printed("one\ntwo\nthree\n")
        self.assert_printed("four\n", "stderr")

    def test_what_utf8_cannot_carry_is_replaced(self):
        self.value("console.log('ok \\udead', 'x')")
        self.assert_printed("ok \ufffd x\n")


class Display(DriverCase):
    def show(self, code):
        self.kernel.start(code)
        shown = self.kernel.expect("display")
        self.assertTrue(self.kernel.done()["success"])
        self.assertEqual(shown["n"], self.kernel.executions)
        return shown["data"], shown["metadata"]

    def test_values_and_bundles(self):
        self.assertEqual(self.show("display({a: [1]})"), ({"text/plain": "{ a: [ 1 ] }", "application/json": {"a": [1]}}, {}))
        self.assertEqual(self.show("display(new Map())"), ({"text/plain": "Map(0) {}"}, {}))
        self.assertEqual(self.show("display('text')"), ({"text/plain": "'text'"}, {}))
        self.assertEqual(self.show("display({'text/html': '<b>', 'text/plain': 'b'}, {width: 5})"), ({"text/html": "<b>", "text/plain": "b"}, {"width": 5}))
        self.assertEqual(self.show("display({'image/png': Buffer.from([1, 2, 3])})")[0], {"image/png": "AQID"})
        self.assertEqual(self.show("display({'application/vnd.x+json': {n: 2n ** 60n}})")[0], {"application/vnd.x+json": {"n": str(2**60)}})
        self.assertEqual(self.show("class C { [Symbol.for('repltool.display')]() { return {'text/latex': 'x^2'} } }; display(new C())")[0], {"text/latex": "x^2"})

    def test_helpers(self):
        self.assertEqual(self.show("display.html('<i>', {m: true})"), ({"text/html": "<i>"}, {"m": True}))
        self.assertEqual(self.show("display.svg('<svg/>')")[0], {"image/svg+xml": "<svg/>"})
        self.assertEqual(self.show("display.markdown('# h')")[0], {"text/markdown": "# h"})
        self.assertEqual(self.show("display.latex('y')")[0], {"text/latex": "y"})
        self.assertEqual(self.show("display.png(new Uint8Array([255]))")[0], {"image/png": "/w=="})
        self.assertEqual(self.show("display.json([1, null])")[0], {"application/json": [1, None]})

    def test_mistakes_are_errors_of_the_program(self):
        for code, name in (
            ("display({'text/html': 5})", "TypeError"),
            ("display.json(() => 1)", "TypeError"),
            ("display(1, {f() {}})", "TypeError"),
            ("display.html('x'.repeat(5 << 20))", "RangeError"),
        ):
            self.assertEqual(self.failure(code)["name"], name, code)
        self.assert_usable()

    def test_displays_stand_between_what_is_printed(self):
        self.kernel.start("for (let i = 0; i < 3; i++) { console.log(i); display(i) }")
        for i in range(3):
            shown = self.kernel.receive()
            self.kernel.stdout.wait_for(f"{i}\n")
            self.assertNotIn(f"{i + 1}\n", self.kernel.stdout.text())
            self.kernel.send(t="ack", m=shown["m"])
        self.kernel.done()
