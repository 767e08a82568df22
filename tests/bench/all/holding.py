# SPDX-License-Identifier: Apache-2.0
"""What holds under load: the drain's speed, events that are kept on busy processors, and the budget."""
import json
import os
import re
import shutil
import socket
import subprocess
import time

import measure


def drain(bench):
    bench.begin("drain", "one drain thread, a producer that is always faster, events all in")
    found = {}
    for _ in range(max(1, bench.rounds // 3)):  # each run has the best of five
        name = None
        for line in bench.output([bench.bench_program("bench_drain")]).splitlines():
            if line and line[0].isalpha():
                name = line.strip()
            speed = re.match(r"\s+all, sustained\s+[\d.]+ ns\s+([\d.]+) M events/s", line)
            if speed:
                found.setdefault(name, []).append(float(speed[1]))
    for name, values in found.items():
        bench.figure(name, "M/s", values, 75, more=True)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def wait_for_redis(port):
    deadline = time.monotonic() + 30
    while subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True).returncode:
        if time.monotonic() > deadline:
            raise measure.Unavailable("redis-server does not answer")
        time.sleep(0.05)


def redis_kept(bench):
    """Percent of the events of a redis-server that redis-benchmark keeps busy."""
    for program in "redis-server", "redis-cli", "redis-benchmark":
        if not shutil.which(program):
            raise measure.Unavailable("%s is not installed" % program)
    place, port = bench.trace_place(), free_port()
    server = subprocess.Popen([bench.tool, "spawn", "--quiet", "--output", place, "--", "redis-server", "--port", port,
                               "--save", "", "--appendonly", "no", "--dir", bench.directory], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=bench.environment())
    try:
        wait_for_redis(port)
        end = time.monotonic() + max(1, 5 * bench.scale)
        while time.monotonic() < end:
            bench.output(["redis-benchmark", "-p", port, "-q", "-P", "16", "-c", "20", "-t", "set,get", "-n", "50000"])
    finally:
        subprocess.run(["redis-cli", "-p", port, "shutdown", "nosave"], capture_output=True)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
    return measure.kept_percent(measure.read_manifest(place))


def threads_kept(bench):
    command = [bench.bench_program("record_work"), "busy", "4", "%d" % max(1e6, 10e6 * bench.scale)]
    return measure.kept_percent(bench.recorded(command, "--only", "record_work", "--detail", "off")[1])


def busy(bench):
    bench.begin("busy", "more to do than processors: events that are kept, with default settings")
    found = bench.in_turns({"redis under redis-benchmark": lambda: redis_kept(bench),
                            "four threads that call all the time": lambda: threads_kept(bench)})
    for name, values in found.items():
        if values:
            bench.figure(name, "%", values, 100 if name.startswith("redis") else None, more=True)


def budget(bench):
    """CPU time for equal work with a budget of 10 %, beside none (bench_budget). Cost may be 2 points more."""
    seconds = max(1.5, 10 * bench.scale)
    bench.begin("budget", "CPU time for equal work with --budget 10%%, beyond native; runs of %.2g s" % seconds)
    place = os.path.join(bench.directory, "budget.json")
    for program in "lua", "sqlite", "python3", "redis", "cxx":
        try:
            bench.output([bench.bench_program("bench_budget"), "--seconds", "%g" % seconds, "--rounds",
                          str(bench.rounds), "--json", place, program], timeout=900)
        except measure.Unavailable as why:
            bench.leave_out(program, why)
            continue
        with open(place, encoding="utf-8") as file:
            rows = json.load(file)
        if rows:
            bench.figure("%s, median of %d" % (program, bench.rounds), "%", [100 * rows[0]["cost"]], 12)
        else:
            bench.leave_out(program, "it is not installed")
