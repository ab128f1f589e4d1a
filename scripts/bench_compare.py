#!/usr/bin/env python3
"""Compares the speed of two commits: builds both, and measures their servers in turns in the same run.

    scripts/bench_compare.py A B [--target-dir DIR] [--rounds 10] [--times 100] [--only get,execute,python,javascript,bash]

A and B are commits, or files: binaries that were built already. A commit is built in a worktree of its own in a temporary
directory, which is removed; --target-dir (target/compare) is shared by both and by later runs, so that dependencies are
built once. It is not to be that of a checkout: cargo tells trees apart by the age of their files alone.

Both servers run all the time and are asked in turns, A B B A A B and so on:

    get                        GET of a session
    execute                    `1+1` in a warm Python session, over REST
    python, javascript, bash   creating a session, to its first result

Printed are milliseconds: the median of the rounds' medians, with the smallest and the largest, and B to A, the median of
the ratios of the rounds, with its quartiles. What a commit compared with itself shows is noise, and so is less than that.
"""
import argparse
import contextlib
import filecmp
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_limits import ROOT, Server

FIRST = {"python": "1+1", "javascript": "1+1", "bash": "echo 2"}
# A session takes so much longer than a request that fewer of them are made in a round.
REQUESTS_A_SESSION = 10


@contextlib.contextmanager
def worktree(commit, folder):
    subprocess.run(["git", "worktree", "add", "--detach", "--quiet", folder, commit], check=True, cwd=ROOT)
    try:
        yield
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", folder], check=True, cwd=ROOT)


def binary_of(side, name, folder, target):
    """The server of a commit, built and put by, or the file that was named."""
    if Path(side).is_file():
        return Path(side).resolve()
    tree = folder / f"tree-{name}"
    with worktree(side, tree):
        # The web page is not measured: that of this checkout is taken in.
        shutil.copytree(ROOT / "web-client" / "dist", tree / "web-client" / "dist", dirs_exist_ok=True)
        command = ["cargo", "build", "--locked", "--release", "--bin", "repltool", "--target-dir", str(target)]
        subprocess.run(command, check=True, cwd=tree)
        return Path(shutil.copy(target / "release" / "repltool", folder / f"repltool-{name}"))


def timed(step):
    begun = time.perf_counter()
    step()
    return (time.perf_counter() - begun) * 1000


class Side:
    """A running server of one of the two, with a warm session."""

    def __init__(self, binary):
        self._server = Server(binary, "--max-sessions-per-subject", "1000")
        self._warm = self._server.session("python")
        for _ in range(10):
            self._first_result(self._warm, "python")

    def close(self):
        self._server.close()

    def _first_result(self, session, language):
        result = self._server.run(session, FIRST[language])
        if not result["success"] or (result["result"] != 2 and result["output"] != "2\n"):
            sys.exit(f"wrong: {result}")

    def once(self, what):
        """Milliseconds that one step took."""
        if what == "get":
            return timed(lambda: self._server.ask("GET", f"/sessions/{self._warm}"))
        if what == "execute":
            return timed(lambda: self._first_result(self._warm, "python"))
        made = []

        def create():
            made.append(self._server.session(what))
            self._first_result(made[0], what)

        took = timed(create)
        self._server.ask("DELETE", f"/sessions/{made[0]}")
        return took


def compare(a, b, what, rounds, times):
    """A line about one benchmark."""
    medians, ratios = ([], []), []
    for _ in range(rounds):
        took = ([], [])
        for number in range(times):
            for at, side in ((0, a), (1, b))[:: 1 if number % 2 == 0 else -1]:
                took[at].append(side.once(what))
        of_a, of_b = map(statistics.median, took)
        medians[0].append(of_a)
        medians[1].append(of_b)
        ratios.append(of_b / of_a)
    figures = [f"{statistics.median(it):8.3f} ({min(it):.3f}–{max(it):.3f})" for it in medians]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    print(f"{what:12} {figures[0]:28} {figures[1]:28} {middle:6.3f} ({low:.3f}–{high:.3f})", flush=True)


def main():
    everything = ["get", "execute", *FIRST]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("a", metavar="A")
    p.add_argument("b", metavar="B")
    p.add_argument("--target-dir", type=Path, default=ROOT / "target" / "compare")
    p.add_argument("--rounds", type=int, default=10, help="at least 2")
    p.add_argument("--times", type=int, default=100, help="requests in a round; a tenth as many sessions are made")
    p.add_argument("--only", default=",".join(everything), help="benchmarks, with commas between them")
    args = p.parse_args()
    chosen = args.only.split(",")
    if unknown := set(chosen) - set(everything):
        p.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    if args.rounds < 2:
        p.error("two rounds are the fewest")
    with tempfile.TemporaryDirectory(prefix="repltool-compare-") as folder, contextlib.ExitStack() as stack:
        target = args.target_dir.resolve()
        binaries = [binary_of(side, name, Path(folder), target) for side, name in ((args.a, "a"), (args.b, "b"))]
        if filecmp.cmp(*binaries, shallow=False):
            print("the binaries are the same: what differs is noise")
        sides = [stack.enter_context(contextlib.closing(Side(binary))) for binary in binaries]
        print(f"{'':12} {'A: ' + args.a[-25:]:28} {'B: ' + args.b[-25:]:28} B to A")
        for what in chosen:
            times = args.times // REQUESTS_A_SESSION if what in FIRST else args.times
            compare(*sides, what, args.rounds, max(1, times))


if __name__ == "__main__":
    main()
