# SPDX-License-Identifier: Apache-2.0
"""What hazard programs noted down while they ran (injected.c): the trees that they expect, compared with a trace."""
import bisect
import re

import atf
import calltree
from recorder import Failure


def read_notes(path, pid):
    """{tid: [note]} of the traced process itself; children write to the same file."""
    notes = {}
    with open(path, errors="surrogateescape") as f:
        for line in f.read().split("\n"):
            match = re.match(r"(\d+) (\d+) (.*)", line, re.S)
            if match and int(match.group(1)) == pid:
                notes.setdefault(int(match.group(2)), []).append(match.group(3))
    return notes


def addresses_of(notes, trace):
    """{function_id: name} of everything that the program asked to record, and e2e_mark's id."""
    by_address = {f.module.base + f.offset: f.id for f in trace.functions.values()}
    names = {}
    for own in notes.values():
        for note in own:
            word, *rest = note.split(" ", 2)
            if word in ("record", "try_record"):
                ident = by_address.get(int(rest[0], 16))
                if ident is None:
                    raise Failure("the trace knows no function %s at %s" % (rest[1], rest[0]))
                names[ident] = rest[1]
    harness = {f.id for f in trace.functions.values() if f.name.startswith("e2e_")}
    marks = [f for f in harness if trace.functions[f].name == "e2e_mark"]
    return names, harness, marks[0] if marks else None


class Part:
    """A thread of the trace as a Replay sees it: marks, what the harness called itself, and how far the expectations
    are."""

    def __init__(self, thread, harness, mark):
        self.thread, self.at, self.marks, self.inside = thread, 0, [], []
        depth = 0
        for _, number, function, kind in thread.chosen(harness):
            if function == mark and kind == atf.CALL:
                self.marks.append(number)
            depth += 1 if kind == atf.CALL else -1
            if depth == 1 and kind == atf.CALL:
                self.inside.append([number, len(thread)])
            elif depth == 0 and kind != atf.CALL:
                self.inside[-1][1] = number

    def take(self, end, names, since):
        """The events up to `end` that count, and nobody asked for yet."""
        functions, kinds, times = self.thread.functions, self.thread.kinds, self.thread.times
        found = [(i, functions[i], kinds[i]) for i in range(self.at, end)
                 if functions[i] in names and times[i] >= since.get(functions[i], 1 << 64)]
        starts = [s for s, _ in self.inside]
        self.at = end

        def own(number):
            at = bisect.bisect(starts, number) - 1
            return at < 0 or self.inside[at][1] < number
        return [(f, k) for i, f, k in found if own(i)]


class Replay:
    """Goes through the marks of all threads by time, and does at each what the program noted there."""

    def __init__(self, trace, notes):
        self.trace, self.notes = trace, {tid: list(reversed(own)) for tid, own in notes.items()}
        self.names, harness, mark = addresses_of(notes, trace)
        self.parts = [Part(t, harness, mark) for t in trace.threads]
        self.since, self.problems = {}, []

    def run(self, attached):
        if attached:  # e2e_begin notes "ready" before the gate
            for own in self.notes.values():
                if own[-1] == "ready":
                    own.pop()
        for when, number, part in sorted(((p.thread.times[n], n, p) for p in self.parts for n in p.marks),
                                         key=lambda m: (m[0], m[2].thread.id, m[1])):
            self.note(when, number, part)
        left = sum(len(n) for n in self.notes.values())
        if left:
            self.problems.append("%d notes of the program are not in the trace" % left)
        return self.problems

    def note(self, when, number, part):
        own = self.notes.get(part.thread.tid)
        if not own:
            self.problems.append("a mark in thread %d that the program did not make" % part.thread.tid)
            return
        word, _, rest = own.pop().partition(" ")
        if word in ("record", "try_record"):
            name = rest.split(" ", 1)[1]
            self.since.update({i: when for i, n in self.names.items() if n == name and i not in self.since})
        elif word in ("forget", "count_only"):
            for other in self.parts:
                other.at = number if other is part else bisect.bisect(other.thread.times, when)
        elif word in ("expect", "flat"):
            whom, place, tree = rest.split(" ", 2)
            self.compare(word, place, tree, self.events_of(int(whom) or part.thread.tid, when, number, part))

    def events_of(self, tid, when, number, part):
        events = []
        for other in self.parts:
            if other.thread.tid == tid:
                end = number if other is part else bisect.bisect(other.thread.times, when)
                events += other.take(end, self.names, self.since)
        return events

    def compare(self, word, place, tree, events):
        if word == "flat":
            signs = {atf.CALL: "+", atf.RETURN: "-", atf.EXCEPTION: "!"}
            expected = " ".join(tree.split())
            seen = " ".join((";" if self.trace.functions[f].entry_only else signs[k]) + self.names[f]
                            for f, k in events)
        else:
            expected, seen = calltree.canonical(tree), self.tree(events)
        if expected != seen:
            self.problems.append("%s: the calls differ\n%s" % (place, calltree.difference(expected, seen)))

    def tree(self, events):
        writer = calltree.Writer()
        for function, kind in events:
            name = self.names[function]
            if kind == atf.CALL:
                writer.enter(name)
                if self.trace.functions[function].entry_only:
                    writer.leave(";")
            elif writer.top != name:
                writer.enter("<end of %s>" % name)
                writer.leave("")
            else:
                writer.leave("" if kind == atf.RETURN else "!")
        return writer.text()
