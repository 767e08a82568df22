#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""completion.py CONTRAIL: bash completes commands, options, values and operands with the script that contrail writes;
and every command and option of the help texts is in it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))

# As bash calls it: the words so far, the last one being completed. `compopt` works only while bash completes.
ASK = """
source "$1"; shift
compopt() { :; }
COMP_WORDS=(contrail "$@"); COMP_CWORD=$#
_contrail
printf '%s\\n' "${COMPREPLY[@]}"
"""


def ask(*words):
    return subprocess.run([CONTRAIL, *words], capture_output=True, text=True, check=True).stdout


def commands():
    return re.findall(r"(?m)^  (\S+)", ask("--help"))


class Bash(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.script = os.path.join(self.dir.name, "contrail")
        with open(self.script, "w") as out:
            out.write(ask("completion", "bash"))
        os.makedirs(os.path.join(self.dir.name, "a trace"))

    def bash(self, text, *words):
        done = subprocess.run(["bash", "--norc", "-c", text, "bash", self.script, *words], capture_output=True,
                              text=True, timeout=60, cwd=self.dir.name)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line for line in done.stdout.split("\n") if line]

    def complete(self, *words):
        return self.bash(ASK, *words)

    def test_is_registered(self):
        self.assertEqual(self.bash('source "$1"; complete -p contrail'), ["complete -F _contrail contrail"])

    def test_commands(self):
        self.assertEqual(sorted(self.complete("")), sorted(commands() + ["help", "--help", "--version"]))
        self.assertEqual(self.complete("att"), ["attach"])
        self.assertEqual(self.complete("help", "att"), ["attach"])

    def test_options_of_every_command(self):
        for command in commands():
            known = re.findall(r"(?m)^  (?:-\S, |    )--(\S+)", ask("help", command))
            self.assertIn("help", known)
            self.assertEqual(self.complete(command, "--"), ["--" + name for name in known], command)

    def test_values(self):
        self.assertEqual(self.complete("report", "--sort", "p9"), ["p95", "p99"])
        self.assertEqual(self.complete("report", "-s", "p9"), ["p95", "p99"])
        self.assertEqual(self.complete("report", "--sort", "=", "p9"), ["p95", "p99"])
        self.assertIn("total", self.complete("report", "--sort", "="))
        self.assertEqual(self.complete("spawn", "-o", "a"), ["a trace"])
        self.assertEqual(self.complete("spawn", "--duration", ""), [])

    def test_operands(self):
        pid = str(os.getpid())
        self.assertIn(pid, self.complete("attach", pid))
        self.assertIn(pid, self.complete("attach", "-q", "--only", "x*", pid))
        self.assertEqual(self.complete("ctl", pid, "st"), ["status", "stop"])
        self.assertEqual(self.complete("ctl", "--json", pid, "stat"), ["status"])
        self.assertEqual(self.complete("info", ""), ["a trace"])
        self.assertEqual(self.complete("report", "--sort", "=", "self", ""), ["a trace"])
        self.assertEqual(self.complete("graph", ""), [])
        self.assertEqual(self.complete("graph", "main", ""), ["a trace"])

    def test_program(self):
        self.assertIn("bash", self.complete("spawn", "bas"))
        self.assertIn("bash", self.complete("spawn", "--", "bas"))
        # what follows the program is its own
        self.assertEqual(self.complete("spawn", "ls", "--out"), [])
        self.assertEqual(self.complete("spawn", "ls", "-o", "con"), ["contrail"])

    def test_unknown(self):
        self.assertEqual(self.complete("nonsense", ""), [])
        done = subprocess.run([CONTRAIL, "completion", "tcsh"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertNotIn("completion", commands())


class Zsh(unittest.TestCase):
    def test_every_option_is_there(self):
        script = ask("completion", "zsh")
        self.assertTrue(script.startswith("#compdef contrail\n"))
        for command in commands():
            part = re.search(rf"(?ms)^    {command}\)\n(.*?)^        ;;", script).group(1)
            for name in re.findall(r"(?m)^  (?:-\S, |    )--(\S+)", ask("help", command)):
                self.assertRegex(part, rf"--{name}=?\[")

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_syntax(self):
        done = subprocess.run(["zsh", "-f", "-n"], input=ask("completion", "zsh"), text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
