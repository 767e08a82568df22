#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a suite needs to be built, as ninja names it: a build that runs one suite need not have the others.

usage: suite_targets.py BUILD-DIRECTORY SUITE
"""

import json
import os
import subprocess
import sys


def introspect(directory, what):
    return json.loads(subprocess.check_output(["meson", "introspect", directory, what]))


def main(directory, suite):
    needed = set()
    for test in introspect(directory, "--tests"):
        if suite in (name.split(":")[-1] for name in test["suite"]):
            needed.update(test["depends"])
    names = set()
    for target in introspect(directory, "--targets"):
        if target["id"] in needed:
            names.update(os.path.relpath(path, os.path.realpath(directory)) for path in target["filename"])
    print("\n".join(sorted(names)))
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
