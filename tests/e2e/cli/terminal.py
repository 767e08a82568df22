# SPDX-License-Identifier: Apache-2.0
"""A terminal of tmux, for programs that need one. It ends with the test, however that ends: its server is a child of
ours that the kernel kills when we die."""

import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time

PR_SET_PDEATHSIG = 1
PRCTL = ctypes.CDLL(None).prctl  # found before the fork
LIMIT = 200  # seconds until something that should come is given up


def die_with_parent():
    PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)


class Terminal:
    def __init__(self):
        self.place = tempfile.TemporaryDirectory()
        self.socket = os.path.join(self.place.name, "socket")
        self.code = os.path.join(self.place.name, "code")
        self.server = subprocess.Popen(["tmux", "-D", "-S", self.socket, "-f", "/dev/null"],
                                       preexec_fn=die_with_parent)  # pylint: disable=subprocess-popen-preexec-fn
        self.wait_for(lambda: os.path.exists(self.socket), "tmux did not start")

    def close(self):
        self.tmux("kill-server", check=False)
        self.server.kill()
        self.server.wait()
        self.place.cleanup()

    def wait_for(self, ready, complaint):
        end = time.monotonic() + LIMIT
        while not ready():
            assert time.monotonic() < end, complaint
            time.sleep(0.05)

    def tmux(self, *words, check=True):
        done = subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True, timeout=LIMIT,
                              check=check)
        return done.stdout

    def start(self, line):
        """Runs a line of the shell; its exit code is kept."""
        self.tmux("new-session", "-d", "-x", "120", "-y", "30", f"LC_ALL=C.UTF-8 {line}; echo $? > {self.code}")

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def see(self, *patterns):
        """The screen, once it has all of this."""
        end = time.monotonic() + LIMIT
        while True:
            screen = self.tmux("capture-pane", "-p")
            if all(re.search(pattern, screen, re.M) for pattern in patterns):
                return screen
            assert time.monotonic() < end, f"{patterns} did not come:\n{screen}"
            time.sleep(0.05)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def exit_code(self):
        self.wait_for(lambda: os.path.exists(self.code) and os.path.getsize(self.code), "it did not end")
        with open(self.code, encoding="ascii") as file:
            return int(file.read())
