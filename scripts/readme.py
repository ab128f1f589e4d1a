#!/usr/bin/env python3
"""Runs the commands of README.md and the documents, and compares what they print with what stands there.

    scripts/readme.py --binary target/release/repltool [DOCUMENT…]

Blocks are told apart by the word behind their fence:

- `console`: lines with `$ ` are commands, what follows is their output, standard error included
- `sh`: commands without output, each of which must succeed
- `python`: a file; its first line is a comment with its name
- `toml`: settings; `repltool config show` must take them
- `text`, `json`, `jsonc`, `nginx`: nothing to run

Each document is run by one shell, from its beginning to its end, in an empty directory with a home of its own, and in a
network of its own, so that port 8000 is free. A server runs meanwhile: it is started where the document says
`repltool serve`, or before its first command. What differs from run to run is masked on both sides (see MASKS); a line
that is `…` alone stands for any lines. A document with a fault is played once more, and is listed as flaky if it has
none then: the same rule as for the tests in Rust (.config/nextest.toml).
"""
import argparse
import ctypes
import difflib
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "docs/cli.md", "docs/operations.md", "docs/recovery.md"]

# What is not run, by its beginning, and why.
NOT_RUN = {
    "make ": "builds, serves or tests: this script is a part of it",
}
# What is run, but prints what another machine prints otherwise.
NOT_COMPARED = {
    "repltool doctor": "says what this machine gives",
    "repltool execute --max-memory": "where cgroups are not writable, Python says MemoryError before it",
}
SERVE = "repltool serve"

MASKS = [
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "[token]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+Z|Z)?", "[time]"),
    (r"\b[A-Za-z0-9]{22}\b", "[id]"),
    (r"\b\d+ ms\b", "[duration]"),
    (r'("(?:cpu_time_ms|execution_time_ms|peak_memory_bytes)":)\d+', r"\1[n]"),
]
SECONDS = 120
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


class Command:
    def __init__(self, line, text, expected):
        self.line, self.text, self.expected = line, text, expected  # expected: a text, or None if it must succeed


def blocks(path):
    """(line, word, text) of each fenced block."""
    fence, found = None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if fence is None and line.startswith("```"):
            fence, body = (number + 1, line[3:].strip()), []
        elif fence is not None and line.strip() == "```":
            found.append((*fence, body))
            fence = None
        elif fence is not None:
            body.append(line)
    return found


def console(first, body):
    """The commands of a console block, each with what it prints."""
    commands, continued = [], False
    for number, line in enumerate(body, first):
        if continued:
            commands[-1].text += "\n" + line
        elif line.startswith("$ "):
            commands.append(Command(number, line[2:], ""))
        elif commands:
            commands[-1].expected += line + "\n"
        else:
            sys.exit(f"line {number}: output without a command")
        continued = (continued or line.startswith("$ ")) and line.endswith("\\")
    return commands


def read(path, folder):
    """The commands of a document; its files are written into the folder."""
    commands = []
    for first, word, body in blocks(path):
        text = "\n".join(body) + "\n"
        if word == "console":
            commands += console(first, body)
        elif word == "sh":
            lines = enumerate(body, first)
            commands += [Command(n, line, None) for n, line in lines if line.strip() and not line.startswith("#")]
        elif word == "python":
            name = re.fullmatch(r"# (\w+\.py)", body[0])
            if not name:
                sys.exit(f"{path.name}:{first}: the first line of a program is its name")
            (folder / name[1]).write_text(text, encoding="utf-8")
        elif word == "toml":
            name = f"settings-{first}.toml"
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o600)
            commands.append(Command(first, f"repltool config show --config {name} >{name}.out", None))
        elif word not in ("text", "json", "jsonc", "nginx"):
            sys.exit(f"{path.name}:{first}: a block must say what it is, not {word!r}")
    return [command for command in commands if not command.text.startswith(tuple(NOT_RUN))]


def script(commands, out):
    """One shell script: each command with its output in a file, and `$?` as it was left by the one before."""
    ready = "timeout 30 sh -c 'until curl -sfo /dev/null http://127.0.0.1:8000/readyz; do sleep 0.05; done'"
    start = f"{SERVE} >serve.out 2>serve.log & server=$!; {ready}"
    lines = ["export PATH=$PWD/target/release:$PATH"]
    if SERVE not in [command.text for command in commands]:
        lines.append(start)
    lines.append("(exit 0)")
    for number, command in enumerate(commands):
        lines += [
            f"status=$?; exec >{out}/{number} 2>&1; (exit $status)",
            start if command.text == SERVE else command.text,
            f"status=$?; echo $status >{out}/{number}.status; (exit $status)",
        ]
    return "\n".join([*lines, "kill $server; wait $server", ""])


def masked(text):
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return text


def agrees(expected, printed):
    """Whether the texts are the same but for what is masked."""
    parts = masked(expected).split("…\n") if re.search("^…$", expected, re.M) else [masked(expected)]
    pattern = "(?s:.*)".join(re.escape(part) for part in parts)
    printed = masked(printed)
    return re.fullmatch(pattern, printed) or re.fullmatch(pattern, printed + "\n")


def own_network():
    """Runs in the child: a network with nothing but a loopback, so that every port is free."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWNET
    uid, gid = os.getuid(), os.getgid()
    if uid != 0:
        flags |= CLONE_NEWUSER
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "no network of its own")
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 1, 0x40
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", IFF_UP | IFF_RUNNING, b""))


def play(commands, binary, folder):
    """Runs the commands; their outputs in the order of the commands, with statuses; what was not reached is missing."""
    out = folder / "out"
    for name in ("out", "bin", "home", "target/release"):
        (folder / name).mkdir(parents=True)
    (folder / "target/release/repltool").symlink_to(binary)
    (folder / "bin/python3").symlink_to(sys.executable)
    (folder / "script").write_text(script(commands, out), encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("REPLTOOL_", "XDG_"))}
    env |= {"HOME": str(folder / "home"), "PATH": f"{folder}/bin:{env.get('PATH', '/usr/bin:/bin')}", "LC_ALL": "C.UTF-8"}
    shell = subprocess.Popen(
        ["bash", "script"], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=own_network)
    try:
        shell.wait(SECONDS)
    except subprocess.TimeoutExpired:
        print(f"not done after {SECONDS} s")
    finally:
        # Whatever is left of this shell's own session: the supervisor takes its gateway and sandboxes with it.
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shell.wait()
    for number in range(len(commands)):
        if (out / f"{number}.status").exists():
            text = (out / str(number)).read_text(encoding="utf-8", errors="replace")
            yield text, int((out / f"{number}.status").read_text())


def fault(command, printed, status):
    """What is wrong with what a command did, or nothing."""
    if command.expected is None:
        return f"it fails with {status}:\n{printed}" if status != 0 else None
    if command.text.startswith(tuple(NOT_COMPARED)) or agrees(command.expected, printed):
        return None
    sides = [masked(text).splitlines() for text in (command.expected, printed)]
    return "\n".join(difflib.unified_diff(*sides, "document", "printed", lineterm="", n=1))


def check(path, binary):
    """The number of commands and of faults in a document."""
    commands, faults = once(path, binary)
    if faults:
        commands, faults = once(path, binary)
        if not faults:
            print(f"FLAKY {path.name}", file=sys.stderr)
    return commands, faults


def once(path, binary):
    """The number of commands and of faults in one run of a document; the faults are printed."""
    with tempfile.TemporaryDirectory(prefix="repltool-readme-") as name:
        folder = Path(name)
        commands = read(path, folder)
        if not commands:
            return 0, 0
        outcomes = list(play(commands, binary, folder))
        faults = [(c, fault(c, *o)) for c, o in zip(commands, outcomes)]
        faults += [(c, "it was not reached") for c in commands[len(outcomes):][:1]]
        faults = [(command, wrong) for command, wrong in faults if wrong]
        for command, wrong in faults:
            print(f"{path.name}:{command.line}: $ {command.text}\n{wrong}\n")
        log = folder / "serve.log"
        if faults and log.exists():
            print(log.read_text(encoding="utf-8", errors="replace")[-4000:])
    return len(commands), len(faults)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True, type=Path)
    p.add_argument("documents", nargs="*", type=Path)
    args = p.parse_args()
    if not shutil.which("curl"):
        sys.exit("curl is missing")
    paths = args.documents or [ROOT / name for name in DOCUMENTS if (ROOT / name).exists()]
    total = [check(path, args.binary.resolve()) for path in paths]
    ran, wrong = (sum(numbers) for numbers in zip(*total))
    print(f"{ran} commands of {len(paths)} documents ran as they stand there, {wrong} did not")
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
