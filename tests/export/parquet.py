#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parquet datasets, read by programs that we did not write.

parquet.py CONTRAIL SCRIPT_TRACE CACHE

hyparquet (from npm) reads every page of every file; DuckDB (from npm) is asked through the views of the dataset. Both
must have what `contrail query` shows: the same rows of all tables, and the same answers.

Exit status 77: a reader is not available here; the reason is printed."""
import json
import pathlib
import re
import sys
import tempfile

import readers
import traces


APART = ("calls", "events", "arguments")  # tables with a file for each thread
EXTRA = ("wall_clock",)  # columns that `contrail query` does not have
CODECS = {"zstd": "ZSTD", "lz4": "LZ4_RAW", "none": "UNCOMPRESSED"}
QUESTIONS = [
    "SELECT function, count(*), sum(duration), sum(self) FROM calls GROUP BY function ORDER BY 2 DESC, 1",
    "SELECT thread, depth, count(*) FROM calls GROUP BY thread, depth ORDER BY 1, 2",
    "SELECT c.id, p.function AS caller, c.function AS callee FROM calls c JOIN calls p ON c.parent = p.id "
    "ORDER BY c.id",
    "SELECT ended, count(*), count(duration) FROM calls GROUP BY ended ORDER BY 1",
    "SELECT function, calls, total, self FROM functions ORDER BY total DESC, function",
    "SELECT id, name, tid FROM threads ORDER BY id",
    "SELECT count(*) FROM calls WHERE start > 1000 AND duration < 1000000",
]


def asked(contrail, trace, sql, other=None):
    words = ["--with", other] if other else []
    out = readers.output_of([contrail, "query", "--json", "--allow-damaged", *words, trace, sql])
    return json.loads(out)


def tables_of(contrail, trace):
    """All tables but those that take arguments."""
    text = readers.output_of([contrail, "query", "--allow-damaged", trace, ".schema"]).decode()
    return [name for name, what in re.findall(r"^(\w+)  +(.*)$", text, re.M) if not what.startswith(name + "(")]


def value_of(value):
    return int(value["integer"]) if isinstance(value, dict) else value


def rows_read(files, table):
    """The rows of a table by hyparquet, with what the path says."""
    rows = []
    for path, file in files.items():
        parts = path.split("/")
        if parts[0] != table:
            continue
        said = {name: int(value) for name, value in (part.split("=") for part in parts[1:-1])}
        rows += [{**{name: value_of(value) for name, value in row.items() if name not in EXTRA}, **said}
                 for row in file["rows"]]
    return rows


def key_of(row):
    return json.dumps(row, sort_keys=True)


def check_table(contrail, trace, table, files):
    wanted = asked(contrail, trace, f"SELECT * FROM {table}")
    got = rows_read(files, table)
    assert len(got) == len(wanted), f"{table}: {len(got)} rows, {len(wanted)} wanted"
    assert sorted(map(key_of, got)) == sorted(map(key_of, wanted)), f"{table}: {got[:3]} {wanted[:3]}"
    if table in APART:
        for path, file in files.items():
            if path.startswith(f"{table}/"):
                ids = [value_of(row["id"]) for row in file["rows"]] if file["rows"] and "id" in file["rows"][0] else []
                assert file["groups"] > 1 or ids == sorted(ids), f"{path} is not sorted"


def check_answers(contrail, trace, questions, answers, other=None):
    for sql, answer in zip(questions, answers):
        wanted = [list(row.values()) for row in asked(contrail, trace, sql, other)]
        assert [[value_of(v) for v in row] for row in answer] == wanted, f"{sql}: {answer[:5]} {wanted[:5]}"


def examples(contrail):
    """The questions of `contrail query --examples`."""
    text = readers.output_of([contrail, "query", "--examples"]).decode()
    parts = re.split(r"^ ?\d+  .*\n", text, flags=re.M)[1:]
    return ["\n".join(line.strip() for line in part.strip().splitlines()).rstrip(";") for part in parts]


def check_examples(contrail, modules, paths, sets):
    """DuckDB has the answers of `contrail query`, from a dataset; and from two, for the question about two traces."""
    questions = examples(contrail)
    assert len(questions) == 20, questions
    views = [f"CREATE SCHEMA {name}; CREATE VIEW {name}.functions AS "
             f"SELECT * FROM read_parquet('{place}/functions/*.parquet')" for name, place in zip("ab", sets)]
    (result,) = readers.parquet(modules, sets[:1], views + questions)
    answers = result["answers"][len(views):]
    given = [sum(bool(row) for row in answer) for answer in answers]
    assert sum(count > 0 for count in given) >= 16, given  # most questions have an answer in these traces
    check_answers(contrail, paths[0], questions, answers, paths[1])


def export(contrail, trace, place, codec):
    readers.output_of([contrail, "export", "--format", "parquet", "--codec", codec, "--allow-damaged", "-o", place,
                       trace])
    return str(place)


def check_trace(contrail, trace, result, questions, codec):
    used = {name for file in result["files"].values() for name in file["codecs"]}
    assert used == {CODECS[codec]}, used
    for table in tables_of(contrail, trace):
        check_table(contrail, trace, table, result["files"])
    check_answers(contrail, trace, questions, result["answers"])


def main():
    contrail, script_trace, cache = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        try:
            modules = readers.npm_project(cache)
        except readers.Unavailable as reason:
            print(f"skipped: {reason}")
            return 77
        made = [traces.hand_written(), traces.coroutines(), traces.gap_at_the_end()] + \
               [traces.random_trace(seed) for seed in range(1, 7)]
        jobs = []
        for number, trace in enumerate(made):
            at = place / f"trace{number}"
            at.mkdir()
            path = trace.write(script_trace, at).path
            codec = list(CODECS)[number % len(CODECS)]
            jobs.append((path, codec, export(contrail, path, place / f"set{number}", codec)))
        paths, sets = [], []
        for number in (1, 2):
            at = place / f"asked{number}"
            at.mkdir()
            paths.append(traces.nested(number).write(script_trace, at).path)
            sets.append(export(contrail, paths[-1], place / f"asked_set{number}", "zstd"))
        check_examples(contrail, modules, paths, sets)
        results = readers.parquet(modules, [job[2] for job in jobs], QUESTIONS)
        for (path, codec, _), result in zip(jobs, results):
            check_trace(contrail, path, result, QUESTIONS, codec)
    return 0


if __name__ == "__main__":
    sys.exit(main())
