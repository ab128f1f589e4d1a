"""What tests of every driver need: frames on the control socket, and what comes out of a pipe."""

import json
import os
import shutil
import threading
from pathlib import Path

MODULES = Path(__file__).resolve().parents[2] / "src/runtime/modules"


def put_policy(driver, directory, language, action="refuse", modules=None):
    """Puts a driver into a directory as a sandbox has it: its files and imports.json. Returns its path there.

    `modules` is the list, else it is that of the level standard.
    """
    shutil.copytree(driver.parent, directory, dirs_exist_ok=True)
    policy = {
        "level": "standard",
        "action": action,
        "modules": built_in(language) if modules is None else modules,
        "way_out": "ask the operator",
    }
    with open(os.path.join(directory, "imports.json"), "w", encoding="utf-8") as file:
        json.dump(policy, file)
    return os.path.join(directory, driver.name)


def built_in(language):
    text = (MODULES / f"{language}.txt").read_text(encoding="utf-8").partition("[relaxed]")[0]
    lines = [line for line in text.splitlines() if line[:1] not in ("#", "[")]
    return " ".join(lines).split()


class Collected:
    """What has come out of a pipe so far: the pieces as single reads gave them."""

    def __init__(self, pipe, deadline):
        self.pieces = []
        self._pipe = pipe
        self._deadline = deadline
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while piece := os.read(self._pipe.fileno(), 65536):
            with self._news:
                self.pieces.append(piece)
                self._news.notify_all()

    def text(self):
        with self._news:
            return b"".join(self.pieces).decode()

    def wait_for(self, text):
        wanted = text.encode()
        self.wait_until(lambda data: wanted in data, f"{text!r} did not come")

    def wait_until(self, holds, message="it did not come"):
        with self._news:
            if not self._news.wait_for(lambda: holds(b"".join(self.pieces)), self._deadline):
                raise AssertionError(f"{message}, but {b''.join(self.pieces)!r}")

    def forget(self):
        with self._news:
            self.pieces.clear()

    def finish(self):
        self._thread.join(self._deadline)
        self._pipe.close()


class Wire:
    """The gateway's end of a control socket."""

    def __init__(self, control):
        self.control = control
        self.inbox = b""

    def send(self, **message):
        self.send_raw(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode())

    def send_raw(self, payload):
        self.control.sendall(b"%08d%b" % (len(payload), payload))

    def receive(self):
        """The next message, or None at the end."""
        header = self.receive_bytes(8)
        return header and json.loads(self.receive_bytes(int(header)))

    def receive_bytes(self, size):
        while len(self.inbox) < size:
            if not self.receive_more():
                return None
        data, self.inbox = self.inbox[:size], self.inbox[size:]
        return data

    def receive_more(self):
        try:
            piece = self.control.recv(65536)
        except ConnectionResetError:  # it ended with something unread
            piece = b""
        self.inbox += piece
        return bool(piece)
