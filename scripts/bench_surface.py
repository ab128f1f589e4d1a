#!/usr/bin/env python3
"""Measures what is around an execution: requests, idle sockets, many sessions, starting, the command line.

    scripts/bench_surface.py [--binary target/release/repltool] [--hello target/release/examples/hello] [--json OUT]
                             [--only requests,sockets,sessions,start,command] [--rounds 5]

Each figure stands beside a floor that is measured in the same round, and each round visits both: requests and idle
connections beside the smallest server on the same HTTP library (examples/hello.rs), sessions beside bare interpreters on
pipes, starting beside Python's own file server, the command line beside Python itself. Printed are the median of all
rounds, the smallest and the largest, and the median of the ratios of the rounds. Everything it starts ends with it.
Needs Python, and wrk for the requests.
"""
import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench_limits import ROOT, Server

OPEN_DOORS = ("--max-sessions-per-subject", "1000")
PYTHON = "/usr/bin/python3"
SOCKETS = 10_000
# What a session may need of open files is kept back, so few sessions leave most of them to sockets.
FOR_SOCKETS = ("--max-sessions", "100")
SESSIONS, EXECUTIONS, CLIENTS = 200, 20, 16
# A bare interpreter that keeps its state: a line of code in, a line out.
BARE = "import sys\nstate = {}\nfor line in sys.stdin:\n exec(line, state)\n sys.stdout.write('done\\n')\n sys.stdout.flush()"


class Hello:
    def __init__(self, binary, prefix=()):
        self._process = subprocess.Popen([*prefix, str(binary)], stdout=subprocess.PIPE, text=True)
        self.address = self._process.stdout.readline().strip()
        self.pid = self._process.pid

    def close(self):
        self._process.kill()
        self._process.wait()


def pss_kib(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise OSError("no Pss")


def cpu_s(pid):
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wrk(pid, url, token=None, script=None):
    """Requests a second over 16 connections, from a processor that the server does not use, and the microseconds of
    processor time that one takes the server. A script of wrk says what else is sent than GET."""
    command = ["taskset", "-c", "0", "wrk", "-t", "1", "-c", "16", "-d", "3s", url]
    if script:
        command += ["-s", str(script)]
    if token:
        command += ["-H", f"Authorization: Bearer {token}"]
    before = cpu_s(pid)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        sys.exit(text)
    count = int(text.split(" requests in ")[0].split()[-1])
    return float(text.split("Requests/sec:")[1].split()[0]), (cpu_s(pid) - before) / count * 1e6


def requests(args, book):
    """GET of a session, and POST of an interrupt with nothing running, which goes to the session and back; each server
    on one processor of its own kind, the client on the other."""
    if shutil.which("wrk") is None:
        sys.exit("missing: wrk (the name of a Debian package)")
    if os.cpu_count() < 2:
        sys.exit("two processors are needed, one for the server and one for its client")
    pinned = ("taskset", "-c", "1")
    with (
        ends(Server(args.binary, *OPEN_DOORS, prefix=pinned)) as server,
        ends(Hello(args.hello, pinned)) as hello,
        tempfile.TemporaryDirectory() as folder,
    ):
        session, gateway = server.session("python"), server.gateway()
        post = Path(folder, "post.lua")
        post.write_text('wrk.method = "POST"\n')
        for _ in range(args.rounds):
            floor, floor_us = wrk(hello.pid, f"http://{hello.address}/")
            of_session = f"/api/v1/sessions/{session}"
            for method, path, token, script in (
                ("GET", of_session, server.token, None),
                ("POST", f"{of_session}/interrupt", server.token, post),
                ("GET", "/healthz", None, None),
            ):
                ours, ours_us = wrk(gateway, f"http://{server.address}{path}", token, script)
                name = f"{method} " + path.replace(session, "{id}")
                book.add(name, "1/s", ours, floor)
                book.add(f"{name}: processor", "µs", ours_us, floor_us)


def idle_sockets(address, path, headers):
    """Connections that have had an answer and say nothing more."""
    host, port = address.rsplit(":", 1)
    request = "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {address}", *headers, "", ""]).encode()
    sockets = []
    for _ in range(SOCKETS):
        connection = socket.create_connection((host, int(port)))
        connection.sendall(request)
        sockets.append(connection)
    for connection in sockets:
        received = b""
        wanted = b'"type":"ready"' if "Upgrade: websocket" in headers else b"hello world"
        while wanted not in received:
            piece = connection.recv(65536)
            if not piece:
                sys.exit(f"a connection was closed: {received[:300]}")
            received += piece
    return sockets


def sockets(args, book):
    """Memory of both processes of a server with idle WebSockets, a fresh one each round."""
    needed = SOCKETS + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < needed + 2000:
        sys.exit(f"{needed + 2000} open files are needed; the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    os.environ["REPLTOOL_EDGE__MAX_SOCKETS_PER_SUBJECT"] = str(2 * SOCKETS)
    for _ in range(args.rounds):
        with ends(Server(args.binary, *FOR_SOCKETS)) as server, ends(Hello(args.hello)) as hello:
            sessions = [server.session("python") for _ in range(10)]
            headers = [
                f"Authorization: Bearer {server.token}", "Connection: Upgrade", "Upgrade: websocket",
                "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Protocol: repltool.v1",
            ]
            path = f"/api/v1/sessions/{sessions[0]}/ws"
            ours = growth([server.pid, server.gateway()], lambda: idle_sockets(server.address, path, headers))
            floor = growth([hello.pid], lambda: idle_sockets(hello.address, "/", []))
            book.add("memory of an idle WebSocket", "KiB", ours, floor)


def growth(pids, connect):
    before = sum(map(pss_kib, pids))
    held = connect()
    time.sleep(0.3)
    after = sum(map(pss_kib, pids))
    for connection in held:
        connection.close()
    return (after - before) / len(held)


def executions(run_all, names):
    """Runs EXECUTIONS in each session, by CLIENTS at once; the latency of each in milliseconds."""
    def work(name):
        taken = []
        for number in range(EXECUTIONS):
            begun = time.perf_counter()
            run_all(name, number)
            taken.append((time.perf_counter() - begun) * 1000)
        return taken

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return [one for taken in pool.map(work, names) for one in taken]


def timed(run):
    begun = time.perf_counter()
    value = run()
    return (time.perf_counter() - begun) * 1000, value


def sessions(args, book):
    """Sessions that live at the same time and keep state, each used several times."""
    with ends(Server(args.binary, *OPEN_DOORS)) as server:
        local = threading.local()

        def ask(method, path, body=None):
            if not hasattr(local, "connection"):
                local.connection = http.client.HTTPConnection(server.address)
            headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
            local.connection.request(method, "/api/v1" + path, None if body is None else json.dumps(body), headers)
            answer = local.connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
            return json.loads(text) if text else None

        def execute(session, number):
            code = f"n = {number}\nn * 2"
            result = ask("POST", f"/sessions/{session}/execute", {"code": code})
            if not result["success"] or result["result"] != number * 2:
                raise RuntimeError(f"wrong: {result}")

        def create_all():
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                return list(pool.map(lambda _: ask("POST", "/sessions", {"language": "python"}), range(SESSIONS)))

        for _ in range(args.rounds):
            created, made = timed(create_all)
            names = [session["session_id"] for session in made]
            total, taken = timed(lambda: executions(execute, names))
            for name in names:
                ask("DELETE", f"/sessions/{name}")
            # The server closes connections that are idle for long; http.client opens it again.
            local.connection.close()
            floor = bare_interpreters()
            book.add(f"{SESSIONS} sessions: made", "ms", created, floor["made"])
            book.add(f"{SESSIONS} × {EXECUTIONS} executions: all", "ms", total, floor["total"])
            book.add("the same: one, median", "ms", statistics.median(taken), statistics.median(floor["taken"]))
            book.add("the same: one, 95th percentile", "ms", p95(taken), p95(floor["taken"]))


def bare_interpreters():
    def start(_):
        command = [PYTHON, "-I", "-S", "-c", BARE]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        execute(process, 0)
        return process

    def execute(process, number):
        process.stdin.write(f"n = {number}; n * 2\n".encode())
        process.stdin.flush()
        if process.stdout.readline() != b"done\n":
            raise RuntimeError("a bare interpreter failed")

    def start_all():
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(start, range(SESSIONS)))

    made, processes = timed(start_all)
    total, taken = timed(lambda: executions(execute, processes))
    for process in processes:
        process.stdin.close()
        process.wait()
        process.stdout.close()
    return {"made": made, "total": total, "taken": taken}


def p95(values):
    return sorted(values)[round(0.95 * (len(values) - 1))]


def until(ready, process):
    """Milliseconds until something is ready; what runs meanwhile must not end."""
    begun = time.perf_counter()
    while not ready():
        if process.poll() is not None or time.perf_counter() - begun > 20:
            sys.exit(f"{process.args[0]} did not start")
        time.sleep(0.0005)


def answers(address, path):
    host, _, port = address.rpartition(":")
    if not host:
        return False
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            return connection.recv(12).split(b" ")[1:2] == [b"200"]
    except OSError:
        return False


def start(args, book):
    """From the command to the first answer 200, each with an empty directory."""
    for _ in range(2 * args.rounds):
        with tempfile.TemporaryDirectory(prefix="repltool-bench-") as folder:
            data = Path(folder) / "data"
            url = data / "url"
            command = [str(args.binary), "serve", "--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"]
            command += ["--data-dir", str(data)]
            # The file may be there before its line is.
            is_ready = lambda: url.exists() and answers(url.read_text().removeprefix("http://"), "/readyz")
            ours, again = started(command, is_ready), started(command, is_ready)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            command = [PYTHON, "-m", "http.server", "--bind", "127.0.0.1", "--directory", folder, str(port)]
            floor = started(command, lambda: answers(f"127.0.0.1:{port}", "/"))
            book.add("from start to ready, first time", "ms", ours, floor)
            book.add("from start to ready, again", "ms", again, floor)


def started(command, ready):
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(ready, process)
        return (time.perf_counter() - begun) * 1000
    finally:
        process.terminate()
        process.wait()


def command(args, book):
    """One execution from the command line: with a running server, and without one where the binary can."""
    with tempfile.TemporaryDirectory(prefix="repltool-bench-") as home, ends(Server(args.binary, *OPEN_DOORS)) as server:
        execute = [str(args.binary), "execute", "-c", "1+1"]
        served = {**os.environ, "REPLTOOL_URL": f"http://{server.address}", "REPLTOOL_TOKEN": server.token}
        alone = {key: value for key, value in os.environ.items() if not key.startswith(("REPLTOOL_", "XDG_"))}
        alone["HOME"] = home
        is_embedded = run(execute, alone) == b"2\n"
        for _ in range(4 * args.rounds):
            floor, _ = timed(lambda: run([PYTHON, "-c", "print(1+1)"], None))
            ours, _ = timed(lambda: run(execute, served, b"2\n"))
            book.add("execute -c '1+1', server runs", "ms", ours, floor)
            if is_embedded:
                ours, _ = timed(lambda: run(execute, alone, b"2\n"))
                book.add("execute -c '1+1', no server", "ms", ours, floor)


def run(command, environment, expected=None):
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    if expected not in (None, output):
        sys.exit(f"{command}: {output}")
    return output


@contextlib.contextmanager
def ends(thing):
    try:
        yield thing
    finally:
        thing.close()


class Book:
    """{figure: its unit, and of each round ours and the floor}."""

    def __init__(self):
        self.figures = {}

    def add(self, name, unit, ours, floor):
        entry = self.figures.setdefault(name, {"unit": unit, "ours": [], "floor": []})
        entry["ours"].append(ours)
        entry["floor"].append(floor)

    def show(self):
        """Prints what has come since the last time."""
        for name, entry in self.figures.items():
            if "ratio" in entry:
                continue
            ratios = [ours / floor for ours, floor in zip(entry["ours"], entry["floor"])]
            entry["ratio"] = statistics.median(ratios)
            values = [statistics.median(entry["ours"]), min(entry["ours"]), max(entry["ours"])]
            values.append(statistics.median(entry["floor"]))
            print(f"{name:36} {' '.join(f'{value:10.1f}' for value in values)} {entry['ratio']:7.2f}  {entry['unit']}", flush=True)


def main():
    parts = {part.__name__: part for part in (requests, sockets, sessions, start, command)}
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", type=Path, default=ROOT / "target/release/repltool")
    p.add_argument("--hello", type=Path, default=ROOT / "target/release/examples/hello")
    p.add_argument("--only", default=",".join(parts), help="parts, with commas between them")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", type=Path)
    args = p.parse_args()
    book = Book()
    print(f"{'':36} {'median':>10} {'smallest':>10} {'largest':>10} {'floor':>10} {'ratio':>7}")
    for part in args.only.split(","):
        parts[part](args, book)
        book.show()
    if args.json:
        args.json.write_text(json.dumps(book.figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
