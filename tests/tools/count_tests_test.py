#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The counter of test results, on made-up logs. usage: count_tests_test.py path/to/count_tests.py"""

import json
import os
import subprocess
import sys
import tempfile

SCRIPT = sys.argv[1]

CASES = """[==========] Running 4 test(s).
[ RUN      ] test_a
[       OK ] test_a
[ RUN      ] test_b
[  FAILED  ] test_b
[ RUN      ] test_c
[  SKIPPED ] test_c
[ RUN      ] test_d
%s
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] test_b
"""


def last_line(*tests, extra=()):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.json")
        with open(path, "w", encoding="utf-8") as log:
            for result, stdout in tests:
                log.write(json.dumps({"result": result, "stdout": stdout, "duration": 0.1}) + "\n")
        run = subprocess.run([sys.executable, SCRIPT, *extra, "x=" + path], stdout=subprocess.PIPE, text=True,
                             check=False)
    lines = run.stdout.splitlines()
    skipped = lines[-2] + "; " if len(lines) > 1 and lines[-2].endswith(" skipped") else ""
    return skipped + lines[-1], run.returncode


def expect(got, wanted):
    if got != wanted:
        sys.exit(f"{got} instead of {wanted}")


expect(last_line(("OK", "")), ("1 passed, 0 failed", 0))
expect(last_line(("OK", ""), ("SKIP", "")), ("1 skipped; 1 passed, 0 failed", 0))
expect(last_line(("OK", ""), ("FAIL", ""), ("TIMEOUT", ""), ("ERROR", "")), ("1 passed, 3 failed", 1))
expect(last_line(("FAIL", CASES % "[       OK ] test_d")), ("1 skipped; 2 passed, 1 failed", 1))
expect(last_line(("FAIL", CASES % "")), ("1 skipped; 1 passed, 2 failed", 1))  # test_d never came back
expect(last_line(("FAIL", "[ RUN      ] a\n[       OK ] a\n")), ("1 passed, 1 failed", 1))  # crashed at the end
expect(last_line(("OK", "[ RUN      ] a\n[       OK ] a\n")), ("1 passed, 0 failed", 0))
# Parts of scripts that were skipped
expect(last_line(("OK", "ok      a\nb: skipped: no gdb\nskipped c (musl): no compiler\n")),
       ("2 skipped; 1 passed, 0 failed", 0))
expect(last_line(("FAIL", "skipped: d, no xz\n")), ("1 skipped; 0 passed, 1 failed", 1))
expect(last_line(("OK", "Ran 9 tests in 0.1s\n\nOK (skipped=3)\n")), ("3 skipped; 1 passed, 0 failed", 0))
expect(last_line(("OK", "2 programs, 1 skipped; nothing skipped here\n")), ("1 passed, 0 failed", 0))
expect(last_line(("OK", ""), extra=("--plain", "3 0 0")), ("4 passed, 0 failed", 0))
expect(last_line(("OK", ""), extra=("--plain", "3 1 0")), ("4 passed, 1 failed", 1))
expect(last_line(), ("0 passed, 1 failed", 1))  # nothing ran: no success
expect(last_line(("OK", ""), extra=("y=/nonexistent",)), ("1 passed, 1 failed", 1))


def runs(first, second):
    """What is said of a test with these results of its first and second run."""
    with tempfile.TemporaryDirectory() as folder:
        for name, result in (("first", first), ("second", second)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as log:
                log.write(json.dumps({"name": "p:s / rare", "result": result, "stdout": ""}) + "\n")
                if name == "first":
                    log.write(json.dumps({"name": "p:s / other", "result": "OK", "stdout": ""}) + "\n")
        paths = [os.path.join(folder, name) for name in ("first", "second")]
        named = subprocess.run([sys.executable, SCRIPT, "--failed", paths[0]], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.split()
        run = subprocess.run([sys.executable, SCRIPT, "x=" + ",".join(paths)], stdout=subprocess.PIPE, text=True,
                             check=False)
    return named, run.stdout.splitlines()[0], run.stdout.splitlines()[-2:], run.returncode


UNSTABLE = "unstable: rare: failed, and passed when it ran again"
expect(runs("FAIL", "OK"), (["rare"], UNSTABLE, ["1 unstable", "2 passed, 0 failed"], 0))
expect(runs("FAIL", "FAIL")[2:], (["x: 1 passed, 1 failed (2 programs, 0 s of work)", "1 passed, 1 failed"], 1))
