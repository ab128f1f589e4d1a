#!/usr/bin/env python3
"""Measures how exactly limits strike, how soon a session can be used again after one, what others feel of an attack, and
what a refused system call costs.

    scripts/bench_limits.py [--binary target/release/repltool] [--rounds 20] [--attack-rounds 5] 
                            [--only limits,attack,refused] [--json OUT]

Starts a server of its own on a free port of loopback, with a data directory that is removed afterwards. Needs only
Python. Each figure is a median with the 95th percentile over the rounds, beside what was granted. For the attack, 50
sessions execute `1+1` every 200 ms: rounds without the attacker and rounds with it take turns, and what counts is the
median of the rounds' 95th percentiles.
"""
import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BURN = {"python": "while True: int()", "javascript": "for (;;) {}", "bash": "while :; do :; done"}
CHILDREN = "(while :; do :; done) & (while :; do :; done) & wait"
HOARD = {
    "python": "hoard = []\nwhile True: hoard.append(b'x' * (1 << 20))",
    "javascript": "const hoard = []; for (;;) hoard.push(Buffer.alloc(1 << 20, 1))",
    "bash": "x=a; while :; do x=$x$x; done",
}
FLOOD = {
    "python": "while True: print('spam')",
    "javascript": "for (;;) console.log('spam')",
    "bash": "while :; do echo spam; done",
}
NOTHING = {"python": "None", "javascript": "undefined", "bash": ":"}

# As many processes as a session may have, each in a session of its own: Linux may share processors out by those.
ATTACKS = {
    "python": "import os\nfor _ in range(60):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass\n"
    "while True: pass",
    "javascript": "const { Worker } = require('worker_threads');\n"
    "for (let i = 0; i < 8; i++) new Worker('for (;;) {}', { eval: true });\nfor (;;) {}",
    "bash": "for i in {1..60}; do (while :; do :; done) & done; wait",
}
# Microseconds of: a call that is allowed, one that no rule knows, one about which Linux asks, and an execution, too.
REFUSED = """
import ctypes, time
call = ctypes.CDLL(None).syscall
def cost(count, *arguments):
    begun = time.perf_counter_ns()
    for _ in range(count): call(*arguments)
    return (time.perf_counter_ns() - begun) / count / 1000
[cost(5000, 39), cost(5000, 1000), cost(1000, 165, 0, 0, 0, 0, 0), cost(1000, 59, b"/bin/sh", 0, 0)]
"""
OTHERS, PULSE_S, ROUND_S = 50, 0.2, 5.0


class Server:
    def __init__(self, binary, *flags, prefix=()):
        self._folder = tempfile.TemporaryDirectory(prefix="repltool-bench-")
        self.data = Path(self._folder.name) / "data"
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--rate-limits", "off"]
        log = open(Path(self._folder.name) / "log", "wb")
        self._process = subprocess.Popen(
            [*prefix, *map(str, command), "--data-dir", str(self.data), *flags], stdout=subprocess.DEVNULL, stderr=log
        )
        url = self.data / "url"
        while not url.exists():
            if self._process.poll() is not None:
                sys.exit((Path(self._folder.name) / "log").read_text())
            time.sleep(0.01)
        time.sleep(0.2)
        self.address = url.read_text().removeprefix("http://")
        self.token = (self.data / "token").read_text()
        self._headers = {"Authorization": "Bearer " + self.token}
        self._connections = threading.local()

    def ask(self, method, path, body=None):
        payload = None if body is None else json.dumps(body)
        headers = dict(self._headers) | ({"Content-Type": "application/json"} if body is not None else {})
        # The server ends what is idle for long.
        if time.monotonic() > getattr(self._connections, "used", 0) + 5:
            self._connections.own = http.client.HTTPConnection(self.address)
        self._connections.used = time.monotonic()
        self._connections.own.request(method, "/api/v1" + path, payload, headers)
        answer = self._connections.own.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text else None

    def gateway(self):
        """The process that faces the network."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        named = [pid for pid in children if b"\0gateway\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return int(named[0])

    @property
    def pid(self):
        """The process that everything belongs to."""
        return self._process.pid

    def session(self, language, **limits):
        return self.ask("POST", "/sessions", {"language": language, "resource_limits": limits})["session_id"]

    def run(self, session, code, timeout_ms=60_000):
        return self.ask("POST", f"/sessions/{session}/execute", {"code": code, "timeout_ms": timeout_ms})

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


def spread(values):
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))],
        "min": ordered[0],
        "max": ordered[-1],
        "rounds": len(ordered),
    }


def until_usable(server, session, language):
    begun = time.perf_counter()
    result = server.run(session, NOTHING[language])
    if not result["success"]:
        sys.exit(f"not usable: {result}")
    return (time.perf_counter() - begun) * 1000


def cpu(server, language, code, rounds):
    """CPU time in milliseconds that was used where 1000 were granted, and milliseconds until the next reply."""
    session = server.session(language, max_cpu_time=1)
    used, again = [], []
    for _ in range(rounds):
        result = server.run(session, code)
        expect(result, "cpu_time")
        used.append(result["usage"]["cpu_time_ms"])
        again.append(until_usable(server, session, language))
    server.ask("DELETE", f"/sessions/{session}")
    return {"granted_ms": 1000, "used_ms": spread(used), "usable_after_ms": spread(again)}


def strike(server, language, code, limit, rounds, timeout_ms=60_000, **limits):
    """Runs into a limit again and again: peak memory in MiB, wall time, and milliseconds until the next reply."""
    session = server.session(language, **limits)
    peak, wall, again = [], [], []
    for _ in range(rounds):
        begun = time.perf_counter()
        result = server.run(session, code, timeout_ms)
        wall.append((time.perf_counter() - begun) * 1000)
        expect(result, limit)
        peak.append(result["usage"]["peak_memory_bytes"] / (1 << 20))
        again.append(until_usable(server, session, language))
    server.ask("DELETE", f"/sessions/{session}")
    return {"peak_mib": spread(peak), "wall_ms": spread(wall), "usable_after_ms": spread(again)}


def pulses(server, sessions):
    """Milliseconds that each of many executions took, all sessions at once, one every 200 ms in each."""
    begun = time.perf_counter() + 0.1
    took = [[] for _ in sessions]

    def pulse(n):
        beat = begun + PULSE_S * n / len(sessions)
        while beat < begun + ROUND_S:
            time.sleep(max(0.0, beat - time.perf_counter()))
            asked = time.perf_counter()
            if not server.run(sessions[n], "1+1")["success"]:
                sys.exit("a bystander failed")
            took[n].append((time.perf_counter() - asked) * 1000)
            beat = max(beat + PULSE_S, time.perf_counter())

    threads = [threading.Thread(target=pulse, args=(n,)) for n in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return spread([ms for each in took for ms in each])


def attack(server, language, sessions, rounds):
    """What the others feel of one session that burns all that it can."""
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(pulses(server, sessions))
        attacker = server.session(language, max_cpu_time=300)
        burning = threading.Thread(target=server.run, args=(attacker, ATTACKS[language], 60_000), daemon=True)
        burning.start()
        time.sleep(1.0)
        beside.append(pulses(server, sessions))
        server.ask("DELETE", f"/sessions/{attacker}")
        burning.join()
    figures = {"p50 alone, ms": (alone, "median"), "p50 attacked, ms": (beside, "median")}
    figures |= {"p95 alone, ms": (alone, "p95"), "p95 attacked, ms": (beside, "p95")}
    found = {name: spread([it[key] for it in rows]) for name, (rows, key) in figures.items()}
    return found | {"p95, times": spread([b["p95"] / a["p95"] for a, b in zip(alone, beside)])}


def measure_attacks(binary, rounds):
    with tempfile.TemporaryDirectory(prefix="repltool-bench-") as folder:
        # Advice on code is not what is measured.
        (Path(folder) / "config.toml").write_text('[sandbox.standard]\npolicy = "record"\n')
        server = Server(binary, "--max-sessions-per-subject", "1000", "--config", f"{folder}/config.toml")
        try:
            sessions = [server.session("python") for _ in range(OTHERS)]
            pulses(server, sessions)
            return {f"attack {it}": attack(server, it, sessions, rounds) for it in ATTACKS}
        finally:
            server.close()


def measure_refusals(binary, rounds):
    with tempfile.TemporaryDirectory(prefix="repltool-bench-") as folder:
        settings = '[sandbox]\nviolations_per_minute = 1000000000\n[sandbox.standard]\npolicy = "record"\n'
        (Path(folder) / "config.toml").write_text(settings)
        server = Server(binary, "--config", f"{folder}/config.toml")
        try:
            session = server.session("python")
            found = [server.run(session, REFUSED)["result"] for _ in range(rounds)]
        finally:
            server.close()
    names = ["allowed", "unknown", "mount", "execve"]
    return {f"call {name}, us": {"each": spread(values)} for name, values in zip(names, zip(*found))}


def expect(result, limit):
    if result["limit"] != limit:
        sys.exit(f"{limit} did not strike: {result}")


def measure_limits(binary, rounds):
    server = Server(binary)
    figures = {}
    try:
        for language in BURN:
            figures[f"cpu_time {language}"] = cpu(server, language, BURN[language], rounds)
        figures["cpu_time two children"] = cpu(server, "bash", CHILDREN, rounds)
        for language in HOARD:
            figures[f"memory 96 MiB {language}"] = strike(
                server, language, HOARD[language], "memory", rounds, max_memory_mb=96
            )
            figures[f"output 1 MiB {language}"] = strike(server, language, FLOOD[language], "output", rounds)
            figures[f"wall_time 300 ms {language}"] = strike(
                server, language, BURN[language], "wall_time", rounds, timeout_ms=300
            )
    finally:
        server.close()
    return figures


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", type=Path, default=ROOT / "target/release/repltool")
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--json", type=Path)
    p.add_argument("--attack-rounds", type=int, default=5)
    p.add_argument("--only", default="limits,attack,refused")
    args = p.parse_args()
    figures = measure_limits(args.binary, args.rounds) if "limits" in args.only else {}
    if "attack" in args.only:
        figures |= measure_attacks(args.binary, args.attack_rounds)
    if "refused" in args.only:
        figures |= measure_refusals(args.binary, args.rounds)
    for name, groups in figures.items():
        for what, value in groups.items():
            if isinstance(value, dict):
                print(f"{name:28} {what:16} median {value['median']:8.1f}  p95 {value['p95']:8.1f}  max {value['max']:8.1f}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
