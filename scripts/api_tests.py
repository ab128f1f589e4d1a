#!/usr/bin/env python3
"""Plays requests that schemathesis makes up from the API's description against a server, and judges the answers by it.

    scripts/api_tests.py --binary target/release/repltool

The server is started for it, with a data directory of its own, and ends with it. What is played is the same each time:
the seed and the versions of all packages are fixed (scripts/api_tests/requirements.txt). They are installed once, below
~/.cache/repltool. Arguments after `--` go to schemathesis.
"""
import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent / "api_tests"
# The longest that the server may take to start or to stop, in seconds.
PATIENCE = 60


def environment():
    """The Python that has schemathesis, made if it is not there. Two runs at a time do not meet in it."""
    requirements = HERE / "requirements.txt"
    name = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "repltool"
    folder = cache / f"api-tests-{name}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        print(f"installing schemathesis into {folder}", flush=True)
        made = Path(tempfile.mkdtemp(prefix="api-tests-", dir=cache))
        try:
            venv.create(made, with_pip=True)
            pip = [made / "bin" / "python3", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, "-r", requirements], check=True)
            made.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder / "bin" / "python3"


def start(binary, folder):
    """A server with its data in a folder, and its address."""
    config = folder / "repltool.toml"
    # No session ends by itself while it is played with: what is answered depends on no clock.
    config.write_text("[sessions]\nidle_timeout_s = 3600\n")
    data = folder / "data"
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--data-dir", data]
    command += ["--config", config, "--rate-limits", "off"]
    known = {name: value for name, value in os.environ.items() if not name.startswith("REPLTOOL_")}
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=known)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        url = (data / "url").read_text().strip() if (data / "url").exists() else ""
        if url and is_ready(url):
            return server, url
        time.sleep(0.05)
    stop(server)
    sys.exit(f"the server does not start:\n{(folder / 'log').read_text(errors='replace')}")


def is_ready(url):
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def stop(server):
    server.terminate()
    try:
        server.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def play(python, url, token, more):
    """schemathesis' exit code."""
    with tempfile.TemporaryDirectory(prefix="repltool-api-") as scratch:
        command = [python, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml", "run"]
        command += [f"{url}/api/v1/openapi.json", *more]
        known = {**os.environ, "REPLTOOL_URL": url, "REPLTOOL_TOKEN": token, "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py")}
        # What it remembers of earlier runs would make this one another.
        return subprocess.run(command, cwd=scratch, env={**known, "PYTHONDONTWRITEBYTECODE": "1"}, check=False).returncode


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True, type=Path)
    p.add_argument("more", nargs="*", help="for schemathesis")
    args = p.parse_args()
    # What is told to end ends its server first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    python = environment()
    with tempfile.TemporaryDirectory(prefix="repltool-api-") as name:
        folder = Path(name)
        server, url = start(args.binary.resolve(), folder)
        try:
            code = play(python, url, (folder / "data" / "token").read_text().strip(), args.more)
            if server.poll() is not None:
                sys.exit("the server has ended")
        finally:
            stop(server)
        faults = [line for line in (folder / "log").read_text(errors="replace").splitlines() if " ERROR " in line]
    for line in faults:
        print(f"the server's log: {line}")
    return code or bool(faults)


if __name__ == "__main__":
    sys.exit(main())
