#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""types.py CACHE: the types that the page's comments state, checked by TypeScript (from npm, kept in CACHE).

Exit status 77: it is not available here; the reason is printed."""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "export"))
import readers  # noqa: E402


def main():
    try:
        modules = readers.npm_project(sys.argv[1], HERE / "npm")
    except readers.Unavailable as reason:
        print(f"skipped: {reason}")
        return 77
    compiler = modules / "node_modules" / "typescript" / "bin" / "tsc"
    return subprocess.run(["node", compiler, "-p", HERE / "tsconfig.json"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
