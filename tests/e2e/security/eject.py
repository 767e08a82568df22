# SPDX-License-Identifier: Apache-2.0
"""Processes of another user with tables in their memory that look like a killed recorder's and are made to do harm.
Whatever they hold: root's commands end soon, or at once when they are asked to, need little memory, and leave the
process running."""
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from recorder import read_line  # noqa: E402

OTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
DAMAGED = ["endless-blocks", "growing-blocks", "endless-chain", "endless-codes", "endless-regions"]
HEAVY = ["long-chain", "many-patches"]
CLAIMS = ["claims-nobody", "claims-itself", "claims-init"]
CALLS = ["endless-call", "chatting-call"]
MEMORY = 600 << 20  # bytes that a command may have; a hostile process wants gigabytes
LIMIT = 40          # seconds; on a busy machine everything takes longer
PATIENCE = 60


class Evil:
    """A process in a mode of evilboot.c."""

    def __init__(self, case, mode):
        handle, self.counter = tempfile.mkstemp(dir=case.dir)
        with open(handle, "wb") as file:
            file.write(bytes(4096))
        os.chmod(self.counter, 0o666)
        self.process = subprocess.Popen([*OTHER, case.program, mode, self.counter, case.other], stdout=subprocess.PIPE,
                                        text=True)
        case.addCleanup(self.end)
        case.assertEqual(read_line(self.process.stdout, "the hostile program is ready"), "ready\n")
        self.pid = str(self.process.pid)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def word(self, number):
        with open(self.counter, "rb") as file:
            return int.from_bytes(file.read(16)[8 * number:8 * number + 8], "little")

    def count(self):
        return self.word(0)

    def field(self, title):
        with open("/proc/%s/status" % self.pid) as file:
            return next(line.split()[1] for line in file if line.startswith(title))

    def names(self):
        names = []
        for tid in os.listdir("/proc/%s/task" % self.pid):
            with open("/proc/%s/task/%s/comm" % (self.pid, tid)) as file:
                names.append(file.read().strip())
        return names


class EjectTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="contrail-test-")
        os.chmod(self.dir, 0o755)
        self.program = shutil.copy(PROGRAM, os.path.join(self.dir, "evilboot"))
        os.chmod(self.program, 0o755)
        self.other = os.path.join(self.dir, "other")

    def tearDown(self):
        shutil.rmtree(self.dir)

    def start(self, *words):
        return subprocess.Popen([CONTRAIL, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                cwd=self.dir)

    def run_contrail(self, *words):
        """Exit code and text; it has ended in time and needed no more memory than is right."""
        process = self.start(*words)
        text = process.stdout.read() if not self.wait(process, LIMIT) else ""
        process.stdout.close()
        most = self.usage.ru_maxrss << 10
        self.assertLess(most, MEMORY * (8 if SANITIZED else 1), text)
        return process.returncode, text

    def wait(self, process, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pid, status, self.usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return None
            time.sleep(0.01)
        process.kill()
        process.wait()
        self.fail("%s has not ended" % " ".join(process.args))

    def check_runs(self, evil):
        """Not stopped, not traced, and it counts."""
        deadline, before = time.monotonic() + PATIENCE, evil.count()
        while evil.count() <= before + 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertGreater(evil.count(), before + 10)
        self.assertNotIn(evil.field("State:"), "tT")
        self.assertEqual(evil.field("TracerPid:"), "0")

    def attach(self, evil, *options):
        return self.run_contrail("attach", evil.pid, "-d", "1", "--output", os.path.join(self.dir, "traces"), *options)

    def test_damaged(self):
        for mode in DAMAGED:
            with self.subTest(mode):
                evil = Evil(self, mode)
                code, text = self.attach(evil)
                self.assertNotEqual(code, 0, text)
                self.assertIn("look like those of a recorder that was killed, but they are damaged", text)
                self.check_runs(evil)
                evil.end()

    def test_heavy(self):
        """Within the bounds of every table, and as much work as possible: cleaned up or not, it ends."""
        for mode in HEAVY:
            with self.subTest(mode):
                evil = Evil(self, mode)
                self.attach(evil)
                self.check_runs(evil)
                evil.end()

    def test_claims(self):
        """That somebody records it already is believed when the kernel confirms it."""
        for mode in CLAIMS:
            with self.subTest(mode):
                evil = Evil(self, mode)
                code, text = self.attach(evil)
                self.assertEqual(code, 0, text)
                self.assertIn("none lost", text)
                self.check_runs(evil)
                evil.end()

    def test_true_chain(self):
        """What is put right is right: the outermost frame of a chain has the true return address."""
        evil = Evil(self, "true-chain")
        code, text = self.attach(evil)
        self.assertEqual(code, 0, text)
        self.check_runs(evil)
        self.assertEqual(evil.word(1), 4711)

    def test_file_of_root(self):
        """What the process may not write is not written for it."""
        with open(self.other, "wb") as file:
            file.write(b"good" + bytes(4092))
        evil = Evil(self, "patches-file")
        self.attach(evil)
        self.check_runs(evil)
        with open(self.other, "rb") as file:
            self.assertEqual(file.read(4), b"good")

    def test_file_that_changes(self):
        """A program that the process has mapped many times, and that its owner cuts and writes again all the time."""
        shutil.copy(CONTRAIL, self.other)
        os.chown(self.other, 65534, 65534)
        size = os.path.getsize(self.other)
        evil = Evil(self, "maps-file")
        ends = threading.Event()

        def change():
            while not ends.is_set():
                for cut in (size // 2, 4096):
                    os.truncate(self.other, cut)
                    time.sleep(0.002)
                    shutil.copyfile(CONTRAIL, self.other)
        thread = threading.Thread(target=change)
        thread.start()
        try:
            for words in (["modules"], ["threads", "-b"],
                          ["attach", "-d", "1", "--output", os.path.join(self.dir, "traces")]) * 2:
                code, text = self.run_contrail(words[0], evil.pid, *words[1:])
                self.assertGreaterEqual(code, 0, text)
                self.check_runs(evil)
        finally:
            ends.set()
            thread.join()

    def test_true_recorder(self):
        evil = Evil(self, "none")
        first = self.start("attach", evil.pid, "--output", os.path.join(self.dir, "traces"))
        try:
            read_line(first.stdout, "contrail records")
            code, text = self.attach(evil)
            self.assertNotEqual(code, 0)
            self.assertIn("is being recorded already", text)
        finally:
            os.kill(first.pid, signal.SIGTERM)
            self.wait(first, LIMIT)
            first.stdout.close()
        self.check_runs(evil)

    def test_recorder_in_namespace(self):
        """A recorder that has another number where it lives, beside the process."""
        counter = os.path.join(self.dir, "counter")
        with open(counter, "wb") as file:
            file.write(bytes(4096))
        traces = os.path.join(self.dir, "traces")
        script = ('"$1" none "$2" - >"$3" & while ! grep -qs ready "$3"; do sleep 0.05; done;'
                  ' "$4" attach $! --output "$5" & r=$!; wait $r; kill %1')
        said = os.path.join(self.dir, "said")
        enter = ["unshare", "--pid", "--fork", "--mount-proc"]
        if subprocess.run([*enter, "true"], capture_output=True).returncode:
            self.skipTest("no pid namespace can be made here")
        inner = subprocess.Popen([*enter, "--kill-child", "bash", "-c", script, "bash", self.program, counter, said,
                                  CONTRAIL, traces],
                                 stderr=subprocess.PIPE, text=True)
        try:
            self.assertIn("recording", read_line(inner.stderr, "the recorder in the namespace records"))
            pid = subprocess.run(["pgrep", "-f", self.program + " none"], capture_output=True,
                                 text=True).stdout.split()[-1]
            code, text = self.run_contrail("attach", pid, "-d", "1", "--output", traces)
            self.assertNotEqual(code, 0, text)
            self.assertIn("is being recorded already", text)
        finally:
            inner.kill()
            inner.wait()
            inner.stderr.close()

    def test_calls(self):
        """A call that never comes back has no more time than the stop."""
        for mode in CALLS:
            with self.subTest(mode):
                evil = Evil(self, mode)
                code, text = self.attach(evil)
                self.assertNotEqual(code, 0, text)
                self.assertIn("still followed for a recorder that was killed", text)
                self.check_runs(evil)
                evil.end()

    def test_filter_stays(self):
        """Code of the process is not called without its seccomp filter."""
        evil = Evil(self, "filtered-call")
        code, text = self.attach(evil)
        self.assertNotEqual(code, 0, text)
        self.assertIn("seccomp filter, which is not lifted", text)
        self.assertNotIn("escaped", evil.names())
        self.check_runs(evil)

    def test_other_commands(self):
        for mode in [*DAMAGED, *HEAVY, "claims-nobody", "long-search", *CALLS]:
            for words in (["threads", "-b"], ["threads", "-b", "--frames", "100000"], ["modules"], ["doctor"]):
                with self.subTest(mode=mode, words=words):
                    evil = Evil(self, mode)
                    self.run_contrail(words[0], evil.pid, *words[1:])
                    self.check_runs(evil)
                    evil.end()

    def test_stalk(self):
        for mode in [*DAMAGED, *CALLS]:
            with self.subTest(mode):
                evil = Evil(self, mode)
                code, text = self.run_contrail("stalk", "--pid", evil.pid, "-d", "1", "--output",
                                               os.path.join(self.dir, "traces"))
                self.assertNotEqual(code, 0, text)
                self.check_runs(evil)
                evil.end()

    def test_symbols_of_the_same_code(self):
        """A library whose functions all reach to its end is left alone in bounded time. SIGTERM ends the planning."""
        if not shutil.which("gcc"):
            self.skipTest("no compiler")
        source = os.path.join(self.dir, "same.s")
        with open(source, "w") as file:
            file.write(".text\nbase: .fill %d, 1, 0x90\nret\n" % (16 << 20))
            for i in range(0, 20000):
                file.write(".globl f%d\n.type f%d, @function\n.set f%d, base + %d\n.size f%d, %d\n" % (
                    i, i, i, 10 * i, i, (16 << 20) - 10 * i))
        subprocess.run(["gcc", "-shared", "-nostdlib", "-o", self.other, source], check=True)
        for ended in (False, True):
            evil = Evil(self, "maps-library")
            process = self.start("attach", evil.pid, "-d", "1", "--no-cache", "--output",
                                 os.path.join(self.dir, "traces"))
            if ended:
                time.sleep(0.3)
                os.kill(process.pid, signal.SIGTERM)
            self.wait(process, LIMIT)
            text = process.stdout.read()
            process.stdout.close()
            if not ended or process.returncode != -signal.SIGTERM:  # else the signal came before anything was begun
                self.assertIn("ended the start" if ended else "none lost", text)
            self.check_runs(evil)

    def test_given_up(self):
        """SIGTERM ends it, at whatever point."""
        for mode in ["endless-blocks", "many-patches", "endless-call", "chatting-call"]:
            for pause in (0.0, 0.1, 0.5):
                with self.subTest(mode=mode, pause=pause):
                    evil = Evil(self, mode)
                    process = self.start("attach", evil.pid, "--output", os.path.join(self.dir, "traces"))
                    time.sleep(pause)
                    os.kill(process.pid, signal.SIGTERM)  # send_signal would reap it
                    self.wait(process, LIMIT)
                    process.stdout.close()
                    self.check_runs(evil)
                    evil.end()


if __name__ == "__main__":
    CONTRAIL, PROGRAM = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("skipped: needs root and setpriv, to be another user than the process")
        sys.exit(77)
    SANITIZED = "libasan" in subprocess.run(["ldd", CONTRAIL], capture_output=True, text=True).stdout
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main()
