"""The namespace, imports and await: a session behaves like one long program."""

from kernel import DriverCase


class Session(DriverCase):
    def test_namespace_is_that_of_main(self):
        self.assertEqual(self.value("__name__"), "__main__")
        self.assertEqual(self.value("sorted(name for name in globals() if not name.startswith('__'))"), [])
        self.assertEqual(self.value("import __main__, sys\nx = 1\n[__main__.x, vars(sys.modules['__main__']) is globals()]"), [1, True])
        self.assertEqual(self.value("[m for m in sys.modules if 'repl' in m and m != 'reprlib']"), [])
        self.assertEqual(self.value("sys.argv"), [""])

    def test_names_are_visible_in_functions_classes_and_comprehensions(self):
        self.assertEqual(
            self.value(
                "import math\ndef fact(n):\n    return 1 if n < 2 else n * fact(n - 1)\nbase = 10\n"
                "class Box:\n    size = [base * k for k in range(3)]\n[fact(5), Box.size, math.floor(2.5)]"
            ),
            [120, [0, 10, 20], 2],
        )
        self.assertEqual(self.value("(lambda: base + fact(3))()"), 16)
        self.assertEqual(self.value("for company in [1]:\n    got = list(company for _ in range(2))\ngot"), [1, 1])

    def test_pickle_dataclasses_hints_and_sources_work(self):
        self.kernel.execute("import pickle, typing, inspect\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n")
        self.assertEqual(self.value("pickle.loads(pickle.dumps(P(3))) == P(3)"), True)
        self.assertEqual(self.value("typing.get_type_hints(P)['x'] is int"), True)
        self.assertEqual(self.value("def f():\n    return 'source'\ninspect.getsource(f)"), "def f():\n    return 'source'\n")
        self.assertEqual(self.value("y: int = 3\n__annotations__['y'] is int"), True)

    def test_future_imports_last(self):
        self.kernel.execute("from __future__ import annotations")
        self.assertEqual(self.value("def f(x: Undefined): pass\nf.__annotations__"), {"x": "Undefined"})

    def test_failed_syntax_changes_no_future(self):
        self.kernel.execute("from __future__ import annotations\nreturn 1")
        self.assertEqual(self.failure("def f(x: Undefined): pass")["name"], "NameError")

    def test_await_and_a_loop_of_ones_own(self):
        self.kernel.execute("import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 7\nasync def g():\n    for i in range(3): yield i")
        self.assertEqual(self.value("await f()"), 7)
        self.assertEqual(self.value("asyncio.run(f())"), 7)
        self.assertEqual(self.value("[await f() for _ in range(2)]"), [7, 7])
        self.assertEqual(self.value("out = []\nasync for i in g(): out.append(i)\nout"), [0, 1, 2])
        self.assertEqual(self.value("[i async for i in g()]"), [0, 1, 2])
        self.assertEqual(self.value("async with asyncio.Lock() as l: x = 5\nx"), 5)
        self.assertEqual(self.value("x = await f()\nasync def h(): return x + 1\nx = await h()\nx"), 8)
        self.assertEqual(self.value("await asyncio.gather(f(), f())"), [7, 7])

    def test_background_tasks_go_on_with_the_next_await(self):
        self.value("import asyncio\nseen = []\nasync def work():\n    while True:\n        seen.append(1)\n        await asyncio.sleep(0)\ntask = asyncio.create_task(work())\nawait asyncio.sleep(0)")
        self.assertTrue(self.value("before = len(seen)\nawait asyncio.sleep(0.01)\nlen(seen) > before"))

    def test_closed_loop_is_replaced(self):
        self.kernel.execute("import asyncio\nawait asyncio.sleep(0)\nloop = asyncio.get_running_loop()")
        self.kernel.execute("loop.close()")
        self.assertEqual(self.value("await asyncio.sleep(0, 3)"), 3)

    def test_exit_inside_a_task_is_reported_once(self):
        self.kernel.execute("import asyncio, sys, gc\nawait asyncio.sleep(0)\nsys.exit(3)")
        self.value("await asyncio.sleep(0)\ngc.collect()")
        self.assert_printed("", "stderr")

    def test_cancelled_await_is_an_exception(self):
        self.assertEqual(self.failure("import asyncio\nraise asyncio.CancelledError")["name"], "CancelledError")
        self.assertEqual(self.failure("asyncio.current_task().cancel(); await asyncio.sleep(1)")["name"], "CancelledError")
        self.assertEqual(self.value("await asyncio.sleep(0, 3)"), 3)

    def test_code_without_await_leaves_asyncio_alone(self):
        self.kernel.execute("x = 1")
        self.assertEqual(self.value("import sys\n'asyncio' in sys.modules"), False)

    def test_files_of_the_user_cannot_take_over_imports(self):
        names = ("json", "random", "traceback", "ast", "codeop", "linecache", "asyncio", "os", "re", "signal", "tokenize")
        code = f"for name in {names}:\n    open(name + '.py', 'w').write(\"raise RuntimeError('shadow')\\n\")\n'written'"
        self.assertEqual(self.value(code), "written")
        for kernel in (self.kernel, self.boot()):
            self.kernel = kernel
            self.assertEqual(self.value("{'a': [1, 2]}"), {"a": [1, 2]})
            self.assertEqual(self.failure("1 / 0")["name"], "ZeroDivisionError")
            self.assertEqual(self.value("import json, random\njson.loads('[1]')"), [1])
            self.value("import sys\nsys.path.insert(0, '')")
            self.assertEqual(self.value("async def f(): return 1\nawait f()"), 1)

    def test_modules_of_the_user_can_be_imported(self):
        self.assertEqual(self.value("open('mymodule.py', 'w').write('x = 5')\nimport mymodule\nmymodule.x"), 5)
        self.assertEqual(self.value("import os\nos.mkdir('sub')\nos.chdir('sub')\nopen('other.py', 'w').write('x = 6')\nimport other\nother.x"), 6)
        self.assertEqual(self.value("sorted(os.listdir('..'))"), ["mymodule.py", "sub"])

    def test_common_library_modules_work(self):
        self.value(
            "import json, math, re, datetime, collections, itertools, functools, random, statistics, decimal, fractions, string\n"
            "import textwrap, hashlib, base64, csv, uuid, heapq, bisect, copy, dataclasses, enum, typing, time, multiprocessing\n"
            "import sqlite3, unittest, doctest, concurrent.futures, subprocess, tempfile, pathlib, urllib.request, zoneinfo"
        )

    def test_what_site_offers_is_there(self):
        self.value("help(len)")
        self.kernel.stdout.wait_for("len(obj, /)")

    def test_background_thread_prints_between_executions(self):
        self.value("import threading\ngate = threading.Event()\nthreading.Thread(target=lambda: (gate.wait(), print('bg'))).start()")
        self.value("gate.set()")
        self.kernel.stdout.wait_for("bg\n")
