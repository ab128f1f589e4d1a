#!/usr/bin/env python3
"""Records a first session in a terminal and draws it as docs/first-session.svg.

    scripts/record.py [--binary target/release/repltool] [--out docs/first-session.svg]

A server is started with an empty home and its defaults, so the port must be free; bash runs in a pseudo-terminal beside
it and is given the lines of `SESSION`. The picture holds what came out, and nothing else; each line appears when it came.
"""
import argparse
import fcntl
import html
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, PROMPT = 112, b"$ "
# Before each line that is typed, so that the picture can be followed.
PAUSE_S = 0.8
# What is typed. A line that ends in an open quote goes on in the next one, as it does in a shell.
SESSION = r"""
repltool doctor | head -2
repltool execute -c 'import time
for n in range(3): print("line", n); time.sleep(0.7)
6 * 7'
# The same over HTTP: a session keeps its variables.
api() { curl -sS -H "Authorization: Bearer $(cat ~/.local/state/repltool/token)" "$@"; }
sessions=http://127.0.0.1:8000/api/v1/sessions
id=$(api --json '{"language": "python"}' $sessions | grep -oP '"session_id":"\K\w+'); echo $id
api --json '{"code": "x = 20"}' $sessions/$id/execute | grep -o '"success":[a-z]*'
# The process that faces the network is killed. Its successor takes over the interpreters that live.
kill -9 $(pgrep -P $SERVER -f gateway)
api --json '{"code": "print(\"alive\"); x + 22"}' $sessions/$id/execute | grep -oP '"(output|result)":[^,]+'
# Everything was logged before it was sent, and can be read again from any number on.
api "$sessions/$id/events?after=5" | cut -c1-100
"""
LINE_PX, CHAR_PX, MARGIN_PX = 19, 8.4, 16


def start_server(binary, home):
    """Starts the server and waits for its first line, which it prints once it listens."""
    tools = home / "bin"
    tools.mkdir()
    (tools / "repltool").symlink_to(binary)
    environment = {"HOME": str(home), "PATH": f"{tools}:/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8"}
    with open(home / "server.log", "wb") as log:
        server = subprocess.Popen(["repltool", "serve"], env=environment, stdout=subprocess.PIPE, stderr=log, cwd=home)
    if not server.stdout.readline().startswith(b"http"):
        server.wait()
        sys.exit((home / "server.log").read_text(encoding="utf-8"))
    return server, environment | {"SERVER": str(server.pid), "PS1": "$ ", "PS2": "> "}


def read_until_prompt(terminal, chunks, ends=(PROMPT,)):
    """Appends (time, bytes) until the output ends with a prompt; a quiet terminal is given 30 seconds."""
    seen = b""
    while not any(seen.endswith(b"\n" + end) or seen == end for end in ends):
        if not select.select([terminal], [], [], 30)[0]:
            sys.exit(f"no prompt after {seen!r}")
        data = os.read(terminal, 65536)
        seen += data
        chunks.append((time.monotonic(), data))


def play(environment, home):
    """Types the session into bash and returns what came out as (time, bytes)."""
    shell, terminal = pty.fork()
    if shell == 0:
        os.chdir(home)
        os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    chunks = []
    read_until_prompt(terminal, chunks)
    for line in SESSION.strip().splitlines():
        time.sleep(PAUSE_S)
        os.write(terminal, line.encode() + b"\n")
        read_until_prompt(terminal, chunks, (PROMPT, b"> "))
    os.close(terminal)
    os.waitpid(shell, 0)
    return chunks


def to_lines(chunks):
    """Splits the output into (seconds since the start, text) by line; a line has the time of its last piece."""
    begin, lines, current = chunks[0][0], [], ""
    for at, data in chunks:
        for piece in data.decode("utf-8", "replace").replace("\r", "").splitlines(keepends=True):
            current += piece
            if piece.endswith("\n"):
                lines.append((at - begin, current.rstrip("\n")))
                current = ""
    while lines and not lines[-1][1].strip():
        lines.pop()
    # A terminal breaks what is longer than a line of it.
    return [(at, text[i : i + COLUMNS]) for at, text in lines for i in range(0, max(len(text), 1), COLUMNS)]


def draw(lines):
    """The terminal as SVG. Without support for animations every line is there from the beginning."""
    width = round(COLUMNS * CHAR_PX + 2 * MARGIN_PX)
    height = LINE_PX * len(lines) + 2 * MARGIN_PX
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<style>text{font:14px ui-monospace,'DejaVu Sans Mono',monospace;fill:#d8dee9;white-space:pre;"
        "animation:come 1ms backwards}.typed{fill:#a3d9a5}.note{fill:#8a93a5}@keyframes come{from{opacity:0}}"
        "@media(prefers-reduced-motion){text{animation:none}}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#1d212b"/>',
    ]
    for row, (at, text) in enumerate(lines):
        typed = "note" if text.startswith("$ #") else "typed" if text.startswith(("$ ", "> ")) else ""
        y = MARGIN_PX + LINE_PX * row + 14
        style = f'class="{typed}" ' if typed else ""
        shown = html.escape(text, quote=False)
        delay = f'style="animation-delay:{at:.2f}s"'
        out.append(f'<text {style}x="{MARGIN_PX}" y="{y}" {delay} xml:space="preserve">{shown}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", type=Path, default=ROOT / "target/release/repltool")
    p.add_argument("--out", type=Path, default=ROOT / "docs/first-session.svg")
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="repltool-record-") as folder:
        server, environment = start_server(args.binary.resolve(), Path(folder))
        try:
            chunks = play(environment, folder)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)
    args.out.write_text(draw(to_lines(chunks)), encoding="utf-8")
    print(f"{args.out}: {len(chunks)} pieces of output")


if __name__ == "__main__":
    main()
