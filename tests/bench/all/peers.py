# SPDX-License-Identifier: Apache-2.0
"""Other tools of the distribution on the same calls: nanoseconds that a call and return take, and times native on Lua.

Each is asked for the nearest thing to what we do: every call and return with its time. Where it needs another build of
the program, it gets one."""
import os
import shutil

import measure
import work

HERE = os.path.dirname(measure.HERE)


def need(program):
    path = shutil.which(program)
    if not path:
        raise measure.Unavailable("%s is not installed (packages-bench.txt)" % program)
    return path


def built_again(bench, name, flags):
    """The micro workload, compiled with other flags."""
    program = os.path.join(bench.directory, name)
    if not os.path.exists(program):
        sources = [os.path.join(HERE, "calls.c"), os.path.join(HERE, "calls_main.c")]
        bench.output(["gcc", "-O2", *flags, "-o", program, *sources])
    return program


def uftrace(bench, program, *options):
    place = os.path.join(bench.directory, "uftrace")
    shutil.rmtree(place, ignore_errors=True)
    command = [need("uftrace"), "record", "--no-libcall", "-d", place, *options, program, "flat", "2"]
    return work.pair_ns(bench.output(command))


def lttng(bench):
    """A session that LTTng writes to disk; the program is built with calls to its tracer at each entry and exit."""
    need("lttng")
    program = built_again(bench, "calls-instrumented", ["-finstrument-functions"])
    place = os.path.join(bench.directory, "lttng")
    shutil.rmtree(place, ignore_errors=True)
    bench.output(["lttng", "create", "contrail-bench", "--output", place])
    try:
        bench.output(["lttng", "enable-event", "-u", "lttng_ust_cyg_profile_fast:*"])
        bench.output(["lttng", "start"])
        library = "liblttng-ust-cyg-profile-fast.so"
        return work.pair_ns(bench.output(["env", "LD_PRELOAD=" + library, program, "flat", "2"]))
    finally:
        bench.output(["lttng", "destroy", "contrail-bench"])


def perf_probe(bench):
    """A uprobe at entry and one at return, counted."""
    program = bench.bench_program("calls")
    perf = need("perf")
    bench.output([perf, "probe", "-q", "-x", program, "contrail_in=calls_leaf"])
    try:
        bench.output([perf, "probe", "-q", "-x", program, "contrail_out=calls_leaf%return"])
        place = os.path.join(bench.directory, "perf.data")
        return work.pair_ns(bench.output([perf, "record", "-q", "-e", "probe_calls:*", "-o", place, program, "flat",
                                          "0.1"]))
    finally:
        bench.output([perf, "probe", "-q", "--del", "probe_calls:*"])


def ways(bench):
    calls = bench.bench_program("calls")
    ours = ["--only", "calls", "--detail", "off"]
    return {
        "native": lambda: work.pair_ns(bench.output([calls, "flat", "20"])),
        "contrail spawn": lambda: work.pair_ns(bench.recorded([calls, "flat", "20"], *ours)[0]),
        "contrail stalk, call and ret": lambda: work.pair_ns(
            bench.followed([calls, "flat", "20"], "--events", "call,ret")),
        "uftrace, no recompiling": lambda: uftrace(bench, calls, "-P", "."),
        "uftrace, -pg": lambda: uftrace(bench, built_again(bench, "calls-pg", ["-pg"])),
        "valgrind --tool=callgrind": lambda: work.pair_ns(bench.output(
            [need("valgrind"), "-q", "--tool=callgrind", "--callgrind-out-file=/dev/null", calls, "flat", "5"])),
        "valgrind --tool=none": lambda: work.pair_ns(bench.output(
            [need("valgrind"), "-q", "--tool=none", calls, "flat", "20"])),
        "lttng-ust, -finstrument-functions": lambda: lttng(bench),
        "perf, two uprobes": lambda: perf_probe(bench),
        "ltrace -x": lambda: work.pair_ns(bench.output(
            [need("ltrace"), "-x", "calls_leaf", "-o", "/dev/null", calls, "flat", "0.002"], timeout=60)),
    }


def peers(bench):
    bench.begin("peers", "a call and return of the leaf under other tools, nanoseconds")
    for name, values in bench.in_turns(ways(bench), max(1, bench.rounds // 2)).items():
        if values:
            bench.figure(name, "ns", values)
