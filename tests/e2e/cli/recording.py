#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""recording.py CONTRAIL SLOW_EXIT: recordings as a user makes them: spawn, attach, detach, ctl, --wait, --duration,
signals and keys, what a spawned program inherits, exit codes. What is in the traces is tested elsewhere."""

import glob
import json
import os
import select
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import driver
from driver import LIMIT, Started, run

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from recorder import read_line  # noqa: E402

CONTRAIL = driver.PROGRAM = os.path.abspath(sys.argv.pop(1))
SLOW_EXIT = os.path.abspath(sys.argv.pop(1))


def tracer_of(pid):
    with open(f"/proc/{pid}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["TracerPid"]), fields["State"].split()[0]


class InDirectory:
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.was = os.getcwd()
        os.chdir(self.dir)

    def tearDown(self):
        os.chdir(self.was)
        shutil.rmtree(self.dir)

    def manifest(self):
        """Of the process that was recorded first; they all say that the recorder finished them."""
        first = []
        for path in glob.glob("traces/session_*/pid_*/manifest.json"):
            with open(path) as file:
                manifest = json.load(file)
            self.assertTrue(manifest["complete"])
            if manifest["origin"] in ("spawn", "attach"):
                first.append(manifest)
        self.assertEqual(len(first), 1)
        shutil.rmtree("traces")
        return first[0]


    def until_so(self, what, holds):
        end = time.monotonic() + LIMIT
        while not holds():
            self.assertLess(time.monotonic(), end, "not in time: " + what)
            time.sleep(0.02)

    def until_asleep(self, pid):
        """It is through with its start, and in the call in which it waits."""
        def sleeps():
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "S"
        self.until_so(f"process {pid} sleeps", sleeps)

    def until_unrecorded(self, pid):
        self.until_so(f"process {pid} is not recorded", lambda: run("ctl", pid, "status").returncode)

    def until_it_has_events(self, pid):
        self.until_so(f"events of process {pid}",
                      lambda: json.loads(run("ctl", str(pid), "status", "--json").stdout)["events"]["written"])


class Recording(InDirectory, unittest.TestCase):
    def test_spawn(self):
        done = run("spawn", "sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual((done.returncode, done.stdout), (3, "out\n"), done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 3, done.stderr)
        self.assertRegex(lines[0],
                         r"^contrail: recording \d+ sh: [\d,]+ functions in \d+ modules \(\S+ %\), planned in \S+ \S+$")
        self.assertEqual(lines[1], "err")
        self.assertRegex(lines[2], r"^contrail: [\d,]+ events of 1 thread in .*, none lost, .* on disk; read it with: "
                                   r"contrail report \./traces/session_\d+_\d+\S*$")
        manifest = self.manifest()
        self.assertEqual(manifest["command_line"], "sh -c 'echo out; echo err >&2; exit 3'")
        self.assertEqual(manifest["end"]["exit_code"], 3)

    def test_died_of_a_signal(self):
        self.assertEqual(run("spawn", "sh", "-c", "kill -9 $$").returncode, 128 + 9)
        self.assertEqual(self.manifest()["end"]["signal"], 9)

    def test_quiet(self):
        done = run("spawn", "--quiet", "true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_exec(self):
        done = run("spawn", "sh", "-c", "exec sh -c 'sleep 0.2; echo second; exit 5'")
        self.assertEqual((done.returncode, done.stdout), (5, "second\n"), done.stderr)
        self.assertIn("processes", done.stderr)
        self.assertEqual(self.manifest()["end"]["reason"], "exec")

    def test_exec_unfollowed(self):
        started = Started("spawn", "--no-children", "sh", "-c", "exec sh -c 'read x; echo second; exit 5'",
                          stdin=subprocess.PIPE)
        started.until("now runs another program, which is not recorded")
        code, out, err = started.end()
        self.assertEqual((code, out), (5, "second\n"), err)
        self.assertEqual(self.manifest()["end"]["reason"], "exec")

    def test_slow_end_is_no_exec(self):
        for _ in range(5):
            done = run("spawn", SLOW_EXIT)
            self.assertEqual(done.returncode, 3)
            self.assertEqual(self.manifest()["end"], {"reason": "exit", "exit_code": 3})

    def test_nothing_fits(self):
        done = run("spawn", "--only", "no-such-function*", "true")
        self.assertEqual(done.returncode, 0)
        self.assertIn("nothing is recorded: no function matches --only and --exclude", done.stderr)

    def test_filters_that_fit_nothing(self):
        done = run("spawn", "--only", "libc.so*", "--only", "parse_no_*", "true")
        self.assertIn("--only 'parse_no_*' fits no function so far; it stays for libraries to come\n", done.stderr)
        self.assertEqual(done.stderr.count("fits no function"), 1)
        done = run("spawn", "--only", "no_such", "--exclude", "mallo?", "--exclude", "nor_?his", "true")
        self.assertIn("--only 'no_such', --exclude 'nor_?his' fit no function so far; they stay", done.stderr)
        done = run("spawn", "--quiet", "--exclude", "no_such", "true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_filters_that_fit_nothing_are_too_many_to_name(self):
        globs = [word for i in range(30) for word in ("--exclude", f"no_such_{i}_" + "x" * 60)]
        done = run("spawn", *globs, "true")
        (line,) = [line for line in done.stderr.splitlines() if "fit no function" in line]
        named = line.count("--exclude '")
        self.assertTrue(0 < named < 30, line)
        self.assertIn(f" and {30 - named} more fit no function so far; they stay for libraries to come", line)

    def test_startup_timeout(self):
        done = run("spawn", "--startup-timeout", "1ms", "sh", "-c", "echo ran; exit 3")
        self.assertEqual((done.returncode, done.stdout), (69, "ran\n"))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse(os.path.exists("traces"))

    def test_signals_at_any_time_of_the_start(self):
        for pause in range(0, 60, 3):
            started = Started("spawn", "sh", "-c", "sleep 0.2; echo ran; exit 3")
            time.sleep(0.01 + pause / 1000)
            started.process.send_signal(signal.SIGTERM)
            code, out, err = started.end()
            if code == -signal.SIGTERM and not out:
                continue  # a slow machine: it had not even begun
            self.assertEqual((code, out), (3, "ran\n"), err)
            if os.path.exists("traces"):
                self.manifest()

    def test_duration(self):
        started = Started("spawn", "--duration", "200ms", "sh", "-c", "read x; echo end; exit 3", stdin=subprocess.PIPE)
        started.until("recording")
        self.until_unrecorded(started.seen.split()[2].decode())
        code, out, err = started.end()
        self.assertEqual((code, out), (3, "end\n"), err)
        self.assertEqual(self.manifest()["end"]["reason"], "detach")

    def test_attach_and_signals(self):
        with driver.target("sh", "-c", "while :; do sleep 0.01; done") as target:
            self.until_asleep(target.pid)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                started = Started("attach", str(target.pid))
                started.until("recording")
                self.until_it_has_events(target.pid)
                started.process.send_signal(number)
                code, out, err = started.end()
                self.assertEqual((code, out), (0, ""), err)
                self.assertEqual(tracer_of(target.pid)[0], 0)
                self.assertGreater(self.manifest()["events"]["written"], 0)
            self.assertIsNone(target.poll())

    def test_attach_to_a_program_that_sets_its_title(self):
        """As setproctitle does: the rest of the arguments' memory is zero. That is no list of empty arguments."""
        title = """if True:
            import time
            begin, end = map(int, open("/proc/self/stat").read().rsplit(")", 1)[1].split()[45:47])
            with open("/proc/self/mem", "r+b", 0) as memory:
                memory.seek(begin)
                memory.write(b"a title".ljust(end - begin, bytes(1)))
            time.sleep(100)"""
        with driver.target(sys.executable, "-c", title) as target:
            words = b""
            while not words.startswith(b"a title\0\0"):
                self.assertIsNone(target.poll())
                with open(f"/proc/{target.pid}/cmdline", "rb") as file:
                    words = file.read()
            started = Started("attach", str(target.pid))
            started.until("recording")
            started.process.send_signal(signal.SIGINT)
            code, _, err = started.end()
            self.assertEqual(code, 0, err)
            self.assertEqual(self.manifest()["command_line"], "'a title'")

    def test_attached_process_ends(self):
        with driver.target("sleep", "100") as target:
            self.until_asleep(target.pid)
            started = Started("attach", str(target.pid))
            started.until("recording")
            target.kill()
            self.assertEqual(started.end()[0], 0)  # its parent, which is the test, has not waited for it yet
            self.assertEqual(self.manifest()["end"], {"reason": "signal", "signal": 9})

    def test_control(self):
        with driver.target("sh", "-c", "while :; do sleep 0.01; done") as target:
            self.until_asleep(target.pid)
            started = Started("attach", str(target.pid))
            started.until("recording")
            status = run("ctl", str(target.pid), "status", "--json")
            self.assertEqual(json.loads(status.stdout)["pid"], target.pid, status.stderr)
            status = run("ctl", str(target.pid), "status")
            self.assertRegex(status.stdout, rf"(?m)^pid +{target.pid}$")
            again = run("attach", str(target.pid))
            self.assertEqual((again.returncode, len(again.stderr.splitlines())), (69, 1), again.stderr)
            done = run("detach", str(target.pid))
            self.assertEqual((done.returncode, done.stdout), (0, f"process {target.pid} is no longer recorded\n"))
            self.assertEqual(started.end()[0], 0)
            self.manifest()
            self.assertEqual(run("detach", str(target.pid)).returncode, 69)

    def test_control_by_a_child(self):
        """Any process of the session leads to it: a fork, what it executes, and after the first one's end too."""
        script = "(exec sh -c 'echo $$; while :; do sleep 0.01; done') & sleep 0.1; exit 3"
        for words in (["detach"], ["ctl", "stop"]):
            started = Started("spawn", "sh", "-c", script, start_new_session=True)
            started.until("recording")
            first = int(started.seen.split()[2])
            child = read_line(started.process.stdout, "the child's process id").decode().strip()
            try:
                self.until_so(f"process {first} is gone, {child} is recorded",
                              lambda: not os.path.exists(f"/proc/{first}")
                              and not run("ctl", child, "status").returncode)
                status = json.loads(run("ctl", child, "status", "--json").stdout)
                self.assertEqual(status["pid"], first)
                self.assertGreaterEqual(status["processes"], 3)
                done = run(words[0], child, *words[1:])
                self.assertEqual((done.returncode, done.stdout), (0, f"process {child} is no longer recorded\n"),
                                 done.stderr)
                self.assertEqual(started.process.wait(LIMIT), 3)
                self.assertEqual(run("ctl", child, "status").returncode, 69)
            finally:
                os.killpg(started.process.pid, signal.SIGKILL)
                started.end()
            self.manifest()

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_control_of_another_user(self):
        started = Started("spawn", "cat", stdin=subprocess.PIPE)
        started.until("recording")
        pid = started.seen.split()[2].decode()
        for words in (["detach", pid], ["ctl", pid, "status"]):
            done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", CONTRAIL, *words],
                                  capture_output=True, text=True, cwd="/")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (77, 1), done.stderr)
        self.assertEqual(started.end()[0], 0)

    def test_control_of_a_recorder_that_ends(self):
        """It closes its socket while somebody has just asked: nobody records the process any more."""
        place = os.path.join(self.dir, "contrail")
        os.mkdir(place, 0o700)
        with driver.target("sleep", "100") as target, socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(place, f"{target.pid}.sock")
            listener.bind(path)
            listener.listen(8)

            def end():
                connection, _ = listener.accept()
                os.unlink(path)
                connection.close()

            thread = threading.Thread(target=end)
            thread.start()
            done = subprocess.run([CONTRAIL, "ctl", str(target.pid), "status"], capture_output=True, text=True,
                                  timeout=LIMIT, env=dict(os.environ, XDG_RUNTIME_DIR=self.dir))
            thread.join()
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertIn("nobody records", done.stderr)

    def test_stopped_spawn_is_waited_for(self):
        started = Started("spawn", "sh", "-c", "read x; echo end; exit 3", stdin=subprocess.PIPE)
        started.until("recording")
        pid = started.seen.split()[2].decode()
        self.assertEqual(run("ctl", pid, "stop").returncode, 0)
        code, out, _ = started.end()
        self.assertEqual((code, out), (3, "end\n"))

    def test_wait(self):
        for number, reason in ((signal.SIGUSR1, "exit"), (signal.SIGTERM, "detach")):
            started = Started("spawn", "--wait", "sh", "-c", "echo ran; exit 3", start_new_session=True)
            started.until("is hooked and stopped")
            self.assertEqual(select.select([started.process.stdout], [], [], 0.2)[0], [], "it runs")
            started.process.send_signal(number)
            code, out, err = started.end()
            self.assertEqual((code, out), (3, "ran\n"), err)
            self.assertEqual(self.manifest()["end"]["reason"], reason)

    def test_file_size_limit(self):
        words = ["sh", "-c",
                 'ulimit -f 64; exec "$0" spawn sh -c "i=0; while [ \\$i -lt 20000 ]; do i=\\$((i+1)); done; echo end"',
                 CONTRAIL]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (69, "end\n"), done.stderr)

    def test_closed_descriptors(self):
        for fd in (0, 1, 2):
            words = ["sh", "-c", f'"$@" {fd}>&-', "sh", CONTRAIL, "spawn", "sh", "-c", f"test ! -e /proc/$$/fd/{fd}"]
            done = subprocess.run(words, capture_output=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, fd)
            self.manifest()

    def inherited(self, show, **how):
        direct = subprocess.run(show, capture_output=True, text=True, **how)
        ours = subprocess.run([CONTRAIL, "spawn", *show], capture_output=True, text=True, **how)
        self.assertEqual(ours.stdout, direct.stdout, ours.stderr)
        self.assertEqual(ours.returncode, direct.returncode)

    def test_inherited_signals(self):
        def ignore():
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ,
                           signal.SIGCHLD):
                signal.signal(number, signal.SIG_IGN)

        def block():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGUSR2})

        show = ["grep", "^Sig\\(Blk\\|Ign\\|Cgt\\|Pnd\\)", "/proc/self/status"]
        for prepare in (lambda: None, ignore, block):
            self.inherited(show, preexec_fn=prepare, restore_signals=False)

    def test_inherited_surroundings(self):
        self.inherited(["sh", "-c",
                        "umask; pwd; ulimit -a; ls -l /proc/self/fd | wc -l; grep -e NoNewPrivs -e Seccomp: -e "
                                    "TracerPid -e Cap /proc/self/status; cat /proc/self/oom_score_adj"])
        self.inherited(["env", "-u", "_"])


class Demo(InDirectory, unittest.TestCase):
    def test_demo(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/demo.sh")
        done = subprocess.run([script, CONTRAIL], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ 4 that$|more lines")
        self.assertRegex(done.stdout, r"(?m)^ +286 .* insert \[tour\]$")
        self.assertRegex(done.stdout, r"(?m)^ .* tour/\d+ +main \{$")
        self.manifest()


class Terminal(InDirectory, driver.TerminalTest):
    def test_first_key_is_the_programs(self):
        self.start("spawn", "bash", "-c", f"trap 'echo caught' INT; echo ready; {driver.UNTIL_TOLD}; exit 3")
        self.until("ready")
        self.press(b"\x03")
        self.until("caught")
        self.assertEqual(self.end(b"\n"), 3)
        self.assertEqual(self.manifest()["end"]["reason"], "exit")

    def test_second_key_detaches(self):
        self.start("spawn", "bash", "-c", f"trap 'echo caught' INT; echo ready; {driver.UNTIL_TOLD}; exit 3")
        self.until("ready")
        self.press(b"\x03")
        self.until("caught")
        pid = re.search(r"recording (\d+)", self.seen)[1]
        self.press_until(b"\x03", lambda: run("ctl", pid, "status").returncode)
        self.assertEqual(self.end(b"\n"), 3)
        self.assertEqual(self.manifest()["end"]["reason"], "detach")

    def test_key_ends_the_program(self):
        self.start("spawn", "bash", "-c", f"echo ready; {driver.UNTIL_TOLD}")
        self.until("ready")
        self.press(b"\x03")
        self.assertEqual(self.end(), 128 + signal.SIGINT)
        self.assertEqual(self.manifest()["end"]["signal"], signal.SIGINT)

    def test_wait_for_enter(self):
        self.start("spawn", "--wait", "echo", "ran")
        self.until("press Enter")
        self.press(b"\n")
        self.until("ran\r\n")
        self.assertEqual(self.end(), 0)

    def test_live_line(self):
        self.start("spawn", "sh", "-c", "read x", stdout="/dev/null")
        self.until(r"\rcontrail: [^\r]* events/s, [^\r]* events, 0 lost, capturing, [^\r]* back, [0-9]")
        self.press(b"\n")
        self.assertEqual(self.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
