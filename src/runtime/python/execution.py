"""Runs executions in the namespace of a session, which is its module `__main__`.

    compile ── run ── value as text ── flush        An exception ends this anywhere; then it is made
    └───── may be interrupted throughout ──┘        text in the same way, since that too runs user code.
"""

import __future__
import builtins
import sys
from _ast import Expr, Expression, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from _sitebuiltins import _Helper
from mmap import mmap
from posix import _exit, getpid, register_at_fork
from time import monotonic_ns

streams = load("streams")
report = load("report")
quote = load("jsontext").quote

CO_COROUTINE = 0x80
NO_VALUE = "null", None, False
NO_MEMORY = (
    '"success":false,"result":null,"result_text":null,"exception":{"name":"MemoryError","message":"","traceback":'
    '["MemoryError: no memory for the report"]},"exit_code":null,"truncated":true,"end_ns":'
)
NO_ANSWER = {
    "complete": '{"matches":[],"cursor_start":CURSOR,"cursor_end":CURSOR}',
    "inspect": '{"found":false,"data":{}}',
    "is_complete": '{"status":"unknown","indent":""}',
}
RESERVE = 8 << 20  # for the report of a program that has used up all memory; untouched pages cost nothing
MORE_THAN_AN_EXPRESSION = frozenset("\n\r=;")
FUTURES = 0
for _name in __future__.all_feature_names:
    FUTURES |= getattr(__future__, _name).compiler_flag


class Interpreter:
    def __init__(self, descriptors, control):
        self._process = getpid()
        self._reserve = mmap(-1, RESERVE)
        self._descriptors = descriptors
        self._stdout, self._stderr = streams.install()
        self._input = load("stdin").Input(control.ask)
        self._display = builtins.display = load("display").Display(control)
        self._loop = load("awaiting").Loop()
        self._shield = load("shield").Shield(control.note_interrupt, self._loop.take_interrupt)
        self._take_interrupt = control.take_interrupt
        self._futures = 0
        main = sys.modules["__main__"] = type(sys)("__main__")
        main.__builtins__ = builtins
        self._namespace = vars(main)
        _offer_what_site_would()
        self._imports, guards = load("importlib_bootstrap").install()
        load("imports").Patches({
            **guards,
            "getpass": self._input.patch_getpass,
            "matplotlib": lambda module: load("figures").choose_backend(module),
            "matplotlib.backends.backend_agg": lambda module: setattr(module, "show", self._display.show_figures),
        })
        register_at_fork(after_in_child=control.leave)

    def run(self, code, count, stdin):
        """Runs an execution. Returns the fields of its `done` message, as JSON without the braces."""
        self._descriptors.restore(reads=stdin != "none")
        value, error = self._shield.run(self._evaluate, code, f"<cell {count}>")
        try:
            exit_code = exception = None
            if error is not None:
                exit_code, exception = self._tell(error)
                value = None
            end_ns = monotonic_ns()
            if getpid() != self._process:
                _leave_child(exit_code, exception)
            violations = self._imports.take_violations() if self._imports else ""
            return violations + _fields(value or NO_VALUE, exit_code, exception, end_ns)
        finally:
            error = None  # else its traceback would hold this frame, and the frame the exception

    def answer(self, query):
        """Returns the body of the reply to a query, as JSON."""
        cursor = query["cursor"] = max(0, min(query.get("cursor", 0), len(query["code"])))
        body, _ = self._shield.run(self._answer, query)
        return body or NO_ANSWER[query["kind"]].replace("CURSOR", str(cursor))

    def _answer(self, query):
        if self._take_interrupt():
            raise KeyboardInterrupt
        return load("queries").answer(query, self._namespace, self._futures)

    def _tell(self, error):
        """Returns (exit code or None, the exception as `report.exception_parts` or None for a clean exit)."""
        if isinstance(error, MemoryError):
            self._reserve.close()
        if isinstance(error, KeyboardInterrupt):
            self._loop.recover()
        self._shield.run(self._leave_figures, error)
        told, trouble = self._shield.run(self._conclude, error)
        if type(error) is KeyboardInterrupt and isinstance(trouble, KeyboardInterrupt):
            # A second one, for what the first has ended already.
            told, trouble = self._shield.run(self._conclude, error)
        if told is None:
            self._reserve.close()
            told = None, report.plain_exception_parts(error, trouble)
        return told

    def prepare(self):
        """Makes ready, while nothing waits, what the next execution needs."""
        try:
            report.warm_up()
        except MemoryError:
            pass  # it is tried again
        size = RESERVE
        while self._reserve.closed and size >= 1 << 18:
            try:
                mmap(-1, 2 * size).close()  # as much again must be left to work with
                self._reserve = mmap(-1, size)
            except (MemoryError, OSError):
                size //= 2

    def rehearse(self):
        """Runs a line as an execution does, for nobody, so that the first one finds in memory what it needs."""
        *_, step = self._compile("1 + 1", "<rehearsal>")
        _fields(report.value_fields(eval(step, {"__builtins__": {}})), None, None, monotonic_ns())

    def no_memory(self):
        """The fields of a `done` message, when there was no memory for the true ones."""
        self._reserve.close()
        return NO_MEMORY + str(monotonic_ns())

    def _evaluate(self, code, name):
        """Runs the code; returns its value as `report.value_fields`."""
        if self._take_interrupt():
            raise KeyboardInterrupt
        self._restore_streams()
        self._namespace.pop("__warningregistry__", None)  # a warning is shown once an execution, not once a session
        report.remember_source(name, code)
        steps = self._compile(code, name)
        if any(step.co_flags & CO_COROUTINE for step in steps):
            value = self._loop.run(self._await_steps(steps))
        else:
            value = None
            for step in steps:
                value = eval(step, self._namespace)
        if value is not None:
            builtins._ = value
        fields = report.value_fields(value)
        self._display.show_value(value)
        streams.flush()
        return fields

    def _compile(self, code, name):
        """Returns the code objects of the statements and of a trailing expression, as far as there are any."""
        flags = PyCF_ALLOW_TOP_LEVEL_AWAIT | self._futures
        # Most short code is one expression, which needs no tree. One that begins with white space is an error.
        if MORE_THAN_AN_EXPRESSION.isdisjoint(code) and not code[:1].isspace():
            try:
                return [compile(code, name, "eval", flags, dont_inherit=True)]
            except SyntaxError:
                pass  # it is a statement, or the error is told below
        steps = []
        tree = compile(code, name, "exec", flags | PyCF_ONLY_AST, dont_inherit=True)
        tail = tree.body.pop() if tree.body and type(tree.body[-1]) is Expr else None
        if tree.body:
            steps.append(compile(tree, name, "exec", flags, dont_inherit=True))
            flags |= steps[0].co_flags & FUTURES
        if tail is not None:
            steps.append(compile(Expression(tail.value), name, "eval", flags, dont_inherit=True))
        self._futures = flags & FUTURES
        return steps

    async def _await_steps(self, steps):
        value = None
        for step in steps:
            value = eval(step, self._namespace)
            if step.co_flags & CO_COROUTINE:
                value = await value
        return value

    def _leave_figures(self, error):
        if isinstance(error, (KeyboardInterrupt, MemoryError)):
            self._display.drop_figures()
        else:
            self._display.show_value(None)

    def _conclude(self, error):
        exit_code = _exit_code(error) if isinstance(error, SystemExit) else None
        streams.flush()
        return exit_code, None if exit_code == 0 else report.exception_parts(error)

    def _restore_streams(self):
        """Puts our streams where the program has left none that works; those of its own stay."""
        if self._input.stream.source.used:
            self._input.renew()
        for name, stream in ("stdin", self._input.stream), ("stdout", self._stdout), ("stderr", self._stderr):
            current = getattr(sys, name, None)
            if current is not stream and _is_closed(current):
                setattr(sys, name, stream)


def _fields(value, exit_code, exception, end_ns):
    result, text, truncated = value
    told = "null"
    if exception is not None:
        told = report.exception_json(*exception[:3])
        truncated = truncated or exception[3]
    return (
        f'"success":{"true" if exception is None else "false"},"result":{result},'
        f'"result_text":{"null" if text is None else quote(text)},"exception":{told},'
        f'"exit_code":{"null" if exit_code is None else exit_code},'
        f'"truncated":{"true" if truncated else "false"},"end_ns":{end_ns}'
    )


def _is_closed(stream):
    try:
        return stream is None or bool(stream.closed)
    except AttributeError:
        return False
    except Exception:
        return True  # it is detached from what it wrote to


def _exit_code(error):
    """The status that `SystemExit` asks for. As in Python, what is no number is printed and means 1."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _leave_child(exit_code, exception):
    """Ends a child made by fork that has come to the end of the code: what follows is the parent's."""
    if exception is not None and exit_code is None:
        streams.write_whole(2, "\n".join([*exception[2], ""]).encode("utf-8", "backslashreplace"))
        exit_code = 1
    _exit(exit_code or 0)


def _offer_what_site_would():
    def leave(code=None):
        """Ends the execution, not the session."""
        raise SystemExit(code)

    builtins.exit = builtins.quit = leave
    builtins.help = _Helper()
