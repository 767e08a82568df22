#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""loop.py: attaches to a busy program and lets it go again, 100 times. It must come to the right answer, see no EINTR,
and be byte for byte as it was. The same with a program in which threads, children, signals and stacks come and go."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import atf
import run
from checks import Checks
from recorder import Failure, descriptors, finish, read_line, text_changes


def loop(shop, program, times):
    process = shop.start([program.path], stdin=subprocess.PIPE)
    read_line(process.stdout, "the program has begun")
    before = descriptors(process.pid)
    events = 0
    for i in range(times):
        output = shop.new_output()
        recorder = shop.attach(process.pid, output)
        time.sleep(random.random() * 0.02)
        shop.detach(process.pid, recorder)
        trace = atf.first(output)
        if not trace:
            raise Failure("round %d: no trace" % i)
        if i % 10 == 0:
            for each in atf.find(output):
                shop.read("verify", each)
            events += atf.recorded_events(trace)
        shutil.rmtree(output)
        changes = text_changes(process.pid)
        if changes:
            raise Failure("round %d: %s" % (i, changes[0]))
        if process.poll() is not None:
            raise Failure("round %d: the program ended: %r" % (i, process.communicate()))
    if descriptors(process.pid) != before:
        raise Failure("descriptors became %s, were %s" % (descriptors(process.pid), before))
    with open("/proc/%d/maps" % process.pid) as f:
        mappings = len(f.readlines())
    process.stdin.close()
    process.stdin = None
    result = finish(process)
    if (result.code, result.out, result.err) != (0, b"right\n", b""):
        raise Failure("the program says %d %r %r" % (result.code, result.out, result.err))
    return "%d times, %d events in every tenth, %d mappings at the end" % (times, events, mappings)


def storm(shop, name, program, times, source):
    """Attaches to a hazard program at any moment and lets it go at any other; it checks itself."""
    recorded = 0
    for i in range(times):
        process, output = shop.start([program.path]), shop.new_output()
        time.sleep(source.random() * 0.1)
        recorder = shop.start([shop.contrail, "attach", "--quiet", "--output", output, str(process.pid)])
        time.sleep(source.random() * 0.4)
        recorder.send_signal(signal.SIGINT)
        ended = finish(recorder, what="contrail")
        result = finish(process)
        if result.code != 0 or b"passed" not in result.out:
            raise Failure("%s, attempt %d: it ends with %d: %r; contrail with %d: %r" % (
                name, i, result.code, result.out + result.err, ended.code, ended.err))
        for trace in atf.find(output):
            recorded += 1
            shop.read("verify", trace)
        shutil.rmtree(output, ignore_errors=True)
    return "%d times, %d of them recorded" % (times, recorded)


def main():
    def options(parser):
        parser.add_argument("--times", type=int, default=100)
        parser.add_argument("--seed", type=int, default=int(time.time()))
    checks = Checks(__doc__, options)
    if os.environ.get("CONTRAIL_TEST_EMULATED"):  # an emulated processor takes minutes for 25 times
        checks.arguments.times = min(checks.arguments.times, 10)
    print("seed %d" % checks.arguments.seed)
    busy, churn = checks.program("busy"), checks.program("churn")
    checks.run("busy", lambda shop: loop(shop, busy, checks.arguments.times))
    source = random.Random(checks.arguments.seed)
    for name in ("signals", "threads", "fork", "interrupted_calls", "migration", "stress"):
        program = run.build_injected(name, "O2", checks.directory("injected_" + name, "O2"))
        checks.run(name, lambda shop: storm(shop, name, program, max(1, checks.arguments.times // 25), source))
    checks.run("churn", lambda shop: loop(shop, churn, checks.arguments.times // 4))
    throwing = checks.program("leaves_throwing", suffix=".cc")
    checks.run("throwing", lambda shop: loop(shop, throwing, checks.arguments.times // 10))
    return checks.verdict()


if __name__ == "__main__":
    sys.exit(main())
