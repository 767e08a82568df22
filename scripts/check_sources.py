#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_sources.py [TREE]: every source file names its licence in its first lines, and keeps to 120 columns.

Prints each violation as file:line: text and fails when there is one. --add-licence writes the missing lines.
"""
import argparse
import os
import subprocess
import sys

LICENCE = "SPDX-License-Identifier: Apache-2.0"
COLUMNS = 120
FIRST_LINES = 3
C = (".c", ".h", ".cc", ".S", ".ld", ".map", ".mjs", ".js", ".ts", ".css")
HASH = (".py", ".sh", "meson.build", "meson_options.txt", "Makefile", ".ci/run")
# Tables with a row for each instruction, and Perfetto's own format.
WIDE = ("src/isa/x64/decode_table.txt", "src/isa/a64/decode_table.txt", "tests/golden/")


def sources(tree):
    """Names of tracked files, or of all files where there is no git."""
    listing = subprocess.run(["git", "-C", tree, "ls-files", "-z"], capture_output=True, text=True)
    if listing.returncode == 0 and listing.stdout:
        names = listing.stdout.split("\0")
    else:
        names = [os.path.relpath(os.path.join(folder, name), tree)
                 for folder, _, files in os.walk(tree) for name in files]
    return sorted(name for name in names if name.endswith(C + HASH) and os.path.isfile(os.path.join(tree, name)))


def licence_line(name):
    return "/* %s */" % LICENCE if name.endswith(C) else "# " + LICENCE


def complaints(name, lines):
    if not any(LICENCE in line for line in lines[:FIRST_LINES]):
        yield 1, "there is no line \"%s\"" % LICENCE
    if name.startswith(WIDE):
        return
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield number, "%d columns, %d are allowed" % (len(line), COLUMNS)


def add_licence(path, name, lines):
    at = 1 if lines and lines[0].startswith("#!") else 0
    lines.insert(at, licence_line(name))
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", nargs="?", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    parser.add_argument("--add-licence", action="store_true")
    options = parser.parse_args()
    failed = False
    for name in sources(options.tree):
        path = os.path.join(options.tree, name)
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        if options.add_licence and not any(LICENCE in line for line in lines[:FIRST_LINES]):
            add_licence(path, name, lines)
        for number, text in complaints(name, lines):
            print("%s:%d: %s" % (name, number, text))
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
