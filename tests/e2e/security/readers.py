#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands that read traces have no rights while they do, and read and write what root could all the same.

Usage: readers.py CONTRAIL (as root; ends with 77 otherwise)"""
import contextlib
import fcntl
import glob
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from recorder import read_line  # noqa: E402

CONTRAIL = ""
STRANGER = 64998  # nobody has this number
NOBODY = 65534
LIMIT = 200
DAC_READ_SEARCH = 1 << 2


def status_of(pid):
    with open("/proc/%d/status" % pid) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def full_pipe():
    """Who writes to it waits."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETFL, os.O_NONBLOCK)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(theirs, b" " * size)
    fcntl.fcntl(theirs, fcntl.F_SETFL, 0)
    return ours, theirs


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="contrail-readers-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        os.chmod(cls.dir, 0o755)
        cls.contrail = os.path.join(cls.dir, "contrail")
        shutil.copy(CONTRAIL, cls.contrail)
        cls.ours, cls.theirs = cls.record("ours", 0), cls.record("theirs", STRANGER)
        cls.hidden = os.path.join(cls.dir, "hidden")  # theirs, where they cannot get
        os.mkdir(cls.hidden, 0o700)
        subprocess.run(["cp", "-a", cls.theirs, cls.hidden], check=True)
        cls.hidden_trace = os.path.join(cls.hidden, os.path.basename(cls.theirs))

    @classmethod
    def record(cls, name, user):
        """A trace that is closed to all but its owner."""
        path = os.path.join(cls.dir, name)
        os.mkdir(path, 0o700)
        os.chown(path, user, user)
        subprocess.run([cls.contrail, "spawn", "--quiet", "-o", path, "/bin/true"], check=True, timeout=LIMIT,
                       user=user, group=user,
                       extra_groups=[], umask=0o077, cwd="/", env={"PATH": os.environ["PATH"], "HOME": path})
        return glob.glob(path + "/session_*")[0]

    def setUp(self):
        self.out = tempfile.mkdtemp(prefix="contrail-readers-out-", dir="/tmp")  # root's, 0700
        self.addCleanup(shutil.rmtree, self.out)

    def run_reader(self, *words, code=0, **more):
        done = subprocess.run([self.contrail, *words], capture_output=True, text=True, timeout=LIMIT, cwd=self.out,
                              **more)
        self.assertEqual(done.returncode, code, (words, done.stderr))
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def waiting(self, *words):
        """A command that cannot go on with its output."""
        ours, theirs = full_pipe()
        with subprocess.Popen([self.contrail, *words], stdout=theirs, stderr=subprocess.DEVNULL,
                              cwd=self.out) as process:
            os.close(theirs)
            try:
                yield process
            finally:
                os.close(ours)
                process.kill()

    def sealed(self, process, child=False):
        """Status of the process, or of its only child, once it has given up what it can."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            pid = process.pid
            if child:
                with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
                    pid = int((file.read().split() or ["0"])[0])
            status = status_of(pid) if pid else {}
            if status.get("Seccomp") == "2":
                return status
            self.assertIsNone(process.poll(), "it has ended")
            time.sleep(0.01)
        self.fail("it has not given up its rights")

    def check_sealed(self, status, user, capabilities):
        self.assertEqual(status["Uid"].split(), [str(user)] * 4)
        self.assertEqual([int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")],
                         [capabilities, capabilities, 0, 0, 0])
        self.assertEqual((status["NoNewPrivs"], status["Groups"].strip()),
                         ("1", "") if user else ("1", status["Groups"].strip()))

    def commands(self, trace):
        return (["info", trace], ["report", trace], ["graph", "exit*", trace], ["replay", trace], ["verify", trace],
                ["info", "--json", trace], ["report", "--csv", trace], ["diff", trace, trace])

    def test_rights(self):
        for trace, user, capabilities in ((self.ours, 0, 0), (self.theirs, STRANGER, 0),
                                          (self.hidden_trace, STRANGER, 0)):
            who = (user, capabilities) if trace == self.theirs else (NOBODY, DAC_READ_SEARCH)
            for words in self.commands(trace):
                with self.subTest(words=words), self.waiting(*words) as process:
                    self.check_sealed(self.sealed(process), *who)

    def test_rights_of_two(self):
        with self.waiting("diff", self.ours, self.theirs) as process:
            self.check_sealed(self.sealed(process), NOBODY, DAC_READ_SEARCH)

    def test_rights_of_export(self):
        for trace, who in ((self.ours, (NOBODY, DAC_READ_SEARCH)), (self.theirs, (STRANGER, 0))):
            with self.waiting("export", "-f", "folded", "-o", "-", trace) as process:
                self.check_sealed(self.sealed(process, child=True), *who)

    def test_rights_of_users(self):
        """Who is not root has none, and can get none."""
        ours, theirs = full_pipe()
        self.addCleanup(os.close, ours)
        with subprocess.Popen([self.contrail, "info", self.theirs], stdout=theirs, user=STRANGER, group=STRANGER,
                              extra_groups=[], cwd="/") as process:
            os.close(theirs)
            status = self.sealed(process)
            process.kill()
        self.assertEqual((int(status["CapEff"], 16), int(status["CapPrm"], 16), status["NoNewPrivs"]), (0, 0, "1"))

    def test_rights_of_tail(self):
        """It asks the recorder again and again, so it stays who it is."""
        out = os.path.join(self.out, "traces")
        with subprocess.Popen([self.contrail, "spawn", "-o", out, "sleep", "1000"], stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, XDG_RUNTIME_DIR=self.out)) as recorder:
            pid = int(read_line(recorder.stderr, "contrail says what it records").split("recording ")[1].split()[0])
            with subprocess.Popen([self.contrail, "tail", str(pid)], stdout=subprocess.DEVNULL,
                                  env=dict(os.environ, XDG_RUNTIME_DIR=self.out)) as tail:
                self.check_sealed(self.sealed(tail), 0, 0)
                tail.kill()
            os.kill(pid, signal.SIGKILL)
            recorder.communicate(timeout=LIMIT)

    def test_all_is_read(self):
        for trace in (self.ours, self.theirs, self.hidden_trace):
            self.assertIn("OK:", self.run_reader("verify", trace))
            for words in self.commands(trace):
                self.run_reader(*words)
        self.run_reader("diff", self.ours, self.hidden_trace)

    def test_newest(self):
        os.symlink(os.path.dirname(self.theirs), os.path.join(self.out, "traces"))
        self.assertIn("OK:", self.run_reader("verify"))
        self.run_reader("export")
        self.assertTrue(glob.glob(self.out + "/*session_*"))

    def check_owned(self, path):
        """By root, with all that is below."""
        found = [path, *glob.glob(path + "/*/**", recursive=True), *glob.glob(path + "/*")]
        self.assertEqual({os.lstat(one).st_uid for one in found}, {0}, path)

    def test_exports(self):
        """Into root's own directory, where the reader cannot write."""
        for number, trace in enumerate((self.ours, self.theirs, self.hidden_trace)):
            for name in ("perfetto", "chrome", "folded", "callgrind", "speedscope", "ctf", "atf2"):
                path = os.path.join(self.out, "%s-%d" % (name, number))
                self.run_reader("export", "-f", name, "-o", path, trace)
                self.check_owned(path)
                self.assertTrue(os.path.isfile(path) or os.listdir(path))
        self.assertEqual(len(os.listdir(self.out)), 21)

    def test_exports_that_fail(self):
        """Nothing is left; a directory that was there stays its owner's."""
        self.run_reader("export", "-f", "folded", "-o", os.path.join(self.out, "a"), self.dir, code=69)
        self.run_reader("export", "-f", "ctf", "-o", os.path.join(self.out, "b"), self.dir, code=69)
        self.assertEqual(os.listdir(self.out), [])
        place = os.path.join(self.out, "full")
        os.makedirs(place + "/something")
        self.assertIn("is not empty", self.run_reader("export", "-f", "ctf", "-o", place, self.theirs, code=69))
        self.check_owned(place)

    def test_symbolize(self):
        for trace, user in ((self.ours, 0), (self.theirs, STRANGER)):
            self.run_reader("symbolize", trace)
            found = glob.glob(trace + "/**", recursive=True)
            self.assertEqual({os.lstat(path).st_uid for path in found}, {user})

    def test_links_in_a_trace(self):
        """Their owner cannot make root read for them."""
        secret = os.path.join(self.out, "secret.json")
        shutil.copy(glob.glob(self.ours + "/pid_*/manifest.json")[0], secret)
        with open(secret) as file:
            text = file.read()
        with open(secret, "w") as file:
            file.write(text.replace("/bin/true", "/bin/secret"))
        copy = os.path.join(self.dir, "links")
        subprocess.run(["cp", "-a", os.path.dirname(self.theirs), copy], check=True)
        self.addCleanup(shutil.rmtree, copy)
        manifest, = glob.glob(copy + "/session_*/pid_*/manifest.json")
        os.unlink(manifest)
        os.symlink(secret, manifest)
        done = subprocess.run([self.contrail, "info", glob.glob(copy + "/session_*")[0]], capture_output=True,
                              text=True, timeout=LIMIT)
        self.assertNotIn("secret", done.stdout)

    def test_pager(self):
        """It holds the terminal, and stays the user's."""
        said = os.path.join(self.out, "said")
        environment = dict(os.environ, TERM="xterm", PAGER="id -u >%s; cat" % said)
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        with subprocess.Popen([self.contrail, "report", self.theirs], stdin=theirs, stdout=theirs, stderr=theirs,
                              env=environment) as process:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):
                while part := os.read(ours, 4096):
                    shown += part
            self.assertEqual(process.wait(timeout=LIMIT), 0, shown)
        with open(said) as file:
            self.assertEqual(file.read(), "0\n")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("only root has rights to give up")
        sys.exit(77)
    CONTRAIL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
