#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts results of `meson test` (its JSON logs), single cases where a program is made of them (cmocka).

usage: count_tests.py [--plain "passed failed skipped"] LABEL=LOG.json[,AGAIN.json] ...
       count_tests.py --failed LOG.json

AGAIN has results of tests that failed and were run once more: they count in place of the first ones, and a test
that passed then is named as unstable. --failed prints the names of the tests that failed, a line each.

Prints a line for each log and, as the last line, `N passed, M failed`. Before it `K skipped` when there are any; the
lines before that give the reasons, and before them `K unstable`. --plain adds results that were counted elsewhere.
Fails when something failed, or when nothing was run at all.
"""

import json
import re
import sys

BEGIN = re.compile(r"^\[ RUN      \] (\S+)")
# Parts of a program that say themselves that they were skipped: lines of our scripts, the last line of Python's
# unittest.
SKIPPED_PART = re.compile(r"^(?:skipped\b|\S.*?: skipped\b).*", re.M)
SKIPPED_CASES = re.compile(r"^(?:OK|FAILED) \(.*?\bskipped=(\d+)", re.M)
END = re.compile(r"^\[(       OK|  FAILED |  SKIPPED|  ERROR  )\s*\] (\S+)")


def count_cases(output):
    """(passed, failed, skipped) of the cmocka cases in a program's output. Its closing lists name cases again, so a
    result counts only after the start of its case; a case without a result was cut short: a failure."""
    passed = failed = skipped = 0
    running = None
    for line in output.splitlines():
        begin, end = BEGIN.match(line), END.match(line)
        if begin:
            failed += running is not None
            running = begin[1]
        elif end and end[2] == running:
            running = None
            kind = end[1].strip()
            passed += kind == "OK"
            skipped += kind == "SKIPPED"
            failed += kind in ("FAILED", "ERROR")
    return passed, failed + (running is not None), skipped


def skipped_parts(test):
    """Sentences, one for each part of a test that was skipped while others ran."""
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    found = SKIPPED_PART.findall(text)
    cases = sum(map(int, SKIPPED_CASES.findall(text)))
    return found + ["a case was skipped"] * cases


def count_test(test):
    """(passed, failed, skipped) of one meson test."""
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    if test["result"] == "SKIP":
        return 0, 0, 1
    passed, failed, skipped = count_cases(test.get("stdout", ""))
    if passed + failed + skipped == 0:
        return int(good), int(not good), len(skipped_parts(test))
    if not good and failed == 0:  # crashed or leaked after its last case
        failed = 1
    return passed, failed, skipped


def skipped_reasons(test, skipped):
    """What is printed of a test of which parts were skipped."""
    if not skipped:
        return []
    return skipped_parts(test) or ["all of it" if test["result"] == "SKIP" else f"{skipped} cases"]


def short_name(test):
    return test.get("name", "?").split(" / ")[-1]


def read_log(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        return [json.loads(line) for line in log]


def failed_names(path):
    return [short_name(test) for test in read_log(path) if count_test(test)[1]]


def settled(tests, again):
    """The tests with the results of their second runs, and the names of those that passed only then."""
    second = {test.get("name"): test for test in again}
    unstable = [short_name(test) for test in tests
                if test.get("name") in second and not count_test(second[test["name"]])[1]]
    return [second.get(test.get("name"), test) for test in tests], unstable


def count_log(paths):
    """(passed, failed, skipped, unstable, programs, seconds) of a log, or of a log and that of second runs."""
    path, _, again = paths.partition(",")
    tests, unstable = settled(read_log(path), read_log(again) if again else [])
    for name in unstable:
        print(f"unstable: {name}: failed, and passed when it ran again")
    passed = failed = skipped = 0
    for test in tests:
        result = count_test(test)
        for reason in skipped_reasons(test, result[2]):
            print(f"skipped: {short_name(test)}: {reason}")
        passed += result[0]
        failed += result[1]
        skipped += result[2]
    return passed, failed, skipped, len(unstable), len(tests), sum(test.get("duration", 0) for test in tests)


def phrase(passed, failed, skipped):
    return (f"{skipped} skipped; " if skipped else "") + f"{passed} passed, {failed} failed"


def main(arguments):
    if arguments[:1] == ["--failed"]:
        print("\n".join(failed_names(arguments[1])))
        return 0
    total = [0, 0, 0, 0]
    if arguments[:1] == ["--plain"]:
        total = [int(word) for word in arguments[1].split()] + [0]
        arguments = arguments[2:]
    for argument in arguments:
        label, path = argument.split("=", 1)
        try:
            result = count_log(path)
        except (OSError, ValueError) as error:
            print(f"{label}: no results: {error}")
            total[1] += 1
            continue
        print(f"{label}: {phrase(*result[:3])} ({result[4]} programs, {result[5]:.0f} s of work)")
        total = [a + b for a, b in zip(total, result)]
    if total[0] + total[1] == 0:
        total[1] = 1
    if total[3]:
        print(f"{total[3]} unstable")
    if total[2]:
        print(f"{total[2]} skipped")
    print(f"{total[0]} passed, {total[1]} failed")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
