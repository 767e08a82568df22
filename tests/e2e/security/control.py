#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stranger, who is another user of the machine, makes sockets where recordings are looked for, and directories where
recorders want theirs. Root's client must not believe the stranger, wait for long, or print what the stranger sends.

Usage: control.py CONTRAIL (as root; ends with 77 otherwise)"""
import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from recorder import read_line  # noqa: E402

CONTRAIL = ""
STRANGER = 64999  # nobody has this number
LIMIT = 200       # for whatever must end
ESCAPES = b"\x1b]0;PWNED\x07\x1b[31mfine\x1b[0m \xc2\x9b31m \x9b31m \x7f\r {\"p\x1bid\":\"\x1b[1m\"}"
ANSWERS = {"talk": ESCAPES, "refuse": b"error -24 " + ESCAPES}


def close_above(keep):
    for fd in range(3, 64):
        if fd not in keep:
            with contextlib.suppress(OSError):
                os.close(fd)


def pester(caller, mode):
    """What a hostile session says to a caller."""
    if mode in ANSWERS:
        caller.recv(1000)  # else the end of the connection would overtake the answer
        caller.sendall(ANSWERS[mode])
    elif mode == "drip":
        with contextlib.suppress(OSError):
            while True:
                caller.sendall(b"x")
                time.sleep(0.5)
    elif mode == "hold":
        time.sleep(LIMIT)


def serve(path, mode, heard):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen(5)
    os.write(heard, b"+")
    while True:
        caller, _ = listener.accept()
        os.write(heard, b"!")
        pester(caller, mode)
        caller.close()


class Case(unittest.TestCase):
    def setUp(self):
        self.children = []
        self.dir = tempfile.mkdtemp(prefix="contrail-security-", dir="/tmp")
        os.chmod(self.dir, 0o755)
        self.contrail = self.path("contrail")
        shutil.copy(CONTRAIL, self.contrail)  # where every user can execute it
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": self.directory("home", 0)}

    def tearDown(self):
        for pid in self.children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def directory(self, name, user, mode=0o700):
        path = os.path.join(self.dir, name)
        os.mkdir(path)
        os.chown(path, user, user)
        os.chmod(path, mode)
        return path

    def as_stranger(self, what, *arguments):
        """In a process of the stranger. What it hears comes over a pipe."""
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                close_above((theirs,))
                os.setgroups([])
                os.setresgid(STRANGER, STRANGER, STRANGER)
                os.setresuid(STRANGER, STRANGER, STRANGER)
                what(*arguments, theirs)
            finally:
                os._exit(1)
        self.children.append(pid)
        os.close(theirs)
        self.addCleanup(os.close, ours)
        return ours

    def stranger_serves(self, directory, pid, mode):
        heard = self.as_stranger(serve, os.path.join(directory, "%d.sock" % pid), mode)
        self.assertEqual(os.read(heard, 1), b"+", "the stranger has no socket in " + directory)
        return heard

    def stranger_makes(self, path, mode=0o777):
        def make(heard):
            os.mkdir(path)
            os.chmod(path, mode)
            os.write(heard, b"+")
        self.assertEqual(os.read(self.as_stranger(make), 1), b"+")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)

    def target(self, user=0):
        program = subprocess.Popen(["sleep", "1000"], user=user, group=user, extra_groups=[])
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program.pid

    def runtime_of_stranger(self):
        """As logind makes it."""
        path = "/run/user/%d" % STRANGER
        shutil.rmtree(path, ignore_errors=True)  # of a test that was killed
        os.makedirs(path)
        os.chown(path, STRANGER, STRANGER)
        os.chmod(path, 0o700)
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        self.stranger_makes(os.path.join(path, "contrail"), 0o700)
        return os.path.join(path, "contrail")

    def start(self, *words, **environment):
        return subprocess.Popen([self.contrail, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=dict(self.environment, **environment))

    def end(self, process):
        """The exit code and what was printed, which holds nothing that a terminal obeys."""
        out, err = process.communicate(timeout=LIMIT)
        for text in (out, err):
            self.assertFalse([byte for byte in text if (byte < 32 and byte not in b"\n\t") or byte == 127], text)
            self.assertFalse([letter for letter in text.decode("utf-8") if 0x80 <= ord(letter) < 0xA0], text)
        return process.returncode, (out + err).decode()

    def run_client(self, *words, **environment):
        return self.end(self.start(*words, **environment))

    @contextlib.contextmanager
    def recorded(self, user=0, **environment):
        """The pid of a recorded program, and its recorder."""
        out = os.path.join("/tmp", os.path.basename(self.dir) + "-traces-%d" % user)
        self.addCleanup(shutil.rmtree, out, ignore_errors=True)
        recorder = subprocess.Popen([self.contrail, "spawn", "-o", out, "sleep", "1000"], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, user=user, group=user,
                                    extra_groups=[], env=dict(self.environment, **environment), cwd="/")
        line = read_line(recorder.stderr, "contrail says what it records")
        self.assertIn("recording ", line)
        pid = int(line.split("recording ")[1].split()[0])
        try:
            yield pid, recorder
        finally:
            os.kill(pid, signal.SIGKILL)
            recorder.communicate(timeout=LIMIT)


class Strangers(Case):
    """Sockets of a stranger for a process of root's."""

    def check_unbelieved(self, directory, **environment):
        pid = self.target()
        for mode in ("talk", "hold"):
            heard = self.stranger_serves(directory, pid, mode)
            for words in (("ctl", str(pid), "mark"), ("ctl", str(pid), "status", "--json"), ("detach", str(pid))):
                code, said = self.run_client(*words, **environment)
                self.assertEqual(code, 69, said)
                self.assertIn("nobody records process %d" % pid, said)
            self.assertEqual(select.select([heard], [], [], 0)[0], [], "root has knocked at " + directory)
            os.unlink(os.path.join(directory, "%d.sock" % pid))

    def test_in_tmp(self):
        for path in ("/tmp/contrail-evil-%d" % os.getpid(), "/tmp/contrail-0"):
            if not os.path.exists(path):
                self.stranger_makes(path)
                self.check_unbelieved(path)

    def test_runtime_directory_of_the_stranger(self):
        """su keeps XDG_RUNTIME_DIR."""
        runtime = self.directory("runtime", STRANGER)
        self.stranger_makes(os.path.join(runtime, "contrail"), 0o700)
        self.check_unbelieved(os.path.join(runtime, "contrail"), XDG_RUNTIME_DIR=runtime)

    def test_runtime_directory_for_everybody(self):
        runtime = self.directory("runtime", 0, 0o1777)
        self.stranger_makes(os.path.join(runtime, "contrail"), 0o700)
        self.check_unbelieved(os.path.join(runtime, "contrail"), XDG_RUNTIME_DIR=runtime)

    def test_link_to_a_directory(self):
        runtime = self.directory("runtime", 0)
        os.chmod(runtime, 0o755)
        theirs = self.directory("theirs", STRANGER)
        os.symlink(theirs, os.path.join(runtime, "contrail"))
        self.check_unbelieved(theirs, XDG_RUNTIME_DIR=runtime)

    def test_home_of_the_stranger(self):
        home = self.directory("theirs", STRANGER)
        path = os.path.join(home, ".cache", "contrail", "run-" + socket.gethostname())
        for depth in (3, 2, 1):
            self.stranger_makes(os.path.normpath(os.path.join(path, *[".."] * (depth - 1))), 0o700)
        self.check_unbelieved(path, HOME=home)

    def test_runtime_directory_of_logind(self):
        """The stranger cannot record root's process."""
        self.check_unbelieved(self.runtime_of_stranger())

    def test_link_to_our_own_session(self):
        """It would make root end another recording than the one that was meant."""
        theirs = self.target(STRANGER)
        place = self.runtime_of_stranger()
        with self.recorded() as (pid, _):
            os.symlink("/run/contrail/%d.sock" % pid, os.path.join(place, "%d.sock" % theirs))
            code, said = self.run_client("detach", str(theirs))
            self.assertEqual(code, 69, said)
            self.assertIn("nobody records process %d" % theirs, said)
            code, said = self.run_client("ctl", str(pid), "status")
            self.assertEqual(code, 0, said)


class Answers(Case):
    """The stranger's own process and socket: root looks there, because the stranger may well record it."""

    def test_escape_sequences(self):
        place, pid = self.runtime_of_stranger(), self.target(STRANGER)
        for mode in ANSWERS:
            heard = self.stranger_serves(place, pid, mode)
            for words in (("ctl", str(pid), "mark"), ("ctl", str(pid), "status"), ("ctl", str(pid), "status", "--json"),
                          ("detach", str(pid)), ("tail", str(pid)), ("doctor", str(pid))):
                code, said = self.run_client(*words)
                if words[0] != "doctor":  # which asks only about what is traced
                    self.assertEqual(os.read(heard, 1), b"!", words)
                if words[-1] == "mark":
                    self.assertIn("PWNED", said)
                    self.assertEqual(code, 0 if mode == "talk" else 69)
            os.unlink(os.path.join(place, "%d.sock" % pid))

    def test_silence(self):
        """All at once: each ends after its limit."""
        place, clients = self.runtime_of_stranger(), []
        for mode in ("hold", "drip"):
            for words in (("ctl", "mark"), ("ctl", "status", "--json"), ("detach",)):
                pid = self.target(STRANGER)
                self.stranger_serves(place, pid, mode)
                clients.append((words, self.start(words[0], str(pid), *words[1:])))
        for words, client in clients:
            code, said = self.end(client)
            self.assertEqual(code, 69, (words, said))
            self.assertIn("does not answer: timed out", said)

    def test_somebody_who_hangs_up(self):
        place, pid = self.runtime_of_stranger(), self.target(STRANGER)
        self.stranger_serves(place, pid, "nothing")
        code, said = self.run_client("ctl", str(pid), "mark")
        self.assertNotEqual(code, 0)
        self.assertIn("does not answer", said)


class Places(Case):
    """Where the recorder's own socket is."""

    def check_controlled(self, user=0, **environment):
        with self.recorded(user=user, **environment) as (pid, _):
            code, said = self.run_client("ctl", str(pid), "status", **environment)
            self.assertEqual(code, 0, said)
            code, said = self.run_client("detach", str(pid), **environment)
            self.assertEqual(code, 0, said)

    def test_root_when_tmp_is_taken(self):
        if not os.path.exists("/tmp/contrail-0"):
            self.stranger_makes("/tmp/contrail-0")
        self.check_controlled()
        self.assertEqual(os.stat("/run/contrail").st_mode & 0o7777, 0o700)

    def test_root_with_a_strangers_runtime_directory(self):
        runtime = self.directory("runtime", STRANGER)
        self.check_controlled(XDG_RUNTIME_DIR=runtime)
        self.assertEqual(os.listdir(runtime), [])

    def test_ordinary_user(self):
        """Root reaches it too."""
        place = self.runtime_of_stranger()
        with self.recorded(user=STRANGER) as (pid, _):
            self.assertEqual(os.listdir(place), ["%d.sock" % pid])
            code, said = self.run_client("detach", str(pid))
            self.assertEqual(code, 0, said)

    def test_home(self):
        """Without a login session there is no /run/user/UID."""
        if os.path.exists("/run/user/%d" % STRANGER):
            self.skipTest("there is a runtime directory")
        home = self.directory("theirs", STRANGER)
        with self.recorded(user=STRANGER, HOME=home) as (pid, _):
            words = [self.contrail, "ctl", str(pid), "status"]
            done = subprocess.run(words, capture_output=True, text=True, user=STRANGER, group=STRANGER, extra_groups=[],
                                  env=dict(self.environment, HOME=home), timeout=LIMIT)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_place(self):
        """It records, and says that it cannot be controlled."""
        if os.path.exists("/run/user/%d" % STRANGER):
            self.skipTest("there is a runtime directory")
        with self.recorded(user=STRANGER, HOME=self.directory("open", STRANGER, 0o777)) as (_, recorder):
            self.assertIn("set XDG_RUNTIME_DIR", read_line(recorder.stderr, "contrail says where its socket would be"))


class Callers(Case):
    """The owner's own programs, which need not be friendly."""

    def connect(self, pid):
        caller = socket.socket(socket.AF_UNIX)
        self.addCleanup(caller.close)
        caller.connect("/run/contrail/%d.sock" % pid)
        caller.settimeout(LIMIT)
        return caller

    def test_silent_callers(self):
        with self.recorded() as (pid, _):
            silent = [self.connect(pid) for _ in range(100)]
            for _ in range(3):
                code, said = self.run_client("ctl", str(pid), "status")
                self.assertEqual(code, 0, said)
            for caller in silent:  # each is let go
                with contextlib.suppress(ConnectionResetError):
                    self.assertEqual(caller.recv(1), b"")

    def test_slow_callers(self):
        """A line byte by byte, an answer that is not taken, a line without an end."""
        with self.recorded() as (pid, _):
            slow, deaf, long = (self.connect(pid) for _ in range(3))
            deaf.sendall(b"status\n")
            with self.assertRaises(OSError):
                while True:
                    slow.sendall(b"s")
                    time.sleep(0.1)
            with contextlib.suppress(OSError):
                long.sendall(b"x" * 100000)
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(long.recv(1), b"")
            code, said = self.run_client("ctl", str(pid), "status")
            self.assertEqual(code, 0, said)

    def test_line_in_parts(self):
        with self.recorded() as (pid, _):
            caller = self.connect(pid)
            for part in (b"sta", b"tus", b"\n"):
                caller.sendall(part)
                time.sleep(0.05)
            self.assertEqual(caller.recv(1), b"{")

    def test_strangers_are_hung_up_on(self):
        """Even with all doors open."""
        def knock(path, heard):
            said = b""
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(path)
                with contextlib.suppress(OSError):
                    caller.sendall(b"stop\n")
                    said = caller.recv(1)
            os.write(heard, said or b"+")

        runtime = self.directory("runtime", 0, 0o755)
        with self.recorded(XDG_RUNTIME_DIR=runtime) as (pid, _):
            path = os.path.join(runtime, "contrail", "%d.sock" % pid)
            os.chmod(os.path.dirname(path), 0o755)
            os.chmod(path, 0o777)
            self.assertEqual(os.read(self.as_stranger(knock, path), 1), b"+")
            os.chmod(os.path.dirname(path), 0o700)
            code, said = self.run_client("ctl", str(pid), "status", XDG_RUNTIME_DIR=runtime)
            self.assertEqual(code, 0, said)

    def test_peer(self):
        """The kernel says who listens: root."""
        with self.recorded() as (pid, _):
            credentials = self.connect(pid).getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            self.assertEqual(struct.unpack("3i", credentials)[1], 0)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("only root can be two users")
        sys.exit(77)
    CONTRAIL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
