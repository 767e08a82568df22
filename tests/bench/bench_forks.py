#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a child process costs when it is recorded or followed, compared with its cost alone.

    bench_forks [--long] [--output DIR]

Children that end at once, children that execute another program, and a small `make -j2`. The cost of starting a session
is measured too, and subtracted. Elapsed time depends on what else runs on the machine, so the processor time of
contrail and the program together is printed as well. The best of some rounds counts; all ways take turns in each.
Traces go to DIR (default: a temporary directory) and are removed."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONTRAIL = os.environ.get("CONTRAIL", os.path.join(HERE, "..", "..", "src", "cli", "contrail"))
WORK = os.path.join(HERE, "fork_work")
PROGRAM = "/bin/true"
WAYS = {"alone": None, "recorded": "spawn", "followed": "stalk"}
MAKEFILE = "all: a.o b.o c.o d.o\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n"


class Bench:
    def __init__(self, directory, rounds):
        self.directory, self.rounds = directory, rounds

    def once(self, way, command, cwd=None):
        """Elapsed time, and processor time."""
        place = os.path.join(self.directory, "trace")
        shutil.rmtree(place, ignore_errors=True)
        if WAYS[way]:
            command = [CONTRAIL, WAYS[way], "--quiet", "--output", place, "--", *command]
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(self.directory, "cache"))
        before, start = os.times(), time.monotonic()
        subprocess.run(command, check=True, env=environment, cwd=cwd, stdout=subprocess.DEVNULL)
        passed, after = time.monotonic() - start, os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        return passed, spent

    def best(self, command, prepare=None, cwd=None):
        """For each way: the shortest elapsed time, and the shortest processor time."""
        found = {way: [] for way in WAYS}
        for _ in range(self.rounds):
            for way in WAYS:
                if prepare:
                    prepare()
                found[way].append(self.once(way, command, cwd))
        return {way: [min(column) for column in zip(*times)] for way, times in found.items()}

    def line(self, what, way, times, alone):
        ratio = "" if way == "alone" else ", %.1f times" % (times[0] / alone[0])
        print("  %-24s %-9s %8.2f ms%s; %.2f ms of processors" %
              (what, way, times[0] * 1e3, ratio, times[1] * 1e3), flush=True)


def each(bench, what, count, program):
    start = bench.best([WORK, "0", *program])
    whole = bench.best([WORK, str(count), *program])
    one = {way: [max(a - b, 1e-9) / count for a, b in zip(whole[way], start[way])] for way in WAYS}
    for way in WAYS:
        bench.line(what, way, one[way], one["alone"])


def build(bench):
    source = os.path.join(bench.directory, "source")
    os.mkdir(source)
    for name in "abcd":
        with open(os.path.join(source, name + ".c"), "w") as file:
            file.write("int %s(int x) { return x * 3 + 1; }\n" % name)
    with open(os.path.join(source, "Makefile"), "w") as file:
        file.write(MAKEFILE)

    def clean():
        for name in "abcd":
            if os.path.exists(os.path.join(source, name + ".o")):
                os.unlink(os.path.join(source, name + ".o"))

    times = bench.best(["make", "-s", "-j2"], prepare=clean, cwd=source)
    for way in WAYS:
        bench.line("make -j2 of four files", way, times[way], times["alone"])


def main():
    parser = argparse.ArgumentParser(prog="bench_forks")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--output")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="bench_forks.", dir=options.output)
    bench = Bench(directory, 5 if options.long else 2)
    try:
        print("a child process (asked for: at most 5 ms for a fork that is followed)")
        each(bench, "a fork", 200, [])
        each(bench, "a fork and an exec", 40, [PROGRAM])
        if shutil.which("make") and shutil.which("cc"):
            build(bench)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
