#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs inside the arm64 guest, as its first process; scripts/arm64_guest.py starts the guest and speaks to it.

Each line of the console that it is sent is a request: the number of a test in job.json, beside this project, or `end`.
It answers a line `@@result NUMBER JSON` for each, and `@@ready` when it begins. Other lines of the console are what a
command (of job.json) writes.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import termios
import time
import traceback
import tty

OUTPUT_LIMIT = 400_000
MOUNTS = [("proc", "/proc", "proc"), ("sys", "/sys", "sysfs"), ("dev", "/dev", "devtmpfs"),
          ("pts", "/dev/pts", "devpts"), ("shm", "/dev/shm", "tmpfs"), ("tmp", "/tmp", "tmpfs"),
          ("run", "/run", "tmpfs"), ("cgroup", "/sys/fs/cgroup", "cgroup2")]
project = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def mount_all():
    libc = ctypes.CDLL(None, use_errno=True)
    for name, place, kind in MOUNTS:
        os.makedirs(place, exist_ok=True)
        libc.mount(name.encode(), place.encode(), kind.encode(), 0, None)
    os.chmod("/tmp", 0o1777)
    os.chmod("/run", 0o755)
    if not os.path.isdir(project):  # it is below /tmp: the disk again
        os.makedirs(project)
        libc.mount(b"/dev/vdb", project.encode(), b"ext4", 0, None)
    for name, target in ("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"):
        if not os.path.exists("/dev/" + name):
            os.symlink(target, "/dev/" + name)
    subprocess.run(["busybox", "ip", "link", "set", "lo", "up"], check=False)
    subprocess.run(["busybox", "hostname", "guest"], check=False)
    # cores in the way of a test fill the memory
    with open("/proc/sys/kernel/core_pattern", "w", encoding="ascii") as pattern:
        pattern.write("/dev/null")


def of_this_machine(command):
    """The command, with the guest's interpreters in the place of those that meson found."""
    name = os.path.basename(command[0])
    return [name if name in ("python3", "sh", "bash") else command[0]] + command[1:]


def run_test(test, tree):
    """What `meson test` writes into its log about the test."""
    environment = dict(os.environ, MALLOC_PERTURB_="0", **test["env"])
    path = "/tmp/output"
    started = time.monotonic()
    with open(path, "wb") as output:
        process = subprocess.Popen(of_this_machine(test["cmd"]), cwd=test["workdir"] or tree, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            code = process.wait(test["timeout"])
            result = {0: "OK", 77: "SKIP"}.get(code, "FAIL")
        except subprocess.TimeoutExpired:
            result = "TIMEOUT"
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    with open(path, "rb") as output:
        text = output.read()
    if process.returncode < 0:
        text += f"\nended by signal {-process.returncode}\n".encode()
    if len(text) > OUTPUT_LIMIT:
        text = text[:OUTPUT_LIMIT // 2] + b"\n[...]\n" + text[-OUTPUT_LIMIT // 2:]
    return {"name": test["name"], "stdout": text.decode(errors="replace"), "result": result,
            "duration": time.monotonic() - started}


def serve(console):
    with open(project + "/job.json", encoding="utf-8") as file:
        job = json.load(file)
    os.environ.update(job["environment"])
    os.chdir(project)
    if job["command"]:
        code = subprocess.run(job["command"], stdin=subprocess.DEVNULL, check=False).returncode
        print(f"\n@@result 0 {json.dumps({'code': code})}", flush=True)
        return
    print("\n@@ready", flush=True)
    for line in console:
        if line.strip() == "end":
            return
        result = run_test(job["tests"][int(line)], job["tree"])
        print(f"\n@@result {int(line)} {json.dumps(result)}", flush=True)


def main():
    os.environ.update(PATH="/usr/bin:/usr/sbin", HOME="/root", LANG="C.UTF-8", TERM="dumb", USER="root",
                      CONTRAIL_TEST_EMULATED="1")
    mount_all()
    descriptor = os.open("/dev/ttyAMA0", os.O_RDWR)  # of this session: programs find a terminal
    tty.setraw(descriptor, termios.TCSANOW)
    for number in range(3):
        os.dup2(descriptor, number)
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            serve(os.fdopen(0, encoding="ascii"))
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)
    while os.wait()[0] != child:  # the first process also gets those that lost their parents
        pass
    termios.tcdrain(1)
    subprocess.run(["busybox", "poweroff", "-f"], check=False)


if __name__ == "__main__":
    main()
