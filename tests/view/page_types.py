#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_types.py CACHE: the types that the page's comments state, checked by TypeScript (from npm, kept in CACHE).

Exit status 77: it is not available here; the reason is printed."""
import pathlib
import subprocess
import sys

from packages import modules

HERE = pathlib.Path(__file__).resolve().parent


def main():
    place = modules(sys.argv[1])
    if not place:
        return 77
    compiler = place / "node_modules" / "typescript" / "bin" / "tsc"
    return subprocess.run(["node", compiler, "-p", HERE / "tsconfig.json"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
