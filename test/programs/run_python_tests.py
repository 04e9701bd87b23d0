# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

"""Runs a module of Python's own tests and compares runs: see the script sockets.

run_python_tests.py run MODULE RESULTS LIMIT    appends a line "OUTCOME NAME" per test to the file RESULTS; it continues
                                                where an earlier process died or exceeded LIMIT seconds in one test
run_python_tests.py compare DIFFERENCES BEFORE AFTER WITH
                                                compares WITH with the tests that had one outcome in BEFORE and AFTER
"""

import faulthandler
import fnmatch
import os
import re
import sys
import unittest

STARTED = "started"


def read_results(path):
    results = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                outcome, name = line.rstrip("\n").split(" ", 1)
                results[name] = outcome
    return results


class Result(unittest.TestResult):
    """Writes a line when a test starts and one when it ends. A test that exceeds the limit ends the process."""

    def __init__(self, file, limit):
        super().__init__()
        self.file = file
        self.limit = limit
        self.outcome = None

    def write(self, outcome, name):
        # os.write(): a child that a test forks must not write lines that this process has buffered.
        os.write(self.file, f"{outcome} {name}\n".encode())

    def startTest(self, test):
        super().startTest(test)
        self.outcome = None
        self.write(STARTED, test.id())
        faulthandler.dump_traceback_later(self.limit, exit=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)
        self.write(self.outcome or "ERROR", test.id())

    def end(self, test, outcome, err=None):
        if err is not None:
            print(f"{outcome}: {test.id()}\n{self._exc_info_to_string(err, test)}", flush=True)
        if self.outcome not in ("FAIL", "ERROR"):
            self.outcome = outcome
        if not isinstance(test, unittest.TestCase):  # setUpClass and setUpModule
            self.write(outcome, test.id())

    def addSuccess(self, test):
        self.end(test, "ok")

    def addFailure(self, test, err):
        self.end(test, "FAIL", err)

    def addError(self, test, err):
        self.end(test, "ERROR", err)

    def addSkip(self, test, reason):
        self.end(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.end(test, "ok")

    def addUnexpectedSuccess(self, test):
        self.end(test, "FAIL")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.end(test, "FAIL", err)


def without(suite, done):
    """Removes finished tests, but keeps the suites of classes and modules with their fixtures."""
    kept = unittest.TestSuite()
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            kept.addTest(without(each, done))
        elif each.id() not in done and "VSOCK" not in each.id():  # hangs on some hosts, and is not TCP
            kept.addTest(each)
    return kept


def run(module, path, limit):
    from test import support

    support.use_resources = []  # no Internet
    done = read_results(path)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    result = Result(file, limit)
    for name, outcome in done.items():
        if outcome == STARTED:
            result.write("DIED", name)
    without(unittest.defaultTestLoader.loadTestsFromName(module), done).run(result)
    return 0


def compare(differences, before, after, tool):
    explained = []
    with open(differences, encoding="utf-8") as lines:
        for line in lines:
            words = re.split(r"\s{2,}", line.split("#")[0].strip(), maxsplit=1)
            if words[0]:
                explained.append((words[0], words[1]))
    first, second, with_tool = read_results(before), read_results(after), read_results(tool)
    stable = {name: outcome for name, outcome in first.items() if second.get(name) == outcome}
    known = wrong = 0
    for name, outcome in stable.items():
        now = with_tool.get(name, "missing")
        if now == outcome:
            continue
        reason = next((reason for pattern, reason in explained if fnmatch.fnmatchcase(name, pattern)), None)
        print(f"{name}: {outcome}, with the tool {now}{' (known: ' + reason + ')' if reason else ''}")
        if reason:
            known += 1
        else:
            wrong += 1
    for name in with_tool.keys() - first.keys() - second.keys():
        print(f"{name}: only with the tool, {with_tool[name]}")
        wrong += 1
    passed = sum(outcome == "ok" for outcome in stable.values())
    print(
        f"{len(stable)} tests compared, {passed} of them ok without the tool; {len(first) - len(stable)} left out; "
        f"{known} known differences, {wrong} others"
    )
    return 0 if wrong == 0 and passed > 0 else 1


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    sys.exit(compare(*sys.argv[2:6]))
