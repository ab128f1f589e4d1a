#!/usr/bin/env python3
"""Runs the tests of a driver; one that fails is run once more, and is listed as flaky if it passes then.

    scripts/driver_tests.py tests/driver/python

The tests send signals to real interpreters at random moments on few cores. A fault that shows twice fails the run, one
that shows once is to be looked into: the same rule as for the tests in Rust (.config/nextest.toml).
"""
import sys
import unittest


def failed(result):
    """The tests that failed, each once. What is no test (a module that cannot be read) stays as it is."""
    cases = [getattr(test, "test_case", test) for test, _ in result.failures + result.errors]
    cases += result.unexpectedSuccesses
    return list({case.id(): case for case in cases}.values())


def again(cases):
    """The same tests, made anew: a test that has run is used up."""
    return unittest.TestSuite(type(case)(case._testMethodName) for case in cases)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    runner = unittest.TextTestRunner()
    result = runner.run(unittest.defaultTestLoader.discover(sys.argv[1]))
    if result.testsRun == 0:
        sys.exit(f"no tests in {sys.argv[1]}")
    cases = failed(result)
    if not cases:
        return 0
    if not all(isinstance(case, unittest.TestCase) for case in cases):
        return 1
    print(f"once more: {', '.join(case.id() for case in cases)}", file=sys.stderr)
    if not runner.run(again(cases)).wasSuccessful():
        return 1
    for case in cases:
        print(f"FLAKY {case.id()}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
