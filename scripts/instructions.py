#!/usr/bin/env python3
"""Counts the instructions of the hot path's steps under valgrind, and fails where one takes more than it is granted.

    scripts/instructions.py [--binary FILE] [--renew]

A count does not depend on what else the machine does, so it can be compared with one of another day:
benches/instructions.toml holds what each step took and by how much it may grow. --renew writes that file anew, after a
change that is meant. Without --binary the counted program is built, with the library of the release build. Needs valgrind.
"""
import argparse
import concurrent.futures
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "benches" / "instructions.toml"
# What a step takes is the difference of two runs, without the start of the program and what is made once.
FEW, MANY = 100, 300
# Of the C library's copies of each function those are taken that every processor has: counts are to be those of any machine.
PLAIN = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM,-SSSE3,-SSE4_1,-SSE4_2,-BMI2,-LZCNT,-MOVBE,-RTM"
HEAD = """\
# Instructions that one run of each step in benches/src takes on x86-64, as valgrind counts them in a release build.
# scripts/instructions.py compares with them and, with --renew, writes this file.

# What counted: another compiler or C library makes other instructions of the same source.
made_with = {made_with}
# By which part a count may grow, and where it was made with something else.
tolerance = {tolerance}
tolerance_elsewhere = {tolerance_elsewhere}

[counts]
"""


def made_with():
    compiler = subprocess.run(["rustc", "-V"], check=True, capture_output=True, text=True).stdout.split()[1]
    return f"Rust {compiler}, {' '.join(platform.libc_ver())}"


def build():
    command = ["cargo", "build", "--locked", "--release", "-p", "repltool-benches", "--bin", "instructions"]
    subprocess.run(command, check=True, cwd=ROOT)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "instructions"


def count(binary, name, times, folder):
    """Instructions of the whole program."""
    out = Path(folder) / f"{name} {times}"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(binary), name, str(times)]
    # The fewest variables, because the program is given them all and reads them.
    environment = {"PATH": os.environ["PATH"], "GLIBC_TUNABLES": PLAIN}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        sys.exit(f"{name}: {done.stderr}")
    return int(found[1])


def count_all(binary):
    """{step: instructions of one run}."""
    names = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()
    with tempfile.TemporaryDirectory(prefix="repltool-instructions-") as folder:
        one = lambda name: (count(binary, name, MANY, folder) - count(binary, name, FEW, folder)) / (MANY - FEW)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return {name: round(instructions) for name, instructions in zip(names, pool.map(one, names))}


def compare(counts, book):
    """Prints each step, and returns what is wrong."""
    now = made_with()
    is_same = now == book["made_with"]
    tolerance = book["tolerance" if is_same else "tolerance_elsewhere"]
    if not is_same:
        print(f"made with {now}; the numbers are of {book['made_with']}, so {tolerance:.0%} more are let through")
    wrong = [f"{name}: counted no more; renew the numbers" for name in book["counts"] if name not in counts]
    for name, found in counts.items():
        granted = book["counts"].get(name)
        if granted is None:
            wrong.append(f"{name}: {found} instructions and no number to compare with; renew the numbers")
            continue
        change = found / granted - 1
        print(f"{name:34} {found:9} {change:+8.1%}")
        if change > tolerance:
            wrong.append(f"{name}: {found} instructions are {change:.1%} more than {granted}; {tolerance:.0%} are allowed")
        elif change < -tolerance and is_same:
            print(f"{name}: has become quicker; renew the numbers, so that it stays so")
    return wrong


def renew(counts, book):
    values = {key: book.get(key, default) for key, default in (("tolerance", 0.05), ("tolerance_elsewhere", 0.25))}
    lines = [f"{json.dumps(name)} = {found}\n" for name, found in counts.items()]
    BOOK.write_text(HEAD.format(made_with=json.dumps(made_with()), **values) + "".join(lines), encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", type=Path, help="the program `instructions`, built already")
    p.add_argument("--renew", action="store_true", help="write the numbers instead of comparing with them")
    args = p.parse_args()
    if platform.machine() != "x86_64":
        print("instructions are counted on x86-64 alone")
        return
    counts = count_all(args.binary or build())
    book = tomllib.loads(BOOK.read_text(encoding="utf-8"))
    if args.renew:
        renew(counts, book)
    elif wrong := compare(counts, book):
        sys.exit("\n".join(["", *wrong]))


if __name__ == "__main__":
    main()
