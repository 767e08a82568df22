#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`contrail mcp`, asked by the official clients of the Model Context Protocol (from npm): client.mjs, newest.mjs; and
by the generic scenarios of its conformance tests: scenarios.mjs.

mcp.py CONTRAIL ORDERS CACHE, with ORDERS the program examples/orders.c, which crashes.

Exit status 77: the client is not available here; the reason is printed."""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "export"))
import readers  # noqa: E402

PARTS = ("scenarios.mjs", "newest.mjs", "client.mjs")  # the last one records more


def main():
    contrail, orders, cache = sys.argv[1:]
    try:
        modules = readers.npm_project(cache, HERE / "npm")
    except readers.Unavailable as reason:
        print(f"skipped: {reason}")
        return 77
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([contrail, "spawn", "--quiet", "--trigger", "crash", "--output", directory, "--", orders],
                       check=False, stderr=subprocess.DEVNULL)
        for part in PARTS:
            code = subprocess.run(["node", HERE / part, modules, contrail, directory], check=False).returncode
            if code not in (0, 77):
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
