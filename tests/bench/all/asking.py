# SPDX-License-Identifier: Apache-2.0
"""Questions about a trace: `contrail query`, a table of SQLite with the same rows, and DuckDB over our Parquet; and how
fast that is written. The three must have the same answers. Only what SQLite and DuckDB take for the question itself
counts: their rows are there, and the programs run."""
import csv
import io
import json
import os
import shutil
import sqlite3
import sys
import time

import measure
import reading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(measure.HERE)), "export"))
import readers  # noqa: E402

QUESTIONS = {"scan": "SELECT sum(duration) FROM calls",
             "selective": "SELECT count(*), sum(duration) FROM calls WHERE start BETWEEN %d - 100000 AND %d + 100000",
             "groups": "SELECT count(*) FROM (SELECT function, count(*), sum(self) FROM calls GROUP BY function)"}
COLUMNS = "id, function, start, duration, self, depth, parent"
DUCK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "duckdb.mjs")


def sqlite_table(bench, trace):
    database = sqlite3.connect(os.path.join(bench.directory, "table.db"))
    text = bench.output([bench.tool, "query", "--csv", trace, "SELECT %s FROM calls" % COLUMNS])
    rows = csv.reader(io.StringIO(text))
    next(rows)
    database.execute("CREATE TABLE calls(id INTEGER PRIMARY KEY, function TEXT, start INTEGER, duration INTEGER, "
                     "self INTEGER, depth INTEGER, parent INTEGER)")
    database.executemany("INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    return database


def timed(ask):
    start = time.perf_counter()
    answer = ask()
    return time.perf_counter() - start, answer


def duckdb(bench, place, questions):
    """{name: (seconds, answer)} of DuckDB with one thread, as SQLite has."""
    try:
        modules = readers.npm_project(os.path.join(bench.directory, "npm"))
    except readers.Unavailable as why:
        raise measure.Unavailable(why) from None
    found = json.loads(bench.output(["node", DUCK, str(modules), place], input=json.dumps(questions).encode()))
    return {name: (one["seconds"], tuple(one["answer"])) for name, one in found.items()}


def ours(bench, trace, sql):
    start = time.perf_counter()
    (row,) = json.loads(bench.output([bench.tool, "query", "--json", trace, sql]))
    return time.perf_counter() - start, tuple(row.values())


def ask_all(bench, trace, place, calls):
    questions = dict(QUESTIONS)
    (middle,) = json.loads(bench.output([bench.tool, "query", "--json", trace,
                                         "SELECT min(start) AS at FROM calls WHERE id BETWEEN %d AND %d" %
                                         (calls, calls + 100)]))  # two events a call
    questions["selective"] %= (middle["at"], middle["at"])
    database = sqlite_table(bench, trace)
    ways = {"query": lambda sql: ours(bench, trace, sql),
            "sqlite3, its own table": lambda sql: timed(lambda: database.execute(sql).fetchone())}
    for name, sql in questions.items():
        found = bench.in_turns({way: lambda ask=ask: ask(sql) for way, ask in ways.items()})
        answers = {answer for values in found.values() for _, answer in values}
        for way, values in found.items():
            goal = 5 if (name, way) == ("scan", "query") else None
            speed = name == "scan"
            bench.figure("%s: %s" % (name, way), "M rows/s" if speed else "s",
                         [calls / 1e6 / t if speed else t for t, _ in values], goal, more=speed)
        try:
            rounds = [duckdb(bench, place, {name: sql})[name] for _ in range(bench.rounds)]
            bench.figure("%s: DuckDB, our Parquet" % name, "M rows/s" if name == "scan" else "s",
                         [calls / 1e6 / t if name == "scan" else t for t, _ in rounds], more=name == "scan")
            answers |= {answer for _, answer in rounds}
        except measure.Unavailable as why:
            bench.leave_out("%s: DuckDB" % name, why)
        assert len(answers) == 1, (name, answers)
    database.close()


def export(bench, trace, calls):
    """Where the dataset is. Rows of `calls` a second, and their bytes."""
    place = os.path.join(bench.directory, "dataset")

    def write():
        shutil.rmtree(place, ignore_errors=True)
        return measure.seconds_of(bench, [bench.tool, "export", "--format", "parquet", "--tables", "calls",
                                          "-o", place, trace])

    found = bench.in_turns({"parquet": write})
    size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(place) for name in names)
    bench.figure("parquet, rows written", "M rows/s", [calls / 1e6 / t for t in found["parquet"]], 10, more=True)
    bench.figure("parquet, bytes a call", "B", [size / calls])
    return place


def asking(bench):
    millions = max(2, 40 * bench.scale)
    bench.begin("asking", "a trace of one thread, %d million events" % millions)
    trace = reading.large_trace(bench, millions, "asked")
    (row,) = json.loads(bench.output([bench.tool, "query", "--json", trace, "SELECT sum(calls) AS n FROM functions"]))
    ask_all(bench, trace, export(bench, trace, row["n"]), row["n"])
