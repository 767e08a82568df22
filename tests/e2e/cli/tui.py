#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tui.py CONTRAIL PROGRAM ODD_NAMES: `contrail tui` in a terminal of tmux, on a recorded trace: its views, and the ways
from one to the other. What the screen shows is compared with `report` and `query`. Where sshd is installed (Debian:
openssh-server; no list of packages asks for it, since it would listen on the machine) also through ssh."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import driver
import terminal

driver.PROGRAM = os.path.abspath(sys.argv.pop(1))
SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
PROGRAM = os.path.abspath(sys.argv.pop(1))
ODD_NAMES = os.path.abspath(sys.argv.pop(1))


class Recorded:
    """One trace for all tests."""


def record(program):
    place = os.path.join(Recorded.dir.name, os.path.basename(program))
    result = driver.run("spawn", "--lossless", "--only", os.path.basename(program), "-o", place, program)
    assert result.returncode == 0, result.stderr
    (session,) = os.listdir(place)
    return os.path.join(place, session)


def setUpModule():
    Recorded.dir = tempfile.TemporaryDirectory()
    os.chmod(Recorded.dir.name, 0o755)
    Recorded.trace = record(PROGRAM)
    Recorded.odd = record(ODD_NAMES)


def tearDownModule():
    Recorded.dir.cleanup()


def rows(sql):
    return json.loads(driver.run("query", "--json", Recorded.trace, sql).stdout)


class Words(unittest.TestCase):
    def test_needs_a_terminal(self):
        result = driver.run("tui", Recorded.trace)
        self.assertEqual(result.returncode, 64)
        self.assertIn("tui needs a terminal", result.stderr)


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed")
class Screen(unittest.TestCase):
    def setUp(self):
        self.terminal = terminal.Terminal()
        self.addCleanup(self.terminal.close)
        self.see, self.press = self.terminal.see, self.terminal.press

    def start(self, *words, trace=None, before=""):
        self.terminal.start(" ".join([before, driver.PROGRAM, "tui", *words, trace or Recorded.trace]))

    def leave(self):
        self.press("q")
        self.assertEqual(self.terminal.exit_code(), 0)

    def test_from_a_function_to_its_call(self):
        report = json.loads(driver.run("report", "--json", Recorded.trace).stdout)["functions"]
        (call,) = rows("SELECT id, start FROM calls WHERE function = 'seldom'")
        self.start()
        self.see(*[rf"^ *{row['calls']} .* {row['name']} \[" for row in report])
        self.press("/", "seldom", "Enter")
        screen = self.see(r"FUNCTION \(1, by total\)", "/seldom")
        self.assertNotIn("some_steps", screen)
        self.press("Enter")
        callers = rows("SELECT caller, callee FROM edges WHERE 'seldom' IN (caller, callee)")
        self.see("callees.*of seldom", *[rf"<- {row['caller']}" if row["callee"] == "seldom" else rf"-> {row['callee']}"
                                         for row in callers])
        self.press("1")
        self.see(r"FUNCTION \(1, by total\)")
        self.press("c")
        moment = f"{call['start'] // 10**9}\\.{call['start'] % 10**9:09}"
        around = [row["function"] for row in rows(f"SELECT function FROM callers({call['id']}) ORDER BY level")]
        self.see(rf"{moment} .* \+ seldom", *[rf"- {name}" for name in around[1:]])
        self.press("Right")
        self.see(r"- seldom\n.* \+ step")
        self.press("Left")
        self.see(rf"{moment} .* \+ seldom")
        self.press("t")
        self.see("^at .*:", *[rf"^  {name} \(since" for name in around[1:]])
        self.press("Enter")
        self.see("START .*DURATION", "thread 1: ")
        self.leave()

    def test_the_tree_folds_and_finds(self):
        self.start()
        self.press("3")
        self.see(r"\+ thread 1: ")
        self.press("Enter")
        self.see(r"\+ main")
        outermost = [row["function"] for row in rows("SELECT function FROM calls WHERE depth = 0 ORDER BY id")]
        self.press(*["Down"] * (outermost.index("main") + 1), "Enter")
        self.see(r"- main\n.*\+ some_steps")
        self.press("G")
        self.see(r"\.\.\. later calls")
        self.press("Home", "/", "seldom", "Enter")
        self.see(r"\+ seldom")
        self.press("n")
        self.see(r"no later call of \*seldom\*")
        self.press("Home", "Enter")
        screen = self.see(r"\+ thread 1: ")
        self.assertNotIn("main", screen)
        self.leave()

    def test_moments_and_timeline(self):
        (end,) = rows("SELECT stop FROM processes")
        self.start()
        self.press("5")
        self.see(r"^ *0\.000000000  begin", rf"{end['stop'] % 10**9:09}  end .*exit 0")
        self.press("Enter")
        self.see("^THREAD", r"^at 0\.0.* of 0\.000000000 to ")
        self.press("+")
        screen = self.see(r"^at 0\.0")
        self.press("-", "-", "-")
        self.see(rf"to {end['stop'] // 10**9}\.{end['stop'] % 10**9:09}:")
        self.assertIn("first letter", screen)
        self.leave()

    def test_words_of_the_selection(self):
        self.start("--function", "seld*")
        screen = self.see(r"FUNCTION \(1, by total\)", r"seldom \[")
        self.assertNotIn("some_steps", screen)
        self.press("s")
        self.see(r"FUNCTION \(1, by self\)")
        self.leave()

    def test_names_that_are_long_or_odd(self):
        self.start(trace=Recorded.odd)
        self.see("long_long", r"odd::operator\[\]\(int\) \[")
        self.press("/", "main", "Enter")
        self.see(r"FUNCTION \(1, by total\)")
        self.press("2")  # of the function that is chosen in the first view
        self.see(r"callees.* of main", "-> long_long")
        self.press("Down", "Enter")
        self.see(r"callees.* of long_", "<- main", "-> long_")
        self.press("Down", "c")
        self.see(r"- main\n(.*earlier calls\n)?.*- long_.*\n.*\+ long_")
        self.press("Home", "/")
        self.press("operator[", "Enter")
        self.see(r"\+ odd::operator")
        self.leave()

    def test_terminals_of_any_size(self):
        self.start()
        self.see("some_steps")
        for width in 60, 40, 140:
            self.terminal.resize(width, 16)
            head = " 1 functions   2 callers   3 calls   4 timeline "[:width].rstrip()
            screen = self.see(f"^{head}", "TOTAL .*FUNCTION", "some_step")
            self.assertLessEqual(max(map(len, screen.splitlines())), width)
        self.press("4")
        self.see("^THREAD", r"^at 0\.0")
        self.terminal.resize(30, 6)
        self.press("3")
        self.see("DURATION CALL")
        self.terminal.resize(100, 24)
        self.see(r"\+ thread 1: ")
        self.leave()

    def test_colours(self):
        for before, coloured in ("env -u NO_COLOR", True), ("env NO_COLOR=1", False):
            self.start(before=before)
            self.press("4")
            self.see("^THREAD", r"^cli_many_calls +[.a-z]")
            screen = self.terminal.tmux("capture-pane", "-p", "-e")
            self.assertEqual(bool(re.search("\x1b\\[[0-9;]*3[1-6]m", screen)), coloured, before)
            self.leave()
            self.terminal.close()
            self.setUp()

    @unittest.skipUnless(all(shutil.which(name) for name in ("ssh", "ssh-keygen")) and SSHD, "no sshd is installed")
    def test_over_ssh(self):
        with ssh_server() as words:
            line = " ".join([*words, "TERM=screen", driver.PROGRAM, "tui", Recorded.trace])
            self.terminal.start(line)
            self.see(r"FUNCTION \(\d+, by total\)", "some_steps")
            self.press("4")
            self.see("^THREAD", r"^at 0\.0.* of 0\.000000000 to ")
            self.press("3", "Enter")
            self.see(r"- thread 1: .*\n.*\+ ")
            self.leave()


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed")
class Leaving(unittest.TestCase):
    def test_nothing_stays_of_a_killed_test(self):
        """Neither tmux nor what runs in it."""
        code = ("import time, terminal\nt = terminal.Terminal()\nt.start('echo $$; exec sleep 1000')\n"
                "print(t.server.pid, t.see('^[0-9]+').split()[0], flush=True)\ntime.sleep(1000)")
        test = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                                cwd=os.path.dirname(os.path.abspath(__file__)))
        pids = [int(word) for word in test.stdout.readline().split()]
        self.assertEqual(len(pids), 2)
        test.kill()
        test.communicate()
        end = time.monotonic() + driver.LIMIT
        while any(is_running(pid) for pid in pids):
            self.assertLess(time.monotonic(), end, "tmux goes on")
            time.sleep(0.05)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def ssh_server():
    """An sshd on the loopback that knows one key; gives the words that run a command through it."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o700)
        path = lambda name: os.path.join(place, name)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(name)], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with open(path("config"), "w", encoding="ascii") as file:
            file.write(f"ListenAddress 127.0.0.1:{port}\nHostKey {path('host')}\n"
                       f"AuthorizedKeysFile {path('user')}.pub\nPidFile none\n"
                       f"UsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n")
        if os.getuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        server = subprocess.Popen([SSHD, "-D", "-f", path("config")], preexec_fn=terminal.die_with_parent,
                                  stderr=subprocess.DEVNULL)
        try:
            wait_for_port(port)
            yield ["ssh", "-F", "none", "-q", "-t", "-i", path("user"), "-p", str(port), "-o",
                   "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes",
                   "127.0.0.1"]
        finally:
            server.kill()
            server.wait()


def wait_for_port(port):
    end = time.monotonic() + driver.LIMIT
    while True:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        assert time.monotonic() < end, "sshd did not start"
        time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
