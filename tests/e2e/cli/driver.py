# SPDX-License-Identifier: Apache-2.0
"""Runs the command line tool for the tests in this folder. PROGRAM is set by the test."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest

PROGRAM = ""

# For bash: goes on until Enter is pressed, and looks for signals that have come.
UNTIL_TOLD = "while ! read -t 0.2 x; do :; done"

# Whoever runs the tests may ignore these (nohup, a job in the background), and contrail keeps what is ignored.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

LIMIT = 200  # seconds until something that should come is given up


def run(*words, session="", limit=LIMIT, **how):
    env = dict(os.environ, FAKE_SESSION=session)
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=limit, env=env, **how)


@contextlib.contextmanager
def target(*words):
    """A process to attach to; killed at the end, whatever happened."""
    process = subprocess.Popen(words)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Started:
    """A contrail that runs on; `until` waits for a line of its stderr."""

    def __init__(self, *words, session="", **how):
        env = dict(os.environ, FAKE_SESSION=session)
        self.process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                                        **how)
        self.seen = b""

    def until(self, text):
        end = time.monotonic() + LIMIT
        while text.encode() not in self.seen:
            ready, _, _ = select.select([self.process.stderr], [], [], max(0, end - time.monotonic()))
            more = os.read(self.process.stderr.fileno(), 65536) if ready else b""
            if not more:
                raise AssertionError(f"{text!r} did not come, only {self.seen.decode()!r}")
            self.seen += more

    def end(self):
        """Also the end of its input, if that is a pipe."""
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, out.decode(), (self.seen + err).decode()


class TerminalTest(unittest.TestCase):
    """Our own terminal, so that keys make signals."""

    def start(self, *words, session="", stdout=None, term="xterm"):
        pid, self.fd = pty.fork()
        if not pid:
            os.environ.update(FAKE_SESSION=session, TERM=term)
            if stdout:
                os.dup2(os.open(stdout, os.O_WRONLY), 1)
            os.execv(PROGRAM, [PROGRAM, *words])
        self.pid, self.seen = pid, ""

    def until(self, text, limit=LIMIT):
        end = time.monotonic() + limit
        while not re.search(text, self.seen):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            try:
                more = os.read(self.fd, 65536) if ready else b""
            except OSError:
                more = b""
            if not more:
                raise AssertionError(f"{text!r} did not come, only {self.seen[-2000:]!r}")
            self.seen += more.decode()

    def press(self, key):
        os.write(self.fd, key)

    def press_until(self, key, holds):
        """Again and again: two signals that come at once are one."""
        end = time.monotonic() + LIMIT
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"no key helped, only {self.seen[-2000:]!r} came")
            self.press(key)
            time.sleep(0.3)
            with contextlib.suppress(OSError):  # all have closed it
                while select.select([self.fd], [], [], 0)[0]:
                    self.seen += os.read(self.fd, 65536).decode()

    def is_over(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self, key=None):
        """`key` makes it end. bash throws a line away that it reads when its time is over, and it is when bash was held
        up."""
        if key:
            self.press_until(key, self.is_over)
        self.until_closed()
        if not self.is_over():
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)

    def until_closed(self):
        try:
            self.until("never to come")
        except AssertionError:
            pass
