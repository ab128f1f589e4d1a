"""What a program may import, and that packages notice nothing of it."""

import os

from kernel import DriverCase

WHY = "is not allowed in the level standard; ask the operator"


class Imports(DriverCase):
    def boot(self, **options):
        return super().boot(**{"policy": {}, **options})

    def replace_kernel(self, **policy):
        self.kernel = self.boot(policy=policy)

    def write(self, name, text):
        path = os.path.join(self.cwd, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def assert_refused(self, code, module):
        done = self.kernel.execute(code)
        self.assertFalse(done["success"], code)
        exception = done["exception"]
        self.assertEqual((exception["name"], exception["message"]), ("ImportError", f"import {module} {WHY}"), code)
        self.assertEqual(done["violations"], [{"rule": "import", "detail": module}], code)
        return exception["traceback"]

    def assert_allowed(self, code):
        done = self.kernel.execute(code)
        self.assertTrue(done["success"], done)
        self.assertNotIn("violations", done)
        return done["result"]

    def test_every_way_to_ask_is_asked_about(self):
        for code, module in (
            ("require('child_process')", "child_process"),
            ("require('node:child_process')", "child_process"),
            ("const { exec } = require('child_process')", "child_process"),
            ("require('dns/promises')", "dns/promises"),
            ("module.require('net')", "net"),
            ("import os from 'os'", "os"),
            ("import { exec } from 'node:child_process'; exec('id')", "child_process"),
            ("import * as all from 'http'", "http"),
            ("export * from 'net'", "net"),
            ("await import('os')", "os"),
            ("await import('node:' + 'o' + 's')", "os"),
            ("import('v8')", "v8"),
            ("process.getBuiltinModule('vm')", "vm"),
            ("process.getBuiltinModule('node:vm')", "vm"),
            ("child_process.execSync('id')", "child_process"),
            ("dgram.createSocket(1)", "dgram"),
            ("eval(\"require('os')\")", "os"),
            ("new Function('r', \"return r('os')\")(require)", "os"),
            ("(async () => { await 1; return require('inspector') })()", "inspector"),
            ("require('module')", "module"),
            ("require('process')", "process"),
            ("require('/usr/lib/node_modules/npm/lib/npm.js')", "/usr/lib/node_modules/npm/lib/npm.js"),
        ):
            if not code.startswith("process.get") or self.kernel.execute("process.getBuiltinModule !== undefined")["result"]:
                self.assert_refused(code, module)
        self.assert_usable()

    def test_refused_import_shows_the_line_of_the_program_alone(self):
        for code in "const f = () => require('os')\nf()", "os\n1":
            traceback = self.assert_refused(code, "os")
            self.assertEqual(traceback[0], f"ImportError: import os {WHY}")
            self.assertEqual([line for line in traceback if "at " in line and "<cell" not in line], [])
            self.assertIn("code: 'ERR_ACCESS_DENIED'", traceback[-2])
        code = "var kept; try { require('net') } catch (error) { kept = error } [kept.code, kept.name, kept instanceof Error, kept.stack.includes('policy')]"
        self.assertEqual(self.kernel.execute(code)["result"], ["ERR_ACCESS_DENIED", "ImportError", True, False])

    def test_files_of_ones_own_are_free_and_are_the_users_code(self):
        self.write("mine.js", "exports.x = require('fs').readFileSync.name + require('./other.cjs')")
        self.write("other.cjs", "module.exports = 1")
        self.write("mine.mjs", "import { x } from './mine.js'; export { x }; export const later = () => import('./other.cjs')")
        self.write("data.json", "[1]")
        self.assertEqual(self.assert_allowed("[require('./mine').x, require('./data.json')]"), ["readFileSync1", [1]])
        self.assertEqual(self.assert_allowed("import { x, later } from './mine.mjs'; [x, (await later()).default]"), ["readFileSync1", 1])
        self.assertEqual(self.assert_allowed(f"(await import('file://{self.cwd}/mine.mjs?again')).x"), "readFileSync1")
        path = self.write("curious.js", "exports.run = () => require('os'); if (process.argv.length > 9) require('net')")
        traceback = self.assert_refused("require('./curious').run()", "os")
        self.assertEqual(len([line for line in traceback if path in line]), 1)
        self.write("curious.mjs", "import './deeper.mjs'; export const x = 1")
        self.write("deeper.mjs", "export * from './deepest.mjs'")
        self.write("deepest.mjs", "import './curious.mjs'\nimport { exec } from 'child_process'")
        for code in "import './curious.mjs'", "await import('./curious.mjs')", f"await import('{self.cwd}/curious.mjs')":
            self.assert_refused(code, "child_process")
        self.write("seldom.cjs", "exports.run = () => import('os')")
        self.assert_refused("require('./seldom.cjs')", "os")

    def test_directory_of_a_cell_does_not_matter(self):
        for place in "/", "/usr", "/usr/lib/node_modules":
            self.assert_refused(f"process.chdir('{place}'); require('os')", "os")
            self.assert_refused("await import('net')", "net")
        self.assertEqual(self.assert_allowed("require('path').sep"), "/")

    def test_packages_import_what_they_need(self):
        self.write("node_modules/pack/package.json", '{"name": "pack", "exports": {"import": "./m.mjs", "require": "./c.js"}}')
        self.write("node_modules/pack/m.mjs", "import os from 'os'; export const kind = typeof os.cpus")
        self.write("node_modules/pack/c.js", "exports.kind = typeof require('os').cpus; exports.get = (id) => typeof process.getBuiltinModule?.(id)")
        self.assertEqual(self.assert_allowed("[(await import('pack')).kind, require('pack').kind]"), ["function", "function"])
        self.assertIn(self.assert_allowed("require('pack').get('os')"), ["object", "undefined"])

    def test_ordinary_modules_work(self):
        names = (
            "assert assert/strict buffer events path path/posix querystring string_decoder url util util/types timers timers/promises "
            "perf_hooks fs fs/promises crypto zlib stream stream/promises readline worker_threads async_hooks"
        )
        for name in names.split():
            self.assertEqual(self.assert_allowed(f"require('{name}') === (await import('node:{name}')).default"), True, name)
        self.assertEqual(self.assert_allowed("fs.writeFileSync('f', 'x'); [fs.readFileSync('f', 'utf8'), crypto.randomUUID().length]"), ["x", 36])

    def test_missing_module_is_missing_and_a_wrong_name_is_wrong(self):
        self.assertEqual(self.failure("require('nowhere')")["message"].split("\n")[0], "Cannot find module 'nowhere'")
        self.assertIn("nowhere", self.failure("await import('nowhere')")["message"])
        self.assertIn("nowhere.js", self.failure("require('./nowhere.js')")["message"])
        self.assertIn("must be of type string", self.failure("require(5)")["message"])

    def test_each_module_is_reported_once_an_execution_and_at_most_sixteen(self):
        code = "for (const name of ['os', 'os', 'net']) try { require(name) } catch {}"
        for _ in range(2):
            self.assertEqual([it["detail"] for it in self.kernel.execute(code)["violations"]], ["os", "net"])
        code = "for (const name of require('fs').readdirSync('/usr/bin').slice(0, 40)) try { require('/usr/bin/' + name) } catch {}"
        self.assertEqual(len(self.kernel.execute(code)["violations"]), 16)
        self.assertNotIn("violations", self.kernel.execute("1"))

    def test_recorded_import_goes_on(self):
        for action in "record", "warn":
            self.replace_kernel(action=action)
            done = self.kernel.execute("import cp from 'child_process'; [typeof cp.exec, typeof require('os').cpus]")
            self.assertEqual((done["success"], done["result"]), (True, ["function", "function"]))
            self.assertEqual([it["detail"] for it in done["violations"]], ["child_process", "os"])

    def test_lists_of_operators(self):
        self.replace_kernel(modules=["*", "!fs/promises"])
        self.assertEqual(self.assert_allowed("typeof require('os').cpus"), "function")
        self.assert_refused("require('fs/promises')", "fs/promises")
        self.assertEqual(self.assert_allowed("typeof require('fs').readFileSync"), "function")
        self.replace_kernel(modules=["path"])
        self.assert_refused("require('fs')", "fs")
        self.assertEqual(self.assert_allowed("require('path/posix').sep"), "/")
        self.replace_kernel(modules=["*"])
        self.assertEqual(self.assert_allowed("typeof child_process.exec"), "function")

    def test_questions_import_nothing_forbidden(self):
        self.kernel.execute("1")
        for code in "child_process.", "os.cp", "require('os').cp":
            self.assertEqual(self.kernel.query("complete", code, len(code))["matches"], [], code)
        self.kernel.query("inspect", "child_process", 5)
        self.assertNotIn("violations", self.kernel.execute("1"))
        self.assertIn("readFileSync", self.kernel.query("complete", "fs.readFileS", 12)["matches"])
