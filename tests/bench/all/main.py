#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every figure that docs/PERFORMANCE.md speaks of, measured in one run: a table, JSON and plots.

usage: main.py [--only GROUP]... [--rounds N] [--scale X] [--quick] [--real-time] [--output DIR] BUILD

Ways are measured in turns, best and median are given, and native is measured beside them. Results go to DIR
(BUILD/bench): one file of JSON for each run, named by time and commit, which `make bench-compare OLD=FILE` reads, and
SVG plots of the newest run. --scale 0.1 does a tenth of the work, for a look; --quick is three rounds with scale 0.15,
some ten minutes in all. --real-time asks for real-time priority, so that other work on the machine disturbs less.
Nothing here fails because it is slow."""
import argparse
import json
import os
import subprocess
import sys
import time

import asking
import following
import holding
import measure
import peers
import reading
import recording
import series
import starting
import svg

GROUPS = {"bounds": recording.bounds, "sustained": recording.sustained, "programs": recording.programs,
          "rate": recording.rate, "drain": holding.drain, "busy": holding.busy, "budget": holding.budget,
          "throw": recording.throws, "stalk": following.following, "start": starting.starting,
          "reading": reading.reading, "asking": asking.asking, "series": series.series, "peers": peers.peers}


def commit():
    done = subprocess.run(["git", "-C", measure.HERE, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or "unknown"


def keep(bench, folder, began):
    os.makedirs(folder, exist_ok=True)
    name = time.strftime("%Y%m%d-%H%M%S", time.gmtime(began)) + "-" + commit() + ".json"
    found = {"commit": commit(), "time": int(began), "machine": measure.machine(), "rounds": bench.rounds,
             "scale": bench.scale, "figures": [figure.record() for figure in bench.figures], "series": bench.series,
             "absent": bench.absent}
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
        file.write("\n")
    for plotted in bench.series:
        with open(os.path.join(folder, plotted["name"] + ".svg"), "w", encoding="utf-8") as file:
            file.write(svg.plot(plotted))
    return path


def ask_for_real_time():
    """Programs inherit it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError:
        print("real-time priority is not allowed: run as root, or without --real-time", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", action="append", choices=GROUPS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--real-time", action="store_true")
    parser.add_argument("--output")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.scale = 3, 0.15
    if options.real_time:
        ask_for_real_time()
    began = time.time()
    bench = measure.Bench(os.path.abspath(options.build), None, options.rounds, options.scale)
    try:
        for name, measured in GROUPS.items():
            if not options.only or name in options.only:
                try:
                    measured(bench)
                except measure.Unavailable as why:
                    bench.leave_out(name, why)
        path = keep(bench, options.output or os.path.join(options.build, "bench"), began)
    finally:
        bench.close()
    print("\nThis took %.0f s." % (time.time() - began))
    missed = [figure.name for figure in bench.figures if figure.met() is False]
    print("\n%d figures, %d goals missed%s" % (len(bench.figures), len(missed), ":" if missed else ""))
    for name in missed:
        print("  " + name)
    print("kept in %s" % path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
