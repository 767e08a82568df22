#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""probe.py CONTRAIL PROGRAM: C that `spawn --probe` and `attach --probe` put into the recorded process: it hears of
calls, changes them, counts; the process and its maps are as before; errors say what is wrong."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from recorder import read_line  # noqa: E402

CONTRAIL, PROGRAM = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
TIMEOUT = 120
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

COUNTS = """
#include <contrail/probe.h>
CT_COUNTER(calls);
CT_COUNTER(large);
CT_COUNTER(results);
static void on_reserve(GumInvocationContext *ic) {
    CT_COUNT(calls, 1);
    if ((gsize)gum_invocation_context_get_nth_argument(ic, 0) >= 4096)
        CT_COUNT(large, 1);
}
static void on_price(GumInvocationContext *ic) {
    CT_COUNT(results, gum_invocation_context_get_return_value(ic));
}
CT_ON_ENTER("reserve", on_reserve)
CT_ON_LEAVE("probe_program!pri*", on_price)
"""
CHANGES = """
#include <contrail/probe.h>
static void on_enter(GumInvocationContext *ic) {
    gum_invocation_context_replace_nth_argument(ic, 0, (gpointer)200);
}
static void on_leave(GumInvocationContext *ic) {
    gum_invocation_context_replace_return_value(ic, (char *)gum_invocation_context_get_return_value(ic) + 5);
}
CT_ON_ENTER("price", on_enter)
CT_ON_LEAVE("price", on_leave)
"""
LISTENS = '#include <contrail/probe.h>\nstatic void f(GumInvocationContext *ic) {}\nCT_ON_ENTER("%s", f)\n'


@unittest.skipUnless(COMPILER, "no C compiler is installed")
class Probe(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="probe.")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def write(self, text, name="probe.c"):
        path = os.path.join(self.dir, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def spawn(self, files, rounds=3, words=(), env=None):
        probes = [word for path in files for word in ("--probe", path)]
        return subprocess.run([CONTRAIL, "spawn", "-o", self.dir + "/traces", *probes, *words, "--", PROGRAM,
                               str(rounds)], capture_output=True, text=True, timeout=TIMEOUT, env=env)

    def calls_of(self, name, err):
        trace = re.search(r"contrail report (\S+)", err).group(1)
        done = subprocess.run([CONTRAIL, "query", "--json", trace,
                               "SELECT count(*) AS n FROM calls WHERE function = '%s'" % name],
                              capture_output=True, text=True, timeout=TIMEOUT)
        return int(re.search(r'"n":\s*(\d+)', done.stdout).group(1))

    def test_it_counts(self):
        done = self.spawn([self.write(COUNTS)], 3)
        self.assertEqual((done.stdout, done.returncode), ("ready\n1070\n1070\n1070\n", 3), done.stderr)
        self.assertIn("--probe: 2 functions have listeners", done.stderr)
        self.assertIn("--probe: calls = 6\n", done.stderr)
        self.assertIn("--probe: large = 3\n", done.stderr)
        self.assertIn("--probe: results = 3210\n", done.stderr)
        self.assertEqual(self.calls_of("reserve", done.stderr), 6)
        self.assertEqual(self.calls_of("price", done.stderr), 3)

    def sampled(self, files):
        """All calls of the program's own functions, as a recording that samples has counted them."""
        done = self.spawn(files, 30, ["--sample", "10"])
        self.assertEqual(done.returncode, 3, done.stderr)
        trace = re.search(r"contrail report (\S+)", done.stderr).group(1)
        with open(glob.glob(trace + "/pid_*/manifest.json")[0]) as file:
            calls = json.load(file)["sample"]["calls"]
        return [call for call in calls if call[0] < 2 << 32]

    def test_sampled(self):
        counted = self.sampled([])
        self.assertTrue({30, 60} <= {calls for _, calls in counted}, counted)
        self.assertEqual(self.sampled([self.write(COUNTS)]), counted)

    def test_triggers(self):
        triggers = ["symbol=price", "call=reserve:arg0:eq:5000", "return=price:eq:1070", "slow=price:1ns"]
        done = self.spawn([self.write(COUNTS)], 3, [word for t in triggers for word in ("--trigger", t)])
        self.assertEqual(done.returncode, 3, done.stderr)
        trace = re.search(r"contrail report (\S+)", done.stderr).group(1)
        with open(glob.glob(trace + "/pid_*/manifest.json")[0]) as file:
            windows = json.load(file)["windows"]
        counts = {r["trigger"]: r["count"] for w in windows for r in w["reasons"]}
        self.assertEqual(counts, {trigger: 3 for trigger in triggers}, windows)

    def test_it_changes_calls(self):
        done = self.spawn([self.write(CHANGES)], 2)
        self.assertEqual((done.stdout, done.returncode), ("ready\n219\n219\n", 3), done.stderr)

    def test_several_files_have_one_counter(self):
        other = LISTENS.replace("{}", "{ CT_COUNT(calls, 100); }").replace("static", "CT_COUNTER(calls);\nstatic", 1)
        done = self.spawn([self.write(COUNTS), self.write(other % "free", "other.c")], 1,
                          ["--only", "reserve", "--only", "price", "--only", "free"])
        calls = int(re.search(r"--probe: calls = (\d+)", done.stderr).group(1))
        self.assertEqual(calls % 100, 2, done.stderr)
        self.assertGreaterEqual(calls, 202)

    def test_one_that_crash_watches(self):
        done = self.spawn([self.write(COUNTS)], 2, ["--trigger", "crash"])
        self.assertIn("--probe: calls = 4\n", done.stderr)

    def test_attached(self):
        process = subprocess.Popen([PROGRAM, "1000000", "20000"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for expected in ("ready\n", "1070\n"):
            self.assertEqual(read_line(process.stdout, expected), expected)
        with open("/proc/%d/maps" % process.pid) as file:
            before = file.read()
        recorder = subprocess.Popen([CONTRAIL, "attach", "-o", self.dir + "/traces", "--probe", self.write(CHANGES),
                                     str(process.pid)], stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.kill)
        self.wait_for_line(process, "219\n", recorder)
        recorder.send_signal(signal.SIGINT)
        err = recorder.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(recorder.returncode, 0, err)
        self.wait_for_line(process, "1070\n")
        with open("/proc/%d/maps" % process.pid) as file:
            self.assertEqual(file.read(), before)

    def test_recorder_killed(self):
        """The program goes on as it was, and the next recorder cleans up."""
        process = subprocess.Popen([PROGRAM, "1000000", "20000"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for expected in ("ready\n", "1070\n"):
            self.assertEqual(read_line(process.stdout, expected), expected)
        with open("/proc/%d/maps" % process.pid) as file:
            before = file.read()
        recorder = subprocess.Popen([CONTRAIL, "attach", "-o", self.dir + "/traces", "--probe", self.write(CHANGES),
                                     str(process.pid)], stderr=subprocess.PIPE, text=True)
        self.wait_for_line(process, "219\n", recorder)
        recorder.kill()
        recorder.communicate()
        self.wait_for_line(process, "1070\n")
        done = subprocess.run([CONTRAIL, "attach", "-o", self.dir + "/traces", "--duration", "100ms",
                               str(process.pid)], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_for_line(process, "1070\n")
        with open("/proc/%d/maps" % process.pid) as file:
            self.assertEqual(file.read(), before)

    def wait_for_line(self, process, wanted, recorder=None):
        deadline = time.monotonic() + TIMEOUT
        line = None
        while line != wanted:
            self.assertLess(time.monotonic(), deadline, "the program prints %r" % wanted)
            if recorder and recorder.poll() is not None:
                self.fail("the recorder has ended: " + recorder.stderr.read())
            line = read_line(process.stdout, "the program prints on")

    def check_refused(self, done, code, *patterns):
        self.assertEqual(done.returncode, code, done.stderr)
        for pattern in patterns:
            self.assertRegex(done.stderr, pattern)

    def test_compile_error(self):
        done = self.spawn([self.write("int x = ;\n")])
        self.check_refused(done, 64, r"probe\.c:1:9: error: ", r"contrail: --probe: \S+probe\.c does not compile\n")
        self.assertEqual(done.stdout, "")

    def test_no_compiler(self):
        tools = os.path.join(self.dir, "empty")
        os.mkdir(tools)
        done = self.spawn([self.write(COUNTS)], env={"PATH": tools})
        self.check_refused(done, 69, "--probe needs a C compiler: install gcc or clang, or name one in CONTRAIL_CC")

    def test_no_such_file(self):
        self.check_refused(self.spawn([self.dir + "/none.c"]), 64, r"none\.c cannot be read: No such file")

    def test_what_cannot_be_connected(self):
        """The program is not recorded, and runs."""
        bad = {
            "unknown": (LISTENS % "no_such_function",
                        'listens to "no_such_function", but no function that is recorded'),
            "nothing": ("int x;\n", "listens to nothing: it has neither CT_ON_ENTER nor CT_ON_LEAVE"),
            "needs": (LISTENS.replace("{}", "{ extern void nobody_has_this(void); nobody_has_this(); }") % "price",
                      "needs nobody_has_this, which neither the script nor the program has"),
            "twice": (LISTENS % "price" + "static void g(GumInvocationContext *ic) {}\nCT_ON_ENTER(\"pric*\", g)\n",
                      "two listeners want to hear when price is called"),
        }
        for name, (text, sentence) in bad.items():
            with self.subTest(name):
                done = self.spawn([self.write(text, name + ".c")], 2)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(done.stdout, "ready\n1070\n1070\n")
                self.assertNotEqual(done.returncode, 3)


if __name__ == "__main__":
    unittest.main()
