# SPDX-License-Identifier: Apache-2.0
"""What recording costs a program that calls all the time: not in bursts, for as long as it runs."""
import json

import measure
import work

# name: options, nanoseconds that a pair may cost beyond two timestamps
SUSTAINED = {
    "detail off, lossless": (["--detail", "off", "--lossless"], 6),
    "detail off": (["--detail", "off"], 6),
    "detail off, never waiting": (["--detail", "off", "--wait-ms", "0"], None),
    "detail off, 2 MiB": (["--detail", "off", "--index-mem", "2M"], None),
    "detail off, 2 MiB, never waiting": (["--detail", "off", "--index-mem", "2M", "--wait-ms", "0"], None),
    "128 bytes of detail in 1 MiB": (["--stack-bytes", "128", "--detail-mem", "1M"], 14),
    "128 bytes of detail": (["--stack-bytes", "128"], 24),
}
FAST = ["--detail", "off", "--clock", "fast"]
MILLIONS = 40


def stamps(bench):
    command = [bench.bench_program("record_work"), "pair", "5", "1000000"]
    return json.loads(bench.output(command))["stamps_best"]


def bounds(bench):
    bench.begin("bounds", "the least that a call and return cost, whoever records them, nanoseconds")
    command = [bench.bench_program("record_work"), "bound", "5", "1000000"]
    names = {"stamps": "two timestamps alone", "slots": "stored in two events",
             "small": "and 320 bytes copied to a ring of 1 MiB", "large": "and 320 bytes copied to a ring of 32 MiB"}
    found = [json.loads(bench.output(command)) for _ in range(bench.rounds)]
    for key, name in names.items():
        bench.figure(name, "ns", [one[key] for one in found])


def sustained_pair(bench, options, millions, kept):
    command = [bench.bench_program("calls"), "flat", str(millions)]
    text, manifest = bench.recorded(command, "--only", "calls", *options)
    kept.append(measure.kept_percent(manifest))
    return work.pair_ns(text)


def sustained(bench):
    millions = max(2, MILLIONS * bench.scale)
    bench.begin("sustained", "a leaf called %d million times in a row, nanoseconds of a call and return" % millions)
    kept = {name: [] for name in (*SUSTAINED, "fast clock")}
    ways = {"two timestamps": lambda: stamps(bench)}
    for name, (options, _) in SUSTAINED.items():
        ways[name] = lambda name=name, options=options: sustained_pair(bench, options, millions, kept[name])
    ways["fast clock"] = lambda: sustained_pair(bench, FAST, millions, kept["fast clock"])
    found = bench.in_turns(ways)
    two = min(found["two timestamps"])
    bench.figure("two timestamps", "ns", found["two timestamps"])
    for name, (_, beyond) in SUSTAINED.items():
        if name not in found:
            continue
        bench.figure(name, "ns", found[name], None if beyond is None else two + beyond)
        bench.figure(name + ", events kept", "%", kept[name], more=True)
    if "fast clock" in found:
        bench.figure("fast clock", "ns", found["fast clock"], 12)
        bench.figure("fast clock, events kept", "%", kept["fast clock"], more=True)
    lossless = found.get("detail off, lossless")
    if not lossless or "detail off" not in found:
        return
    bench.figure("default beside lossless", "x", measure.ratios(found["detail off"], lossless), 1)
    # Events on disk each second, as a share of what is written when threads wait: dropping costs no capacity.
    for name in "detail off, never waiting", "detail off, 2 MiB, never waiting":
        if name in found:
            bench.figure(name + ", on disk beside lossless", "x",
                         [share / 100 * min(lossless) / ns for share, ns in zip(kept[name], found[name])],
                         0.9, more=True)


# name: options, how many times native lua and sqlite may take
PROGRAMS = {
    "detail off, lossless": (["--detail", "off", "--lossless"], {"lua": 8, "sqlite": 4.5}),
    "detail off": (["--detail", "off"], {"lua": 8, "sqlite": 4.5}),
    "with detail": ([], {"lua": 11, "sqlite": 6}),
    "fast clock": (FAST, {"lua": 4.5, "sqlite": 3}),
}


def recorded_work(bench, command, options, kept, events):
    text, manifest = bench.recorded(command, *options)
    kept.append(measure.kept_percent(manifest))
    events.append(measure.written(manifest) + measure.lost(manifest))
    return work.milliseconds(text)


def programs(bench):
    bench.begin("programs", "time of the whole work of a recorded program, times native")
    mix = [bench.bench_program("sqlite_work"), "%d" % max(2, round(40 * bench.scale))]
    for name, command in (("lua", work.lua(bench.scale)), ("sqlite", work.sqlite(bench.scale)), ("sqlite, mix", mix)):
        kept, events = {way: [] for way in PROGRAMS}, []
        ways = {"native": lambda command=command: work.milliseconds(bench.output(command))}
        for way, (options, _) in PROGRAMS.items():
            ways[way] = lambda way=way, options=options, command=command, kept=kept, events=events: recorded_work(
                bench, command, options, kept[way], events)
        found = bench.in_turns(ways)
        if not found.get("native"):
            continue
        bench.figure(name + " native", "ms", found["native"])
        if events:
            least = max(events) / 2 * stamps(bench) / 1e6  # ms of two timestamps for each call, and nothing else
            bench.figure(name + ", two timestamps for each call alone", "x", [1 + least / min(found["native"])])
        for way, (_, goals) in PROGRAMS.items():
            if way in found:
                goal = goals[name.split(",")[0]]
                bench.figure("%s, %s" % (name, way), "x", measure.ratios(found[way], found["native"]), goal)
                bench.figure("%s, %s, events kept" % (name, way), "%", kept[way], more=True)


def rate(bench):
    bench.begin("rate", "an even rate of 10 M events a second: nothing lost, and how soon events are on disk")
    seconds = max(1, 5 * bench.scale)
    found = {"p50": [], "p99": [], "kept": []}
    for _ in range(bench.rounds):
        command = [bench.bench_program("record_work"), "rate", "10000000", str(seconds)]
        _, manifest = bench.recorded(command, "--only", "record_work")
        found["p50"].append(manifest["latency"]["p50_ns"] / 1e6)
        found["p99"].append(manifest["latency"]["p99_ns"] / 1e6)
        found["kept"].append(measure.kept_percent(manifest))
    bench.figure("capture to disk, median", "ms", found["p50"], 10)
    bench.figure("capture to disk, 99 of 100", "ms", found["p99"], 50)
    bench.figure("events kept", "%", found["kept"], 100, more=True)


def recorded_throw(bench, command, calls):
    text, manifest = bench.recorded(command)
    rounds = int(command[-1]) * max(1, 100 // int(command[-2]) if int(command[-2]) < 50 else 1)
    calls.append(measure.written(manifest) / 2 / rounds)
    return json.loads(text)["throw_best"]


def throws(bench):
    bench.begin("throw", "an exception through this many frames, all recorded, times native")
    for kind, depth in (("plain", 1), ("plain", 10), ("plain", 100), ("cleanup", 10), ("cleanup", 1000)):
        often = max(60, 8000 // depth)  # until the memory for detail was full once
        command = [bench.bench_program("throw_work"), kind, str(depth), str(often)]
        calls = []
        found = bench.in_turns({
            "native": lambda command=command: json.loads(bench.output(command))["throw_best"],
            "recorded": lambda command=command, calls=calls: recorded_throw(bench, command, calls)})
        name, native = "%s, %d frames" % (kind, depth), min(found["native"])
        bench.figure(name + ", two timestamps for each call alone", "x", [1 + min(calls) * stamps(bench) / native])
        bench.figure(name, "x", measure.ratios(found["recorded"], found["native"]), 4)
