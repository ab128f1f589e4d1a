"""Top-level await: one event loop a session, so background tasks go on whenever an execution awaits.

asyncio is imported when the first coroutine comes, not before: it costs more than all the rest of the driver.
"""

import sys

library = load("imports").library


class Loop:
    def __init__(self):
        self._loop = None
        self._task = None
        self._interrupted = False
        self._cancelled_at = None  # the traceback; asyncio drops it

    def run(self, coroutine):
        """Runs a coroutine to its end. An interrupt, or a background task's exit, cancels it."""
        asyncio = library("asyncio")
        if self._loop is None or self._loop.is_closed() or self._loop.is_running():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        self._interrupted = False
        self._task = self._loop.create_task(self._settle(coroutine, asyncio.CancelledError))
        try:
            value, error = self._run_task()
        except asyncio.CancelledError:
            if self._interrupted:
                raise KeyboardInterrupt().with_traceback(self._cancelled_at) from None
            raise
        finally:
            self._task = self._cancelled_at = None
        try:
            if error is not None:
                raise error
            return value
        finally:
            error = None  # else the traceback would hold this frame, and the frame the exception

    def _run_task(self):
        try:
            return self._loop.run_until_complete(self._task)
        except (KeyboardInterrupt, SystemExit):  # of a background task; the main one would go on with the next await
            self._task.cancel()
            try:
                self._loop.run_until_complete(self._task)
            except sys.modules["asyncio"].CancelledError:
                pass
            raise

    def take_interrupt(self, frame):
        """Cancels what is awaited, if the interrupted frame belongs to the loop itself, which would break halfway."""
        if self._task is None:
            return False
        while frame is not None and frame.f_code is not Loop._run_task.__code__:
            if not frame.f_code.co_filename.endswith("/selectors.py") and "/asyncio/" not in frame.f_code.co_filename:
                return False
            frame = frame.f_back
        self._interrupted = True
        self._task.cancel()
        self._loop.call_soon_threadsafe(int)  # wakes it
        return True

    def recover(self):
        """After an interrupt in a loop of the user's: none runs now, whatever asyncio believes."""
        if "_asyncio" in sys.modules:
            sys.modules["_asyncio"]._set_running_loop(None)

    async def _settle(self, coroutine, cancelled):
        """An exit that left the task would tear through the loop, and be reported a second time as never retrieved."""
        try:
            return await coroutine, None
        except cancelled as error:
            self._cancelled_at = error.__traceback__
            raise
        except BaseException as error:
            return None, error
