#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `contrail view` in a headless Chromium (Debian's), driven from npm: browser.mjs.

browser.py CONTRAIL MAKE_TRACE TOUR ORDERS STEADY CACHE [NAME...]: TOUR and ORDERS are the programs of examples/, which
are recorded; STEADY runs until it is killed; CACHE is where npm installs. NAMEs are checks of browser.mjs; `pictures`
writes the pictures of the documents.

Exit status 77: Chromium or its driver is not available here; the reason is printed."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from packages import modules

HERE = pathlib.Path(__file__).resolve().parent


def main():
    contrail, make_trace, tour, orders, steady, cache, *names = sys.argv[1:]
    if not shutil.which("chromium"):
        print("skipped: chromium is not installed")
        return 77
    place = modules(cache)
    if not place:
        return 77
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        golden = work / "golden"
        golden.mkdir()
        subprocess.run([make_trace, golden], check=True)
        subprocess.run([contrail, "spawn", "--quiet", "--output", work / "tour", "--", tour], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([contrail, "spawn", "--quiet", "--trigger", "crash", "--output", work / "crash", "--", orders],
                       check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # it crashes
        return subprocess.run(["node", HERE / "browser.mjs", place, contrail, golden, work, steady, *names],
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
