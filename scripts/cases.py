#!/usr/bin/env python3
"""Plays the cases from real use against a binary and compares with what is known to fail.

    scripts/cases.py --binary target/release/repltool

The cases are not part of this repository; where they do not lie beside the checkout, nothing is played. A case that is
listed in tests/cases-expected-to-fail.toml and passes fails the run, as does one that is not listed and fails: the list
says exactly what is missing. A case that needs a person (`manual`) counts as failed.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "cases-expected-to-fail.toml"


def read_expected(path):
    """{id: reason} of the list; a broken list ends the run."""
    with open(path, "rb") as f:
        entries = tomllib.load(f).get("case", [])
    expected = {}
    for entry in entries:
        if set(entry) != {"id", "reason"} or not entry["reason"].strip() or entry["id"] in expected:
            sys.exit(f"{path.name}: each case has an id, once, and a reason: {entry}")
        expected[entry["id"]] = entry["reason"]
    return expected


def compare(cases, outcomes, expected):
    """What is wrong, a line each. `cases` are all ids, `outcomes` is {id: "pass" or anything else}."""
    wrong = [f"{case} is listed and there is no such case" for case in expected if case not in cases]
    for case in cases:
        outcome = outcomes.get(case, "not played")
        if outcome == "pass" and case in expected:
            wrong.append(f"{case} passes now: take it off the list ({expected[case]})")
        elif outcome == "not played" or (outcome != "pass" and case not in expected):
            wrong.append(f"{case} ended as {outcome} and is not listed as failing")
    return wrong


def play(runner, binary, only):
    """All ids that were to be played, and {id: outcome} of those that were."""
    command = [sys.executable, "-B", str(runner), *(["--only", only] if only else [])]
    listing = subprocess.run([*command, "--list"], check=True, capture_output=True, text=True).stdout
    cases = [line.split()[0] for line in listing.splitlines() if line.startswith("C-")]
    with tempfile.TemporaryDirectory(prefix="repltool-cases-") as folder:
        out = Path(folder) / "out.json"
        # The runner's exit code says that something failed; what may fail is decided here.
        subprocess.run([*command, "--binary", str(binary), "--json", str(out)], check=False)
        outcomes = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    return cases, {entry["id"]: entry["state"] for entry in outcomes}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True, type=Path)
    p.add_argument("--cases", type=Path, default=ROOT / "../shared/cases", help="folder of cases.py")
    p.add_argument("--only", help="ids, with commas between them")
    args = p.parse_args()
    expected = read_expected(LIST)
    runner = args.cases / "cases.py"
    if not runner.exists():
        print(f"no cases at {args.cases}: none played")
        return 0
    cases, outcomes = play(runner, args.binary.resolve(), args.only)
    if args.only:
        expected = {case: reason for case, reason in expected.items() if case in cases}
    wrong = compare(cases, outcomes, expected)
    passed = sum(outcome == "pass" for outcome in outcomes.values())
    print(f"{passed} of {len(cases)} cases pass, {len(expected)} are known to fail, {len(wrong)} surprises")
    for line in wrong:
        print(f"  {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
