#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bad_input.py CONTRAIL: whatever cannot be done is refused with one sentence and the documented exit code, and nothing
is left behind: no process, no stopped process, no directory."""

import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import driver

CONTRAIL = driver.PROGRAM = os.path.abspath(sys.argv.pop(1))
USAGE, UNAVAILABLE, INTERNAL, PERMISSION = 64, 69, 70, 77
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def stat_of(pid):
    """State, session and flags of a process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[3]), int(fields[6])


def sleeps(pid, seconds=100):
    """Waits until it does, as a program does that sleeps: one that was left stopped never will."""
    end = time.monotonic() + seconds
    while stat_of(pid)[0] != "S" and time.monotonic() < end:
        time.sleep(0.01)
    return stat_of(pid)[0] == "S"


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class BadInput(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        os.chmod(self.dir, 0o755)
        self.traces = os.path.join(self.dir, "traces")

    def tearDown(self):
        shutil.rmtree(self.dir)

    def file(self, name, content, mode):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as out:
            out.write(content)
        os.chmod(path, mode)
        return path

    def refused(self, code, *words, says="", before=(), output=True):
        """Runs contrail in a session of its own, so that what it leaves behind can be found."""
        where = ["--output", self.traces] if output else []
        words = [*before, CONTRAIL, words[0], *where, *words[1:]]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, cwd=self.dir)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, err)
        self.assertEqual(out, "")
        lines = err.splitlines()
        self.assertEqual(len(lines), 1, err)
        self.assertTrue(lines[0].startswith("contrail: "), err)
        self.assertFalse(lines[0].endswith("."), err)
        self.assertIn(says, lines[0])
        left = [pid for pid in processes() if (stat_of(pid) or (0, 0))[1] == process.pid]
        self.assertEqual(left, [], "processes were left behind")
        self.assertEqual([name for name in os.listdir(self.dir) if name == "traces"], [], "a directory was left behind")

    # ---- programs ----

    def test_no_such_program(self):
        self.refused(UNAVAILABLE, "spawn", "./missing", says="missing")
        self.refused(UNAVAILABLE, "spawn", "surely-no-program-in-path", says="surely-no-program-in-path")
        self.refused(UNAVAILABLE, "spawn", "", says="")

    def test_not_executable(self):
        self.refused(PERMISSION, "spawn", self.file("plain", b"#!/bin/sh\n", 0o644), says="plain")

    def test_directory(self):
        self.refused(UNAVAILABLE, "spawn", self.dir, says="directory")

    def elf(self, name, machine, bits=2):
        head = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0x400000, 64,
                                                                         0, 0, 64, 56, 1, 64, 0, 0)
        return self.file(name, head + bytes(4096), 0o755)

    def test_wrong_architecture(self):
        own, other = {"x86_64": ("x86_64", 183), "aarch64": ("arm64", 62)}[platform.machine()]
        self.refused(UNAVAILABLE, "spawn", self.elf("other", other), says=own)
        self.refused(UNAVAILABLE, "spawn", self.elf("i386", 3, bits=1), says=own)

    def test_damaged_program(self):
        self.refused(UNAVAILABLE, "spawn", self.file("cut", b"\x7fELF\x02\x01\x01", 0o755))
        self.refused(UNAVAILABLE, "spawn", self.file("empty", b"", 0o755))

    def test_scripts(self):
        self.refused(UNAVAILABLE, "spawn", self.file("no_interpreter", b"echo hello\n", 0o755), says="#!")
        self.refused(UNAVAILABLE, "spawn", self.file("missing_interpreter", b"#!/no/such/shell\n", 0o755),
                     says="/no/such/shell")

    @unittest.skipUnless(os.geteuid() == 0, "only root can make it")
    def test_setuid(self):
        copy = os.path.join(self.dir, "setuid")
        shutil.copy("/bin/true", copy)
        os.chmod(copy, 0o4755)
        os.chmod(self.dir, 0o777)
        self.refused(UNAVAILABLE, "spawn", copy, says="setuid", before=AS_NOBODY)

    # ---- processes ----

    def test_no_such_pid(self):
        with open("/proc/sys/kernel/pid_max") as file:
            self.refused(UNAVAILABLE, "attach", str(int(file.read()) + 1), says="no process")

    def test_kernel_thread(self):
        threads = [pid for pid in processes() if (stat_of(pid) or (0, 0, 0))[2] & 0x200000]
        if not threads:
            self.skipTest("no kernel threads are visible here")
        self.refused(UNAVAILABLE, "attach", str(threads[0]), says="kernel")

    def test_zombie(self):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
        self.refused(UNAVAILABLE, "attach", str(child), says="ended")
        os.waitpid(child, 0)

    def test_own_pid(self):
        words = ["sh", "-c", 'exec "$0" attach --output "$1" $$', CONTRAIL, self.traces]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (UNAVAILABLE, 1), done.stderr)
        self.assertFalse(os.path.exists(self.traces))

    def test_already_traced(self):
        libc = ctypes.CDLL(None, use_errno=True)
        with driver.target("sleep", "100") as target:
            self.assertEqual(libc.ptrace(0x4206, target.pid, None, None), 0)  # PTRACE_SEIZE
            self.refused(UNAVAILABLE, "attach", str(target.pid), says="traced")
            self.assertTrue(sleeps(target.pid))

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_no_permission(self):
        os.chmod(self.dir, 0o777)
        with driver.target("sleep", "100") as target:
            self.refused(PERMISSION, "attach", str(target.pid), says="root", before=AS_NOBODY)
            self.assertTrue(sleeps(target.pid))
            self.refused(PERMISSION, "detach", str(target.pid), before=AS_NOBODY, output=False)

    # ---- output ----

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_output_not_writable(self):
        self.refused(PERMISSION, "spawn", "true", says="--output", before=AS_NOBODY)

    def test_output_is_a_file(self):
        path = self.file("taken", b"", 0o644)
        self.refused(UNAVAILABLE, "spawn", "--output", path, "true", says="taken", output=False)

    # ---- usage ----

    def test_usage(self):
        for words, says in (
                (["spawn"], "PROGRAM"),
                (["spawn", "--"], "PROGRAM"),
                (["spawn", "--outptu", "x", "true"], "--output"),
                (["spawn", "--index-mem", "32X", "true"], "32X"),
                (["spawn", "--index-mem", "1", "true"], "at least"),
                (["spawn", "--duration", "soon", "true"], "soon"),
                (["spawn", "--duration", "0", "true"], "at least"),
                (["spawn", "--max-depth", "-3", "true"], "-3"),
                (["spawn", "--drain-interval-ms", "5ms", "true"], "5ms"),
                (["spawn", "--lossless=no", "true"], "--lossless"),
                (["spawn", "--only"], "GLOB"),
                (["attach"], "PID"),
                (["attach", "sleep"], "sleep"),
                (["attach", "0"], "0"),
                (["detach", "me"], "me"),
                (["ctl", "1", "puase"], "pause"),
                (["ctl", "1", "trigger", "add"], "trigger add TRIGGER"),
                (["spawn", "--trigger", "slow=f", "true"], "slow=query_*:50ms"),
                (["spawn", "--trigger", "sumbol=f", "true"], "symbol=GLOB"),
                (["spawn", *["--trigger=symbol=f%d" % i for i in range(17)], "true"], "16 triggers on functions"),
                (["spawn", "--keep", "10", "true"], "10m"),
                (["spwan", "true"], "spawn"),
                (["--nothing"], "--help"),
                (["help", "nothing"], "--help"),
        ):
            self.refused(USAGE, *words, says=says, output=False)

    def test_detach_of_what_nobody_records(self):
        self.refused(UNAVAILABLE, "detach", str(os.getpid()), says="nobody records", output=False)
        self.refused(UNAVAILABLE, "ctl", str(os.getpid()), "status", says="nobody records", output=False)

    def test_help(self):
        listing = subprocess.run([CONTRAIL, "--help"], capture_output=True, text=True, check=True).stdout
        names = [line.split()[0] for line in listing.splitlines() if line.startswith("  ")]
        self.assertIn("spawn", names)
        for name in names:
            text = subprocess.run([CONTRAIL, name, "--help"], capture_output=True, text=True, check=True).stdout
            self.assertEqual(text, subprocess.run([CONTRAIL, "help", name], capture_output=True, text=True).stdout)
            self.assertTrue(text.startswith(f"Usage: contrail {name} "), text)
            self.assertIn(f"  contrail {name}", text.split("\nExample")[1])
            self.assertLessEqual(max(map(len, text.split("\nExample")[0].splitlines())), 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
