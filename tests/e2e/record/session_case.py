# SPDX-License-Identifier: Apache-2.0
"""What tests of whole sessions share: programs are built, recorded, and the manifests of all processes looked at."""
import glob
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from recorder import PATIENCE, TIMEOUT

CONTRAIL = ""
COMMAND = ["spawn", "--lossless"]


class SessionCase(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="contrail-test-")

    def tearDown(self):
        shutil.rmtree(self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def build(self, name, text, *options):
        source = self.write(name + ".c", text)
        subprocess.run(["gcc", "-O1", "-o", self.path(name), source, *options, "-pthread"], check=True)
        return self.path(name)

    def session(self):
        return glob.glob(self.path("traces/session_*"))[0]

    def record(self, *command, options=(), cwd=None, check=True, before=(), contrail=None, keep=False,
               stdin=None):
        """What the program printed, and the manifests of all processes. `before`: words that lead to contrail; `keep`:
        the directory of the traces is there already; `check`: nothing is missing."""
        traces = self.path("traces")
        if not keep:
            shutil.rmtree(traces, ignore_errors=True)
        plain = [*before, contrail or CONTRAIL, *COMMAND, "--output", traces, *PATIENCE, *options, "--", *command]
        done = subprocess.run(plain, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
                              timeout=TIMEOUT, stdin=stdin)
        manifests = []
        for path in glob.glob(traces + "/session_*/pid_*/manifest.json"):
            with open(path) as file:
                manifests.append(json.load(file))
        self.assertEqual(len(glob.glob(traces + "/session_*")), 1)
        for manifest in manifests:
            self.assertTrue(manifest["complete"], manifest["command_line"])
        if check:
            self.assertNotIn("could not be recorded", done.stderr)
            verify = subprocess.run([CONTRAIL, "verify", self.session()], capture_output=True, text=True)
            self.assertEqual(verify.returncode, 0, verify.stdout)
        return done, manifests

    def calls(self, names=None):
        """How often functions were called, by name; of one module, when a part of its name is given."""
        report = subprocess.run([CONTRAIL, "report", "--json", "--limit", "100000", self.session()],
                                capture_output=True, text=True, check=True)
        calls = {}
        for row in json.loads(report.stdout)["functions"]:
            if not names or names in row["module"]:
                calls[row["name"]] = calls.get(row["name"], 0) + row["calls"]
        return calls
