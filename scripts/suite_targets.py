#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what tests need to be built, as ninja names it: a build that runs some need not have the others.

usage: suite_targets.py BUILD-DIRECTORY SUITE          all tests of a suite
       suite_targets.py BUILD-DIRECTORY SUITE NAME...  these alone
"""

import json
import os
import subprocess
import sys


def introspect(directory, what):
    return json.loads(subprocess.check_output(["meson", "introspect", directory, what]))


def main(directory, suite, *names):
    needed = set()
    for test in introspect(directory, "--tests"):
        wanted = not names or test["name"] in names
        if wanted and suite in (name.split(":")[-1] for name in test["suite"]):
            needed.update(test["depends"])
    files = set()
    for target in introspect(directory, "--targets"):
        if target["id"] in needed:
            files.update(os.path.relpath(path, os.path.realpath(directory)) for path in target["filename"])
    print("\n".join(sorted(files)))
    return 0 if files else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
