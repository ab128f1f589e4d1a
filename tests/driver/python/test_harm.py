"""What user code may do to its own process without losing the session."""

import os

from kernel import DriverCase


class Harm(DriverCase):
    def test_child_made_by_fork_never_speaks_for_the_session(self):
        self.kernel.execute("import os\npid = os.fork()")
        self.assertEqual(self.value("pid > 0 and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"), 0)
        self.kernel.execute("pid = os.fork()\nif pid == 0: print('child'); raise SystemExit(4)")
        self.assertEqual(self.value("os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"), 4)
        self.kernel.execute("pid = os.fork()\nif pid == 0: 1 / 0")
        self.assertEqual(self.value("os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"), 1)
        self.kernel.execute("pid = os.fork()\nif pid == 0:\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    os.waitpid(pid, 0)")
        self.value("os.waitpid(pid, 0) and None")
        self.kernel.stderr.wait_for("ZeroDivisionError: division by zero\n")
        self.assertNotIn("Exception ignored", self.kernel.stderr.text())
        self.assertEqual(self.kernel.stdout.text(), "child\n")

    def test_multiprocessing_works(self):
        code = "import multiprocessing\ndef square(x): return x * x\nwith multiprocessing.get_context('fork').Pool(2) as pool: out = pool.map(square, [1, 2, 3])\nout"
        self.assertEqual(self.value(code), [1, 4, 9])
        self.assertEqual(self.value("with multiprocessing.get_context('fork').Pool(1) as pool: pool.map(print, ['x'])\n1"), 1)
        self.kernel.stdout.wait_for("x\n")

    def test_patched_library_and_builtins_do_not_reach_the_driver(self):
        self.value(
            "import builtins, os, signal, sys, posix, time, _signal, json, io\n"
            "def bad(*args, **named): raise RuntimeError('patched')\n"
            "for name in ('read', 'write', '_exit', 'getpid', 'fstat', 'dup2'):\n"
            "    setattr(os, name, bad); setattr(posix, name, bad)\n"
            "for module in (signal, _signal): module.signal = module.getsignal = bad\n"
            "time.monotonic_ns = sys.exit = json.dumps = bad\n"
            "for name in ('len', 'str', 'repr', 'type', 'compile', 'eval', 'exec', 'getattr', 'isinstance', 'map'):\n"
            "    setattr(builtins, name, bad)"
        )
        self.assert_usable()
        self.assertEqual(self.failure("1 / 0")["name"] != "", True)

    def test_control_descriptor_is_not_where_programs_look(self):
        self.value("import os\nos.closerange(3, 256)")
        self.value("os.dup2(1, 3)\nNone")
        self.assert_usable()

    def test_trace_functions_and_tiny_recursion_limits_stay_outside(self):
        self.kernel.execute("import sys\ndef trace(*_): raise OSError('traced')\nsys.settrace(trace)")
        self.assert_usable()
        self.kernel.execute("sys.setprofile(trace)")
        self.assert_usable()
        self.value("sys.setrecursionlimit(45)\nNone")
        self.assertEqual(self.value("sys.getrecursionlimit()"), 45)
        self.assertEqual(self.failure("1 / 0")["name"] in ("ZeroDivisionError", "RecursionError"), True)
        self.value("sys.setrecursionlimit(20000)\nNone")
        self.assertEqual(self.value("sys.getrecursionlimit()"), 20000)

    def test_lost_working_directory_harms_nothing(self):
        inner = os.path.join(self.cwd, "inner")
        self.value(f"import os\nos.mkdir({inner!r}); os.chdir({inner!r}); os.rmdir({inner!r})")
        self.assertEqual(self.value("import wave\n1"), 1)
        self.assertEqual(self.failure("import nowhere")["name"], "ModuleNotFoundError")

    def test_emptied_namespace_and_modules_harm_nothing(self):
        self.kernel.execute("globals().clear()")
        self.assert_usable()
        self.kernel.execute("import sys\nfor name in list(sys.modules):\n    if name not in ('sys', 'builtins'): del sys.modules[name]")
        self.assert_usable()
        self.assertEqual(self.failure("1 / 0")["name"], "ZeroDivisionError")

    def test_collection_settings_and_failing_finalisers_harm_nothing(self):
        self.kernel.execute("import gc\ngc.disable(); gc.freeze()\nclass D:\n    def __del__(self): raise OSError\nd = D()\ndel d")
        self.kernel.execute("import atexit, locale\natexit.register(lambda: 1 / 0)\nlocale.setlocale(locale.LC_ALL, 'C')")
        self.assert_usable()

    def test_thousand_executions_do_not_grow(self):
        code = "x = '" + "y" * 20000 + "'"
        for _ in range(50):
            self.kernel.execute(code)
        before = self.value("import resource\nresource.getrusage(resource.RUSAGE_SELF).ru_maxrss")
        for _ in range(1000):
            self.kernel.execute(code)
        after = self.value("resource.getrusage(resource.RUSAGE_SELF).ru_maxrss")
        self.assertLess(after - before, 40000)
