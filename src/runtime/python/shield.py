"""The border between the driver and user code.

Signal handlers of Python run between any two instructions of the main thread, and may raise. While user code runs
that is wanted: SIGINT becomes KeyboardInterrupt, and a program may set alarms. Anywhere else it would end the driver.
So handlers, trace functions and a tiny recursion limit are put aside when user code ends, and come back with the next
execution; only SIGINT is always ours.
"""

import sys
from _signal import SIGINT, getsignal, signal

SIGNALS = range(1, 65)
ENOUGH_RECURSION = 1000


class Shield:
    """`idle_interrupt` handles SIGINT while no user code runs. `divert` may take it, by its frame, while some does."""

    def __init__(self, idle_interrupt, divert):
        self._idle_interrupt = idle_interrupt
        self._divert = divert
        self._handlers = {}  # those of the user, while they are put aside
        self._recursion_limit = None

    def run(self, call, *args):
        """Runs user code and returns (value, exception). Nothing that it raises passes, nor what its handlers raise.

        The outer layer is for signals that come in the few instructions before the handlers are put aside.
        """
        value = error = None
        try:
            try:
                self._wake()
                value = call(*args)
            except BaseException as raised:
                error = raised
            self._rest()
        except BaseException as late:
            if error is None:
                error = late
            self._rest()
        try:
            return value, error
        finally:
            value = error = None  # else the traceback would hold this frame, and the frame the exception

    def _wake(self):
        if self._recursion_limit is not None:
            sys.setrecursionlimit(self._recursion_limit)
            self._recursion_limit = None
        while self._handlers:
            number, handler = self._handlers.popitem()
            signal(number, handler)
        signal(SIGINT, self._interrupt)

    def _interrupt(self, signum, frame):
        if frame is None or frame.f_globals is globals():  # a little before or after the user's code
            self._idle_interrupt(signum, frame)
        elif not self._divert(frame):
            raise KeyboardInterrupt

    def _rest(self):
        while True:
            try:
                return self._put_aside()
            except BaseException:
                pass  # a handler or a trace function of the user has raised

    def _put_aside(self):
        signal(SIGINT, self._idle_interrupt)
        if sys.gettrace() is not None:
            sys.settrace(None)
        if callable(sys.getprofile()):
            sys.setprofile(None)
        for number in SIGNALS:
            handler = getsignal(number)
            if callable(handler) and handler is not void and number != SIGINT:
                self._handlers[number] = handler
                signal(number, void)
        if sys.getrecursionlimit() < ENOUGH_RECURSION:
            self._recursion_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(ENOUGH_RECURSION)
