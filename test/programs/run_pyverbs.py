# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

"""Runs rdma-core's Python tests: see the script pyverbs, which calls this one."""

import argparse
import faulthandler
import fnmatch
import importlib
import ipaddress
import os
import re
import sys
import traceback
import unittest


def read_skips(path):
    """Returns the lines of the list: (pattern, capability), and the number of tests that must pass."""
    skips = []
    passes = 0
    with open(path, encoding="ascii") as lines:
        for line in lines:
            words = re.split(r"\s{2,}", line.split("#")[0].strip())
            if words[0] == "passes":
                passes = int(words[1])
            elif words[0]:
                skips.append((words[0], words[1]))
    return skips, passes


class Result(unittest.TestResult):
    """Prints a line per test. A test that exceeds the time limit ends the process with its traceback."""

    def __init__(self, skips, limit):
        super().__init__()
        self.allowed = skips
        self.limit = limit
        self.passed = 0
        self.failed = 0

    @staticmethod
    def name(test):
        return test.id().removeprefix("tests.")

    def fail(self, test, reason):
        print(f"FAILED {self.name(test)}\n  " + reason.rstrip().replace("\n", "\n  "), flush=True)
        self.failed += 1

    def startTest(self, test):
        super().startTest(test)
        faulthandler.dump_traceback_later(self.limit, exit=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)

    def addSuccess(self, test):
        print("ok", self.name(test), flush=True)
        self.passed += 1

    def addFailure(self, test, err):
        self.fail(test, "".join(traceback.format_exception(*err)))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(subtest, err)

    def addUnexpectedSuccess(self, test):
        self.fail(test, "unexpected success")

    def addSkip(self, test, reason):
        for pattern, capability in self.allowed:
            if fnmatch.fnmatchcase(self.name(test), pattern):
                print(f"skipped {self.name(test)}: {capability} ({reason})", flush=True)
                return
        self.fail(test, f"skipped without a line in pyverbs_skips: {reason}")


def use_addresses_of_gids(base):
    """The tests for RDMA-CM find the device's address in sysfs, where the software device is not: take it from the GID."""

    def add(self, dev, port, idx):
        gid = ipaddress.ip_address(base.d.Context(name=dev).query_gid(port, idx).gid)
        self.args.append([dev, port, idx, str(gid.ipv4_mapped or gid), None])

    base.RDMATestCase._get_ip_mac = add


def tests_in(suite):
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests_in(each)
        else:
            yield each


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--tests", required=True)
    options.add_argument("--limit", type=int, default=120)
    options.add_argument("--dev", default="soft0")
    options.add_argument("patterns", nargs="*")
    given = options.parse_args()
    skips, passes = read_skips(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyverbs_skips"))

    # As the tests' own run_tests.py, which finds args_parser in the directory of the tests.
    sys.path[:0] = [given.tests, os.path.dirname(given.tests)]
    parser = importlib.import_module("args_parser").parser
    sys.argv[1:] = ["--dev", given.dev]
    parser.parse_args()
    tests = importlib.import_module("tests")
    use_addresses_of_gids(importlib.import_module("tests.base"))

    result = Result(skips, given.limit)
    chosen = unittest.TestSuite(
        test
        for test in tests_in(unittest.defaultTestLoader.loadTestsFromModule(tests))
        if not given.patterns or any(fnmatch.fnmatchcase(Result.name(test), p) for p in given.patterns)
    )
    chosen.run(result)
    if not given.patterns and result.passed < passes:
        print(f"FAILED only {result.passed} tests passed, fewer than the {passes} of pyverbs_skips")
        result.failed += 1
    print(f"{result.passed} passed, {result.failed} failed")
    return 0 if result.failed == 0 and result.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
