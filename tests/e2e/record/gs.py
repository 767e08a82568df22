#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gs.py: programs that use the GS register themselves, in every way, are recorded: started, attached to, and let go
again."""
import sys

import atf
import targets
from expectation import own_functions
from recorder import Failure, Gate, finish, text_changes
from targets import built

WAYS = {"wrgsbase": "0", "libc": "1", "system call": "2"}
READS = 2000
RIGHT = b"child: right\nright\n"


def judge(result, output, program, shop, least):
    """It has done what it does alone, and what was recorded of it adds up."""
    if (result.code, result.out, result.err) != (0, RIGHT, b""):
        raise Failure("it ends with %d: %r %r" % (result.code, result.out, result.err))
    calls, threads = {}, 0
    for found in atf.find(output):
        shop.read("verify", found)
        trace = atf.Trace(found)
        names = own_functions(trace, program)
        threads += len(trace.threads)
        for thread in trace.threads:
            for function, kind in zip(thread.functions, thread.kinds):
                if kind == atf.CALL and function in names:
                    calls[names[function]] = calls.get(names[function], 0) + 1
    if threads < 53 or calls.get("work") != 52 or calls.get("through_gs", 0) < least:
        raise Failure("%d threads, %d calls of work, %d of through_gs" %
                      (threads, calls.get("work", 0), calls.get("through_gs", 0)))


def spawn(variant, way, options=()):
    def check(shop):
        program = built("uses_gs", variant)
        environment = {"E2E_GS_WAY": WAYS[way]}
        plain = shop.run([program.path], environment=environment)
        if (plain.code, plain.out) != (0, RIGHT):
            raise Failure("untraced it ends with %d: %r %r" % (plain.code, plain.out, plain.err))
        output = shop.new_output()
        result = shop.run(shop.spawn_command(output, ["--lossless", "--only", "uses_gs", *options], [program.path]),
                          environment=environment)
        judge(result, output, program, shop, 53 * READS)
    return check


def look(shop, process):
    """Who walks its stacks from outside sees the program's own callers."""
    result = shop.run([shop.contrail, "threads", "--backtrace", str(process.pid)])
    missing = [name for name in (b"wait_for_end", b"main") if name not in result.out]
    if result.code or missing:
        raise Failure("threads ends with %d, without %s: %r" % (result.code, missing, result.out))


def attach(variant, when, leave=False):
    """leave: until it is asked to."""
    def check(shop):
        program = built("uses_gs", variant)
        start, end = Gate(shop.path("start")), Gate(shop.path("end"))
        environment = {"E2E_WAIT": start.path, "E2E_GS": when}
        if leave:
            environment["E2E_WAIT_END"] = end.path
        process = shop.start([program.path], environment=environment)
        start.wait(process)
        output = shop.new_output()
        recorder = shop.attach(process.pid, output, ["--lossless", "--only", "uses_gs"])
        start.open()
        if leave:
            end.wait(process)
            look(shop, process)
            shop.detach(process.pid, recorder)
            changes = text_changes(process.pid)
            end.open()
            if changes:
                raise Failure(changes[0])
        result = finish(process)
        if not leave:
            finish(recorder)
        judge(result, output, program, shop, 53 * READS)
    return check


TABLE = {
    "started, by syscall()": spawn("O2", "libc"),
    "started, by an instruction": spawn("O2", "wrgsbase"),
    "started, by a system call of its own": spawn("O2", "system call"),
    "started, all detail": spawn("O2", "libc", ["--detail", "always"]),
    "started, no detail": spawn("O2", "wrgsbase", ["--detail", "off"]),
    "started, stripped": spawn("stripped", "wrgsbase"),
    "started, static": spawn("static", "libc"),
    "started, static-pie": spawn("static-pie", "system call"),
    "started, musl": spawn("musl", "libc"),
    "started, musl, static": spawn("musl-static", "wrgsbase"),
    "attached to, uses it": attach("O2", "early"),
    "attached to, will use it": attach("O2", "late"),
    "attached to, uses it, static": attach("static", "early"),
    "let go, used it before": attach("O2", "early", leave=True),
    "let go, began to use it": attach("O2", "late", leave=True),
}


if __name__ == "__main__":
    sys.exit(targets.run_table(__doc__, TABLE))
