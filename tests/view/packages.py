# SPDX-License-Identifier: Apache-2.0
"""What npm gives the tests of the page."""
import fcntl
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "export"))
import readers  # noqa: E402


def modules(cache):
    """Where the packages of npm/ are installed, in `cache`; None, after a sentence, when they are not to be had. Two
    tests may ask at once: one installs."""
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return readers.npm_project(cache, HERE / "npm")
        except readers.Unavailable as reason:
            print(f"skipped: {reason}")
            return None
