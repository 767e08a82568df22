#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tui.py CONTRAIL PROGRAM: `contrail tui` in a terminal of tmux, on a recorded trace: its views, and the ways from one
to the other. What the screen shows is compared with `report` and `query`."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import driver

driver.PROGRAM = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.abspath(sys.argv.pop(1))


class Recorded:
    """One trace for all tests."""


def setUpModule():
    Recorded.dir = tempfile.TemporaryDirectory()
    os.chmod(Recorded.dir.name, 0o755)
    result = driver.run("spawn", "--lossless", "--only", os.path.basename(PROGRAM), "-o", Recorded.dir.name, PROGRAM)
    assert result.returncode == 0, result.stderr
    (session,) = os.listdir(Recorded.dir.name)
    Recorded.trace = os.path.join(Recorded.dir.name, session)


def tearDownModule():
    Recorded.dir.cleanup()


def rows(sql):
    return json.loads(driver.run("query", "--json", Recorded.trace, sql).stdout)


class Words(unittest.TestCase):
    def test_needs_a_terminal(self):
        result = driver.run("tui", Recorded.trace)
        self.assertEqual(result.returncode, 64)
        self.assertIn("tui needs a terminal", result.stderr)


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed")
class Screen(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.code = os.path.join(self.place.name, "code")

    def tearDown(self):
        self.tmux("kill-server", check=False)
        self.place.cleanup()

    def tmux(self, *words, check=True):
        command = ["tmux", "-S", os.path.join(self.place.name, "socket"), "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=driver.LIMIT, check=check).stdout

    def start(self, *words):
        line = " ".join([driver.PROGRAM, "tui", *words, Recorded.trace])
        self.tmux("new-session", "-d", "-x", "120", "-y", "30", f"LC_ALL=C.UTF-8 {line}; echo $? > {self.code}")

    def see(self, *patterns):
        """The screen, once it has all of this."""
        end = time.monotonic() + driver.LIMIT
        while True:
            screen = self.tmux("capture-pane", "-p")
            if all(re.search(pattern, screen, re.M) for pattern in patterns):
                return screen
            self.assertLess(time.monotonic(), end, f"{patterns} did not come:\n{screen}")
            time.sleep(0.05)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def leave(self):
        self.press("q")
        end = time.monotonic() + driver.LIMIT
        while not os.path.exists(self.code) or not os.path.getsize(self.code):
            self.assertLess(time.monotonic(), end, "it did not end")
            time.sleep(0.05)
        with open(self.code, encoding="ascii") as file:
            self.assertEqual(file.read(), "0\n")

    def test_from_a_function_to_its_call(self):
        report = json.loads(driver.run("report", "--json", Recorded.trace).stdout)["functions"]
        (call,) = rows("SELECT id, start FROM calls WHERE function = 'seldom'")
        self.start()
        self.see(*[rf"^ *{row['calls']} .* {row['name']} \[" for row in report])
        self.press("/", "seldom", "Enter")
        screen = self.see(r"1 functions by total", "/seldom")
        self.assertNotIn("some_steps", screen)
        self.press("Enter")
        callers = rows("SELECT caller, callee FROM edges WHERE 'seldom' IN (caller, callee)")
        self.see("callees.*of seldom", *[rf"<- {row['caller']}" if row["callee"] == "seldom" else rf"-> {row['callee']}"
                                         for row in callers])
        self.press("1")
        self.see("1 functions by total")
        self.press("c")
        moment = f"{call['start'] // 10**9}\\.{call['start'] % 10**9:09}"
        around = [row["function"] for row in rows(f"SELECT function FROM callers({call['id']}) ORDER BY level")]
        self.see(rf"{moment} .* \+ seldom", *[rf"- {name}" for name in around[1:]])
        self.press("Right")
        self.see(r"- seldom\n.* \+ step")
        self.press("Left")
        self.see(rf"{moment} .* \+ seldom")
        self.press("t")
        self.see("^at .*:", *[rf"^  {name} \(since" for name in around[1:]])
        self.press("Enter")
        self.see("START .*DURATION", "thread 1: ")
        self.leave()

    def test_the_tree_folds_and_finds(self):
        self.start()
        self.press("3")
        self.see(r"\+ thread 1: ")
        self.press("Enter")
        self.see(r"\+ main")
        outermost = [row["function"] for row in rows("SELECT function FROM calls WHERE depth = 0 ORDER BY id")]
        self.press(*["Down"] * (outermost.index("main") + 1), "Enter")
        self.see(r"- main\n.*\+ some_steps")
        self.press("G")
        self.see(r"\.\.\. later calls")
        self.press("Home", "/", "seldom", "Enter")
        self.see(r"\+ seldom")
        self.press("n")
        self.see(r"no later call of \*seldom\*")
        self.press("Home", "Enter")
        screen = self.see(r"\+ thread 1: ")
        self.assertNotIn("main", screen)
        self.leave()

    def test_moments_and_timeline(self):
        (end,) = rows("SELECT stop FROM processes")
        self.start()
        self.press("5")
        self.see(r"^ *0\.000000000  begin", rf"{end['stop'] % 10**9:09}  end .*exit 0")
        self.press("Enter")
        self.see("^THREAD", r"^at 0\.0.* of 0\.000000000 to ")
        self.press("+")
        screen = self.see(r"^at 0\.0")
        self.press("-", "-", "-")
        self.see(rf"to {end['stop'] // 10**9}\.{end['stop'] % 10**9:09}:")
        self.assertIn("first letter", screen)
        self.leave()

    def test_words_of_the_selection(self):
        self.start("--function", "seld*")
        screen = self.see("1 functions by total", r"seldom \[")
        self.assertNotIn("some_steps", screen)
        self.press("s")
        self.see("1 functions by self")
        self.leave()


if __name__ == "__main__":
    unittest.main()
