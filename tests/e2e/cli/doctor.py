#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doctor.py CONTRAIL: what `contrail doctor` reports of real processes, and that recording agrees."""

import ctypes
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from recorder import read_line  # noqa: E402

CONTRAIL = os.path.abspath(sys.argv.pop(1))
with open(CONTRAIL, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()
UNAVAILABLE, PERMISSION = 69, 77
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}[os.uname().machine]


def doctor(*words, prefix=(), **options):
    return subprocess.run([*prefix, CONTRAIL, "doctor", *words], capture_output=True, text=True, timeout=60, **options)


def filter_self(refused=-1):
    """A seccomp filter that allows everything, but for one call."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, refused & 0xFFFFFFFF), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *c) for c in code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(Program(len(code), ctypes.addressof(filters))), 0, 0):
        raise OSError("seccomp")


class Doctor(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.output = os.path.join(self.dir.name, "not", "there", "yet")

    def tearDown(self):
        self.dir.cleanup()

    def start(self, **options):
        process = subprocess.Popen(["sleep", "60"], **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + 20
        while not self.is_loaded(process.pid) and time.monotonic() < end:
            time.sleep(0.01)
        return process

    @staticmethod
    def is_loaded(pid):
        with open(f"/proc/{pid}/maps") as maps:
            return "/libc.so" in maps.read()

    def checks(self, *words, code=0, **options):
        done = doctor("--json", "--output", self.output, *map(str, words), **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["can_record"], code == 0)
        self.assertEqual(answer["problems"], sum(c["level"] == "problem" for c in answer["checks"]))
        return {check["name"]: check for check in answer["checks"]}

    def test_this_machine(self):
        done = doctor("--output", self.output)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(lines[-1], r"^recording will work \(\d+ warnings?\)$")
        for line in lines[:-1]:
            self.assertRegex(line, r"^(ok|warning)  +\S")
        self.assertEqual(os.listdir(self.dir.name), [])

    def test_a_process(self):
        process = self.start()
        checks = self.checks(process.pid)
        self.assertEqual(checks["libc"]["text"], "glibc")
        self.assertEqual(checks["architecture"]["text"], os.uname().machine)
        self.assertTrue(checks["size"]["text"].startswith("1 thread, "))
        self.assertEqual({c["level"] for n, c in checks.items() if n in ("access", "hooks", "tracer")}, {"ok"})
        self.assertIsNone(process.poll())

    def test_no_process(self):
        process = subprocess.Popen(["true"])
        process.wait()
        self.assertEqual(self.checks(process.pid, code=UNAVAILABLE)["access"]["level"], "problem")
        self.assertEqual(doctor("nonsense").returncode, 64)

    def test_output(self):
        self.output = "/proc/self/status"
        self.assertIn("Not a directory", self.checks(code=UNAVAILABLE)["output"]["text"])

    def test_cache(self):
        env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
        self.assertEqual(self.checks(env=env)["cache"]["level"], "warning")

    @unittest.skipIf(SANITIZED, "AddressSanitizer needs the address space itself")
    def test_limits(self):
        checks = self.checks(prefix=["prlimit", "--as=4294967296", "--nofile=40"])
        self.assertEqual(checks["address space"]["level"], "warning")
        self.assertIn("4096 MiB", checks["address space"]["text"])
        self.assertEqual(checks["open files"]["level"], "warning")

    def test_filter_of_a_process(self):
        process = self.start(preexec_fn=filter_self)
        if os.geteuid() == 0:
            self.assertEqual(self.checks(process.pid)["its seccomp"]["level"], "warning")
        # under a filter ourselves, nobody's can be lifted
        checks = self.checks(process.pid, code=PERMISSION, preexec_fn=filter_self)
        self.assertEqual(checks["its seccomp"]["level"], "problem")
        self.assertEqual(checks["seccomp"]["level"], "warning")
        attach = subprocess.run([CONTRAIL, "attach", "-d", "10ms", "-o", self.output, str(process.pid)],
                                capture_output=True, timeout=60, preexec_fn=filter_self)
        self.assertNotEqual(attach.returncode, 0, attach.stderr)

    def test_time_on_processors(self):
        """What doctor says is what a recording with --cpu says."""
        def refuse():
            filter_self(PERF_EVENT_OPEN)

        for prepare in (None, refuse):
            check = self.checks(preexec_fn=prepare)["time on CPUs"]
            done = subprocess.run([CONTRAIL, "spawn", "--cpu", "-o", self.output, "true"], capture_output=True,
                                  text=True, timeout=60, preexec_fn=prepare)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("--cpu has no effect" in done.stderr, check["level"] == "warning")
            if prepare:
                self.assertIn(f"{check['text']}: {check['remedy']}", done.stderr)

    @unittest.skipIf(os.geteuid() != 0, "needs root, to be somebody else")
    def test_other_user(self):
        process = self.start()
        os.chmod(self.dir.name, 0o777)
        checks = self.checks(process.pid, code=PERMISSION,
                             prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        self.assertIn("belongs to the user root", checks["access"]["text"])
        self.assertEqual(checks["capabilities"]["level"], "warning")

    def test_recorded_and_left_behind(self):
        process = self.start()
        recorder = subprocess.Popen([CONTRAIL, "attach", "-o", self.output, str(process.pid)], stderr=subprocess.PIPE)
        self.addCleanup(recorder.stderr.close)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        read_line(recorder.stderr, "contrail records")
        self.assertEqual(self.checks(process.pid, code=UNAVAILABLE)["hooks"]["text"], "it is being recorded already")
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()
        self.assertEqual(self.checks(process.pid)["hooks"]["level"], "warning")
        done = subprocess.run([CONTRAIL, "attach", "-d", "10ms", "-o", self.output, str(process.pid)],
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.checks(process.pid)["hooks"]["level"], "ok")


if __name__ == "__main__":
    unittest.main()
