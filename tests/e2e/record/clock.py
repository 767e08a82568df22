#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clock.py: a program reads CLOCK_BOOTTIME inside a recorded function. The trace's times of that call and return must
enclose what it read, give or take 100 µs (median), from the first second to the last."""
import statistics
import sys

import atf
from checks import Checks
from recorder import Failure, TIMEOUT
from expectation import own_functions

LIMIT_NS = 100000


def compare(shop, program, seconds):
    output = shop.new_output()
    done = shop.run(shop.spawn_command(output, ["--lossless"], [program.path, str(seconds)]), timeout=seconds + TIMEOUT)
    if done.code != 0:
        raise Failure("exit code %d: %r" % (done.code, done.err))
    read = [int(line) for line in done.out.split()]
    trace = atf.Trace(atf.find(output)[0])
    names = own_functions(trace, program)
    calls, returns = [], []
    for thread in trace.threads:
        for time, _, function, kind in thread.chosen(names):
            if names[function] == "stamp":
                (calls if kind == atf.CALL else returns).append(time)
    if not len(read) == len(calls) == len(returns):
        raise Failure("%d readings, %d calls, %d returns" % (len(read), len(calls), len(returns)))
    errors = [max(c - r, r - e, 0) for r, c, e in zip(read, calls, returns)]
    spans = [e - c for c, e in zip(calls, returns)]
    tenth = max(1, len(errors) // 10)
    first, last = statistics.median(errors[:tenth]), statistics.median(errors[-tenth:])
    text = "%d readings in %d s: error %d ns at the start, %d at the end, %d at most; the calls took %d (median)" % (
        len(read), seconds, first, last, max(errors), statistics.median(spans))
    if max(first, last, statistics.median(errors)) > LIMIT_NS:
        raise Failure(text)
    return text


def main():
    checks = Checks(__doc__, lambda p: p.add_argument("--seconds", type=int, default=5))
    program = checks.program("clock")
    checks.run("clock", lambda shop: compare(shop, program, checks.arguments.seconds))
    return checks.verdict()


if __name__ == "__main__":
    sys.exit(main())
