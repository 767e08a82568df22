#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The budget (--budget, ctl budget): hot functions are left out and come back, the trace says so, and the program does
not notice.

usage: budget.py CONTRAIL [unittest arguments]"""
import json
import os
import signal
import subprocess
import sys
import unittest

import recorder
import session_case

# Works in rounds until a file exists, and checks each. With "library", rounds call a library that is loaded, and
# unloaded after some of them; with "fork", a child does the same.
HOT = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noipa)) unsigned leaf(unsigned x) { return x * 2654435761u + 1; }
__attribute__((noipa)) unsigned middle(unsigned x) {
    for (int i = 0; i < 200; i++) x = leaf(x);
    return x;
}
__attribute__((noipa)) unsigned rounds_of(unsigned x, unsigned (*step)(unsigned)) {
    for (int i = 0; i < 100; i++) x = step(x);
    return x;
}
static int run(const char *end, const char *library) {
    unsigned right = rounds_of(7, middle), wrong = 0;
    do {
        void *loaded = library ? dlopen(library, RTLD_NOW) : NULL;
        unsigned (*step)(unsigned) = loaded ? (unsigned (*)(unsigned))dlsym(loaded, "plugin_middle") : middle;
        for (int i = 0; i < (library ? 100 : 1); i++) wrong += rounds_of(7, step) != right;
        if (loaded) dlclose(loaded);
    } while (access(end, F_OK));
    return wrong != 0;
}
int main(int argc, char **argv) {
    pid_t child = -1;
    int status = 0;
    (void)argc;
    printf("begun\n");
    fflush(stdout);
    if (!strcmp(argv[2], "fork")) {
        run("/", NULL);
        for (int i = 0; i < 300; i++) rounds_of(7, middle);
        child = fork();
        if (!child) _exit(run(argv[1], NULL));
    }
    int wrong = run(argv[1], strchr(argv[2], '/') ? argv[2] : NULL);
    if (child > 0) waitpid(child, &status, 0);
    printf("%s\n", wrong || status ? "wrong" : "right");
    return 0;
}
"""
PLUGIN = r"""
__attribute__((noipa)) unsigned plugin_leaf(unsigned x) { return x * 2654435761u + 1; }
__attribute__((noipa)) unsigned plugin_middle(unsigned x) {
    for (int i = 0; i < 200; i++) x = plugin_leaf(x);
    return x;
}
"""


# Many functions that cost the same, each too much.
MANY = 400
MOST_IN_A_STOP = 128  # CT_BUDGET_STOP_HOOKS
MOST_LOOKS = 4  # CT_BUDGET_LOOKS: 200 ms


def many_source():
    """The same program, whose middle calls many leaves."""
    leaves = "".join("__attribute__((noipa)) unsigned leaf%d(unsigned x) { return x * %du + 1; }\n" % (i, 2 * i + 3)
                     for i in range(MANY))
    calls = "".join("    x = leaf%d(x);\n" % i for i in range(MANY))
    loop = "    for (int i = 0; i < 200; i++) x = leaf(x);\n"
    assert loop in HOT
    return HOT.replace(loop, calls).replace("__attribute__((noipa)) unsigned middle",
                                            leaves + "__attribute__((noipa)) unsigned middle")


class Budget(session_case.SessionCase):
    def setUp(self):
        super().setUp()
        self.program = self.build("hot", HOT, "-ldl")
        self.end = self.path("end")
        self.processes = []

    def tearDown(self):
        self.write("end", "")  # what a killed recorder has left ends by itself
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        super().tearDown()

    def start(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def spawn(self, *options, what="-"):
        """A recorder, and the process that it records."""
        process = self.start(session_case.CONTRAIL, "spawn", "--output", self.path("traces"), *options, "--",
                             self.program, self.end, what)
        self.assertEqual(recorder.read_line(process.stdout, "begun"), "begun\n")
        return process, recorder.children_of(process.pid)[0]

    def ctl(self, pid, *words):
        return subprocess.run([session_case.CONTRAIL, "ctl", str(pid), *words], capture_output=True, text=True)

    def left_out(self, pid):
        done = self.ctl(pid, "status", "--json")
        return json.loads(done.stdout).get("budget", {}).get("left_out", 0) if done.returncode == 0 else -1

    def wait_left_out(self, pid, some=True):
        recorder.wait_for("a function is %s" % ("left out" if some else "back"),
                          lambda: (self.left_out(pid) > 0) == some)

    def finish(self, process):
        self.write("end", "")
        out, err = process.communicate(timeout=recorder.TIMEOUT)
        self.assertEqual((out, process.returncode), ("right\n", 0), err)

    def manifest(self):
        """Of the first process."""
        paths = [os.path.join(self.session(), name, "manifest.json") for name in os.listdir(self.session())]
        manifests = []
        for path in filter(os.path.exists, paths):
            with open(path) as file:
                manifests.append(json.load(file))
        return min(manifests, key=lambda m: m.get("recording_start_ns", 1 << 63))

    def run_command(self, *words):
        return subprocess.run([session_case.CONTRAIL, *words, self.session()], capture_output=True, text=True,
                              check=True).stdout

    def listed(self, *options):
        report = json.loads(self.run_command("report", "--json", *options))
        return {row["name"] for row in report["left_out"]}

    def check_selected(self):
        """The list is about what the report is about."""
        self.assertIn("leaf", self.listed("-f", "le*f"))
        self.assertNotIn("leaf", self.listed("-f", "middle"))
        self.assertNotIn("leaf", self.listed("--module", "libc*"))
        self.assertIn("leaf", self.listed("--from", "0s"))
        self.assertEqual(self.listed("--to", "1us"), set())  # before the first one was left out

    def check_stops(self):
        """At most five stops a second, and longer ones so rarely that all take a hundredth of the time at most. The
        last one is not over with its pause."""
        manifest = self.manifest()
        budget, length = manifest["budget"], manifest["recording_end_ns"] - manifest["recording_start_ns"]
        self.assertGreater(budget["stops"], 0)
        self.assertLessEqual(budget["stops"], length / 2e8 + 1)
        self.assertLessEqual(budget["stopped_ns"] - budget["longest_stop_ns"], length / 100)

    def check_changes(self):
        """No change of load is answered after more looks than pass in 200 ms, and no stop has more work than it may."""
        budget = self.manifest()["budget"]
        for change in budget["changes"]:
            if change["out"]:
                self.assertLessEqual(change["looks"], MOST_LOOKS)
        self.assertLessEqual(budget["most_hooks_in_a_stop"], MOST_IN_A_STOP)
        self.assertGreaterEqual(budget["changed_hooks"], budget["most_hooks_in_a_stop"])

    def test_many_leaves(self):
        """Hundreds of functions are switched off at once, and their bytes change in several short stops."""
        self.program = self.build("many", many_source(), "-ldl")
        process, _ = self.spawn("--budget", "5%")

        def changed():
            return self.manifest().get("budget", {}).get("changed_hooks", 0)
        recorder.wait_for("bytes of many functions are back", lambda: changed() > MANY * 3 // 4)
        self.finish(process)
        self.assertGreater(self.manifest()["budget"]["most_hooks_in_a_stop"], 1)
        self.assertGreaterEqual(self.manifest()["budget"]["stops"], 3)
        self.check_changes()
        self.check_stops()

    def test_hot_leaf(self):
        process, pid = self.spawn("--budget", "5%")
        self.wait_left_out(pid)
        recorder.wait_for("its bytes are back", lambda: self.manifest().get("budget", {}).get("stops"))
        self.finish(process)
        budget = self.manifest()["budget"]
        self.assertEqual(budget["limit"], 0.05)
        functions = {f["function"]: f for f in budget["functions"]}
        report = json.loads(self.run_command("report", "--json", "--limit", "0"))
        rows = {row["name"]: row for row in report["functions"]}
        left = {row["name"]: row for row in report["left_out"]}
        self.assertIn("leaf", left)  # it costs most and says least
        self.assertGreater(left["leaf"]["calls"], 0)
        self.assertEqual(left["leaf"]["calls"], rows["leaf"]["calls"])  # what was called while it was recorded
        outs = [c for c in budget["changes"] if c["out"]]
        self.assertEqual(functions[outs[0]["function"]]["first_out_ns"], outs[0]["ns"])
        for change in budget["changes"]:
            self.assertIn(change["function"], functions)
        self.assertRegex(self.run_command("report"), r"> [\d.,]+ ?[kM]? calls, left out from [\d.]+ .*: leaf")
        self.check_selected()
        self.check_stops()
        self.check_changes()
        self.assertIn("5 % of the program's CPU time", self.run_command("info"))
        self.assertIn("left out", self.run_command("info"))
        verify = subprocess.run([session_case.CONTRAIL, "verify", self.session()], capture_output=True, text=True)
        self.assertEqual(verify.returncode, 0, verify.stdout)

    def test_named_last(self):
        process, pid = self.spawn("--budget", "5%", "--trigger", "symbol=leaf", "--detail", "off")
        self.wait_left_out(pid)
        self.finish(process)
        budget = self.manifest()["budget"]
        leaf = max(budget["functions"], key=lambda f: f["calls"])["function"]
        self.assertNotEqual(budget["changes"][0]["function"], leaf)

    def test_off_by_default(self):
        self.write("end", "")
        _, manifests = self.record(self.program, self.end, "-")
        self.assertNotIn("budget", manifests[0])

    def test_while_it_runs(self):
        target = self.start(self.program, self.end, "-")
        self.assertEqual(recorder.read_line(target.stdout, "begun"), "begun\n")
        attached = self.start(session_case.CONTRAIL, "attach", "--output", self.path("traces"), str(target.pid))
        recorder.wait_for("it is recorded", lambda: self.left_out(target.pid) == 0)
        self.assertNotEqual(self.ctl(target.pid, "budget", "much").returncode, 0)
        self.assertIn("900 ms", self.ctl(target.pid, "wait-ms", "900").stdout)
        self.assertEqual(self.ctl(target.pid, "budget", "5%").returncode, 0)
        self.wait_left_out(target.pid)
        self.assertEqual(self.ctl(target.pid, "budget", "off").returncode, 0)
        self.wait_left_out(target.pid, False)
        self.assertEqual(self.ctl(target.pid, "budget", "2.5%").returncode, 0)
        self.wait_left_out(target.pid)
        self.assertEqual(self.ctl(target.pid, "stop").returncode, 0)
        attached.communicate(timeout=recorder.TIMEOUT)
        self.assertEqual(recorder.text_changes(target.pid), [])
        changes = [p["change"] for p in self.manifest()["policies"]]
        self.assertEqual(changes, ["start", "budget 5%", "budget off", "budget 2.5%"])
        self.finish(target)

    def test_killed_recorder(self):
        target = self.start(self.program, self.end, "-")
        self.assertEqual(recorder.read_line(target.stdout, "begun"), "begun\n")
        for turn in range(2):  # the second one cleans up after the first
            attached = self.start(session_case.CONTRAIL, "attach", "--budget", "5%", "--output", self.path("traces"),
                                  str(target.pid))
            self.wait_left_out(target.pid)
            if turn == 0:
                attached.send_signal(signal.SIGKILL)
                attached.communicate()
        self.assertEqual(self.ctl(target.pid, "stop").returncode, 0)
        attached.communicate(timeout=recorder.TIMEOUT)
        self.assertEqual(recorder.text_changes(target.pid), [])
        self.finish(target)

    def test_library_that_goes(self):
        source = self.write("plugin.c", PLUGIN)
        library = self.path("plugin.so")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        process, pid = self.spawn("--budget", "5%", what=library)
        self.wait_left_out(pid)
        recorder.wait_for("it was unloaded, and loaded again",
                          lambda: sum(m["path"] == library for m in self.manifest().get("modules", [])) > 2)
        self.finish(process)

    def test_fork(self):
        process, pid = self.spawn("--budget", "5%", what="fork")
        recorder.wait_for("the child is recorded", lambda: len(recorder.children_of(pid)) == 1)
        child = recorder.children_of(pid)[0]
        self.wait_left_out(child)
        self.finish(process)
        with open(os.path.join(self.session(), "pid_%d" % child, "manifest.json")) as file:
            self.assertTrue(json.load(file)["budget"]["functions"])
        budget = json.loads(self.run_command("report", "--json"))
        self.assertGreater(budget["budget"]["used"], 0)
        self.assertLessEqual({row["pid"] for row in budget["left_out"]}, {pid, child})
        self.assertRegex(self.run_command("report"), r"left out from .* of process %d\n" % child)
        report = json.loads(self.run_command("report", "--json", "--thread", str(child)))
        self.assertEqual({row["pid"] for row in report["left_out"]}, {child})  # the budget is of its process

    def test_short_process(self):
        """It ends before the budget has looked at it for the first time."""
        _, manifests = self.record("true", options=["--budget", "7%"])
        self.assertEqual(manifests[0]["budget"]["limit"], 0.07)
        self.assertNotIn("off at the end", self.run_command("info"))


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
