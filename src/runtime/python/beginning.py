"""What a session has of its own, laid over an interpreter that booted before anybody knew of that session."""

import sys
from posix import chdir, environ, putenv

WORKSPACE = "/workspace/"


def begin(message):
    """Takes over the session's variables and goes to its directory. No user code has run yet."""
    for variable in message["environment"]:
        name, _, value = variable.partition("=")
        putenv(name, value)
        environ[name.encode()] = value.encode()
        if "os" in sys.modules:
            sys.modules["os"].environ[name] = value  # it has a copy of its own
    if message["directory"]:
        chdir(WORKSPACE + message["directory"])
