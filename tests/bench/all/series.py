# SPDX-License-Identifier: Apache-2.0
"""How cost and loss grow: with the rate of calls, threads, hooks and bytes of stack. Each makes a plot."""
import json

import measure
import starting
import work


def cost_of_stack(bench):
    points = []
    for size in (0, 64, 128, 256, 512):
        options = ["--only", "calls", "--lossless", "--stack-bytes", str(size)]
        values = [work.pair_ns(bench.recorded([bench.bench_program("calls"), "flat", "5"], *options)[0])
                  for _ in range(bench.rounds)]
        points.append((size, min(values)))
        bench.figure("%d bytes of stack" % size, "ns", values)
    bench.plot("cost-stack-bytes", "Cost of a call and return", "bytes of stack", "ns", {"with detail": points})


def rates(bench):
    """Events that the program made in a second of its time, those that are on disk, and what a call cost."""
    loss, cost = {"default": [], "lossless": []}, {"default": [], "lossless": []}
    for rate in (1e6, 5e6, 10e6, 20e6, 40e6, 80e6):
        command = [bench.bench_program("record_work"), "rate", "%.0f" % rate, "%g" % max(1, 2 * bench.scale)]
        for way, options in (("default", []), ("lossless", ["--lossless"])):
            text, manifest = bench.recorded(command, "--only", "record_work", "--detail", "off", *options)
            made = json.loads(text)
            loss[way].append((made["events_per_s"], 100 - measure.kept_percent(manifest)))
            cost[way].append((made["events_per_s"] / 2, made["cpu"]))
        bench.figure("%g M events/s asked for, lost" % (rate / 1e6), "%", [loss["default"][-1][1]])
    bench.plot("loss-rate", "Events lost", "events made a second", "%", loss)
    bench.plot("cost-rate", "Processor time of the program for a call", "calls a second", "ns", cost)


def cost_of_threads(bench):
    points = []
    for count in (1, 2, 4, 8):
        command = [bench.bench_program("record_work"), "busy", str(count), "%d" % max(1, 4e6 * bench.scale)]
        options = ["--only", "record_work", "--detail", "off", "--lossless"]
        values = [json.loads(bench.recorded(command, *options)[0])["pair"] for _ in range(bench.rounds)]
        points.append((count, min(values)))
        bench.figure("%d threads that call all the time" % count, "ns", values)
    bench.plot("cost-threads", "Processor time of a call and return", "threads", "ns", {"lossless": points})


def cost_of_hooks(bench):
    points = []
    for count in (100, 1000, 10000, 100000):
        bench_program = starting.many_functions(bench, count)
        spawn = [bench.tool, "spawn", "--quiet", "--output"]
        values = [1e3 * measure.seconds_of(bench, spawn + [bench.trace_place(), "--", bench_program])
                  for _ in range(bench.rounds + 1)][1:]
        points.append((count, min(values)))
        bench.figure("%d functions hooked, whole run" % count, "ms", values)
    bench.plot("start-hooks", "Whole run of a program that does nothing", "functions", "ms", {"plans cached": points})


def series(bench):
    bench.begin("series", "how cost and loss grow")
    for measured in (cost_of_stack, rates, cost_of_threads, cost_of_hooks):
        try:
            measured(bench)
        except measure.Unavailable as why:
            bench.leave_out(measured.__name__, why)
