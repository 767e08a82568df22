#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of an arm64 build on this machine: under qemu's emulation of user programs what that can run, and in
a virtual machine the rest. tests/arm64/tests.txt says which test runs where, and why one does not.

usage: arm64_test.py [--quick] [--user | --guest] [--guests N] [--patience N] TREE   TREE: build-arm64/tree
       arm64_test.py --list TREE                                                     where each test runs

--quick: the part that `make test` runs. Logs are TREE/meson-logs/contrail-user.json and contrail-guest.json; the last
line is `N passed, M failed`.
"""

import argparse
import fnmatch
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arm64_guest  # pylint: disable=wrong-import-position

PROJECT = arm64_guest.PROJECT
TABLE = PROJECT / "tests/arm64/tests.txt"
WHERE = ("user", "guest", "skip")


def read_table(path=TABLE):
    """[(pattern, where, quick, reason)] of the table's lines."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("#")[0].split(None, 2)
        if not words:
            continue
        where, _, quick = words[0].partition("+")
        if where not in WHERE or quick not in ("", "quick") or len(words) < 2 or (where == "skip" and len(words) < 3):
            raise SystemExit(f"{path}:{number}: a line is WHERE[+quick] PATTERN [REASON]; a skipped test has a reason")
        rows.append((words[1].replace("_", "?"), where, bool(quick), words[2] if len(words) > 2 else ""))
    return rows


def place(test, rows):
    """(where, quick, reason) of a test: the first line that fits."""
    for pattern, where, quick, reason in rows:
        if any(fnmatch.fnmatchcase(name, pattern) for name in [test["name"]] + ["suite:" + s for s in test["suite"]]):
            return where, quick, reason
    return "guest", False, ""


def placed(tree):
    rows = read_table()
    return [(test, *place(test, rows)) for test in arm64_guest.all_tests(tree)]


def run_user(tree, tests, quick):
    """`meson test`, which has the wrapper of the cross file."""
    log = tree / "meson-logs" / "contrail-user.json"
    log.unlink(missing_ok=True)
    print(f"--- arm64, {len(tests)} tests under qemu-user", flush=True)
    result = subprocess.run(["meson", "test", "-C", str(tree), "--no-rebuild", "--num-processes", str(os.cpu_count()),
                             "--timeout-multiplier", "2" if quick else "4", "--logbase", "contrail-user",
                             "--print-errorlogs", "--quiet", *(test["name"] for test in tests)], check=False)
    if result.returncode:
        print(f"  again: meson test -C {tree.relative_to(PROJECT)} NAME")
    return log


def run_guest(tree, tests, options):
    log = tree / "meson-logs" / "contrail-guest.json"
    log.unlink(missing_ok=True)
    if subprocess.run([str(PROJECT / "scripts/arm64-guest-setup.sh")], check=False, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode:
        print("skipped: arm64 guest: its kernel, Debian or qemu could not be installed")
        return None
    print(f"--- arm64, {len(tests)} tests in {options.guests} guests", flush=True)
    settings = argparse.Namespace(guests=options.guests, cpus=1, log=str(log), environment={},
                                  verbose=False, patience=options.patience)
    arm64_guest.run_tests(tree, tests, settings)
    return log


def main(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--user", action="store_true")
    parser.add_argument("--guest", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--guests", type=int, default=os.cpu_count())
    parser.add_argument("--patience", type=int, default=arm64_guest.PATIENCE)
    parser.add_argument("tree", type=pathlib.Path)
    options = parser.parse_args(arguments)
    tree = options.tree.resolve()
    tests = placed(tree)
    if options.list:
        for test, where, quick, reason in tests:
            print(f"{where + ('+quick' if quick else ''):12} {test['name']:40} {reason}".rstrip())
        return 0
    chosen = {where: [test for test, at, quick, _ in tests if at == where and (quick or not options.quick)]
              for where in WHERE}
    logs = []
    if not options.guest:
        logs.append(("user", run_user(tree, chosen["user"], options.quick)))
    if not options.user:
        logs.append(("guest", run_guest(tree, chosen["guest"], options)))
    if not options.quick:
        for test, where, _, reason in tests:
            if where == "skip":
                print(f"skipped: {test['name']}: {reason}")
    return subprocess.run([sys.executable, str(PROJECT / "scripts/count_tests.py"),
                           *(f"arm64, {name}={log}" for name, log in logs if log)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
