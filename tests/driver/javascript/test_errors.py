"""How uncaught errors, rejections and exits are told."""

from kernel import DriverCase


class Errors(DriverCase):
    def traceback(self, code):
        return "\n".join(self.failure(code)["traceback"])

    def test_traceback_shows_the_frames_of_the_user_only(self):
        self.kernel.execute("function inverse(x) {\n  return null.x\n}\n")
        exception = self.failure("let y = 0\ninverse(y)")
        self.assertEqual(exception["name"], "TypeError")
        self.assertEqual(exception["traceback"][1:], ["    at inverse (<cell 1>:2:15)", "    at <cell 2>:2:1"])

    def test_frames_of_node_are_hidden_in_await_and_callbacks(self):
        for code in ("await new Promise((_, no) => setTimeout(() => no(new Error('x')), 1))", "require('fs').readFileSync('/nope')", "[1].map(() => { throw new Error('x') })"):
            text = self.traceback(code)
            self.assertNotIn("node:", text)
            self.assertNotIn("runtime/javascript", text)
            self.assertIn("<cell ", text)

    def test_syntax_error_has_line_and_mark(self):
        exception = self.failure("x = 1\ny = = 2")
        self.assertEqual(exception["name"], "SyntaxError")
        self.assertEqual(exception["traceback"], ["<cell 1>:2", "y = = 2", "    ^", "SyntaxError: Unexpected token '='"])
        self.assertEqual(self.failure("x; let x")["name"] in ("ReferenceError", "SyntaxError"), True)
        self.assertEqual(self.failure("'unterminated")["name"], "SyntaxError")
        self.assertEqual(self.failure("return 5")["message"], "Illegal return statement")
        self.assertEqual(self.failure("JSON.parse('{')")["traceback"][-1], "    at <cell 5>:1:6")

    def test_causes_aggregates_and_properties_are_told(self):
        text = self.traceback("throw new Error('outer', {cause: new TypeError('inner')})")
        self.assertIn("Error: outer", text)
        self.assertIn("TypeError: inner", text)
        text = self.traceback("throw new AggregateError([new Error('one'), new RangeError('two')], 'many')")
        self.assertIn("AggregateError: many", text)
        self.assertIn("RangeError: two", text)
        self.assertIn("ENOENT", self.traceback("require('fs').readFileSync('/nope')"))

    def test_what_is_no_error_can_be_thrown(self):
        for code, message in (("throw 5", "5"), ("throw null", "null"), ("throw undefined", "undefined"), ("throw 'text'", "text"), ("throw {a: 1}", "{ a: 1 }"), ("throw Symbol('s')", "Symbol(s)")):
            exception = self.failure(code)
            self.assertEqual((exception["name"], exception["message"]), ("Uncaught", message))
        self.assertEqual(self.failure("throw 5")["traceback"], ["Uncaught 5"])

    def test_names_of_own_classes(self):
        self.assertEqual(self.failure("class Mine extends Error {}\nthrow new Mine('m')")["name"], "Mine")
        self.assertEqual(self.failure("const e = new Error('m'); e.name = 'Named'; throw e")["name"], "Named")

    def test_errors_that_cannot_describe_themselves(self):
        for change in (
            "Object.defineProperty(e, 'message', {get() { throw 1 }})",
            "Object.defineProperty(e, 'stack', {get() { throw 1 }})",
            "Object.defineProperty(e, 'name', {get() { throw 1 }})",
            "e.stack = 5; e.message = {}; e.name = null",
            "e.constructor = null",
            "Object.setPrototypeOf(e, null)",
            "e[Symbol.for('nodejs.util.inspect.custom')] = () => { throw 1 }",
            "e.cause = e",
        ):
            self.assertIsInstance(self.failure(f"var e = new Error('m'); {change}; throw e")["message"], str, change)
        self.failure("throw new Proxy(new Error('m'), {get() { throw 1 }})")
        self.failure("throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 1 }})")
        self.assert_usable()

    def test_message_and_traceback_are_cut(self):
        done = self.kernel.execute("throw new Error('m'.repeat(1e6))")
        self.assertTrue(done["truncated"])
        self.assertEqual(done["exception"]["message"], "m" * 65536)
        self.assertLessEqual(len("\n".join(done["exception"]["traceback"])), 65536)

    def test_deep_recursion_is_told_shortly(self):
        text = self.traceback("function f() { return f() }\nf()")
        self.assertIn("RangeError: Maximum call stack", text)
        self.assertLess(len(text), 2000)
        self.assert_usable()
        self.assertIn("RangeError", self.traceback("async function g() { await g() }\nawait g()"))

    def test_unhandled_rejections_are_reported_and_end_nothing(self):
        self.assertEqual(self.value("let keep = 5; Promise.reject(new Error('boom-17')); 'sync part ok'"), "sync part ok")
        self.kernel.stderr.wait_for("Uncaught (in promise) Error: boom-17\n    at <cell 1>:1:30\n")
        self.value("Promise.reject(5); (async () => { throw new TypeError('inside') })(); 1")
        self.kernel.stderr.wait_for("Uncaught (in promise) 5\n")
        self.kernel.stderr.wait_for("Uncaught (in promise) TypeError: inside\n")
        self.assertEqual(self.value("keep"), 5)

    def test_rejection_is_reported_before_the_end(self):
        for n in range(20):
            self.value(f"Promise.reject(new Error('r{n}')); await null; 1")
            self.value(f"require('fs').writeSync(2, '[mark {n}]'); undefined")
            self.kernel.stderr.wait_for(f"[mark {n}]")
            self.assertIn(f"r{n}", self.kernel.stderr.text())

    def test_uncaught_errors_in_callbacks_are_reported_and_end_nothing(self):
        self.value("setTimeout(() => { throw new Error('timer') }, 1); process.nextTick(() => { throw new Error('tick') }); setImmediate(() => { throw new Error('immediate') }); queueMicrotask(() => { throw new Error('micro') }); await new Promise(r => setTimeout(r, 30))")
        for name in ("timer", "tick", "immediate", "micro"):
            self.kernel.stderr.wait_for(f"Uncaught Error: {name}\n")
        self.assert_usable()

    def test_handlers_of_the_user_work(self):
        self.value("var seen = []; process.on('uncaughtException', (e, origin) => seen.push([e.message, origin])); process.on('unhandledRejection', (e) => seen.push(e.message)); undefined")
        self.value("setTimeout(() => { throw new Error('a') }, 1); Promise.reject(new Error('b')); await new Promise(r => setTimeout(r, 20))")
        self.assertEqual(self.value("seen"), ["b", ["a", "uncaughtException"]])
        self.assert_printed("", "stderr")
        self.value("process.removeAllListeners(); process.on('uncaughtException', () => { throw new Error('handler') }); setTimeout(() => { throw new Error('c') }, 1); await new Promise(r => setTimeout(r, 20))")
        self.kernel.stderr.wait_for("Uncaught Error: handler")
        self.assert_usable()

    def test_exit_ends_the_execution_only(self):
        self.value("let kept = 41")
        for code, success, status in (
            ("process.exit()", True, 0),
            ("process.exit(0); kept = 0", True, 0),
            ("process.exit(7); kept = 0", False, 7),
            ("try { process.exit(3) } catch { kept = 0 } finally { kept = 0 }", False, 3),
            ("await null; process.exit(300)", False, 44),
            ("setTimeout(() => process.exit(9), 5); await new Promise(() => {})", False, 9),
            ("[1, 2].forEach(() => process.exit(5))", False, 5),
            ("process.exitCode = 6; process.exit()", False, 6),
            ("process.exitCode = undefined; process.exit(-1)", False, 255),
            ("({[Symbol.for('nodejs.util.inspect.custom')]() { process.exit(8) }, f() {}})", False, 8),
            ("while (true) process.exit(1)", False, 1),
        ):
            done = self.kernel.execute(code)
            self.assertEqual((done["success"], done["exit_code"], done["result"]), (success, status, None), code)
        self.assertEqual(self.value("kept + 1"), 42)

    def test_exit_right_after_a_large_write_loses_nothing(self):
        self.kernel.execute("process.stdout.write('x'.repeat(300000) + 'END\\n'); process.exit(0)")
        self.assert_printed("x" * 300000 + "END\n")

    def test_exit_between_executions_ends_a_callback_only(self):
        self.value("setTimeout(() => { process.exit(4); console.log('never') }, 20); setTimeout(() => console.log('next'), 40); undefined")
        self.kernel.stdout.wait_for("next\n")
        self.assertNotIn("never", self.kernel.stdout.text())
        self.assert_usable()
