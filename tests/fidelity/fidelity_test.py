#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fidelity_test.py CONTRAIL: does the harness see what it is there to see? With program files that are wrong, and
programs that behave differently when they are recorded."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = ""
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fidelity.py")
RECORDED = "grep -q memfd:contrail /proc/self/maps"


class Harness(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="contrail-test-fidelity-")

    def tearDown(self):
        self.directory.cleanup()

    def run_file(self, text, *options):
        """Exit status, rows and output for one program file."""
        rows = os.path.join(self.directory.name, "rows.json")
        with open(os.path.join(self.directory.name, "it.toml"), "w") as f:
            f.write(text)
        done = subprocess.run([sys.executable, SCRIPT, "--contrail", CONTRAIL, "--build", self.directory.name,
                               "--programs",
                               self.directory.name, "--json", rows, *options], stdout=subprocess.PIPE, text=True)
        if not os.path.exists(rows):
            return done.returncode, [], done.stdout
        with open(rows) as f:
            return done.returncode, json.load(f), done.stdout

    def expect(self, same, problem, text, *options, code=1):
        status, rows, _ = self.run_file(text, *(options or ("--mode", "record")))
        self.assertEqual((status, rows[-1]["same"]), (code, same), rows)
        self.assertIn(problem, rows[-1]["problem"])

    def shell(self, script, more=""):
        return "packages = ['dash']\ncommand = ['sh', '-c', %s]\n%s" % (json.dumps(script), more)

    def test_the_same(self):
        self.expect("yes", "", self.shell("echo word; echo error >&2; echo text >file; exit 3", "files = ['file']"),
                    code=0)

    def test_output(self):
        self.expect("NO", "output differ", self.shell("echo a; %s && echo b" % RECORDED))

    def test_errors(self):
        self.expect("NO", "errors differ", self.shell("echo a; %s && echo b >&2" % RECORDED))

    def test_exit_code(self):
        self.expect("NO", "exit code 1 became 0", self.shell("echo a; %s" % RECORDED))

    def test_files(self):
        self.expect("NO", "the file out differs",
                    self.shell("echo a >out; %s && echo b >out; true" % RECORDED, "files = ['out']"))

    def test_hangs(self):
        self.expect("NO", "hangs", self.shell("echo a; %s && sleep 300; exit 0" % RECORDED), "--mode", "record",
                    "--patience", "5")

    def test_filters(self):
        self.expect("yes", "", self.shell("echo a $$", "filters = [['\\d+', 'N']]"), code=0)

    def test_not_deterministic(self):
        self.expect("NO", "not deterministic", self.shell("echo $$"))

    def test_nothing_made(self):
        self.expect("NO", "makes nothing", self.shell("true"))

    def test_missing_package(self):
        self.expect("skipped", "not installed: no-such-package",
                    "packages = ['no-such-package']\ncommand = ['true']\n", code=77)

    def test_left_out(self):
        text = self.shell("echo a", "leave_out = { record = 'a sentence' }")
        _, rows, _ = self.run_file(text, "--mode", "record")
        self.assertEqual([(r["mode"], r["same"], r["problem"]) for r in rows if r["mode"] == "record"],
                         [("record", "left out", "a sentence")])

    def test_unknown_word(self):
        status, _, output = self.run_file(self.shell("echo a", "comand = 3"))
        self.assertEqual(status, 1)
        self.assertIn("unknown: ['comand']", output)

    def test_setup_that_fails(self):
        self.expect("NO", "setup ends with 4", self.shell("echo a", "setup = 'exit 4'"))


if __name__ == "__main__":
    CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
