#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""limits.py CONTRAIL CONTAINED SUBJECT: containers, memory cgroups, limits of threads and files. Whatever limit there
is, the program goes on as if nobody had tried to record it, and the sentence names the limit and what helps.

Containers are made by programs/contained.c: Docker's namespaces, capabilities and default filter, without Docker."""
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from recorder import read_line  # noqa: E402

CONTRAIL, CONTAINED, SUBJECT = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
TIMEOUT = 120
DONE = 21  # how the subject ends
MIB = 1 << 20
STRANGER = 61000 + os.getpid() % 4000  # a user who runs nothing else: its processes are counted
MEMFD_CREATE, PROCESS_VM_READV, SIGALTSTACK = "319", "310", "131"


def can_contain():
    return os.geteuid() == 0 and subprocess.run([CONTAINED, "true"], capture_output=True,
                                                timeout=TIMEOUT).returncode == 0


CAN_CONTAIN = can_contain()
IN_CONTAINER = unittest.skipUnless(CAN_CONTAIN, "no root, or no namespaces: containers cannot be made here")


def wait_for(holds, what):
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError("not within %d s: %s" % (TIMEOUT, what))
        time.sleep(0.01)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(n) for n in f.read().split()]


class Case(unittest.TestCase):
    def setUp(self):
        self.output = tempfile.mkdtemp(prefix="limits.")
        os.chmod(self.output, 0o777)
        self.addCleanup(shutil.rmtree, self.output, True)

    def run_command(self, command, **more):
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, **more)

    def start(self, command, **more):
        """A subject that is ready."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(self.stop, process)
        self.assertEqual(read_line(process.stdout, "the subject is ready"), "ready\n")
        return process

    def stop(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def check_lives(self, process, pid=None):
        """It runs on, and ends as it should when it is asked to."""
        os.kill(pid or process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertRegex(out, r"^[1-9]\d* rounds\n$")
        self.assertEqual((process.returncode, err), (DONE, ""))

    def events(self, text):
        found = re.search(r"([\d,]+) events of ([\d,]+) threads?", text)
        self.assertTrue(found, text)
        return tuple(int(n.replace(",", "")) for n in found.groups())

    def attach(self, pid, *options):
        return [CONTRAIL, "attach", "--duration", "300ms", "-o", self.output, *options, str(pid)]


@IN_CONTAINER
class Containers(Case):
    def begin(self, *options):
        """A container whose first process is a subject: the helper, and the subject's number outside."""
        process = self.start([CONTAINED, SUBJECT, *options])
        return process, children(process.pid)[0]

    def inside(self, pid, *command, options=()):
        return self.run_command([CONTAINED, "--join", str(pid), *options, *command])

    def test_it_is_like_dockers(self):
        status = self.run_command([CONTAINED, "cat", "/proc/self/status"]).stdout
        self.assertIn("CapEff:\t00000000a80425fb\n", status)
        self.assertIn("Seccomp_filters:\t1\n", status)
        refused = self.run_command([CONTAINED, "unshare", "--mount", "true"])
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("not permitted", refused.stderr)

    def test_spawn(self):
        for options in ((), ("--ptrace",)):
            done = self.run_command([CONTAINED, *options, CONTRAIL, "spawn", "-o", self.output, SUBJECT, "--once"])
            self.assertEqual(done.returncode, DONE, done.stderr)
            events, threads = self.events(done.stderr)
            self.assertGreaterEqual(events, 3 * 200 * 2)
            # new threads too: the agent knows that its calls are allowed; and a child that forks and executes
            self.assertGreaterEqual(threads, 6, done.stderr)
            self.assertIn("3 processes", done.stderr)

    def test_stalk(self):
        done = self.run_command([CONTAINED, CONTRAIL, "stalk", "-o", self.output, SUBJECT, "--once"])
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertGreaterEqual(self.events(done.stderr)[1], 4, done.stderr)

    def test_attach(self):
        """As `docker exec` does it: another way into the container, and the container's filter again."""
        process, pid = self.begin()
        for command in ("attach", "stalk"):
            line = [CONTRAIL, command] + (["--pid"] if command == "stalk" else []) + ["1"]
            line[2:2] = ["--duration", "300ms", "-o", self.output]
            done = self.inside(pid, *line)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(self.events(done.stderr)[1], 2, done.stderr)
        self.check_lives(process, pid)

    def test_detach(self):
        process, pid = self.begin()
        recorder = subprocess.Popen([CONTAINED, "--join", str(pid), CONTRAIL, "attach", "-o", self.output, "1"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop, recorder)
        line = read_line(recorder.stderr, "contrail says what it records")
        self.assertIn("recording 1 ", line)
        done = self.inside(pid, CONTRAIL, "detach", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(recorder.wait(TIMEOUT), 0)
        with open("/proc/%d/maps" % pid) as maps:
            self.assertNotIn("contrail", maps.read())
        self.check_lives(process, pid)

    def test_from_outside(self):
        """Root on the host lifts the filter, and reads in it what it allows: new threads are recorded when it allows
        what the agent calls."""
        process, pid = self.begin()
        done = self.run_command(self.attach(pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(self.events(done.stderr)[1], 2, done.stderr)
        self.check_lives(process, pid)

    def test_from_outside_beside_a_filter_that_kills(self):
        """The agent makes no call then, and new threads run unrecorded; to follow it without calls is not possible."""
        for number in (SIGALTSTACK, PROCESS_VM_READV):
            process = self.start([CONTAINED, "--kill", "--forbid", number, SUBJECT])
            pid = children(process.pid)[0]
            done = self.run_command(self.attach(pid))
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.run_command([CONTRAIL, "stalk", "--duration", "300ms", "-o", self.output, "--pid", str(pid)])
            self.assertEqual(done.returncode, 77, done.stderr)
            self.assertIn("a seccomp filter that forbids system calls that following needs", done.stderr)
            self.check_lives(process, pid)

    def test_another_filter_is_not_tried(self):
        """It has a filter more than we have, which kills for what recording calls."""
        process, pid = self.begin("--filter")
        done = self.inside(pid, *self.attach(1))
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("a seccomp filter that contrail may not lift, and that is not its own", done.stderr)
        self.assertIn("--security-opt seccomp=unconfined", done.stderr)
        self.check_lives(process, pid)

    def test_as_many_filters_prove_nothing(self):
        """Outside of containers another process may have as many filters as we have, and other ones."""
        process = self.start([SUBJECT, "--filter"])
        done = self.run_command([CONTAINED, "--bare", *self.attach(process.pid)])
        self.assertEqual(done.returncode, 77, done.stderr)
        self.check_lives(process)

    def test_a_filter_that_kills(self):
        """Our own filter kills for what recording calls: that is found out on a child, and the program runs on
        unrecorded."""
        for options in (("--kill",), ()):
            done = self.run_command([CONTAINED, *options, "--forbid", MEMFD_CREATE, CONTRAIL, "spawn", "-o",
                                     self.output, SUBJECT, "--once"])
            self.assertEqual(done.stdout, "ready\n1 rounds\n", done.stderr)
            self.assertIn("seccomp", done.stderr)

    def test_one_call_is_forbidden(self):
        """A filter that has nothing to do with recording does not hinder it."""
        reboot = "169"
        done = self.run_command([CONTAINED, "--bare", "--forbid", reboot, CONTRAIL, "spawn", "-o", self.output, SUBJECT,
                                 "--once"])
        self.assertEqual(done.returncode, DONE, done.stderr)

    def test_doctor(self):
        process, pid = self.begin()
        done = self.inside(pid, CONTRAIL, "doctor", "1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"ok +its seccomp +the same filter as contrail's own")
        self.check_lives(process, pid)


def memory_cgroup():
    """A new memory cgroup below our own, in version 1 or 2; None: there can be none."""
    with open("/proc/self/cgroup") as f:
        ours = {line.split(":")[1]: line.rstrip("\n").split(":", 2)[2] for line in f}
    first = "memory" in ours
    place = ("/sys/fs/cgroup/memory" + ours["memory"] if first else "/sys/fs/cgroup" + ours.get("", "/")).rstrip("/")
    group = "%s/contrail_limits_%d" % (place, os.getpid())
    try:
        os.mkdir(group)
    except OSError:
        return None
    limit = group + ("/memory.limit_in_bytes" if first else "/memory.max")
    if not os.path.exists(limit):
        os.rmdir(group)
        return None
    return group, limit


class Memory(Case):
    def setUp(self):
        super().setUp()
        made = memory_cgroup()
        if not made:
            self.skipTest("no memory cgroup can be made here")
        self.group, self.limit = made
        self.addCleanup(self.remove)

    def remove(self):
        def removed():
            try:
                os.rmdir(self.group)
            except OSError:
                return False
            return True
        wait_for(removed, "the cgroup is empty")

    def subject(self, mebibytes, *options):
        with open(self.limit, "w") as f:
            f.write(str(mebibytes * MIB))
        join = "echo $$ > %s/cgroup.procs; exec %s %s" % (self.group, SUBJECT, " ".join(options))
        return self.start(["sh", "-c", join])

    def test_lanes_fit(self):
        """With lanes of the usual size the kernel would kill it."""
        process = self.subject(24)
        done = self.run_command(self.attach(process.pid, "--detail", "always", "--duration", "2s"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"the memory limit of its cgroup leaves \d+ MiB, so --index-mem is \d MiB")
        self.check_lives(process)

    def test_children_fit(self):
        process = self.subject(32, "--forks")
        done = self.run_command(self.attach(process.pid, "--duration", "1s"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_lives(process)

    def test_nothing_fits(self):
        process = self.subject(8)
        for command in (["attach"], ["stalk", "--pid"]):
            done = self.run_command([CONTRAIL, *command[:1], "--duration", "300ms", "-o", self.output, *command[1:],
                                     str(process.pid)])
            self.assertEqual(done.returncode, 69, done.stderr)
            self.assertIn("the memory limit of its cgroup leaves", done.stderr)
            self.assertIn("--index-mem", done.stderr)
        self.check_lives(process)

    def test_there_is_room(self):
        process = self.subject(512)
        done = self.run_command(self.attach(process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("memory limit", done.stderr)
        self.check_lives(process)


class Others(Case):
    def limited(self, what, limit, user=None):
        def prepare():
            resource.setrlimit(what, (limit, limit))
            if user:
                os.setgid(user)
                os.setuid(user)
        return prepare

    def spawn_with(self, tasks):
        """By a user who may have this many processes and threads."""
        home = {**os.environ, "HOME": self.output, "XDG_CACHE_HOME": self.output}
        return self.run_command([CONTRAIL, "spawn", "-o", self.output, SUBJECT, "--once"], env=home,
                                preexec_fn=self.limited(resource.RLIMIT_NPROC, tasks, STRANGER))

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes another user")
    def test_threads(self):
        """EAGAIN is no want of memory."""
        for limit in range(1, 3):
            done = self.spawn_with(limit)
            self.assertEqual(done.returncode, 69, done.stderr)
            self.assertIn("raise the limit of processes and threads (ulimit -u", done.stderr)
            self.assertNotIn("memory", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes another user")
    def test_few_threads_are_left(self):
        """It does not go without because of us: rather it runs unrecorded."""
        done = self.spawn_with(8)
        self.assertEqual((done.returncode, done.stdout), (69, "ready\n1 rounds\n"), done.stderr)
        self.assertIn("contrail's own would use them up", done.stderr)
        self.assertIn("contrail's own count among them", self.spawn_with(28).stderr)
        done = self.spawn_with(500)
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertNotIn("count among them", done.stderr)

    def test_file_size(self):
        done = self.run_command([CONTRAIL, "spawn", "--format", "atf2", "-o", self.output, SUBJECT, "--once"],
                                preexec_fn=self.limited(resource.RLIMIT_FSIZE, 4096))
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("the limit of a file's size is reached (ulimit -f)", done.stderr)
        self.assertIn("`ulimit -f unlimited`", done.stderr)
        self.assertNotIn("disk is full", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root may lock all memory")
    def test_locked_memory(self):
        process = self.start([SUBJECT, "--locked"])
        done = self.run_command(self.attach(process.pid))
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("the process locks its memory (mlockall)", done.stderr)
        self.check_lives(process)


if __name__ == "__main__":
    unittest.main(verbosity=2)
