#!/usr/bin/env python3
"""Measures many sessions at once: what each takes of memory and where, and whether all of them are served.

    scripts/bench_density.py [--binary target/release/repltool] [--sessions 1000] [--mix python] [--seconds 300]
                             [--busy all] [--json OUT]

`--mix python=600,javascript=200,bash=200` makes a mixture, in these numbers; a single language takes all. Each session
executes a line of code once a second, over a connection of its own, or with `--busy 50` only so many do and the rest is
idle. An answer that is not the right one ends the run with an error. Memory is PSS, so what processes share is counted
once, each with its part; it is read when all sessions are there and have executed once, before the load.

Needs Python and a machine with nothing else to do. Everything it starts ends with it.
"""
import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from bench_limits import ROOT, Server

CODE = {"python": "{n} + 1", "javascript": "{n} + 1", "bash": "echo $(({n} + 1))"}
AT_ONCE = 8


class Connection:
    """One connection that is kept, for one session."""

    def __init__(self, server):
        self._host, port = server.address.rsplit(":", 1)
        self._port = int(port)
        self._head = f"Host: {server.address}\r\nAuthorization: Bearer {server.token}\r\n"
        self._reader = self._writer = None
        self._used = 0.0

    async def ask(self, method, path, body=None):
        # The server ends what is idle for long.
        if self._writer is not None and time.monotonic() > self._used + 5:
            self._writer.close()
            self._writer = None
        self._used = time.monotonic()
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        payload = b"" if body is None else json.dumps(body).encode()
        kind = "Content-Type: application/json\r\n" if body is not None else ""
        head = f"{method} /api/v1{path} HTTP/1.1\r\n{self._head}{kind}Content-Length: {len(payload)}\r\n\r\n"
        self._writer.write(head.encode() + payload)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
        text = await self._reader.readexactly(length)
        if int(head.split()[1]) >= 300:
            raise RuntimeError(f"{method} {path}: {head.split()[1]} {text.decode()}")
        return json.loads(text) if text else None


class Session:
    def __init__(self, server, language):
        self._connection = Connection(server)
        self.language = language
        self._number = 0

    async def create(self):
        made = await self._connection.ask("POST", "/sessions", {"language": self.language})
        self._path = f"/sessions/{made['session_id']}/execute"

    async def execute(self):
        """Milliseconds until the right answer."""
        self._number += 1
        code = CODE[self.language].replace("{n}", str(self._number))
        begun = time.perf_counter()
        result = await self._connection.ask("POST", self._path, {"code": code})
        told = result["output"].strip() if self.language == "bash" else str(result["result"])
        if not result["success"] or told != str(self._number + 1):
            raise RuntimeError(f"wrong: {result}")
        return (time.perf_counter() - begun) * 1000


async def at_once(jobs):
    """Runs them all, some at a time; their results."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(job):
        async with gate:
            return await job()

    return await asyncio.gather(*(one(job) for job in jobs))


async def once_a_second(session, seconds, offset, taken):
    begun = time.monotonic() + offset
    for beat in range(seconds):
        await asyncio.sleep(max(0, begun + beat - time.monotonic()))
        taken.append(await session.execute())


def memory(server):
    """PSS in KiB and the number of processes, by what they are; and what Linux keeps for them itself."""
    known, total = Counter(), Counter()
    kinds = {b"gateway": "gateway", b"zygote": "zygote"}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if not is_below(int(folder.name), server.pid):
                continue
            name = (folder / "comm").read_text().strip()
            rollup = (folder / "smaps_rollup").read_text()
        except OSError:
            continue
        kind = name if name in ("sandbox-init", "janitor") else kinds.get(command[1] if len(command) > 1 else b"", name)
        kind = "supervisor" if int(folder.name) == server.pid else kind
        if command[-2:-1] == [b"zygote"] and parent(int(folder.name)) == server.pid:
            kind = "zygote"
        total[kind] += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        known[kind] += 1
    return {kind: {"processes": known[kind], "pss_kib": pss} for kind, pss in total.items()}


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def is_below(pid, root):
    while pid > 1:
        if pid == root:
            return True
        pid = parent(pid)
    return False


def available_kib():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1])
    raise OSError("no MemAvailable")


async def run(args, server, mix):
    # What the server makes ready at its start is there then.
    await asyncio.sleep(3)
    before, begun = available_kib(), time.monotonic()
    sessions = [Session(server, language) for language, count in mix.items() for _ in range(count)]
    await at_once([session.create for session in sessions])
    made = time.monotonic() - begun
    await at_once([session.execute for session in sessions])
    taken_kib = before - available_kib()
    report = {"sessions": dict(mix), "made_s": made, "available_kib_each": taken_kib / len(sessions)}
    report["memory"] = memory(server)
    print(f"{len(sessions)} sessions in {made:.1f} s; the machine has {taken_kib / len(sessions):.0f} KiB less for each")
    for kind, of in sorted(report["memory"].items()):
        print(f"  {kind:14} {of['processes']:5} processes {of['pss_kib'] / of['processes']:9.0f} KiB each")
    busy = sessions if args.busy == "all" else sessions[:: max(1, len(sessions) // int(args.busy))][: int(args.busy)]
    taken = []
    beats = [
        once_a_second(session, args.seconds, at / len(busy), taken) for at, session in enumerate(busy)
    ]
    await asyncio.gather(*beats)
    taken.sort()
    report["executions"] = len(taken)
    report["ms"] = {"p50": statistics.median(taken), "p95": taken[int(0.95 * len(taken))], "max": taken[-1]}
    print(f"{len(taken)} executions in {args.seconds} s by {len(busy)}, all right: " + json.dumps(report["ms"]))
    return report


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", type=Path, default=ROOT / "target/release/repltool")
    p.add_argument("--sessions", type=int, default=1000)
    p.add_argument("--mix", default="python")
    p.add_argument("--seconds", type=int, default=300)
    p.add_argument("--busy", default="all")
    p.add_argument("--json", type=Path)
    args = p.parse_args()
    parts = [part.partition("=") for part in args.mix.split(",")]
    mix = Counter({language: int(count or args.sessions) for language, _, count in parts})
    if not set(mix) <= set(CODE):
        sys.exit(f"languages are {', '.join(CODE)}")
    count = str(sum(mix.values()) + 10)
    os.environ["REPLTOOL_STORE__TOTAL_MB"] = "65536"
    server = Server(args.binary, "--max-sessions", count, "--max-sessions-per-subject", count)
    try:
        report = asyncio.run(run(args, server, mix))
    finally:
        server.close()
    if args.json:
        args.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
