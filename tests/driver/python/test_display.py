"""Rich output: display, values with more than a text, figures."""

import base64
import threading

from kernel import DriverCase

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


class Display(DriverCase):
    def displays(self, code):
        """Runs code that must succeed; returns the data of its displays."""
        self.kernel.shown.clear()
        self.value(code)
        return [display["data"] for display in self.kernel.shown]

    def rich(self, name, body):
        return f"class Rich:\n    def {name}: {body}\n    def __repr__(self): return 'plain'\nRich()"

    def shown_rich(self, name, body):
        return self.rich(name, body).removesuffix("Rich()") + "display(Rich())"

    def test_display_shows_text_of_anything(self):
        self.assertEqual(self.displays("display(5, 'text', None)"), [{"text/plain": "5"}, {"text/plain": "'text'"}, {"text/plain": "None"}])
        self.assertEqual({(display["n"], str(display["metadata"])) for display in self.kernel.shown}, {(1, "{}")})
        self.assertEqual(self.displays("display()\nclass C: pass\ndisplay(C)"), [{"text/plain": "<class '__main__.C'>"}])
        self.assert_printed("")

    def test_display_stands_at_its_place_in_the_output(self):
        self.kernel.start("import sys\nsys.stdout = open(1, 'w', closefd=False)\nprint('before', end='')\ndisplay(1)\nprint('after')")
        display = self.kernel.receive()
        self.kernel.stdout.wait_for("before")
        self.kernel.hello()
        self.assertEqual(self.kernel.receive(), display)
        self.assertEqual(self.kernel.stdout.text(), "before")
        self.kernel.send(t="ack", m=display["m"])
        self.assertTrue(self.kernel.done()["success"])
        self.kernel.stdout.wait_for("beforeafter\n")

    def test_values_with_another_form_are_shown_before_done(self):
        image = base64.b64encode(PNG).decode()
        for name, body, kind, content in (
            ("_repr_html_(self)", "return '<b>é</b>'", "text/html", "<b>é</b>"),
            ("_repr_markdown_(self)", "return '*m*'", "text/markdown", "*m*"),
            ("_repr_latex_(self)", "return '$x$'", "text/latex", "$x$"),
            ("_repr_svg_(self)", "return '<svg/>'", "image/svg+xml", "<svg/>"),
            ("_repr_svg_(self)", "return b'<svg/>'", "image/svg+xml", "<svg/>"),
            ("_repr_png_(self)", f"return {PNG!r}", "image/png", image),
            ("_repr_png_(self)", f"return {image!r}", "image/png", image),
            ("_repr_jpeg_(self)", "return bytearray(b'\\xff\\xd8')", "image/jpeg", "/9g="),
            ("_repr_json_(self)", "return {'a': (1, None), 2: True}", "application/json", {"a": [1, None], "2": True}),
            ("_repr_mimebundle_(self, include=None, exclude=None)", "return {'x/y+json': [1.5]}", "x/y+json", [1.5]),
        ):
            self.assertEqual(self.displays(self.rich(name, body)), [{kind: content, "text/plain": "plain"}], name)
            self.assertEqual(self.value("_"), "plain")

    def test_plain_values_and_statements_show_nothing(self):
        for code in (self.rich("_repr_html_(self)", "return None"), "1", "'x'", "[1]", "object()", "x = object()", "None", "len", "int", self.rich("_repr_html_(self)", "return ''") + ";None"):
            self.assertEqual(self.displays(code), [], code)

    def test_metadata_travels_with_the_data(self):
        self.value("display(1, 2, metadata={'a': [1]})")
        self.value(self.rich("_repr_html_(self)", "return 'h', {'isolated': True}"))
        self.value(self.rich("_repr_mimebundle_(self, **_)", "return {'text/plain': 'own'}, {'k': 1}") + "\ndisplay(Rich(), metadata={'k': 2})")
        told = [(display["data"], display["metadata"]) for display in self.kernel.shown]
        self.assertEqual(
            told,
            [
                ({"text/plain": "1"}, {"a": [1]}),
                ({"text/plain": "2"}, {"a": [1]}),
                ({"text/html": "h", "text/plain": "plain"}, {"text/html": {"isolated": True}}),
                ({"text/plain": "own"}, {"k": 2}),
            ],
        )

    def test_raw_bundles_are_shown_as_they_are(self):
        bundle = "{'text/html': '<i>', 'image/gif': b'GIF8', 'application/json': [1], 'application/x+json': {'a': None}}"
        self.assertEqual(self.displays(f"display({bundle}, raw=True)"), [{"text/html": "<i>", "image/gif": "R0lGOA==", "application/json": [1], "application/x+json": {"a": None}}])
        for wrong, name in (
            ("'text', raw=True", "TypeError"),
            ("{'text/html': 5}, raw=True", "TypeError"),
            ("{5: 'x'}, raw=True", "TypeError"),
            ("{'application/json': {1, 2}}, raw=True", "TypeError"),
            ("{'application/json': float('nan')}, raw=True", "ValueError"),
            ("1, metadata='x'", "TypeError"),
            ("1, metadata={'x': object()}", "TypeError"),
        ):
            self.assertEqual(self.failure(f"display({wrong})")["name"], name, wrong)
        nested = "n = []\nfor _ in range(200): n = [n]\ndisplay({'application/json': n}, raw=True)"
        self.assertEqual(self.failure(nested)["name"], "ValueError")
        self.assertEqual(self.failure("n = []; n.append(n)\ndisplay({'application/json': n}, raw=True)")["name"], "ValueError")

    def test_form_that_cannot_be_had_is_left_out_and_told(self):
        self.assertEqual(self.displays(self.shown_rich("_repr_html_(self)", "1 / 0")), [{"text/plain": "plain"}])
        self.assertEqual(self.displays(self.shown_rich("_repr_html_(self)", "raise NotImplementedError")), [{"text/plain": "plain"}])
        self.assertEqual(self.displays(self.shown_rich("_repr_html_(self)", "return None")), [{"text/plain": "plain"}])
        self.assertEqual(self.displays(self.shown_rich("_repr_html_(self)", "return 5")), [{"text/plain": "plain"}])
        self.assertEqual(self.displays(self.shown_rich("_repr_mimebundle_(self)", "return {}")), [{"text/plain": "plain"}])
        self.kernel.stderr.wait_for("display: no _repr_html_ of Rich: ZeroDivisionError: division by zero\n")
        self.kernel.stderr.wait_for("display: no text/html of Rich: TypeError")
        self.kernel.stderr.wait_for("display: no _repr_mimebundle_ of Rich: TypeError")
        self.assertEqual(self.kernel.stderr.text().count("\n"), 3)
        broken = "class B:\n    def __repr__(self): 1 / 0\n    def _repr_html_(self): return 'h'\ndisplay(B())"
        self.assertEqual(self.displays(broken), [{"text/html": "h"}])

    def test_objects_that_claim_everything_show_their_text(self):
        self.assertEqual(self.displays("class Any:\n    def __getattr__(self, name): return lambda *a, **k: 'any'\n    def __repr__(self): return 'r'\nAny()"), [])
        self.assertEqual(self.displays("from unittest.mock import MagicMock\nm = MagicMock()\nm"), [])
        self.assertEqual(self.displays("class M(type):\n    __hash__ = None\n    def __getattr__(c, name): raise OSError\nclass C(metaclass=M): pass\nC()"), [])

    def test_object_may_show_itself(self):
        self.assertEqual(self.displays("class Own:\n    def _ipython_display_(self): display('own'); print('printed')\n    def _repr_html_(self): return 'no'\nOwn()"), [{"text/plain": "'own'"}])
        self.assertEqual(self.displays("display(Own(), 2)"), [{"text/plain": "'own'"}, {"text/plain": "2"}])

    def test_classes_show_what_they_are_given(self):
        with open(f"{self.cwd}/dot.png", "wb") as file:
            file.write(PNG)
        shown = self.displays(
            "display(display.HTML('<b>'), display.Markdown('*'), display.Latex('$'), display.SVG('<svg/>'), display.JSON([1]))\n"
            "display.Image(filename='dot.png')"
        )
        contents = [next(iter(data.items())) for data in shown]
        image = base64.b64encode(PNG).decode()
        self.assertEqual(
            contents,
            [("text/html", "<b>"), ("text/markdown", "*"), ("text/latex", "$"), ("image/svg+xml", "<svg/>"), ("application/json", [1]), ("image/png", image)],
        )
        self.assertEqual(self.displays("display.Image(b'GIF8')")[0]["image/gif"], "R0lGOA==")
        self.assertEqual(self.failure("display.Nothing")["name"], "AttributeError")
        self.assertEqual(self.value("'HTML' in dir(display)"), True)

    def test_display_is_like_a_builtin(self):
        self.assertEqual(self.value("class C:\n    show = display\nC().show(1)\nimport pickle, inspect, copy\n[pickle.loads(pickle.dumps(display)) is display, str(inspect.signature(display)), copy.copy(display) is display]"), [True, "(*objects, metadata=None, raw=False)", True])
        self.assertEqual(self.value("display = 5\ndisplay"), 5)
        self.assertEqual(self.displays("del display\ndisplay(6)"), [{"text/plain": "6"}])

    def test_display_above_the_limit_is_an_error_that_names_it(self):
        exception = self.failure("display('x' * (4 << 20))")
        self.assertEqual((exception["name"], "4 MiB" in exception["message"]), ("ValueError", True))
        self.assertEqual(len(self.displays("display('x' * 4000000)")[0]["text/plain"]), 4000002)
        self.assertEqual(self.displays(self.rich("_repr_html_(self)", "return 'x' * (5 << 20)")), [])
        self.kernel.stderr.wait_for("4 MiB")
        self.assert_usable()

    def test_surrogates_and_controls_come_as_text(self):
        self.assertEqual(self.displays("display({'text/plain': '\\udead \\x00 \"\\\\', 'text/\\ud800': 'x'}, raw=True)"), [{"text/plain": '\\udead \x00 "\\', "text/\\ud800": "x"}])

    def test_display_can_be_interrupted_and_stays_in_step(self):
        self.kernel.start("display(1)\nwhile True: pass")
        first = self.kernel.receive()
        self.kernel.interrupt()
        done = self.kernel.receive()
        self.assertEqual((done["t"], done["exception"]["name"]), ("done", "KeyboardInterrupt"))
        self.kernel.hello()
        self.assertEqual([self.kernel.receive(), self.kernel.receive()], [first, done])
        self.kernel.start("display(2)")
        second = self.kernel.receive()
        self.assertEqual((second["data"], second["n"]), ({"text/plain": "2"}, 2))
        self.kernel.send(t="ack", m=first["m"])
        self.kernel.send(t="ack", m=second["m"])
        self.assertTrue(self.kernel.done()["success"])

    def test_thread_shows_while_the_main_thread_computes_waits_or_is_idle(self):
        self.value("import threading, time\ngate, shown = threading.Semaphore(0), threading.Semaphore(0)\ndef work():\n    while True:\n        gate.acquire(); display('bg'); shown.release()\nthreading.Thread(target=work, daemon=True).start()")
        self.assertEqual(self.displays("gate.release()\nwhile not shown.acquire(blocking=False): pass"), [{"text/plain": "'bg'"}])
        self.value("threading.Timer(0.05, gate.release).start()")
        idle = self.kernel.reliable()
        self.assertEqual((idle["n"], idle["data"]), (0, {"text/plain": "'bg'"}))
        self.assertEqual(self.value("shown.acquire(timeout=10)"), True)
        self.value("threading.Timer(0.05, gate.release).start()")
        late = self.kernel.receive()
        self.kernel.start("gate.release()\nshown.acquire(timeout=10) and shown.acquire(timeout=10)")
        self.kernel.send(t="ack", m=late["m"])
        self.assertEqual((self.kernel.done()["result"], late["n"], self.kernel.shown[-1]["n"]), (True, 0, 6))

    def test_many_threads_show_at_once(self):
        code = "import threading\ndef work(i):\n    for j in range(20): display({'a/b': f'{i}.{j}'}, raw=True)\nall = [threading.Thread(target=work, args=(i,)) for i in range(5)]\nfor t in all: t.start()\nfor j in range(20): display({'a/b': f'5.{j}'}, raw=True)\nfor t in all: t.join()"
        shown = [data["a/b"] for data in self.displays(code)]
        self.assertEqual(len(shown), 120)
        for i in range(6):
            self.assertEqual([text for text in shown if text.startswith(f"{i}.")], [f"{i}.{j}" for j in range(20)])

    def test_unacknowledged_displays_of_threads_hold_up_no_execution(self):
        self.kernel.start("import threading\ndef show(): display('waits')\nall = [threading.Thread(target=show) for _ in range(3)]\nfor t in all: t.start()")
        waiting = [message for message in (self.kernel.receive() for _ in range(4)) if message["t"] == "display"]
        for n in (2, 3, 4):
            self.kernel.start("sum(t.is_alive() for t in all)")
            done = self.kernel.receive()
            self.assertEqual((done["n"], done["result"]), (n, 3))
        self.kernel.hello()
        self.assertEqual(sorted(self.kernel.receive()["t"] for _ in range(7)), ["display"] * 3 + ["done"] * 4)
        self.kernel.send(t="ack", m=waiting[-1]["m"])
        self.assertEqual(self.value("for t in all: t.join()\n1"), 1)

    def test_child_made_by_fork_prints_instead(self):
        code = "import os\npid = os.fork()\nif pid == 0:\n    display(1, display.HTML('<b>'))\n    os._exit(0)\nos.waitpid(pid, 0)[1]"
        self.assertEqual(self.value(code), 0)
        self.value("import multiprocessing\nwith multiprocessing.get_context('fork').Pool(1) as pool: pool.map(display, ['x'])")
        self.assertEqual(self.kernel.shown, [])
        self.kernel.stdout.wait_for("1\n<display.HTML>\n'x'\n")

    def test_finaliser_that_shows_in_the_midst_of_a_message_prints_instead(self):
        self.value("import gc\nclass Cycle:\n    def __init__(self): self.me = self\n    def __del__(self): display('gone')\ngc.set_threshold(1)")
        for _ in range(30):
            self.kernel.execute("for _ in range(30): Cycle()")
        self.assertEqual(self.value("gc.set_threshold(700, 10, 10)\n1"), 1)
        count = len(self.kernel.shown) + self.kernel.stdout.text().count("'gone'\n")
        self.assertGreater(count, 800)

    def test_display_works_inside_await(self):
        self.assertEqual(self.displays("import asyncio\nasync def f(): display('in')\nawait asyncio.gather(f(), f())\nNone"), [{"text/plain": "'in'"}] * 2)


class Figures(DriverCase):
    """With the real packages, not with stand-ins."""

    def packages(self, *names):
        for name in names:
            self.assertTrue(self.kernel.execute(f"import {name}")["success"], f"Debian's package python3-{name} is needed")

    def plots(self):
        self.packages("matplotlib")
        self.value("import matplotlib.pyplot as plt")

    def kinds(self, code):
        self.kernel.shown.clear()
        self.value(code)
        return [sorted(display["data"]) for display in self.kernel.shown]

    def test_show_displays_figures_and_closes_them(self):
        self.plots()
        self.assertEqual(self.kinds("plt.plot([1, 2])\nplt.figure()\nplt.plot([2, 1])\nplt.show()\n[plt.get_fignums(), plt.get_backend()]"), [["image/png", "text/plain"]] * 2)
        self.assertEqual(base64.b64decode(self.kernel.shown[0]["data"]["image/png"])[:4], b"\x89PNG")
        self.assertEqual(self.kernel.shown[0]["data"]["text/plain"], "<Figure size 640x480 with 1 Axes>")
        self.assertEqual(self.value("[*plt.get_fignums(), plt.get_backend()]"), ["agg"])
        self.assertEqual(self.kinds("plt.plot([1]); plt.show(block=True)\nplt.show()"), [["image/png", "text/plain"]])
        self.assert_printed("", "stderr")

    def test_figure_left_open_is_displayed_at_the_end_once(self):
        self.plots()
        self.assertEqual(self.kinds("fig, ax = plt.subplots()\nax.plot([1, 2])\nprint('end')"), [["image/png", "text/plain"]])
        self.assertEqual(self.kinds("1"), [])
        self.assertEqual(self.kinds("fig"), [["image/png", "text/plain"]])
        self.assertEqual(self.kinds("fig, ax = plt.subplots()\nfig"), [["image/png", "text/plain"]])
        self.assertEqual(self.kinds("fig = plt.figure()"), [])
        self.kernel.shown.clear()
        self.failure("plt.plot([1])\n1 / 0")
        self.assertEqual(len(self.kernel.shown), 1)

    def test_figure_of_an_interrupted_execution_is_dropped(self):
        self.plots()
        self.kernel.start("plt.plot([1])\nprint('go')\nwhile True: pass")
        self.kernel.stdout.wait_for("go")
        self.assertFalse(self.kernel.interrupt_until_done()["success"])
        self.kernel.hello()
        self.assertEqual((self.kernel.shown, self.kinds("1")), ([], []))

    def test_chosen_backend_stays(self):
        self.assertEqual(self.value("import os\nos.environ['MPLBACKEND'] = 'svg'\nimport matplotlib, matplotlib.pyplot as plt\nmatplotlib.get_backend()"), "svg")
        self.assertEqual(self.value("matplotlib.use('Agg')\nmatplotlib.get_backend().lower()"), "agg")
        self.assertEqual(self.kinds("plt.plot([1])\nplt.show()"), [["image/png", "text/plain"]])

    def test_figure_that_cannot_be_drawn_is_told(self):
        self.plots()
        self.assertEqual(self.kinds("plt.title('$\\\\nonsense{$')\nplt.show()\nplt.plot([1])"), [["image/png", "text/plain"]])
        self.kernel.stderr.wait_for("display: ValueError")

    def test_tables_come_as_html_and_text(self):
        self.packages("pandas")
        code = "pandas.DataFrame({'col': [1, 2]})"
        self.assertEqual(self.kinds(code), [["text/html", "text/plain"]])
        data = self.kernel.shown[0]["data"]
        self.assertIn("<th>col</th>", data["text/html"])
        self.assertEqual(data["text/plain"], "   col\n0    1\n1    2")
        self.assertEqual(self.value(code), data["text/plain"])
        self.assertEqual(self.kinds("pandas.Series([1])"), [])
        self.assertEqual(self.kinds("display(pandas.DataFrame())"), [["text/html", "text/plain"]])

    def test_arrays_and_scalars_come_as_their_printed_form(self):
        self.packages("numpy", "pandas")
        for code, result in (
            ("numpy.array([1, 2])", "array([1, 2])"),
            ("numpy.int64(5)", "5"),
            ("numpy.float64('nan')", "nan"),
            ("numpy.bool_(True)", "True"),
            ("[numpy.float64(1.5)]", "[1.5]"),
            ("pandas.Timestamp('2026-01-02')", "Timestamp('2026-01-02 00:00:00')"),
        ):
            self.assertEqual(self.value(code), result)
        self.assertLess(len(self.value("numpy.zeros((1000, 1000))")), 1000)

    def test_files_of_the_user_are_not_patched_in_the_place_of_packages(self):
        code = "import os, sys\nos.mkdir('matplotlib'); open('matplotlib/__init__.py', 'w').write('x = 1')\nopen('getpass.py', 'w').write('y = 2')\nsys.path.insert(0, '')\nimport matplotlib, getpass\n[matplotlib.x, getpass.y, hasattr(getpass, 'getpass')]"
        self.assertEqual(self.value(code), [1, 2, False])
