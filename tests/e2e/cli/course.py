#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""course.py CLI_FAKE: the course of recordings on the command line, with sessions that only pretend (fake_session.c):
what is printed where, exit codes, signals, the terminal, what a spawned program inherits."""

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import driver
from driver import LIMIT, Started, run

FAKE = driver.PROGRAM = sys.argv.pop(1)


class Course(unittest.TestCase):
    def test_exit_code_and_streams(self):
        done = run("spawn", "sh", "-c", "echo out; exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stdout, "out\n")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertRegex(lines[0], r"^contrail: recording \d+ \S+: 12,345 functions in 14 modules \(99\.8 %\), "
                                   r"planned in 85\.0 ms$")
        self.assertRegex(lines[1], r"^contrail: 12,345,678 events of 4 threads in .*, none lost, 1\.00 MiB on disk; "
                                   r"read it with: contrail report traces/session_1$")

    def test_died_of_a_signal(self):
        self.assertEqual(run("spawn", "sh", "-c", "kill -9 $$").returncode, 128 + 9)

    def test_losses_are_told(self):
        self.assertIn("1,234 LOST (1,234 DRAIN_LAG: too fast)", run("spawn", "true", session="lost").stderr)

    def test_windows_are_told(self):
        self.assertIn(", none lost, 98,765 detail records in 2 windows, 1.00 MiB on disk;",
                      run("spawn", "true", session="windows").stderr)

    def test_quiet(self):
        done = run("spawn", "--quiet", "true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_steps_that_fail_before_the_program_runs(self):
        for step, status, code in (("spawn", -15, 69), ("spawn", -5, 77), ("create", -5, 77), ("create", -24, 69)):
            done = run("spawn", "echo", "ran", session=f"{step}={status}")
            self.assertEqual(done.returncode, code)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_failed_hooking_leaves_the_program_running(self):
        done = run("spawn", "sh", "-c", "sleep 0.2; echo ran; exit 3", session="install=-6")
        self.assertEqual((done.returncode, done.stdout), (69, "ran\n"))
        self.assertEqual(done.stderr, "contrail: the step install failed as told; nothing helps\n")

    def test_exec_ends_the_recording(self):
        done = run("spawn", "sh", "-c", "sleep 0.5; exit 3", session="event=2")
        self.assertEqual(done.returncode, 3)
        self.assertIn("now runs another program, which is not recorded", done.stderr)
        self.assertNotIn("detached", done.stderr)

    def test_stop_by_control_waits_for_the_program(self):
        done = run("spawn", "sh", "-c", "sleep 0.5; exit 3", session="event=3")
        self.assertEqual(done.returncode, 3)
        self.assertIn("fake: detached", done.stderr)

    def test_disk_full(self):
        done = run("spawn", "sh", "-c", "sleep 0.5; exit 3", session="event=4")
        self.assertEqual(done.returncode, 69)
        self.assertIn("contrail: recording stopped: the disk is full\n", done.stderr)
        self.assertIn("fake: detached", done.stderr)

    def test_duration(self):
        started = Started("spawn", "--duration", "50ms", "sh", "-c", "read x; exit 3", stdin=subprocess.PIPE)
        started.until("fake: detached")
        self.assertEqual(started.end()[0], 3)

    def test_attach(self):
        with driver.target("sleep", "100") as target:
            done = run("attach", "--duration", "50ms", str(target.pid))
            self.assertEqual(done.returncode, 0)
            self.assertIn("fake: detached", done.stderr)
            self.assertRegex(done.stderr, rf"^contrail: recording {target.pid} sleep: .*, paused 12\.0 ms\n")
            self.assertIsNone(target.poll())
            done = run("attach", str(target.pid), session="attach=-22")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (69, 1))
            started = Started("attach", str(target.pid))
            started.until("recording")
            target.kill()
            target.wait()
            self.assertEqual(started.end()[0], 0)

    def test_closed_descriptors(self):
        for fd in (0, 1, 2):
            words = ["sh", "-c", f'"$@" {fd}>&-', "sh", FAKE, "spawn", "sh", "-c", f"test ! -e /proc/$$/fd/{fd}"]
            done = subprocess.run(words, capture_output=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, fd)


class Signals(unittest.TestCase):
    def test_sent_to_attach_detaches(self):
        with driver.target("sleep", "100") as target:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                started = Started("attach", str(target.pid))
                started.until("recording")
                started.process.send_signal(number)
                code, _, err = started.end()
                self.assertEqual(code, 0)
                self.assertIn("fake: detached", err)
                self.assertIsNone(target.poll())

    def test_sent_to_spawn_detaches_and_waits(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            started = Started("spawn", "sh", "-c", "read x; echo end; exit 3", stdin=subprocess.PIPE)
            started.until("recording")
            started.process.send_signal(number)
            started.until("detached")
            code, out, _ = started.end()
            self.assertEqual((code, out), (3, "end\n"))

    def test_second_ends_the_waiting(self):
        started = Started("spawn", "cat", stdin=subprocess.PIPE)
        started.until("recording")
        started.process.send_signal(signal.SIGTERM)
        started.until("read it with")
        end = time.monotonic() + LIMIT
        while started.process.poll() is None and time.monotonic() < end:  # two signals that come at once are one
            started.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        self.assertEqual(started.process.poll(), 128 + signal.SIGTERM)
        started.end()

    def test_while_starting_gives_up(self):
        started = Started("spawn", "sh", "-c", "echo ran; exit 3", session="slow")
        started.until("fake: hooking")
        started.process.send_signal(signal.SIGINT)
        code, out, err = started.end()
        self.assertEqual((code, out), (3, "ran\n"))
        self.assertRegex(err, r"signal 2 \(.*\) ended the start")
        with driver.target("sleep", "100") as target:
            started = Started("attach", str(target.pid), session="slow")
            started.until("fake: hooking")
            started.process.send_signal(signal.SIGTERM)
            self.assertEqual(started.end()[0], 69)

    def test_wait(self):
        for number, text in ((signal.SIGUSR1, "ran\n"), (signal.SIGTERM, "ran\n")):
            started = Started("spawn", "--wait", "sh", "-c", "echo ran; exit 3", start_new_session=True)
            started.until("is hooked and stopped: press Enter or type `kill -USR1 %d` to let it run\n"
                          % started.process.pid)
            self.assertEqual(select.select([started.process.stdout], [], [], 0.2)[0], [], "it runs")
            started.process.send_signal(number)
            code, out, err = started.end()
            self.assertEqual((code, out), (3, text))
            self.assertEqual("fake: detached" in err, number == signal.SIGTERM)

    def inherited(self, prepare):
        """What a program sees of signals, started by us and directly."""
        show = ["grep", "^Sig\\(Blk\\|Ign\\|Cgt\\)", "/proc/self/status"]
        direct = subprocess.run(show, capture_output=True, preexec_fn=prepare, restore_signals=False)
        ours = subprocess.run([FAKE, "spawn", *show], capture_output=True, preexec_fn=prepare, restore_signals=False)
        self.assertEqual(ours.stdout, direct.stdout)
        self.assertEqual(ours.returncode, 0)

    def test_inherited_as_without_us(self):
        def nothing():
            pass

        def defaults():
            for number in range(1, 32):
                if number not in (signal.SIGKILL, signal.SIGSTOP):
                    signal.signal(number, signal.SIG_DFL)

        def ignore():
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ,
                           signal.SIGUSR1, signal.SIGCHLD):
                signal.signal(number, signal.SIG_IGN)

        def block():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGUSR2})

        for prepare in (nothing, defaults, ignore, block):
            self.inherited(prepare)

    def test_exit_code_with_ignored_children(self):
        done = run("spawn", "sh", "-c", "exit 3", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 3)


class Terminal(driver.TerminalTest):
    def test_first_key_is_the_programs(self):
        self.start("spawn", "bash", "-c", f"trap 'echo caught' INT; echo ready; {driver.UNTIL_TOLD}; exit 3")
        self.until("ready")
        self.press(b"\x03")
        self.until("caught")
        self.assertEqual(self.end(b"\n"), 3)
        self.assertNotIn("fake: detached", self.seen)

    def test_second_key_detaches(self):
        self.start("spawn", "bash", "-c", f"trap 'echo caught' INT; echo ready; {driver.UNTIL_TOLD}; exit 3")
        self.until("ready")
        self.press(b"\x03")
        self.until("caught")
        self.press_until(b"\x03", lambda: "fake: detached" in self.seen)
        self.assertEqual(self.end(b"\n"), 3)

    def test_key_ends_the_program(self):
        self.start("spawn", "sh", "-c", "echo ready; exec sleep 100")
        self.until("ready")
        self.press(b"\x03")
        self.assertEqual(self.end(), 128 + signal.SIGINT)
        self.assertNotIn("fake: detached", self.seen)
        self.assertIn("read it with", self.seen)

    def test_key_detaches_attached(self):
        with driver.target("sleep", "100") as target:
            self.start("attach", str(target.pid))
            self.until("recording")
            self.press(b"\x03")
            self.assertEqual(self.end(), 0)
            self.assertIsNone(target.poll())

    def test_wait_for_enter(self):
        self.start("spawn", "--wait", "echo", "ran")
        self.until("press Enter")
        self.assertNotIn("ran\r\n", self.seen)
        self.press(b"\n")
        self.until("ran\r\n")
        self.assertEqual(self.end(), 0)

    def test_key_while_waiting(self):
        self.start("spawn", "--wait", "sleep", "0.3")
        self.until("press Enter")
        self.press(b"\x03")
        self.until("fake: detached")
        self.end()

    def test_live_line(self):
        self.start("spawn", "sh", "-c", "read x", stdout="/dev/null")
        self.until(r"\rcontrail: \S+( [kMG])? events/s, 12\.3 M events, 0 lost, 3\.00 MiB memory, 3 threads")
        self.press(b"\n")
        self.assertEqual(self.end(), 0)
        erased = self.seen.rindex("\r\033[K")
        self.assertNotIn("events/s", self.seen[erased:])
        self.assertIn("read it with", self.seen[erased:])

    def test_live_line_tells_of_detail(self):
        self.start("spawn", "sh", "-c", "read x", stdout="/dev/null", session="windows")
        self.until(r"events, 0 lost, persisting, 6\.10 ms back, 3\.00")
        self.press(b"\n")
        self.assertEqual(self.end(), 0)

    def test_live_line_leaves_prompts_alone(self):
        with tempfile.TemporaryDirectory() as place:
            gate = os.path.join(place, "gate")
            self.start("spawn", "sh", "-c",
                       f"printf 'name: '; until [ -e {gate} ]; do sleep 0.05; done; printf '\\nend\\n'")
            self.until(r"name: [^\0]*events/s")
            with open(gate, "w"):
                pass
            self.until("end")
        self.assertEqual(self.end(), 0)
        # Between the prompt and what follows the cursor comes back every time.
        drawn = self.seen[self.seen.index("name: ") + 6:self.seen.index("\r\nend")]
        self.assertIn("events/s", drawn)
        self.assertEqual(re.sub(r"\033D\033M\0337\033\[B\r[^\0]*?\0338", "", drawn), "")

    def test_no_live_line_when_quiet(self):
        self.start("spawn", "-q", "sleep", "0.4")
        self.assertEqual(self.end(), 0)
        self.assertEqual(self.seen, "")

    def test_no_live_line_on_dumb_terminals(self):
        self.start("spawn", "sleep", "0.4", term="dumb")
        self.assertEqual(self.end(), 0)
        self.assertNotIn("events/s", self.seen)
        self.assertNotIn("\033", self.seen)


class Options(unittest.TestCase):
    """Words of the command line are what the session gets."""

    def options(self, *words):
        done = run("spawn", *words, "true", session="options")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = done.stderr.splitlines()[0]
        self.assertTrue(line.startswith("fake: "), line)
        return dict(word.split("=", 1) for word in line[6:].split(" "))

    def test_defaults(self):
        self.assertEqual(self.options(), {
            "format": "0", "keep_bytes": "0", "keep_ns": "0", "detail": "0", "stack_bytes": "128", "vectors": "0",
            "detail_rate": "0", "detail_memory": "0", "rolls": "0,0,0,0", "metrics": "-", "triggers": ""})

    def test_all(self):
        given = self.options("--format", "atf2", "--keep", "1.5G", "--detail", "always", "--stack-bytes", "512",
                             "--vectors",
                             "--detail-rate", "77", "--detail-mem", "4M", "-t", "crash", "--trigger=symbol=f*",
                             "--pre-roll-ms", "5", "--post-roll-ms", "7", "--pre-roll-events", "9",
                             "--post-roll-events", "11", "--metrics-file", "m.prom")
        self.assertEqual(given, {
            "format": "1", "keep_bytes": str(3 << 29), "keep_ns": "0", "detail": "1", "stack_bytes": "512",
            "vectors": "1",
            "detail_rate": "77", "detail_memory": str(4 << 20), "rolls": "5,7,9,11", "metrics": "m.prom",
            "triggers": "crash,symbol=f*"})

    def test_none_is_not_the_default(self):
        given = self.options("--pre-roll-ms", "0", "--post-roll-ms=0", "--stack-bytes", "0", "--detail", "off")
        self.assertEqual((given["rolls"], given["stack_bytes"], given["detail"]), ("-1,-1,0,0", "-1", "2"))

    def test_keep(self):
        for text, size, ns in (("500M", 500 << 20, 0), ("2GiB", 2 << 30, 0), ("64K", 65536, 0), ("10m", 0, 600 * 10**9),
                               ("90s", 0, 90 * 10**9), ("24h", 0, 86400 * 10**9), ("250ms", 0, 250 * 10**6),
                               ("1.5h", 0, 5400 * 10**9)):
            given = self.options("--keep", text)
            self.assertEqual((given["keep_bytes"], given["keep_ns"]), (str(size), str(ns)), text)
        for text in ("10", "1K", "5ms", "m", "-2G", "10x", "2 G", "G2"):
            done = run("spawn", "--keep", text, "true")
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (64, "", 1), done.stderr)
            self.assertIn("--keep takes a size", done.stderr)

    def test_refused(self):
        for words, text in ((("--stack-bytes", "100"), "a multiple of 8 up to 512, not 100; 104 is the next one"),
                            (("--stack-bytes", "520"), "at most"), (("--format", "csv"), "packed or atf2"),
                            (("--detail", "some"), "marked, always or off"), (("--detail-mem", "1K"), "at least"),
                            (("--pre-roll-events", "0"), "at least"), (("--pre-roll-ms", "-1"), "whole number"),
                            (("--trigger", ""), "needs a value")):
            done = run("spawn", *words, "true")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (64, 1), (words, done.stderr))
            self.assertIn(text, done.stderr)

    def test_wrong_trigger_is_wrong_usage(self):
        self.assertEqual(run("spawn", "-t", "x", "echo", "ran", session="create=-7").returncode, 64)
        self.assertEqual(run("spawn", "-t", "x", "echo", "ran", session="create=-19").returncode, 64)


class Control(unittest.TestCase):
    def test_status(self):
        done = run("ctl", "4711", "status")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "pid                    4711\n"
                                      "state                  running\n"
                                      "events                 1,234,567\n"
                                      "lost DRAIN LAG         12\n"
                                      'policy triggers        symbol="a\n'
                                      "policy triggers        crash\n"
                                      "lane used              1.50 KiB\n"
                                      "latency p50            4.20 ms\n")
        done = run("ctl", "4711", "status", "--json")
        self.assertIn('"events": 1234567', done.stdout)

    def test_stop(self):
        for words in (("detach", "4711"), ("ctl", "4711", "stop")):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout), (0, "process 4711 is no longer recorded\n"))

    def test_refused(self):
        own = str(os.getpid())
        for pid, status, code, text in ((own, -15, 69,
                                         f"nobody records process {own}; `contrail attach {own}` records it"),
                                        ("99999999", -15, 69,
                                         "there is no process 99999999; `pgrep NAME` finds processes"),
                                        (own, -5, 77,
                                         f"process {own} is not recorded by you; if another user records it, only "
                                                      "that user and root can control it")):
            done = run("detach", pid, session=f"control={status}")
            self.assertEqual((done.returncode, done.stderr), (code, f"contrail: {text}\n"))

    def test_told(self):
        for words in ("mark", "trigger add symbol=a*", "trigger remove crash", "trigger list", "exclude add std::*",
                      "exclude remove std::*", "record off", "record on", "pause", "resume"):
            done = run("ctl", "4711", *words.split(" "))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"told: {words}\n", ""))
        done = run("ctl", "4711", "exclude", "add", "operator new(unsigned long)")
        self.assertEqual(done.stdout, "told: exclude add operator new(unsigned long)\n")

    def test_session_refuses(self):
        for status, code in ((-7, 64), (-15, 64), (-12, 64), (-19, 64), (-24, 69), (-6, 69)):
            done = run("ctl", "4711", "mark", session=f"refuse={status}")
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (code, "", "contrail: the session does not want that; nothing helps\n"))

    def test_wrong_words(self):
        for words, text in (("stat", "did you mean status?"), ("trigger", "trigger"),
                            ("trigger add", "usage: contrail ctl PID "
                            "trigger add TRIGGER"), ("trigger ad crash", "did you mean trigger add?"),
                            ("mark now", "usage: "
                            "contrail ctl PID mark"), ("exclude", "exclude"), ("record", "record"),
                            ("record maybe", "record")):
            done = run("ctl", "4711", *words.split(" "))
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (64, "", 1), words)
            self.assertIn(text, done.stderr)

    def test_usage(self):
        for words in (["ctl"], ["ctl", "1"], ["ctl", "1", "stat"], ["ctl", "x", "stop"], ["detach"], ["detach", "0"],
                      ["detach", "-1"], ["attach", "1", "2"], ["attach", "99999999999"]):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (64, "", 1), words)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
