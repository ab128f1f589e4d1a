"""What user code may do to its own process: the session goes on, or ends; it is never silent, hung or wrong."""

from kernel import DriverCase

PATCH = "const patch = (o) => { for (const k of Reflect.ownKeys(o)) { if (k !== 'constructor' && k !== 'prototype') try { o[k] = () => { throw 1 } } catch {} } }; "

# The session is to go on as if nothing had been.
SURVIVED = (
    "Object.prototype.toJSON = () => 1",
    "JSON.parse = JSON.stringify = () => { throw 1 }",
    "globalThis.Promise = null",
    "globalThis.process = null",
    "delete globalThis.process; delete globalThis.Buffer; delete globalThis.require; delete globalThis.console",
    PATCH + "patch(String.prototype); patch(Function.prototype); patch(RegExp.prototype)",
    PATCH + "patch(require('events').prototype)",
    PATCH + "patch(require('stream').Readable.prototype); patch(require('stream').Writable.prototype)",
    PATCH + "patch(Reflect); patch(Object); patch(Atomics)",
    PATCH + "patch(require('inspector').Session.prototype)",
    "globalThis.setImmediate = globalThis.setTimeout = globalThis.queueMicrotask = () => { throw 1 }; process.nextTick = () => { throw 1 }",
    "process.on = process.emit = process.once = () => { throw 1 }",
    "process._tickCallback = process.hrtime = process.cwd = () => { throw 1 }",
    "Error.prepareStackTrace = () => { throw 1 }",
    "Error.prepareStackTrace = () => 5; Error.stackTraceLimit = 0",
    "Object.freeze(globalThis)",
    "for (const k of Reflect.ownKeys(globalThis)) { try { const v = globalThis[k]; Object.freeze(v); Object.freeze(v.prototype) } catch {} }",
    "Object.prototype.get = () => 1; Object.prototype.set = () => 1; Object.prototype.value = 7; Object.prototype.enumerable = true",
    "Object.prototype.params = {}; Object.prototype.parts = 3; Object.prototype.exceptionDetails = {}; Object.prototype.objectId = '1'",
    "require('util').inspect = () => { throw 1 }; undefined",
    "require('util').inspect.defaultOptions.colors = true",
    "const i = require('inspector'), s = new i.Session(); s.connect(); s.post('Runtime.enable'); s.post('Debugger.enable')",
    "process._getActiveHandles().forEach(h => h.close())",
    "process.setUncaughtExceptionCaptureCallback(null); try { process._fatalException = null } catch {}",
    "Object.setPrototypeOf(globalThis, null)",
    "require('domain'); undefined",
    "new (require('worker_threads').Worker)('throw 1', {eval: true}).on('error', () => {}); await new Promise(r => setTimeout(r, 100))",
    "try { process.chdir('/nonexistent') } catch {}",
)
# The process may end, but may not answer wrongly.
SURVIVED_OR_ENDED = (
    PATCH + "patch(Buffer.prototype); patch(Buffer)",
    PATCH + "patch(Object.getPrototypeOf(Uint8Array.prototype)); patch(require('fs'))",
    "Object.defineProperty(Object.prototype, 'error', {get() { return 1 }, configurable: true})",
    "for (const k of Reflect.ownKeys(Object.getPrototypeOf(Uint8Array.prototype))) { try { Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), k, {get() { throw 1 }}) } catch {} }",
    "fs.closeSync(3)",
    "process.abort()",
    "process.reallyExit(3)",
    "process.kill(process.pid, 'SIGKILL')",
)


class Harm(DriverCase):
    def check(self):
        self.assertEqual(self.value("40 + 2"), 42)
        self.assertEqual(self.value("({a: [1, 'x']})"), {"a": [1, "x"]})
        self.assertEqual(self.value("await 7"), 7)
        self.assertEqual(self.failure("null.x")["name"], "TypeError")

    def interrupt(self):
        self.kernel.start("for (;;);")
        self.kernel.interrupt()
        self.assertEqual(self.kernel.done()["exception"]["name"], "Interrupted")

    def test_patched_and_deleted_things_do_not_reach_the_driver(self):
        for code in SURVIVED:
            with self.subTest(code):
                self.kernel = self.boot()
                self.kernel.execute(code)
                self.check()
                self.interrupt()
                self.assertIn("toString", self.kernel.query("complete", "toStr", 5)["matches"] or ["toString"])
                self.kernel.process.kill()

    def test_what_reaches_the_driver_ends_it(self):
        for code in SURVIVED_OR_ENDED:
            with self.subTest(code):
                kernel = self.kernel = self.boot()
                kernel.start(code)
                kernel.start("40 + 2")
                while (message := kernel.receive()) is not None and message["n"] < 2:
                    pass
                self.assertTrue(message is None or message["result"] == 42, message)
                kernel.process.kill()

    def test_deleted_globals_harm_only_the_program(self):
        self.kernel.execute("for (const k of Reflect.ownKeys(globalThis)) { try { delete globalThis[k] } catch {} }")
        self.assertEqual(self.value("40 + 2"), 42)
        self.interrupt()

    def test_lost_working_directory_harms_nothing(self):
        self.value("fs.mkdirSync('inner'); process.chdir('inner'); fs.rmdirSync('../inner')")
        self.assertEqual(self.value("typeof require('zlib').gzip"), "function")
        self.assertEqual(self.value("typeof (await import('fs')).default"), "object")
        self.assertIn("Cannot find", self.failure("require('./nowhere')")["message"])

    def test_endless_getters_of_a_result_can_be_interrupted(self):
        self.kernel.start("({get [Symbol.toStringTag]() { for (;;); }, f() {}})")
        self.kernel.interrupt()
        self.kernel.done()
        self.assert_usable()

    def test_many_executions_do_not_grow(self):
        code = "var x = 'y'.repeat(20000); ({x, f() {}})"
        memory = "global.gc?.(); Math.round(process.memoryUsage().rss / 1024)"
        for _ in range(100):
            self.kernel.execute(code)
        before = self.value(memory)
        for _ in range(1000):
            self.kernel.execute(code)
        self.assertLess(self.value(memory) - before, 60000)
