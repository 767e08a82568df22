#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The words that select calls, in each reading command.

selection.py CONTRAIL SCRIPT_TRACE

A script says which calls a trace has. An independent reading of the script says which of them a word selects. Each
command has to agree, for each word of the table."""
import collections
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CONTRAIL, SCRIPT_TRACE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
START = 5_000_000_000
END = 2000
MODULES = {"other": "libother.so.1", "worker": "libother.so.1"}
# pid, then tid, name and script of each thread; all calls return
PROCESSES = [
    (1000, [(1000, "main", "0+main 100+work%42,5 200+leaf 250-leaf 400-work%5 500+work%7,5 600+other 900-other "
                           "1000-work%0xffffffffffffffff 1010+recurse 1020+recurse 1030-recurse 1040-recurse "
                           "1100-main"),
            (1001, "worker-1", "150+worker 300+leaf%42 700-leaf 1000-worker")]),
    (2000, [(2000, "main", "1200+main 1300+leaf 1400-leaf%0 1500-main")]),
]

Call = collections.namedtuple("Call", "pid tid thread name module start end depth self args result path")


def number(text):
    value = int(text, 0)
    return value - (1 << 64) if value >> 63 else value


def calls_of(pid, tid, thread, script):
    """The calls of a thread, each with the indexes of the calls around it, outermost first."""
    calls, stack, last = [], [], 0
    for word in script.split():
        time, kind, name, values = re.match(r"(\d+)([+-])(\w+)(?:%(.*))?", word).groups()
        time, values = int(time), [number(v) for v in values.split(",")] if values else None
        if stack:
            calls[stack[-1]]["self"] += time - last
        last = time
        if kind == "+":
            calls.append(dict(pid=pid, tid=tid, thread=thread, name=name, module=MODULES.get(name, "sample"),
                              start=time, depth=len(stack), self=0, args=values, result=None, path=list(stack)))
            stack.append(len(calls) - 1)
        else:
            call = calls[stack.pop()]
            call.update(end=time, result=values[0] if values else None)
    return [Call(**call) for call in calls]


THREADS = [calls_of(pid, *thread) for pid, threads in PROCESSES for thread in threads]


def known(value, test):
    return value is not None and test(value)


# Words, and which calls they select. Bounds of times are not those of events.
WORDS = [
    ([], lambda c: True),
    (["--from", "350ns"], lambda c: c.end > 350),
    (["--to", "350ns"], lambda c: c.start < 350),
    (["--from", "550ns", "--to", "0.95us"], lambda c: c.end > 550 and c.start < 950),
    (["--from", f"-{END - 1250}ns"], lambda c: c.end > 1250),
    (["--from", "-1h"], lambda c: True),
    (["--from", "1050ns", "--to", f"-{END - 1150}ns"], lambda c: c.end > 1050 and c.start < 1150),
    (["--thread", "1001"], lambda c: c.tid == 1001),
    (["--thread", "work*"], lambda c: c.thread == "worker-1"),
    (["--thread", "main", "--thread", "1001"], lambda c: True),
    (["--process", "2000"], lambda c: c.pid == 2000),
    (["--process", "sam*"], lambda c: True),
    (["--process", "1000", "--thread", "main", "--from", "450ns"], lambda c: c.tid == 1000 and c.end > 450),
    (["--where", "duration > 200ns"], lambda c: c.end - c.start > 200),
    (["--where", "not duration > 0.2us"], lambda c: c.end - c.start <= 200),
    (["--where", "self >= 100ns"], lambda c: c.self >= 100),
    (["--where", "result < 0"], lambda c: known(c.result, lambda r: r < 0)),
    (["--where", "not result < 0"], lambda c: known(c.result, lambda r: r >= 0)),
    (["--where", "arg.1 = 42"], lambda c: known(c.args, lambda a: a[0] == 42)),
    (["--where", "rdi = 7 or arg.2 = 5"], lambda c: known(c.args, lambda a: a[0] == 7 or a[1:] == [5])),
    (["--where", "function like '*r*' and depth = 1"], lambda c: "r" in c.name and c.depth == 1),
    (["--where", "function != leaf and module = sample"], lambda c: c.name != "leaf" and c.module == "sample"),
    (["--where", "thread like worker-?"], lambda c: c.thread == "worker-1"),
    (["--where", "thread = 2000 or depth > 1"], lambda c: c.tid == 2000 or c.depth > 1),
    (["--where", "depth = 1", "--from", "550ns", "--process", "1000"],
     lambda c: c.depth == 1 and c.end > 550 and c.pid == 1000),
    (["--where", "duration > 1h"], lambda c: False),
]
FUNCTIONS = [("leaf", "*"), ("w*", "*"), ("recurse", "*"), ("*", "libother*"), ("work", "libother*"), ("l*", "sample")]


class Trace:
    def __init__(self, directory):
        lines = []
        for pid, threads in PROCESSES:
            lines.append(f"process {pid} {END} 0")
            for i, (tid, name, script) in enumerate(threads):
                lines += [f"thread {i + 1} {tid} 0 0 {name}", script]
        done = subprocess.run([SCRIPT_TRACE, directory], input="\n".join(lines) + "\n", capture_output=True, text=True,
                              check=True)
        self.path = done.stdout.strip()
        self.directory = directory

    def run(self, *words, code=0):
        done = subprocess.run([CONTRAIL, *words], cwd=self.directory, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, errors="replace")
        assert done.returncode == code, (words, done.returncode, done.stderr)
        return done.stdout

    def report(self, words):
        rows = json.loads(self.run("report", "--json", "--limit", "0", *words, self.path))["functions"]
        return {row["name"]: row["calls"] for row in rows}

    def graph(self, words, glob="*"):
        code = 0
        try:
            text = self.run("graph", glob, "--json", "--limit", "0", *words, self.path)
        except AssertionError as error:  # no such function was called
            code = error.args[0][1]
        if code:
            assert code == 69
            return {}
        return {row["name"]: row["calls"] for row in json.loads(text)["functions"] if row["calls"]}

    def replay(self, words):
        lines = json.loads(self.run("replay", "--json", *words, self.path))
        return count(line["function"] for line in lines if line["kind"] in ("call", "open", "entry"))

    def ended(self, words):
        """Names of calls that end in the replay: those that began before --from have no other line."""
        lines = json.loads(self.run("replay", "--json", *words, self.path))
        return count(line["function"] for line in lines if line["kind"] in ("call", "close"))

    def folded(self, words):
        total = collections.Counter()
        for line in self.run("export", "-f", "folded", "--weight", "calls", "-o", "-", *words, self.path).splitlines():
            stack, calls = line.rsplit(" ", 1)
            total[stack.split(";")[-1]] += int(calls)
        return dict(total)

    def chrome(self, words):
        events = json.loads(self.run("export", "-f", "chrome", "-o", "-", *words, self.path))["traceEvents"]
        depth = collections.Counter()
        for event in events:
            depth[event.get("tid")] += {"B": 1, "E": -1}.get(event["ph"], 0)
            assert depth[event.get("tid")] >= 0
        assert not any(depth.values()), "stacks are whole"
        return count(event["name"] for event in events if event["ph"] == "B")

    def atf_pb(self, words):
        path = pathlib.Path(self.directory, "events.pb")
        self.run("export", "-f", "atf-pb", "-o", str(path), *words, self.path)
        return count(records(path.read_bytes()))

    def diff(self, words):
        done = json.loads(self.run("diff", "--json", *words, self.path, self.path))
        assert done["new"] == done["gone"] == done["changed"] == 0 and done.get("path", {}).get("same", True)
        return done["unchanged"]


def count(names):
    return dict(collections.Counter(names))


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 128:
            return value, at


def records(data):
    """Kinds of the events of an atf-pb file."""
    at = 0
    while at < len(data):
        length, at = varint(data, at)
        kind, _ = varint(data, at)
        if kind >> 3 in (5, 6, 7):
            yield {5: "call", 6: "return", 7: "exception"}[kind >> 3]
        at += length


def fitting(test):
    return count(c.name for calls in THREADS for c in calls if test(c))


def with_callers(test):
    """Calls that fit, and the calls around them."""
    kept = []
    for calls in THREADS:
        indexes = {i for i, c in enumerate(calls) if test(c)}
        kept += [calls[i] for i in indexes | {outer for i in indexes for outer in calls[i].path}]
    return kept


def check(command, words, got, expected):
    assert got == expected, f"{command} {' '.join(words)}: {got}, expected {expected}"


def check_words(trace):
    for words, test in WORDS:
        expected, kept = fitting(test), with_callers(test)
        times = "--from" in words or "--to" in words
        check("report", words, trace.report(words), expected)
        check("graph", words, trace.graph(words), expected)
        check("replay", words, trace.ended(words), expected)
        check("export folded", words, trace.folded(words), expected)
        check("export chrome", words, trace.chrome(words), count(c.name for c in kept))
        check("diff", words, trace.diff(words), len(expected))
        events = trace.atf_pb(words)
        check("export atf-pb", words, events.get("call", 0), len(kept))
        if not times:
            check("export atf-pb", words, events.get("return", 0), len(kept))
            check("replay", words, trace.replay(words), expected)


def check_functions(trace):
    """--function and --module: in replay and the exports, --function includes the calls below."""
    for function, module in FUNCTIONS:
        def fits(c):
            return fnmatch.fnmatchcase(c.name, function) and fnmatch.fnmatchcase(c.module, module)

        below = set()
        for calls in THREADS:
            for c in calls:
                names = [c.name] + [calls[i].name for i in c.path]
                if any(fnmatch.fnmatchcase(name, function) for name in names) and fnmatch.fnmatchcase(c.module, module):
                    below.add((c.tid, c.start))
        words = ["--function", function, "--module", module]
        expected, lower = fitting(fits), fitting(lambda c: (c.tid, c.start) in below)
        check("report", words, trace.report(words), expected)
        check("graph", words, trace.graph(["--module", module], function), expected)
        check("diff", words, trace.diff(words), len(expected))
        check("replay", words, trace.replay(words), lower)
        check("export folded", words, trace.folded(words), lower)
        check("export chrome", words, trace.chrome(words),
              count(c.name for c in with_callers(lambda c: (c.tid, c.start) in below)))


def check_verify(trace):
    for words, pids, tids in (([], {1000, 2000}, None), (["--process", "2000"], {2000}, None),
                              (["--thread", "main"], {1000, 2000}, {1000, 2000}),
                              (["--thread", "1001"], {1000}, {1001})):
        chosen = [calls for calls in THREADS if calls[0].pid in pids and (not tids or calls[0].tid in tids)]
        got = json.loads(trace.run("verify", "--json", *words, trace.path))
        check("verify", words, (got["threads"], got["events"], got["ok"]),
              (len(chosen), sum(2 * len(calls) for calls in chosen), True))


def check_slowest(trace):
    """Each call that is listed is the one that its command shows."""
    listed = json.loads(trace.run("report", "--slowest", "5", "--json", trace.path))
    durations = sorted((c.end - c.start for calls in THREADS for c in calls), reverse=True)
    assert [call["duration_ns"] for call in listed["calls"]] == durations[:5], listed
    assert listed["fitting"] == len(durations)
    for call in listed["calls"]:
        words = call["replay"].split()
        assert words[:3] == ["contrail", "replay", "--around"] and words[4] == trace.path, words
        lines = json.loads(trace.run(*words[1:], "--json", "-C", "1"))
        assert any(line["time_ns"] == call["time_ns"] and line["function"] == call["function"] for line in lines), lines


def check_moments(trace):
    """Lines around marks, which the manifest lists."""
    whole = json.loads(trace.run("replay", "--json", trace.path))
    path = pathlib.Path(trace.path, "pid_1000", "manifest.json")
    manifest = json.loads(path.read_text())
    marks = [START + 300, START + 900]
    manifest["windows"] = [{"first_mark_ns": mark, "last_mark_ns": mark,
                            "reasons": [{"trigger": "manual", "label": label, "first_ns": mark, "tid": 1000}]}
                           for mark, label in zip(marks, ("", "half way"))]
    path.write_text(json.dumps(manifest))
    for word, mark in (("mark", 0), ("mark=1", 0), ("mark=2", 1)):
        lines = json.loads(trace.run("replay", "--json", "--around", word, "--context", "3", trace.path))
        first = next(i for i, line in enumerate(whole) if line["time_ns"] >= marks[mark])
        assert [line for line in lines if line["kind"] != "mark"] == whole[max(first - 3, 0):first + 4], (word, lines)
        assert marks[mark] in [line["time_ns"] for line in lines if line["kind"] == "mark"], (word, lines)
    lines = trace.run("replay", "--around", "mark=half way", "--context", "3", trace.path).splitlines()
    found = [i for i, line in enumerate(lines) if "-- mark" in line]  # the other one is before the lines that are shown
    assert found == [4] and re.match(r'  0.000000900 +-- mark "half way" --$', lines[4]), lines
    for word, code in (("mark=3", 69), ("mark=0", 64), ("mark=x", 69)):
        trace.run("replay", "--around", word, trace.path, code=code)
    for lines in (1, 5, 1000):
        tail = json.loads(trace.run("replay", "--json", "--tail", str(lines), trace.path))
        assert [line for line in tail if line["kind"] != "mark"] == whole[-lines:], tail


def check_one(trace):
    """--first and --last: a call and what is below it, whatever the words say about that."""
    for words, name, start in ((["--function", "work", "--first"], "work", 100),
                               (["--function", "work", "--last"], "work", 500),
                               (["--where", "result < 0", "--last"], "work", 500), (["--first"], "main", 0),
                               (["--where", "function = leaf", "--thread", "1001", "--last"], "leaf", 300)):
        lines = json.loads(trace.run("replay", "--json", *words, trace.path))
        shown = count(line["function"] for line in lines if line["kind"] in ("call", "open"))
        calls = next(calls for calls in THREADS for c in calls if (c.name, c.start) == (name, start)
                     and ("1001" not in words or c.tid == 1001))
        index = next(i for i, c in enumerate(calls) if (c.name, c.start) == (name, start))
        check("replay", words, shown, count(c.name for i, c in enumerate(calls) if i == index or index in c.path))


def check_copy(trace):
    """atf2 copies whole processes."""
    copy = pathlib.Path(trace.directory, "copy")
    trace.run("export", "-f", "atf2", "--process", "2000", "-o", str(copy), trace.path)
    assert sorted(entry.name for entry in copy.iterdir()) == ["pid_2000"]
    trace.run("verify", str(copy))
    for words in (["--from", "1ns"], ["--thread", "main"], ["--where", "depth = 1"], ["-m", "x"], ["--function", "x"]):
        trace.run("export", "-f", "atf2", *words, "-o", str(copy) + "2", trace.path, code=64)
    for command in (["report"], ["graph", "*"], ["replay"], ["export", "-o", "-", "-f", "folded"], ["verify"]):
        trace.run(*command, "--thread", "nobody", trace.path, code=69)
        trace.run(*command, "--process", "77", trace.path, code=69)
        if command != ["verify"]:
            trace.run(*command, "--from", "1s", "--to", "5ms", trace.path, code=64)
            trace.run(*command, "--from", "x", trace.path, code=64)
            trace.run(*command, "--where", "depth =", trace.path, code=64)


with tempfile.TemporaryDirectory() as directory:
    sample = Trace(directory)
    for part in (check_words, check_functions, check_verify, check_slowest, check_one, check_copy, check_moments):
        part(sample)
print("all words agree")
