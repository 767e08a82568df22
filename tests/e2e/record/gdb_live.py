#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb_live.py: gdb shows the stack of a live process that is recorded, with the script that comes with Contrail.

The names of all its functions are there, in their order. The process goes on afterwards, and ends as without gdb."""
import os
import shutil
import subprocess
import sys

import atf
import building
import targets
from recorder import Failure, finish, read_line
from targets import built

SCRIPT = os.path.join(building.E2E, "..", "..", "scripts", "gdb", "contrail.py")
CHAIN = ["wait_here", "third", "second", "first"]


def frames_of(pid):
    """The program's own functions that gdb shows, the innermost first."""
    command = ["gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "source " + SCRIPT, "-ex", "bt",
               "-p", str(pid)]
    text = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    frames = [line.split(" in ")[-1].split()[0] for line in text.splitlines() if line.startswith("#")]
    return [f for f in frames if f in CHAIN + ["main"]], text


def expect_frames(pid, expected, when):
    frames, text = frames_of(pid)
    if frames != expected:
        raise Failure("%s gdb shows %s:\n%s" % (when, frames, text))


def go_on(process):
    process.stdin.write(b"q")
    process.stdin.flush()


def pid_of(process):
    return int(read_line(process.stdout, "the program waits"))


def expect_end(process, code, what):
    go_on(process)
    result = finish(process, what=what)
    if result.code != code or result.err:
        raise Failure("%s: it ends with %d: %r" % (what, result.code, result.err))


def may_attach():
    """Yama lets ordinary users debug their own children only."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as f:
            return f.read().strip() == "0" or os.getuid() == 0
    except OSError:
        return True


def needs_gdb(check):
    return lambda shop: check(shop) if shutil.which("gdb") and may_attach() else "skipped: needs gdb, and its rights"


def spawned(shop):
    output = shop.new_output()
    process = shop.start(shop.spawn_command(output, ["--lossless"], [built("waits").path, "0"]), stdin=subprocess.PIPE)
    expect_frames(pid_of(process), CHAIN + ["main"], "spawned:")
    expect_end(process, 4, "spawned")
    shop.read("verify", atf.find(output)[0])


def attached(shop):
    """The frames of the first chain are older than the recorder, those of the second are recorded."""
    output = shop.new_output()
    process = shop.start([built("waits").path, "1"], stdin=subprocess.PIPE)
    pid = pid_of(process)
    recorder = shop.attach(pid, output, ["--lossless"])
    go_on(process)
    pid_of(process)
    expect_frames(pid, CHAIN + CHAIN[1:] + ["main"], "attached:")
    expect_end(process, 8, "attached")
    finish(recorder, what="contrail attach")
    shop.read("verify", atf.find(output)[0])


TABLE = {"spawned": needs_gdb(spawned), "attached": needs_gdb(attached)}


if __name__ == "__main__":
    sys.exit(targets.run_table(__doc__, TABLE))
