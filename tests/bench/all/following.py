# SPDX-License-Identifier: Apache-2.0
"""What following costs: `contrail stalk`, as a user runs it."""
import measure
import work

PYTHON = "/usr/bin/python3"  # the distribution's: one on PATH may be a script


def followed_work(bench, command, *options):
    return work.milliseconds(bench.followed(command, *options))


def compare(bench, name, command, ways):
    """`ways`: {name: (options, goal)}. Figures are ratios to native."""
    measures = {"native": lambda: work.milliseconds(bench.output(command))}
    for way, (options, _) in ways.items():
        measures[way] = lambda options=options: followed_work(bench, command, *options)
    found = bench.in_turns(measures)
    for way, (_, goal) in ways.items():
        if found.get(way) and found.get("native"):
            bench.figure("%s, %s" % (name, way), "x", measure.ratios(found[way], found["native"]), goal)


def following(bench):
    bench.begin("stalk", "time of the work of a followed program, times native; runs of a second and more")
    nothing = (["--events", "none"], 1.2)
    calls = ["--events", "call,ret"]
    compare(bench, "lua", work.lua(3 * bench.scale), {"no events": nothing, "call and ret": (calls, None)})
    compare(bench, "sqlite", work.sqlite(5 * bench.scale), {"no events": nothing, "call and ret": (calls, 5)})
    compare(bench, "luajit", work.luajit(3 * bench.scale), {"no events": (nothing[0], 2)})
    compare(bench, "node", work.node(2 * bench.scale), {"no events": (nothing[0], 2)})
    command = [PYTHON, "-c", "pass"]
    tool = [bench.tool, "stalk", "--quiet", "--events", "none", "--output"]
    found = bench.in_turns({"native": lambda: measure.seconds_of(bench, command),
                            "followed": lambda: measure.seconds_of(
                                bench, tool + [bench.trace_place(), "--"] + command)}, 3 * bench.rounds)
    bench.figure("the whole command python3 -c pass", "x", measure.ratios(found["followed"], found["native"]), 5)
