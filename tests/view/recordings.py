# SPDX-License-Identifier: Apache-2.0
"""Checks of view.py: recordings that go on while they are looked at."""
import http.client
import json
import os
import shutil
import signal
import subprocess
import time

from checking import cells_of, check, rows
from served import PATIENCE, Served


def events_of(stream):
    """Server-sent events as (name, JSON)."""
    name = None
    for line in stream:
        line = line.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


@check
def live(contrail, traces):
    """A process that is recorded is followed, controlled, and complete when it has ended."""
    directory = traces["whole"].parent.parent / "live"
    recorder = subprocess.Popen([contrail, "spawn", "--quiet", "--only", "grows", "--output", directory, "--",
                                 traces["grows"]], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while not list(directory.glob("session_*/pid_*/manifest.json")):
        assert recorder.poll() is None
        time.sleep(0.02)
    pid = int(next(directory.glob("session_*/pid_*")).name.split("_")[1])
    while subprocess.run([contrail, "ctl", str(pid), "status"], capture_output=True, check=False).returncode:
        assert recorder.poll() is None
        time.sleep(0.05)
    with Served(contrail, str(next(directory.glob("session_*")))) as served:
        assert served.ask("traces")["traces"][0]["live"] is True
    with Served(contrail, str(pid)) as served:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        connection.request("GET", "/api/live", headers={"Authorization": f"Bearer {served.token}"})
        told = events_of(connection.getresponse())
        first = next(told)[1]
        second = next(status for _, status in told if status["events"] > first["events"] + 20000)
        assert second["live"] and second["end"] > first["end"] and second["generation"] > first["generation"]
        info = served.ask("info")
        assert info["live"] and info["control"] and info["events"] >= second["events"]
        cells = list(cells_of(served, threads=1, width=200, from_=max(0, info["end"] - 50000000), to=info["end"]))
        assert {"main", "work", "leaf"} <= {cell[2] for _, _, cell in cells}, cells
        assert served.post("ctl", command="mark label=here")["ok"] is True
        assert served.post("ctl", command="mark no such")["ok"] is False
        assert served.request("/api/ctl", "POST", b'{"command": "stop"}')[0] == 400
        recorder.stdin.close()
        recorder.wait(PATIENCE)
        last = [status for name, status in told if name == "status"][-1]
        assert not last["live"]
        connection.close()
        info = served.ask("info")
        total = rows(contrail, next(directory.glob("session_*")), "SELECT count(*) AS calls FROM calls")[0]["calls"]
        assert info["events"] == last["events"] and abs(2 * total - info["events"]) <= 4 and not info["live"]
        assert sum(cell[4] for _, _, cell in cells_of(served, threads=1, width=500)) == total


@check
def a_copy_of_a_recording(contrail, traces):
    """What is written by nobody is not live, though its process is recorded elsewhere: buttons would act on that."""
    directory = traces["whole"].parent.parent / "copied"
    recorder = subprocess.Popen([contrail, "spawn", "--quiet", "--only", "grows", "--output", directory / "own", "--",
                                 traces["grows"]], stdin=subprocess.PIPE)
    while not list((directory / "own").glob("session_*/pid_*/thread_*/*")):
        assert recorder.poll() is None
        time.sleep(0.02)
    session = next((directory / "own").glob("session_*"))
    pid = int(next(session.glob("pid_*")).name.split("_")[1])
    while subprocess.run([contrail, "ctl", str(pid), "status"], capture_output=True, check=False).returncode:
        assert recorder.poll() is None
        time.sleep(0.05)
    shutil.copytree(session, directory / "copy")
    for trace, live in (directory / "copy", False), (session, True):
        with Served(contrail, trace) as served:
            assert served.ask("info")["live"] is live, trace
            status, _, _ = served.request("/api/ctl", "POST", b'{"command": "mark"}')
            assert status == (200 if live else 409), (trace, status)
    recorder.stdin.close()
    recorder.wait(PATIENCE)


@check
def losses_in_what_was_deleted(contrail, traces):
    """When a loss was whose events --keep has deleted, nobody knows: it is in the sum, not at the start."""
    directory = traces["whole"].parent.parent / "kept"
    recorder = subprocess.Popen([contrail, "spawn", "--quiet", "--only", "grows", "--output", directory,
                                 "--wait-ms", "0", "--index-mem", "1M", "--keep", "1M", "--", traces["grows"]],
                                stdin=subprocess.PIPE)
    while not list(directory.glob("session_*/pid_*/thread_*/*")):
        assert recorder.poll() is None
        time.sleep(0.02)
    os.kill(recorder.pid, signal.SIGSTOP)  # nobody writes: the memory is full soon
    time.sleep(1)
    os.kill(recorder.pid, signal.SIGCONT)
    session = next(directory.glob("session_*"))
    untimed = "SELECT count(*) AS n FROM losses WHERE time IS NULL"
    while not rows(contrail, session, untimed)[0]["n"]:
        assert recorder.poll() is None
        time.sleep(0.1)
    recorder.stdin.close()
    recorder.wait(PATIENCE)
    with Served(contrail, session) as served:
        info = served.ask("info")
        timed = rows(contrail, session, "SELECT count(*) AS n FROM losses WHERE time IS NOT NULL")[0]["n"]
        assert len(info["losses"]) == timed and info["lost"] > sum(loss["events"] for loss in info["losses"]), info
