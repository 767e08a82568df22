#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fast_clock.py: times with --clock fast are late by no more than the manifest says, also after waits, and never early;
the order of calls is exact; commands that show times say so."""
import os
import sys

import atf
from checks import Checks
from recorder import Failure
from expectation import own_functions

CONVERSION_NS = 2000000  # from the counter to CLOCK_BOOTTIME, on a busy machine; waits are five times as long


def record(shop, program, options):
    output = shop.new_output()
    done = shop.run(shop.spawn_command(output, ["--lossless", "--detail", "off"] + options, [program.path]))
    if done.code != 0:
        raise Failure("exit code %d: %r" % (done.code, done.err))
    *lines, order = done.out.decode().split("\n")[:-1]
    return atf.Trace(atf.find(output)[0]), [tuple(map(int, line.split())) for line in lines], order


def events(trace, program):
    names = own_functions(trace, program)
    return [(time, names[function], kind) for time, _, function, kind in trace.threads[0].chosen(names)]


def check_times(trace, program, spans):
    late = trace.manifest["clock"].get("late_ns", 0)
    found = events(trace, program)
    times = [(time, kind) for time, name, kind in found if name == "point"]
    if len(times) != 2 * len(spans):
        raise Failure("%d events of %d calls" % (len(times), len(spans)))
    worst = 0
    for (before, after), (time, kind) in zip((s for s in spans for _ in "12"), times):
        worst = max(worst, before - time)
        if time < before - late - CONVERSION_NS or time > after + CONVERSION_NS:
            raise Failure("a %s at %d is not in %d to %d, late by at most %d ns" %
                          ("call" if kind == atf.CALL else "return", time, before, after, late))
    return "late by %d ns, and at most %d" % (worst, late)


def check_order(trace, program, order):
    calls = "".join(name[0] for _, name, kind in events(trace, program)
                    if kind == atf.CALL and name in ("left", "right"))
    if calls != order:
        raise Failure("the order of calls differs from call %d on" %
                      next((i for i, (a, b) in enumerate(zip(calls, order)) if a != b), min(len(calls), len(order))))


def compare(shop, program, options):
    trace, spans, order = record(shop, program, options)
    check_order(trace, program, order)
    if trace.manifest["clock"].get("events") != "fast" or not trace.manifest["clock"]["ticks"]:
        raise Failure("the manifest says %r" % trace.manifest["clock"])
    return check_times(trace, program, spans)


def from_file(shop, program):
    path = os.path.join(shop.directory, "fast.conf")
    with open(path, "w") as f:
        f.write("clock = fast\n")
    return compare(shop, program, ["--config", path])


def exact(shop, program):
    trace, spans, order = record(shop, program, ["--clock", "exact"])
    if "late_ns" in trace.manifest["clock"] or "events" in trace.manifest["clock"]:
        raise Failure("the manifest says %r" % trace.manifest["clock"])
    check_order(trace, program, order)
    return check_times(trace, program, spans)


def said(shop, program):
    """Commands that show times say how late they may be, and info has the figure."""
    output = shop.new_output()
    shop.run(shop.spawn_command(output, ["--clock", "fast"], [program.path]))
    session = os.path.join(output, os.listdir(output)[0])
    for command in "report", "replay":
        errors = shop.run([shop.contrail, command, session]).err.decode()
        if "--clock fast" not in errors:
            raise Failure("%s does not say it: %r" % (command, errors))
    text = shop.run([shop.contrail, "info", session]).out.decode()
    if "Clock      fast: times of calls and returns are late by at most" not in text:
        raise Failure("info does not say it: %r" % text)


def main():
    checks = Checks(__doc__)
    program = checks.program("fast_clock")
    checks.run("all", lambda shop: compare(shop, program, ["--clock", "fast"]))
    checks.run("own functions", lambda shop: compare(shop, program, ["--clock", "fast", "--only", "fast_clock"]))
    checks.run("detail", lambda shop: compare(shop, program, ["--clock", "fast", "--detail", "marked"]))
    checks.run("config file", lambda shop: from_file(shop, program))
    checks.run("exact", lambda shop: exact(shop, program))
    checks.run("said", lambda shop: said(shop, program))
    return checks.verdict()


if __name__ == "__main__":
    sys.exit(main())
