#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How `contrail export` behaves: where it writes, what it refuses, which files it leaves.

command.py CONTRAIL SCRIPT_TRACE"""
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import traces

# a shell that runs tests in the background may ignore SIGINT, and contrail would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
CONTRAIL, SCRIPT_TRACE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
NAME = "session_20250102_030405"
DEFAULTS = {
    "perfetto": f"{NAME}.perfetto-trace", "chrome": f"{NAME}.chrome.json", "speedscope": f"{NAME}.speedscope.json",
    "folded": f"{NAME}.folded", "callgrind": f"callgrind.out.{NAME}", "ctf": f"{NAME}.ctf", "atf-pb": f"{NAME}.atf.pb",
    "atf2": f"{NAME}.atf2", "html": f"{NAME}.html",
}


def large_trace(events):
    """A thread with this many events, to fill pipes and to show progress."""
    thread = traces.Thread(1, 1000, "sample")
    for i in range(events // 2):
        thread.time = 10 * i
        thread.call("work")
        thread.time += 5
        thread.end(0)
    return traces.Trace([traces.Process(1000, [thread], thread.time + 1)])


def many_calls(path, calls):
    """A trace of this many calls, which take 5 ns of every 10."""
    lines = ["process 1000 0 0", "thread 1 1000 0 0 sample",
             " ".join(f"{10 * i}+work {10 * i + 5}-work" for i in range(calls)), ""]
    done = subprocess.run([SCRIPT_TRACE, path], input="\n".join(lines), capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Command(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        for name, trace in (("small", traces.hand_written()), ("large", large_trace(300_000))):
            os.mkdir(f"{cls.shared.name}/{name}")
            setattr(cls, name, trace.write(SCRIPT_TRACE, f"{cls.shared.name}/{name}").path)

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.here = pathlib.Path(self.directory.name)

    def tearDown(self):
        self.directory.cleanup()

    def export(self, *words, code=0, **options):
        done = subprocess.run([CONTRAIL, "export", *map(str, words)], cwd=self.here, capture_output=True, timeout=120,
                              **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def refused(self, *words, code, says, **options):
        done = self.export(*words, code=code, **options)
        text = done.stderr.decode()
        self.assertIn(says, text)
        self.assertTrue(text.startswith("contrail: ") and text.count("\n") == 1, text)
        self.assertEqual(done.stdout, b"")

    def listing(self):
        return sorted(entry.name for entry in self.here.iterdir())

    # ---- size ----

    def test_too_large_for_its_viewer(self):
        """A message, with a part that is small enough; the export is written all the same."""
        trace = many_calls(self.here, 1_000_000)

        def said(*words):
            with open(os.devnull, "wb") as nowhere:
                done = subprocess.run([CONTRAIL, "export", "-o", "-", *words, trace], cwd=self.here, stdout=nowhere,
                                      stderr=subprocess.PIPE, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr

        text = said("-f", "chrome")
        part = re.search(r"about 10\d MiB, and viewers of chrome load about 100 MiB; "
                         r"(--from \S+) (--to \S+) exports a part$", text)
        self.assertTrue(part, text)
        words = " ".join(part.groups()).split()
        self.assertEqual(said("-f", "chrome", *words), "")
        done = self.export("-f", "folded", "--weight", "calls", "-o", "-", *words, trace)
        self.assertTrue(400_000 < int(done.stdout.split()[1]) < 600_000, done.stdout)
        self.assertEqual(said("-f", "folded"), "")
        self.assertEqual(said("-f", "chrome", "--where", "duration > 1ms"), "")

    # ---- names ----

    def test_default_names(self):
        for format, name in DEFAULTS.items():
            out = self.export("-f", format, self.small).stdout.decode()
            self.assertTrue(out.startswith(name + ": "), out)
            self.assertTrue((self.here / name).exists(), name)
        self.assertEqual(self.listing(), sorted(DEFAULTS.values()))

    def test_default_name_of_a_process(self):
        self.export("-f", "folded", self.small + "/pid_1000")
        self.assertEqual(self.listing(), [f"{NAME}.pid_1000.folded"])

    def test_default_format_and_newest_trace(self):
        (self.here / "traces").symlink_to(os.path.dirname(self.small))
        self.export()
        self.assertIn(DEFAULTS["perfetto"], self.listing())

    def test_copy_is_a_trace(self):
        self.export("-f", "atf2", "-o", "copy", self.small)
        done = [subprocess.run([CONTRAIL, "report", "--csv", path], cwd=self.here, capture_output=True,
                               check=True).stdout
                for path in (self.small, "copy")]
        self.assertEqual(done[0], done[1])
        self.export("-f", "atf2", "-o", "one", self.small + "/pid_2000")
        subprocess.run([CONTRAIL, "verify", "one"], cwd=self.here, check=True, capture_output=True)

    # ---- standard output ----

    def test_standard_output(self):
        for format in ("perfetto", "chrome", "folded", "callgrind", "speedscope", "atf-pb", "html"):
            done = self.export("-f", format, "-o", "-", self.small)
            self.export("-f", format, "-o", "file", self.small)
            self.assertEqual(done.stdout, (self.here / "file").read_bytes(), format)
            self.assertEqual(done.stderr, b"")

    def test_reader_that_has_seen_enough(self):
        for format in ("perfetto", "chrome", "atf-pb", "speedscope"):
            with subprocess.Popen([CONTRAIL, "export", "-f", format, "-o", "-", self.large], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                process.stdout.read(10)
                process.stdout.close()
                self.assertEqual(process.stderr.read(), b"")
                self.assertEqual(process.wait(60), 0)

    def test_directory_to_standard_output(self):
        for format in ("ctf", "atf2"):
            self.refused("-f", format, "-o", "-", self.small, code=64, says="several files")

    def test_binary_to_a_terminal(self):
        master, slave = pty.openpty()
        done = subprocess.run([CONTRAIL, "export", "-o", "-", self.small], stdout=slave, stderr=subprocess.PIPE,
                              timeout=60)
        os.close(slave)
        os.close(master)
        self.assertEqual(done.returncode, 64)
        self.assertIn(b"binary", done.stderr)

    # ---- what is refused, and what is kept ----

    def test_directory_in_the_way(self):
        (self.here / "there").mkdir()
        self.refused("-o", "there", self.small, code=69, says="there is a directory")
        self.assertEqual(self.listing(), ["there"])

    def test_directory_that_is_not_empty(self):
        for format in ("ctf", "atf2"):
            (self.here / "there").mkdir(exist_ok=True)
            (self.here / "there/mine").write_text("keep")
            self.refused("-f", format, "-o", "there", self.small, code=69, says="not empty")
            self.assertEqual([entry.name for entry in (self.here / "there").iterdir()], ["mine"])

    def test_empty_directory_is_used(self):
        (self.here / "there").mkdir()
        self.export("-f", "ctf", "-o", "there", self.small)
        self.assertTrue((self.here / "there/metadata").exists())

    def test_file_in_the_way_of_a_directory(self):
        (self.here / "there").write_text("keep")
        self.refused("-f", "ctf", "-o", "there", self.small, code=69, says="not a directory")
        self.assertEqual((self.here / "there").read_text(), "keep")

    def test_no_such_place(self):
        for format in ("perfetto", "ctf"):
            self.refused("-f", format, "-o", "nowhere/file", self.small, code=69, says="No such file or directory")

    def test_no_such_trace(self):
        self.refused("-o", "file", "nothing", code=69, says="nothing")
        self.assertEqual(self.listing(), [])

    def test_unknown_format(self):
        self.refused("-f", "perfeto", self.small, code=64, says="perfetto")

    def test_empty_path(self):
        self.refused("-o", "", self.small, code=64, says="--output needs a value")

    def test_full_disk(self):
        for format in ("perfetto", "folded"):
            self.refused("-f", format, "-o", "/dev/full", self.small, code=69, says="No space left on device")

    def test_file_size_limit_leaves_the_old_file(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        (self.here / "old").write_text("old")
        self.refused("-f", "chrome", "-o", "old", self.large, code=69, says="File too large", preexec_fn=limit)
        self.assertEqual((self.here / "old").read_text(), "old")
        self.refused("-f", "ctf", "-o", "new", self.large, code=69, says="File too large", preexec_fn=limit)
        self.assertEqual(self.listing(), ["old"])

    # ---- files that exist already ----

    def test_file_is_replaced(self):
        (self.here / "old").write_text("old")
        (self.here / "old").chmod(0o640)
        (self.here / "link").symlink_to("old")
        self.export("-f", "chrome", "-o", "link", self.small)
        self.assertTrue((self.here / "link").is_symlink())
        self.assertIn("traceEvents", json.loads((self.here / "old").read_text()))
        self.assertEqual(stat.S_IMODE((self.here / "old").stat().st_mode), 0o640)
        self.assertEqual(self.listing(), ["link", "old"])

    def test_mode_of_new_files(self):
        for umask in (0o000, 0o027, 0o077):
            self.export("-o", "new", self.small, umask=umask)
            self.assertEqual(stat.S_IMODE((self.here / "new").stat().st_mode), 0o600)
            (self.here / "new").unlink()

    def test_pipe_with_a_name(self):
        os.mkfifo(self.here / "pipe")
        with subprocess.Popen([CONTRAIL, "export", "-f", "chrome", "-o", "pipe", self.small], cwd=self.here,
                              stdout=subprocess.PIPE) as process:
            self.assertIn("traceEvents", json.loads((self.here / "pipe").read_text()))
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)
        self.assertTrue(stat.S_ISFIFO((self.here / "pipe").stat().st_mode))

    # ---- progress and interruption: a reader that waits holds up the export ----

    def held_up(self, terminal):
        os.mkfifo(self.here / "pipe")
        process = subprocess.Popen([CONTRAIL, "export", "-f", "chrome", "-o", "pipe", self.large], cwd=self.here,
                                   stdout=subprocess.DEVNULL, stderr=terminal, env={**os.environ, "TERM": "xterm"},
                                   start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(terminal, 0x540E, 0))  # our terminal: TIOCSCTTY
        return process, open(self.here / "pipe", "rb")

    def test_progress(self):
        master, slave = pty.openpty()
        process, reader = self.held_up(slave)
        shown = b""
        with reader:
            while reader.read(65536):
                if b"exporting [" not in shown:
                    time.sleep(0.05)  # a bar appears only if the export takes long
                while select.select([master], [], [], 0)[0]:
                    shown += os.read(master, 65536)
        self.assertEqual(process.wait(200), 0)
        while not shown.endswith(b"\r\033[K") and select.select([master], [], [], 60)[0]:
            shown += os.read(master, 65536)
        os.close(slave)  # not earlier: reading would fail
        os.close(master)
        self.assertRegex(shown.decode(), r"\rcontrail: exporting \[#*\.*\] [\d.]+ %, [\d.]+ k of 300 k events")
        self.assertTrue(shown.endswith(b"\r\033[K"), shown[-80:])

    def test_no_progress_without_a_terminal(self):
        self.assertEqual(self.export("-o", "file", self.large).stderr, b"")

    # ---- memory ----

    def most_memory(self, format, path):
        output = self.here / "out"
        process = subprocess.Popen([CONTRAIL, "export", "-f", format, "-o", output, path], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        subprocess.run(["rm", "-rf", output], check=True)
        return usage.ru_maxrss

    @unittest.skipIf("asan" in CONTRAIL, "a sanitizer's memory grows")
    def test_memory_does_not_grow_with_events(self):
        for format in DEFAULTS:  # 9.6 MB of events, up to 20 MB of output
            small, large = self.most_memory(format, self.small), self.most_memory(format, self.large)
            self.assertLess(large - small, 2048, f"{format}: KiB more for 300,000 events")

    def test_interrupted(self):
        master, slave = pty.openpty()
        process, reader = self.held_up(slave)
        os.close(slave)
        select.select([reader], [], [])  # it writes now
        process.send_signal(signal.SIGINT)
        with reader:
            while reader.read(65536):
                pass
        self.assertEqual(process.wait(200), 128 + signal.SIGINT)
        os.close(master)
        self.assertEqual(self.listing(), ["pipe"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
