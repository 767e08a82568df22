# SPDX-License-Identifier: Apache-2.0
"""How fast a large trace of one busy thread is read."""
import os

import measure


def large_trace(bench, millions, name="large"):
    """Where a trace of this many million events is."""
    place = os.path.join(bench.directory, name)
    bench.output([bench.tool, "spawn", "--quiet", "--lossless", "--detail", "off", "--only", "calls", "--output", place,
                  "--", bench.bench_program("calls"), "deep", str(millions / 2)])
    return os.path.join(place, os.listdir(place)[0])


def reading(bench):
    millions = max(4, 225 * bench.scale)
    bench.begin("reading", "a trace of one thread, %d million events" % millions)
    trace = large_trace(bench, millions)
    ways = {"report": ["report", trace], "verify": ["verify", trace]}
    found = bench.in_turns({name: lambda words=words: measure.seconds_of(bench, [bench.tool, *words])
                            for name, words in ways.items()})
    for name, values in found.items():
        goal = 4 * millions / 225 if name == "report" else None
        bench.figure(name, "s", values, goal)
        bench.figure(name + ", events a second", "M/s", [millions / value for value in values], more=True)
    questions(bench, trace, millions)


def questions(bench, trace, millions):
    """SQL: a full scan, one call, and counts of all calls. bench_query has SQLite's own table beside them."""
    ways = {"query, all calls": ("SELECT sum(duration) FROM calls", None),
            "query, one call": ("SELECT function, duration FROM calls WHERE id = %d" % (millions * 500000), 1),
            "query, edges": ("SELECT sum(calls) FROM edges", None)}
    found = bench.in_turns({name: lambda sql=sql: measure.seconds_of(bench, [bench.tool, "query", trace, sql])
                            for name, (sql, _) in ways.items()})
    for name, values in found.items():
        bench.figure(name, "s", values, ways[name][1])
    bench.figure("query, rows a second", "M/s", [millions / 2 / value for value in found["query, all calls"]], 5,
                 more=True)
