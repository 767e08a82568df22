#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what tests need to be built, as ninja names it: a build that runs some need not have the others.

usage: suite_targets.py BUILD-DIRECTORY SUITE          all tests of a suite
       suite_targets.py BUILD-DIRECTORY SUITE NAME...  these alone
       suite_targets.py --objects BUILD-DIRECTORY SUITE  and every object file of the build
"""

import json
import os
import subprocess
import sys


def introspect(directory, what):
    return json.loads(subprocess.check_output(["meson", "introspect", directory, what]))


def object_files(directory):
    with open(os.path.join(directory, "compile_commands.json"), encoding="utf-8") as file:
        return {command["output"] for command in json.load(file)}


def main(*words):
    objects = words[0] == "--objects"
    directory, suite, *names = words[1:] if objects else words
    needed = set()
    for test in introspect(directory, "--tests"):
        wanted = not names or test["name"] in names
        if wanted and suite in (name.split(":")[-1] for name in test["suite"]):
            needed.update(test["depends"])
    files = set()
    for target in introspect(directory, "--targets"):
        if target["id"] in needed:
            files.update(os.path.relpath(path, os.path.realpath(directory)) for path in target["filename"])
    if files and objects:
        files |= object_files(directory)
    print("\n".join(sorted(files)))
    return 0 if files else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
