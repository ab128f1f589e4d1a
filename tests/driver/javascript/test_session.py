"""Declarations, await, imports: a session behaves like one long program."""

import os

from kernel import DriverCase


class Session(DriverCase):
    def write(self, name, text):
        path = os.path.join(self.cwd, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def test_declarations_may_come_again(self):
        code = "const rate = 3; let k = 1; class T { v() { return rate } }; new T().v() * 2"
        self.assertEqual([self.value(code), self.value(code)], [6, 6])
        self.assertEqual(self.value("const rate = 4; rate * 2"), 8)
        for _ in range(2):
            self.assertEqual(self.value("const {a, ...rest} = {a: 1, b: 2}; function f() { return a } var v = f(); [v, rest]"), [1, {"b": 2}])

    def test_await_at_top_level(self):
        self.value("var { a, ...rest } = await Promise.resolve({ a: 1, b: 2, c: 3 })")
        self.assertEqual(self.value("const [p, { q: [z] }] = [await 1, { q: [await 2] }]; [a, rest, p + z]"), [1, {"b": 2, "c": 3}, 3])
        self.assertEqual(self.value("p + z"), 3)
        self.assertEqual(self.value("for await (const x of [1, 2]) var last = x; last"), 2)
        self.assertEqual(self.value("let sum = 0; for (const x of [1, 2]) sum += await x; sum"), 3)

    def test_names_are_visible_in_functions_and_later(self):
        self.value("let base = 10; function add(x) { return base + x } const twice = x => add(add(x))")
        self.assertEqual(self.value("base = 1; twice(5)"), 7)
        self.assertEqual(self.value("(() => { try { return eval('base') } finally { base = 2 } })()"), 1)

    def test_failed_code_keeps_what_it_declared(self):
        self.kernel.execute("let kept = 41; throw 1")
        self.assertEqual(self.value("kept + 1"), 42)

    def test_what_node_offers_in_its_console(self):
        self.assertEqual(self.value("[typeof require, typeof module, typeof exports, typeof fs.readFileSync, typeof os.cpus]"), ["function", "object", "object", "function", "function"])
        self.assertEqual(self.value("const path = require('path'); path.join('a', 'b')"), "a/b")
        self.assertEqual(self.value("var url = require('node:url'); typeof url.parse"), "function")
        self.assertEqual(self.value("require.resolve('fs')"), "fs")
        self.assertEqual(self.failure("require('nowhere')")["message"].split("\n")[0], "Cannot find module 'nowhere'")

    def test_nothing_of_the_driver_is_in_reach(self):
        self.assertEqual(self.value("Object.keys(require.cache)"), [])
        self.assertEqual(self.value("Object.keys(globalThis).filter(k => /repl/i.test(k))"), [])
        self.assertEqual(self.value("[process.argv.length, process._getActiveHandles().length, process.mainModule ?? null]"), [1, 0, None])

    def test_files_of_the_user_can_be_required_and_imported(self):
        self.write("mine.js", "module.exports = {x: 5, dir: __dirname}")
        self.write("mine.mjs", "export default 'default'; export const named = 6; export let counter = 0")
        self.write("data.json", '{"d": [1]}')
        self.write("node_modules/pack/package.json", '{"name": "pack", "exports": {"import": "./m.mjs", "require": "./c.js"}}')
        self.write("node_modules/pack/m.mjs", "export const kind = 'esm'")
        self.write("node_modules/pack/c.js", "exports.kind = 'cjs'")
        self.assertEqual(self.value("require('./mine').x"), 5)
        self.assertEqual(self.value("import def, { named as other } from './mine.mjs'; [def, other]"), ["default", 6])
        self.assertEqual(self.value("import * as all from './mine.mjs'\nall.named"), 6)
        self.assertEqual(self.value("import def, * as both from './mine.mjs'; [def, both.named]"), ["default", 6])
        self.assertEqual(self.value("(await import('./mine.mjs')).default"), "default")
        self.assertEqual(self.value("import data from './data.json'; data"), {"d": [1]})
        self.assertEqual(self.value("[(await import('pack')).kind, require('pack').kind]"), ["esm", "cjs"])
        self.assertEqual(self.value("import cjs from './mine.js'; cjs.x"), 5)

    def test_imports_follow_the_working_directory(self):
        self.write("sub/inner.mjs", "export const x = 1")
        self.value("process.chdir('sub'); undefined")
        self.assertEqual(self.value("import { x } from './inner.mjs'; x"), 1)
        self.value("const load = () => import('./inner.mjs')")
        self.assertEqual(self.value("(await load()).x"), 1)

    def test_imports_of_node_and_again(self):
        for _ in range(2):
            self.assertEqual(self.value("import fs, { readFileSync as r } from 'fs'; import 'os'; r === fs.readFileSync"), True)
        self.assertEqual(self.value("'import x from y'.length // import"), 15)
        self.assertEqual(self.value("early(); import { join } from 'node:path'; function early() { return join }"), "[Function: join]")

    def test_failing_imports_are_told(self):
        self.assertIn("does not provide an export named 'nope'", self.failure("import { nope } from 'fs'")["message"])
        self.assertIn("Cannot find", self.failure("import x from './missing.mjs'")["message"])
        self.write("broken.mjs", "export let x = ;")
        self.assertEqual(self.failure("import './broken.mjs'")["name"], "SyntaxError")
        self.write("throws.mjs", "throw new RangeError('from inside')")
        self.assertEqual(self.failure("await import('./throws.mjs')")["message"], "from inside")

    def test_lines_and_columns_stay_right_after_imports(self):
        trace = self.failure("import fs from 'fs'\nimport {\n  join,\n} from 'path'; null.x")["traceback"]
        self.assertIn("    at <cell 1>:4:21", trace)
        trace = self.failure("const m = await import('fs'); null.x")["traceback"]
        self.assertTrue(any("<cell 2>:1:36" in line for line in trace), trace)

    def test_export_is_taken_as_a_declaration(self):
        self.assertEqual(self.value("export const e = 1; export function g() { return e }\ng()"), 1)
        self.assertEqual(self.value("export { e }; export default 5"), 5)

    def test_timers_of_an_execution_go_on_after_it(self):
        self.value("var ticks = 0; const timer = setInterval(() => { if (++ticks === 5) { clearInterval(timer); console.log('five') } }, 5); 'scheduled'")
        self.kernel.stdout.wait_for("five\n")
        self.assertEqual(self.value("ticks"), 5)

    def test_output_of_an_earlier_execution_is_told_to_be_nobodys(self):
        self.assertEqual(self.value("setTimeout(() => { console.log('late'); console.log('later') }, 50); 'scheduled'"), "scheduled")
        self.kernel.start("const wait = (ms) => new Promise(r => setTimeout(r, ms)); console.log('own'); await wait(120); console.log('own again'); await wait(5); console.log('end')")
        owner = self.kernel.receive()
        self.assertEqual((owner["t"], owner["n"]), ("owner", 0))
        self.kernel.stdout.wait_for("own\n")
        self.assertNotIn("late", self.kernel.stdout.text())
        self.kernel.send(t="ack", m=owner["m"])
        owner = self.kernel.receive()
        self.assertEqual((owner["t"], owner["n"]), ("owner", self.kernel.executions))
        self.kernel.stdout.wait_for("late\nlater\n")
        self.assertNotIn("again", self.kernel.stdout.text())
        self.kernel.send(t="ack", m=owner["m"])
        self.assertTrue(self.kernel.done()["success"])
        self.assert_printed("own\nlate\nlater\nown again\nend\n")

    def test_webassembly_and_workers_work(self):
        self.assertEqual(sorted(self.value("const m = await WebAssembly.instantiate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])); Object.keys(m)")), ["instance", "module"])
        code = "const { Worker } = require('worker_threads'); await new Promise(r => new Worker('require(\"worker_threads\").parentPort.postMessage(6)', { eval: true }).once('message', r))"
        self.assertEqual(self.value(code), 6)

    def test_declarations_may_come_again_as_another_kind(self):
        kinds = ("var {0} = 1", "let {0} = 2", "const {0} = 3", "class {0} {{}}", "function {0}() {{}}", "const {{{0}}} = {{{0}: 9}}", "import {{ join as {0} }} from 'path'")
        for i, before in enumerate(kinds):
            for j, after in enumerate(kinds):
                name = f"n{i}_{j}"
                self.value(before.format(name) + "; undefined")
                self.value(after.format(name) + f"; typeof {name}")
        self.assertEqual(self.failure("let twice; let twice")["message"], "Identifier 'twice' has already been declared")
        self.assertEqual(self.failure("const fixed = 1; fixed = 2")["message"], "Assignment to constant variable.")
