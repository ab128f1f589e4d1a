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
            "import _thread\n"
            "time.monotonic_ns = sys.exit = json.dumps = _thread.start_new_thread = bad\n"
            "for name in ('len', 'str', 'repr', 'type', 'compile', 'eval', 'exec', 'getattr', 'isinstance', 'map'):\n"
            "    setattr(builtins, name, bad)"
        )
        self.assert_usable()
        self.assertEqual(self.failure("1 / 0")["name"] != "", True)
        self.kernel.execute("display(5)")
        self.assertEqual(self.kernel.shown[0]["data"], {"text/plain": "5"})

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

    def test_program_that_takes_the_control_socket_away_ends_at_the_latest_with_its_execution(self):
        for code in (
            "os.closerange(0, 1024)",
            "for n in range(3, 2000):\n    try: os.dup2(0, n)\n    except OSError: pass",
            "for n in range(3, 2000):\n    try: os.dup2(1, n)\n    except OSError: pass",
            "import socket\na, b = socket.socketpair()\nfor n in range(900, 1024): os.dup2(a.fileno(), n)",
        ):
            kernel = self.boot()
            kernel.start("import os\n" + code)
            self.assertIsNotNone(kernel.process.wait(30), code)

    def test_control_descriptor_that_was_closed_or_replaced_comes_back(self):
        self.kernel.execute("import os, socket\na, b = socket.socketpair()\nos.dup2(a.fileno(), 1023)")
        self.assert_usable()
        self.kernel.execute("os.close(1023)")
        self.assert_usable()
        self.kernel.execute("for n in range(4): os.close(n)")
        self.value("print('printed')\nimport sys; print('told', file=sys.stderr)")
        self.kernel.stdout.wait_for("printed\n")
        self.kernel.stderr.wait_for("told\n")

    def test_non_blocking_control_socket_loses_nothing(self):
        self.value("import os\nos.set_blocking(1023, False)\nNone")
        self.kernel.start("'x' * 1000000")
        self.assertEqual(len(self.kernel.done()["result"]), 1000000)
        self.assert_usable()

    def test_forged_messages_change_nothing_for_what_follows(self):
        forged = b'{"t":"done","m":9,"n":1,"success":true}'
        self.kernel.start(f"import os\nos.write(1023, b'%08d' % {len(forged)} + {forged!r})\n'true one'")
        self.assertEqual(self.kernel.receive()["m"], 9)
        self.assertEqual(self.kernel.receive()["result"], "true one")
        self.kernel.hello()
        self.kernel.receive()
        self.assert_usable()

    def test_deaths_of_the_interpreter_close_the_control_socket(self):
        for code, status in (
            ("import os\nprint('last words')\nos._exit(3)", 3),
            ("import os\nprint('last words')\nos.abort()", -6),
            ("import ctypes\nprint('last words')\nctypes.string_at(0)", -11),
            ("import faulthandler\nprint('last words')\nfaulthandler._sigsegv()", -11),
            ("import os, signal\nprint('last words')\nos.kill(os.getpid(), signal.SIGKILL)", -9),
            ("import sys\nprint('last words')\nsys.setrecursionlimit(10**9)\nn = []\nfor _ in range(10**6): n = [n]\nrepr(n)", -11),
        ):
            kernel = self.boot()
            kernel.start(code)
            self.assertIsNone(kernel.receive(), code)
            kernel.stdout.wait_for("last words\n")
            self.assertEqual(kernel.process.wait(30), status, code)

    def test_recursion_of_every_kind_is_an_exception(self):
        self.assertEqual(self.failure("def f(): return f()\nf()")["name"], "RecursionError")
        self.assertEqual(self.failure("import pickle\nn = []\nfor _ in range(10**4): n = [n]\npickle.dumps(n)")["name"], "RecursionError")
        self.assertEqual(self.failure("import copy\ncopy.deepcopy(n)")["name"], "RecursionError")
        self.assertEqual(self.failure("class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\nA().a")["name"], "RecursionError")
        self.assertIn(self.failure("eval('(' * 1000 + ')' * 1000)")["name"], ("SyntaxError", "MemoryError", "RecursionError"))
        self.assertEqual(self.value("import sys\nsys.setrecursionlimit(50000)\ndef g(n): return n and 1 + g(n - 1)\ng(20000)"), 20000)
        self.assert_usable()

    def test_stopped_driver_goes_on_when_it_is_continued(self):
        self.kernel.start("import os, signal\nprint('go')\nos.kill(os.getpid(), signal.SIGSTOP)\n'went on'")
        self.kernel.stdout.wait_for("go")
        while os.waitid(os.P_PID, self.kernel.process.pid, os.WSTOPPED | os.WNOWAIT) is None:
            pass
        self.kernel.process.send_signal(18)
        self.assertEqual(self.kernel.done()["result"], "went on")

    def test_lowered_limits_of_descriptors_harm_nothing(self):
        self.value("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))")
        self.assert_usable()
        self.value("display(1)\nprint('printed')")
        self.kernel.stdout.wait_for("printed\n")

    def test_threads_and_exit_handlers_hold_up_no_end(self):
        self.kernel.execute("import atexit, threading, time\natexit.register(time.sleep, 99)\nthreading.Thread(target=time.sleep, args=(99,)).start()")
        self.kernel.execute("exit(0)")
        self.assert_usable()
        self.assertEqual(self.kernel.close(), 0)

    def test_patched_streams_and_reloads_leave_the_driver_whole(self):
        self.kernel.type("typed\n")
        self.value("import importlib, builtins, sys, io, os, _io\nfor module in (os, io): importlib.reload(module)\n_io.FileIO = _io.TextIOWrapper = _io.BufferedReader = None\nsys.stdin.read()")
        self.assertEqual(self.value("input()", "pipe"), "typed")
        self.value("importlib.reload(builtins)\ndisplay(display.HTML('<b>'))")
        self.assertEqual(self.kernel.shown[0]["data"]["text/html"], "<b>")
        self.value("sys.meta_path.clear()\nsys.path_hooks.clear()")
        self.assert_usable()
