# SPDX-License-Identifier: Apache-2.0
"""One check per format: exports a trace, lets another program read it, and compares that with what is known about the
trace."""
import collections
import filecmp
import html.parser
import json
import pathlib
import re
import subprocess
import sys

import readers
import traces

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import ctp  # noqa: E402

LEFT = "left by exception or longjmp"
LOST = "its return was lost"
OPEN = "still open when the recording ended"
MOVED = "suspended, goes on in another track"


class Export:
    def __init__(self, contrail, trace, directory):
        self.contrail, self.trace, self.directory = contrail, trace, pathlib.Path(directory)
        self.count = 0

    def write(self, format, *options):
        self.count += 1
        path = self.directory / f"{format}-{self.count}"
        done = subprocess.run([self.contrail, "export", "--format", format, "-o", path, *options, self.trace.path],
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{format}: exit {done.returncode}: {done.stderr}"
        assert done.stderr == "", done.stderr
        total = self.trace.events()
        assert f": {total:,} event{'' if total == 1 else 's'} of " in done.stdout, done.stdout
        return path

    def report(self):
        out = readers.output_of([self.contrail, "report", "--json", "--limit", "0", self.trace.path])
        return json.loads(out)


def merged(trace):
    """All events as (time, tid, kind, name, depth), in the order of the cursor."""
    rows = []
    for number, thread in enumerate(trace.threads()):
        for place, (time, kind, name, depth) in enumerate(thread.events):
            rows.append((time, number, place, (time, thread.tid, kind, name, depth)))
    return [row[3] for row in sorted(rows)]


def same(got, expected, what):
    if got == expected:
        return
    for i, (a, b) in enumerate(zip(got, expected)):
        assert a == b, f"{what}: element {i} is {a}, expected {b}"
    raise AssertionError(f"{what}: {len(got)} elements, expected {len(expected)}")


def threads_in_order(trace):
    """{tid: events and losses of the thread, in their order}"""
    rows = {}
    for t in trace.threads():
        rows[t.tid] = []
        for place in range(len(t.events) + 1):
            rows[t.tid] += [("lost", *loss) for loss, at in zip(t.losses, t.loss_places) if at == place]
            rows[t.tid] += t.events[place:place + 1]
    return rows


# ---- the events as they are ----

def atf2(export):
    path = export.write("atf2")
    original = pathlib.Path(export.trace.path)
    files = sorted(file.relative_to(original) for file in original.rglob("*") if file.is_file())
    copied = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
    same(copied, sorted(file.with_suffix(".atf") if file.suffix == ".ctp" else file for file in files), "files")
    for file in files:
        if file.suffix == ".ctp":
            raw = (path / file.with_suffix(".atf")).read_bytes()
            assert raw[64:-64] == ctp.read(original / file)[0], f"the events of {file} differ"
        elif file.name == "manifest.json":
            told = json.loads((original / file).read_text())
            assert json.loads((path / file).read_text()) == dict(told, format="atf2")
        else:
            assert filecmp.cmp(original / file, path / file, shallow=False), f"{file} differs"
    checked = [subprocess.run([export.contrail, "verify", p], capture_output=True).returncode for p in (original, path)]
    assert checked[0] == checked[1]


def atf_pb(export):
    path = export.write("atf-pb")
    records = readers.atf_pb(path)
    kinds = collections.Counter(kind for kind, _ in records)
    trace = export.trace
    threads = {fields.get("number", 0): fields for kind, fields in records if kind == "thread"}
    functions, events, order = {}, [], {thread["tid"]: [] for thread in threads.values()}
    for kind, fields in records:
        if kind == "function":
            functions[fields.get("process", 0), fields["function_id"]] = fields
        elif kind in ("call", "return", "exception"):
            thread = threads[fields.get("thread", 0)]
            function = functions[thread.get("process", 0), fields["function_id"]]  # declared before
            events.append((fields["timestamp_ns"], thread["tid"], kind, function["name"], fields.get("depth", 0)))
            order[thread["tid"]].append((fields["timestamp_ns"], kind, function["name"], fields.get("depth", 0)))
        elif kind == "loss":
            order[threads[fields.get("thread", 0)]["tid"]].append(("lost", fields["lost"], fields["reason"]))
    same(events, merged(trace), "events")
    for tid, rows in threads_in_order(trace).items():
        same(order[tid], rows, f"thread {tid}")
    assert kinds["process"] == len(trace.processes) and kinds["thread"] == len(trace.threads()), kinds
    assert [threads[i]["name"] for i in sorted(threads)] == [t.name for t in trace.threads()]
    off = [(threads[f.get("thread", 0)]["tid"], f["start_ns"], f["end_ns"] - f["start_ns"], f.get("kind", "BLOCKED"))
           for kind, f in records if kind == "off"]
    shown = {"BLOCKED": "blocked", "PREEMPTED": "preempted", "WAITED": "waited for the recorder"}
    check_off(export, [(*span, shown[kind]) for *span, kind in off if kind in shown])
    for fields in functions.values():
        assert trace.recorded or (fields.get("entry_only") == "true") == (fields["name"] == traces.ENTRY_ONLY), fields


def ctf(export):
    path = export.write("ctf")
    trace = export.trace
    if not trace.events() and not trace.losses():
        return  # babeltrace2 prints nothing for a trace without streams
    order, discarded, off = readers.ctf(path)
    for tid, rows in threads_in_order(trace).items():
        same(order[tid], rows, f"thread {tid}")
    # babeltrace2 cannot know what was lost before the first packet of a stream
    first = sum(thread.losses[0][0] for thread in trace.threads() if thread.losses and lost_first(thread))
    assert first or discarded == sum(lost for lost, _ in trace.losses()), (discarded, trace.losses())
    check_off(export, off)


def lost_first(thread):
    return "~" in thread.script[0]


# ---- waits, and time off the processor ----

def check_off(export, spans):
    """The same spans as in the timeline: [(tid, start, duration, name)]. That has nothing before a thread's first
    event, and may know an earlier end of a thread."""
    _, tracks, steps = perfetto_steps(export.write("perfetto"))
    tids = {uuid: tracks[track["parent_uuid"][0]]["thread"][0]["tid"][0] for uuid, track in tracks.items()
            if track["name"] == ["off CPU"]}
    expected = [(tids[track], start, duration, name) for track, start, duration, name, _ in
                slices_of([s for s in steps if s.track in tids])]
    first = {tid: min(span[1] for span in expected if span[0] == tid) for tid in tids.values()}
    last = {tid: max(span[1] for span in expected if span[0] == tid) for tid in tids.values()}
    got = {span for span in spans if span[0] in first and first[span[0]] <= span[1] < last[span[0]]}
    wanted = {span for span in expected if span[1] < last[span[0]]}
    assert got == wanted, sorted(got ^ wanted)[:10]
    starts = {(tid, start, name) for tid, start, _, name in spans}
    assert {(tid, start, name) for tid, start, _, name in expected} <= starts


# ---- timelines ----

class Step(collections.namedtuple("Step", "track time phase name note")):
    """B, E or i of a track (pid, tid, lane); the note is the text of an annotation."""


def chrome_steps(path):
    value = readers.json_file(path)
    assert value["displayTimeUnit"] == "ns"
    start = int(value["otherData"]["start_ns"])
    processes, tracks, steps = {}, {}, []
    for event in value["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] == "process_name":
                processes[event["pid"]] = event["args"]["name"]
            else:
                tracks[event["pid"], event["tid"]] = event["args"]["name"]
            continue
        args = event.get("args", {})
        category = event.get("cat")
        note = args.get("end") or ("continued" if args.get("continued") else None)
        if category == "loss":
            note = (args["count"], args["reason"])
        elif category and event["ph"] == "i":
            note = (category, note)
        time = start + round(event["ts"] * 1000)
        steps.append(Step((event["pid"], event["tid"]), time, event["ph"], event.get("name"), note))
    return processes, tracks, steps


def perfetto_steps(path):
    """The steps from Perfetto's packets, by the rules of the format: interned names, incremental clocks, defaults."""
    state, tracks, processes, steps = {}, {}, {}, []
    for packet in readers.perfetto_packets(path):
        sequence = packet["trusted_packet_sequence_id"][0]
        if packet["sequence_flags"] and packet["sequence_flags"][0] & 1:
            state[sequence] = {"names": {}, "notes": {}, "categories": {},
                               "defaults": packet["trace_packet_defaults"][0]}
        s = state.get(sequence)
        for data in packet["interned_data"]:
            for key, into in (("event_names", "names"), ("debug_annotation_names", "notes"),
                              ("event_categories", "categories")):
                for entry in data[key]:
                    assert entry["iid"][0] not in s[into], "interned twice"
                    s[into][entry["iid"][0]] = entry["name"][0]
        for snapshot in packet["clock_snapshot"]:
            clocks = {clock["clock_id"][0]: clock for clock in snapshot["clocks"]}
            assert set(clocks) == {6, 64} and snapshot["primary_trace_clock"] == [6]
            assert clocks[64]["is_incremental"] == ["true"]
            assert clocks[64]["timestamp"] == clocks[6]["timestamp"]
            s["time"] = clocks[6]["timestamp"][0]
        for track in packet["track_descriptor"]:
            uuid = track["uuid"][0]
            assert uuid not in tracks
            tracks[uuid] = track
            for process in track["process"]:
                processes[process["pid"][0]] = process["process_name"][0]
        for event in packet["track_event"]:
            assert packet["sequence_flags"] == [2]
            assert s["defaults"]["timestamp_clock_id"] == [64] and not packet["timestamp_clock_id"]
            s["time"] += packet["timestamp"][0]
            uuid = (event["track_uuid"] or s["defaults"]["track_event_defaults"][0]["track_uuid"])[0]
            assert uuid in tracks, "an event before its track"
            steps.append(perfetto_step(s, event, uuid))
    return processes, tracks, steps


def perfetto_step(s, event, uuid):
    phase = {"TYPE_SLICE_BEGIN": "B", "TYPE_SLICE_END": "E", "TYPE_INSTANT": "i"}[event["type"][0]]
    notes = {s["notes"][note["name_iid"][0]]: (note["uint_value"] or note["string_value"])[0]
             for note in event["debug_annotations"]}
    note = notes.get("end") or ("continued" if notes.get("continued") else None)
    if phase == "i":
        category = s["categories"][event["category_iids"][0]]
        note = (notes["count"], notes["reason"]) if category == "loss" else (category, short_note(note))
    name = s["names"][event["name_iid"][0]] if phase != "E" else None
    return Step(uuid, s["time"], phase, name, note)


def short_note(note):
    return LEFT if note and note.startswith(LEFT) else None


def slices_of(steps):
    """(track, start, duration, name, depth) of all slices; checks the stacks."""
    stacks, slices = collections.defaultdict(list), []
    for step in steps:
        stack = stacks[step.track]
        if step.phase == "B":
            stack.append(step)
        elif step.phase == "E":
            assert stack, f"nothing to end: {step}"
            begin = stack.pop()
            assert step.time >= begin.time
            slices.append((begin.track, begin.time, step.time - begin.time, begin.name, len(stack)))
    assert not any(stacks.values()), "something never ends"
    return slices


def check_steps(trace, steps):
    """Every event of the trace is one step, and all other steps are explained."""
    begun = [s for s in steps if s.phase == "B" and s.note != "continued"]
    ended = collections.Counter(s.note for s in steps if s.phase == "E")
    instants = [s for s in steps if s.phase == "i"]
    entries = [s for s in instants if s.note[0] == "entry only"]
    unpaired = collections.Counter(s.note[1] for s in instants if s.note[0] == "end without call")
    losses = [s.note for s in instants if s.name == "events lost"]
    expected = collections.Counter((t, n) for thread in trace.threads() for t, _, n, _ in thread.frames())
    assert collections.Counter((s.time, s.name) for s in begun) == expected, "begun calls"
    assert len(entries) == trace.entries()
    assert ended[None] + unpaired[None] == trace.count("return"), (ended, unpaired)
    assert ended[LEFT] + unpaired[LEFT] == trace.count("exception"), (ended, unpaired)
    assert ended[MOVED] == sum(s.note == "continued" for s in steps)
    assert set(ended) <= {None, LEFT, LOST, OPEN, MOVED}, ended
    same(sorted(losses), sorted(trace.losses()), "losses")
    if not trace.losses() and not any(p.unfinished for p in trace.processes):
        assert not ended[LOST] and not unpaired, (ended, unpaired)
        assert trace.recorded or ended[OPEN] == sum(len(thread.open) for thread in trace.threads())
    for track in {s.track for s in steps}:
        times = [s.time for s in steps if s.track == track]
        assert times == sorted(times)
    slices_of(steps)


OFF = ("blocked", "preempted", "waited for the recorder")


def take_off(steps, is_off):
    """The steps of calls. The others, waits and time off the processor, are checked here."""
    off = [s for s in steps if is_off(s.track)]
    for _, _, duration, name, depth in slices_of(off):
        assert name in OFF and depth == 0 and duration > 0, name
    return [s for s in steps if not is_off(s.track)]


def chrome(export):
    path = export.write("chrome")
    processes, tracks, steps = chrome_steps(path)
    trace = export.trace
    check_steps(trace, take_off(steps, lambda track: tracks.get(track, "").endswith(" off CPU")))
    assert processes == {process.pid: process.program for process in trace.processes}
    for process in trace.processes:
        for thread in process.threads:
            if thread.script:
                assert tracks[process.pid, thread.tid] == thread.name
    known = {(p.pid, t.tid) for p in trace.processes for t in p.threads}
    for track in {s.track for s in steps} - known:
        assert "suspended calls" in tracks[track] or "off CPU" in tracks[track], track
    return path, steps


def perfetto(export):
    path = export.write("perfetto")
    readers.decode_raw(path.read_bytes())
    processes, tracks, steps = perfetto_steps(path)
    trace = export.trace
    check_steps(trace, take_off(steps, lambda track: tracks[track]["name"] == ["off CPU"]))
    assert processes == {process.pid: process.program for process in trace.processes}
    threads = {(t["thread"][0]["pid"][0], t["thread"][0]["tid"][0]): t["thread"][0]["thread_name"][0]
               for t in tracks.values() if t["thread"]}
    assert threads == {(p.pid, t.tid): t.name for p in trace.processes for t in p.threads if t.script}
    for track in tracks.values():
        if not track["process"]:
            assert track["parent_uuid"][0] in tracks
    return path, steps


def plain(steps):
    """Steps without the names of tracks, which differ between formats."""
    return [(s.time, s.phase, s.name, s.note) for s in steps]


def timelines(export):
    """Both formats have the same steps, event by event."""
    _, a = chrome(export)
    _, b = perfetto(export)
    same(plain(a), plain(b), "chrome against perfetto")
    same(*(sorted(slice[1:] for slice in slices_of(steps)) for steps in (a, b)), "slices of chrome against perfetto")


# ---- speedscope ----

def speedscope(export, schema=None):
    path = export.write("speedscope")
    value = readers.json_file(path)
    if schema:
        problems = readers.schema_problems(value, schema)
        assert not problems, problems[:5]
    opened, off = 0, []
    start = int(readers.json_file(export.write("chrome"))["otherData"]["start_ns"])
    for profile in value["profiles"]:
        assert profile["unit"] == "nanoseconds"
        if profile["name"].endswith(", off CPU"):
            tid = int(re.search(r"(\d+), off CPU$", profile["name"])[1])
            names = [frame["name"] for frame in value["shared"]["frames"]]
            ends = profile["events"]
            off += [(tid, start + a["at"], b["at"] - a["at"], names[a["frame"]]) for a, b in zip(ends[::2], ends[1::2])]
            opened -= len(ends) // 2
        stack, last = [], profile["startValue"]
        for event in profile["events"]:
            assert event["at"] >= last
            last = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
                opened += 1
            else:
                assert stack.pop() == event["frame"]
        assert not stack and last <= profile["endValue"]
    _, steps = perfetto(export)
    begun = sum(s.phase == "B" and s.name not in OFF for s in steps)
    assert opened == begun + export.trace.entries(), (opened, begun)
    check_off(export, off)
    count = readers.output_of(["jq", "[.profiles[].events[] | select(.type == \"O\")] | length", path]).strip()
    assert count == b"%d" % (opened + len(off))
    names = {frame["name"] for frame in value["shared"]["frames"]}
    assert {name for thread in export.trace.threads() for _, _, name, _ in thread.events} <= names


# ---- sums ----

def folded_lines(path):
    lines = path.read_text().splitlines()
    return [(line.rpartition(" ")[0].split(";"), int(line.rpartition(" ")[2])) for line in lines]


def folded(export):
    times, calls = (folded_lines(export.write("folded", f"--weight={weight}")) for weight in ("time", "calls"))
    report = export.report()
    several = len(export.trace.processes) > 1
    for lines in (times, calls):
        assert len({tuple(stack) for stack, _ in lines}) == len(lines), "a stack twice"
        assert all(weight > 0 for _, weight in lines)
        if several:
            assert {stack[0] for stack, _ in lines} <= {f"{p.program}/{p.pid}" for p in export.trace.processes}
    by_name = collections.Counter()
    for stack, weight in calls:
        by_name[stack[-1]] += weight
    expected = collections.Counter(n for t in export.trace.threads() for _, kind, n, _ in t.events if kind == "call")
    assert by_name == expected, "calls"
    self_ns = sum(row.get("self_ns", 0) for row in report["functions"])
    assert sum(weight for _, weight in times) == self_ns // 1000, "self times"


def callgrind(export, inclusive=False):
    path = export.write("callgrind")
    report = export.report()
    own = readers.callgrind(path)
    functions = collections.defaultdict(lambda: [0, 0, 0])
    for row in report["functions"]:
        sums = functions[row["name"]]
        sums[0] += row.get("self_ns", 0)
        sums[1] += row["calls"]
        sums[2] += row.get("total_ns", 0)
    total_ns, total_calls = sum(f[0] for f in functions.values()), export.trace.calls()
    if total_ns:
        assert own.pop("PROGRAM TOTALS") == (total_ns, total_calls)
        for name, costs in own.items():
            assert costs == tuple(functions[name][:2]), (name, costs, functions[name])
        assert {name for name, sums in functions.items() if sums[0]} <= set(own)
    if inclusive:
        with_callees = readers.callgrind(path, inclusive=True)
        for name, sums in functions.items():
            if sums[2]:
                assert with_callees[name][0] == sums[2], (name, with_callees[name], sums)
    text = path.read_text()
    assert f"summary: {total_ns} {total_calls}" in text
    incoming = collections.Counter()
    names = dict(re.findall(r"^c?fn=\((\d+)\) (.*)$", text, re.M))
    for number, calls in re.findall(r"^cfn=\((\d+)\).*\ncalls=(\d+) ", text, re.M):
        incoming[names[number]] += int(calls)
    assert all(calls <= functions[name][1] for name, calls in incoming.items()), "more calls than there were"


# ---- html ----

def html_data(path):
    """The JSON in the page, which only a real end of its element may end."""
    page = html.parser.HTMLParser(convert_charrefs=False)
    parts, inside = [], []
    page.handle_starttag = lambda tag, words: inside.append(dict(words)) if tag == "script" else None
    page.handle_endtag = lambda tag: inside.pop() if tag == "script" else None
    page.handle_data = lambda text: parts.append(text) if inside and inside[-1].get("id") == "data" else None
    page.feed(path.read_text())
    text = "".join(parts)
    assert "<" not in text and "//www" not in path.read_text() and not inside
    return json.loads(text)


def html_page(export):
    value = html_data(export.write("html"))
    report = export.report()
    assert value["title"] == pathlib.Path(export.trace.path).name
    calls, self_ns = collections.Counter(), 0
    for track in value["tracks"]:
        rows = collections.defaultdict(list)
        numbers = track["calls"]
        for start, duration, depth, name, own in zip(*(numbers[i::5] for i in range(5))):
            if duration:
                rows[depth].append((start, start + duration))
            if own >= 0:
                calls[value["names"][name][0]] += 1
                self_ns += own
        for row in rows.values():
            row.sort()
            assert all(a[1] <= b[0] for a, b in zip(row, row[1:])), "calls of one depth overlap"
    expected = collections.Counter(n for t in export.trace.threads() for _, kind, n, _ in t.events if kind == "call")
    assert calls == expected, "calls"
    assert self_ns == sum(row.get("self_ns", 0) for row in report["functions"]), "self times"


ALL = {"atf2": atf2, "atf-pb": atf_pb, "ctf": ctf, "perfetto and chrome": timelines, "speedscope": speedscope,
       "folded": folded, "callgrind": callgrind, "html": html_page}
