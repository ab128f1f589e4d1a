"""The descriptors 0, 1 and 2: what they are during an execution, and the copies from which they come back.

A program may close them, so that the next file it opens takes the number, or put something else in their place. They
are put back without a look at what they are: that costs less than the look.
"""

from posix import O_CLOEXEC, O_RDONLY, close, dup2, open, sysconf


def move_high(descriptor, below_top):
    """Copies a descriptor to the upper end, away from the numbers that programs count on. Not inherited by exec."""
    limit = sysconf("SC_OPEN_MAX")
    target = (min(limit, 1024) if limit > 0 else 1024) - below_top
    dup2(descriptor, target, inheritable=False)
    return target


class Descriptors:
    def __init__(self):
        null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        self._input, self._no_input = move_high(0, 5), move_high(null, 6)
        self._output, self._errors = move_high(1, 3), move_high(2, 4)
        close(null)

    def restore(self, reads):
        """Makes them what they were at start; 0 is that only if the execution `reads`, and else /dev/null."""
        try:
            dup2(self._output, 1)
            dup2(self._errors, 2)
            dup2(self._input if reads else self._no_input, 0)
        except OSError:
            pass  # the copies are gone as well
