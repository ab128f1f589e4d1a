"""What a program may import, and that libraries notice nothing of it."""

import os
import textwrap

from kernel import DriverCase
from wire import built_in

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
            file.write(textwrap.dedent(text))

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

    def test_refused_imports_say_what_to_do(self):
        for code, module in (
            ("import os", "os"),
            ("import os.path", "os.path"),
            ("import os.path as p", "os.path"),
            ("import json, subprocess", "subprocess"),
            ("from os import path", "os"),
            ("from os import *", "os"),
            ("from sys import modules", "sys"),
            ("import ctypes.util", "ctypes.util"),
            ("import posix", "posix"),
            ("import _posixsubprocess", "_posixsubprocess"),
            ("import importlib, http.server", "http.server"),
        ):
            self.assert_refused(code, module)
        self.assert_usable()

    def test_refused_import_shows_the_line_of_the_program_alone(self):
        self.assertEqual(
            self.assert_refused("def deep():\n    import socket\ndeep()", "socket"),
            [
                "Traceback (most recent call last):",
                '  File "<cell 1>", line 3, in <module>',
                "    deep()",
                '  File "<cell 1>", line 2, in deep',
                "    import socket",
                f"ImportError: import socket {WHY}",
            ],
        )
        text = "import traceback\ntry:\n    import os\nexcept ImportError:\n    text = traceback.format_exc()\ntext.count('File')"
        self.assertEqual(self.value(text), 1)

    def test_every_way_to_ask_is_asked_about(self):
        for code, module in (
            ("__import__('os')", "os"),
            ("__import__('os.path')", "os.path"),
            ("__import__('os', fromlist=['path'])", "os"),
            ("__import__('os', globals(), None, [], 0)", "os"),
            ("__import__(name='os', globals={})", "os"),
            ("exec('import os')", "os"),
            ("exec('import os', {})", "os"),
            ("eval('__import__(\"os\")')", "os"),
            ("(lambda: __import__('os'))()", "os"),
            ("class A:\n    import os", "os"),
            ("async def f():\n    import os\nawait f()", "os"),
            ("import importlib\nimportlib.import_module('os')", "os"),
            ("importlib.import_module(name='os')", "os"),
            ("importlib.import_module('.path', package='os')", "os"),
            ("importlib.__import__('os')", "os"),
            ("from importlib import import_module as get\nget('subprocess')", "subprocess"),
            ("import importlib.util\nimportlib.util.module_from_spec(importlib.util.find_spec('os'))", "os"),
            ("import runpy", "runpy"),
        ):
            self.assert_refused(code, module)

    def test_what_runs_modules_is_asked_about_where_it_is_allowed(self):
        self.replace_kernel(modules=["*", "!json", "!xml.sax"])
        self.assert_refused("import runpy\nrunpy.run_module('json')", "json")
        self.assert_refused("runpy.run_module(mod_name='json.tool')", "json.tool")
        self.assertEqual(self.assert_allowed("import os, sys, subprocess, xml\nfrom xml import etree\n1"), 1)
        self.assert_refused("from xml import sax", "xml.sax")
        self.assert_refused("import xml.sax.handler", "xml.sax.handler")

    def test_closed_package_may_have_open_modules(self):
        self.assertEqual(self.assert_allowed("import urllib.parse\nfrom urllib import parse\nparse.quote('a b')"), "a%20b")
        self.assert_refused("from urllib import parse, request", "urllib")
        self.assert_refused("import urllib.request", "urllib.request")
        self.assert_refused("import urllib", "urllib")

    def test_each_module_is_reported_once_an_execution_and_at_most_sixteen(self):
        code = "for name in ['os'] * 3 + ['sys']:\n    try: __import__(name)\n    except ImportError: pass"
        for _ in range(2):
            done = self.kernel.execute(code)
            self.assertTrue(done["success"])
            self.assertEqual([it["detail"] for it in done["violations"]], ["os", "sys"])
        done = self.kernel.execute("for i in range(40):\n    try: __import__('os.' + 'x' * 200 + str(i))\n    except ImportError: pass")
        self.assertEqual(len(done["violations"]), 1)  # names are cut, and these are the same then
        done = self.kernel.execute("for i in range(40):\n    try: __import__(f'os.\\n{i}\\udead')\n    except ImportError: pass")
        self.assertEqual(len(done["violations"]), 16)
        self.assertNotIn("violations", self.kernel.execute("1"))

    def test_recorded_import_goes_on(self):
        for action in "record", "warn":
            self.replace_kernel(action=action)
            done = self.kernel.execute("import os\nfrom sys import argv\nos.sep")
            self.assertEqual((done["success"], done["result"]), (True, "/"))
            self.assertEqual([it["detail"] for it in done["violations"]], ["os", "sys"])

    def test_modules_of_ones_own_are_free_and_are_the_users_code(self):
        self.write("mine/__init__.py", "from . import inner\nfrom .inner import value\nimport json")
        self.write("mine/inner.py", "value = 7")
        self.write("spaces/part.py", "value = 8")
        self.write("curious.py", "import json\nimport os")
        self.assertEqual(self.assert_allowed("import mine\nfrom spaces import part\n[mine.value, part.value]"), [7, 8])
        traceback = self.assert_refused("import curious", "os")
        self.assertEqual(traceback[-3:-1], [f'  File "{os.path.realpath(self.cwd)}/curious.py", line 2, in <module>', "    import os"])
        self.assertEqual(self.assert_allowed("import types\nmade = types.ModuleType('made')\nimport pickle\nimport __main__\n1"), 1)

    def test_missing_module_is_missing_and_a_wrong_name_is_wrong(self):
        self.assertEqual(self.failure("import nowhere.at_all"), {
            "name": "ModuleNotFoundError",
            "message": "No module named 'nowhere'",
            "traceback": [
                "Traceback (most recent call last):",
                '  File "<cell 1>", line 1, in <module>',
                "    import nowhere.at_all",
                "ModuleNotFoundError: No module named 'nowhere'",
            ],
        })
        self.assertEqual(self.failure("import json.nowhere")["name"], "ModuleNotFoundError")
        self.assertEqual(self.failure("__import__(5)")["name"], "TypeError")
        self.assertEqual(self.failure("__import__('')")["name"], "ValueError")
        self.assertEqual(self.failure("import importlib\nimportlib.import_module(None)")["name"], "AttributeError")

    def test_module_that_fails_shows_nothing_of_ours(self):
        self.write("broken.py", "import json\n1 / 0")
        code = "import traceback\ntry:\n    import broken\nexcept ZeroDivisionError:\n    text = traceback.format_exc()\ntext"
        text = self.assert_allowed(code)
        self.assertEqual(text.count("File "), 2, text)
        self.assertNotIn("importlib", text)

    def test_warning_of_a_module_names_who_imported_it(self):
        self.write("old.py", "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)")
        self.assert_allowed("import old")
        self.kernel.stderr.wait_for("<cell 1>:1: DeprecationWarning: old")

    def test_library_that_works_for_a_cell_imports_what_it_needs(self):
        self.assertEqual(self.assert_allowed("import datetime\ndatetime.datetime.strptime('2026', '%Y').year"), 2026)
        self.assertEqual(self.assert_allowed("from collections import namedtuple\nnamedtuple('P', 'x')(1).x"), 1)
        self.assertEqual(self.assert_allowed("import timeit\ntimeit.timeit('os.getpid()', 'import os', number=1) > 0"), True)
        self.assertEqual(self.assert_allowed("import tempfile, pathlib, shutil\nwith tempfile.TemporaryDirectory() as d: pathlib.Path(d).exists()"), None)
        self.assertEqual(
            self.assert_allowed("import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: out = pool.map(abs, [-1, 2])\nout"),
            [1, 2],
        )
        self.assertIn("'OSError'", self.assert_allowed("import pickle\nrepr(pickle.loads(pickle.dumps(OSError)))"))

    def test_ordinary_library_modules_work(self):
        self.assertEqual(
            self.assert_allowed(
                "import json, math, re, datetime, collections, itertools, functools, random, statistics, decimal, fractions, string, "
                "textwrap, hashlib, base64, csv, uuid, heapq, bisect, copy, dataclasses, enum, typing, time\n"
                "import asyncio, threading, logging, warnings, traceback, io, getpass, inspect, sqlite3, concurrent.futures, "
                "collections.abc, xml.etree.ElementTree, gzip, zipfile, unittest.mock, contextlib, operator, pprint, struct\n"
                "await asyncio.sleep(0, len(uuid.uuid4().hex))"
            ),
            32,
        )

    def test_all_of_the_list_that_is_there_can_be_imported(self):
        self.assert_allowed(
            "import importlib, importlib.util, warnings\nwarnings.simplefilter('ignore')\n"
            f"for name in {built_in('python')!r}:\n"
            "    if importlib.util.find_spec(name.partition('.')[0]): importlib.import_module(name)"
        )

    def test_data_frames_and_plots_work(self):
        self.assertEqual(
            self.assert_allowed(
                "import numpy as np, pandas as pd\nframe = pd.DataFrame({'x': np.arange(4.0), 'g': list('abab')})\n"
                "frame.groupby('g').x.sum().to_dict()"
            ),
            {"a": 2.0, "b": 4.0},
        )
        self.assertEqual(self.assert_allowed("frame.to_csv('f.csv', index=False)\npd.read_csv('f.csv').shape[0]"), 4)
        self.assertEqual(self.assert_allowed("a = np.arange(3)\na.tofile('a.bin')\nint(np.fromfile('a.bin', dtype=a.dtype).sum())"), 3)
        self.kernel.shown.clear()
        self.assert_allowed("import matplotlib.pyplot as plt\nplt.plot(frame.x)\nplt.title('$x^2$')\nplt.show()")
        self.assertEqual([sorted(it["data"]) for it in self.kernel.shown], [["image/png", "text/plain"]])

    def test_questions_import_nothing_forbidden(self):
        self.kernel.execute("x = 1")
        for n, (kind, code) in enumerate((
            ("complete", "import subprocess; subprocess."),
            ("complete", "from ctypes import c_"),
            ("complete", "import os.pa"),
            ("inspect", "subprocess.run"),
            ("inspect", "__import__('ctypes')"),
            ("is_complete", "import ctypes"),
        )):
            self.kernel.send(t="query", n=(1 << 32) + n, kind=kind, code=code, cursor=len(code))
            self.assertEqual(self.kernel.receive()["t"], "reply")
        self.kernel.execute("import gc")
        loaded = self.value("[m.__name__ for m in gc.get_objects() if type(m) is type(gc) and m.__name__ in ('subprocess', 'ctypes')]")
        self.assertEqual(loaded, [])
        self.assertEqual(self.value("help"), "Type help() for interactive help, or help(object) for help about object.")

    def test_help_reads_about_everything(self):
        self.assert_allowed("help('os.getcwd')")
        self.kernel.stdout.wait_for("Return a unicode string representing the current working directory.")

    def test_relaxed_list_is_not_asked_where_it_allows_everything(self):
        self.replace_kernel(modules=["*"])
        self.assertEqual(self.assert_allowed("import os, ctypes\n(lambda: 0).__class__ is type(__import__)"), False)

    def test_program_may_wrap_the_import_of_its_own(self):
        self.assert_allowed("import builtins\nseen = []\ncall = builtins.__import__\ndef mine(name, *args, **named):\n    seen.append(name)\n    return call(name, *args, **named)\nbuiltins.__import__ = mine")
        self.assert_allowed("import fractions")
        self.assert_refused("import os", "os")
        self.assertEqual(self.assert_allowed("[seen[0], 'os' in seen]"), ["fractions", True])
