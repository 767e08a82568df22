# SPDX-License-Identifier: Apache-2.0
"""How long a program waits for the recorder: at its start, and when the recorder attaches to it."""
import os
import subprocess

import measure


def many_functions(bench, count):
    """A program of `count` functions, of which main calls one. Built once."""
    program = os.path.join(bench.directory, "many%d" % count)
    source = program + ".c"
    if os.path.exists(program):
        return program
    with open(source, "w", encoding="utf-8") as file:
        for i in range(count):
            file.write("__attribute__((noinline)) int f%d(int a) { return a * %d + %d; }\n" % (i, i + 3, i))
        file.write("int (*volatile chosen)(int) = f7;\nint main(void) { return chosen(0) - 7; }\n")
    bench.output(["gcc", "-O1", "-o", program, source])
    return program


def attach_pause(bench, threads):
    """Milliseconds that attaching stops a process of this many threads."""
    target = subprocess.Popen([bench.bench_program("record_work"), "threads", str(threads)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        target.stdout.readline()
        place = bench.trace_place()
        bench.output([bench.tool, "attach", str(target.pid), "--quiet", "--duration", "0.2", "--output", place])
        return measure.read_manifest(place)["pause_ns"] / 1e6
    finally:
        target.stdin.close()
        target.wait()


def starting(bench):
    bench.begin("start", "how long a program waits for the recorder")
    found = bench.in_turns({"pause": lambda: attach_pause(bench, 1000)})
    if found.get("pause"):
        bench.figure("attach to 1,000 threads, pause", "ms", found["pause"], 50)
    try:
        program = many_functions(bench, 100000)
        spawn = [bench.tool, "spawn", "--quiet", "--output"]
        measure.seconds_of(bench, spawn + [bench.trace_place(), "--", program])  # plans are cached from here on
    except measure.Unavailable as why:
        bench.leave_out("start of 100,000 functions", why)
        return
    found = bench.in_turns({
        "native": lambda: measure.seconds_of(bench, [program]),
        "recorded": lambda: measure.seconds_of(bench, spawn + [bench.trace_place(), "--", program])})
    values = [1e3 * (seconds - min(found["native"])) for seconds in found["recorded"]]
    bench.figure("the whole run of a program of 100,000 functions, warm", "ms", values, 500)
