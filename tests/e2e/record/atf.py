# SPDX-License-Identifier: Apache-2.0
"""Reads traces without any of Contrail's code: a second opinion on the format that docs/TRACE-FORMAT.md describes.

A Trace is one pid_N directory. Everything is read at once: the traces of tests are small."""
import array
import functools
import glob
import itertools
import json
import operator
import os
import re
import struct
import sys
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import ctp  # noqa: E402

CALL, RETURN, EXCEPTION = 1, 2, 3
HEADER = struct.Struct("<4sBBBBIIB7xIIQQQQ")
EVENT = struct.Struct("<QQIIII")
FOOTER = struct.Struct("<4sIQQQQ24x")
NO_DETAIL = 0xFFFFFFFF
SIGNAL = 0  # function_id of an EXCEPTION that closes no frame
assert (HEADER.size, EVENT.size, FOOTER.size) == (64, 32, 64)


class BadTrace(Exception):
    pass


class Function:
    """A line of the symbols file. `name` is "" for nameless functions; `where` always says the place."""

    def __init__(self, ident, module, offset, size, name, skip, entry_only):
        self.id, self.module, self.offset, self.size = ident, module, offset, size
        self.name, self.skip, self.entry_only = name, skip, entry_only

    @property
    def where(self):
        return self.name or "%s+%#x" % (os.path.basename(self.module.path), self.offset)


class Module:
    def __init__(self, ident, path, build_id, base):
        self.id, self.path, self.build_id, self.base = ident, path, build_id, base


class Thread:
    """A thread's events, as columns: traces have millions of them."""

    def __init__(self, ident, tid, name, data, finished):
        self.id, self.tid, self.name, self.finished = ident, tid, name, finished
        longs, words = array.array("Q", data), array.array("I", data)
        self.times, self.functions = longs[0::4], longs[1::4]
        self.tids, self.kinds, self.depths, self.details = (words[i::8] for i in range(4, 8))

    def __len__(self):
        return len(self.times)

    def chosen(self, wanted):
        """(time, number, function_id, kind) of the events of some functions."""
        return [(self.times[i], i, f, self.kinds[i]) for i, f in enumerate(self.functions) if f in wanted]


def read_index(path, complete):
    """The events of an index.atf or index.ctp as bytes, whether it has a footer, and its header's thread id."""
    if path.endswith(".ctp"):
        try:
            return ctp.read(path, complete)[:3]
        except ctp.Bad as problem:
            raise BadTrace("%s: %s" % (path, problem))
    with open(path, "rb") as f:
        content = f.read()
    if len(content) < HEADER.size:
        if complete:
            raise BadTrace("%s is shorter than a header" % path)
        return b"", False, 0
    (magic, endian, version, arch, system, flags, thread_id, clock, event_size, count, events_at, footer_at, start,
     end) = HEADER.unpack_from(content)
    if (magic, endian, version, system, clock, event_size, events_at) != (b"ATI2", 1, 1, 4, 3, 32, 64) or \
            arch not in (1, 2):
        raise BadTrace("%s: header %r" % (path, content[:64]))
    if not footer_at or footer_at + FOOTER.size > len(content):
        if complete:
            raise BadTrace("%s has no footer" % path)
        rest = len(content) - HEADER.size
        return content[64:64 + rest - rest % EVENT.size], False, thread_id
    events = content[64:footer_at]
    magic, crc, total, first, last, written = FOOTER.unpack_from(content, footer_at)
    if magic != b"2ITA" or crc != zlib.crc32(events) or total * 32 != len(events) or count != total:
        raise BadTrace("%s: footer does not fit" % path)
    if (first, last) != (start, end) or written != len(events) or len(content) != footer_at + 64:
        raise BadTrace("%s: footer and header differ" % path)
    if total and (first, last) != (EVENT.unpack_from(events)[0], EVENT.unpack_from(events, len(events) - 32)[0]):
        raise BadTrace("%s: start and end are not the first and last event's" % path)
    return events, True, thread_id


def unescape(text):
    if "\\" not in text:
        return text
    plain = {"t": "\t", "n": "\n", "\\": "\\"}
    return re.sub(r"\\(x[0-9a-f]{2}|.)", lambda m: plain.get(m.group(1)) or chr(int(m.group(1)[1:], 16)), text)


FIRST_DIGITS = frozenset("0123456789abcdef")


def is_function(line):
    return line[:1] in FIRST_DIGITS and "\t" in line


@functools.lru_cache(maxsize=None)  # traces of a program's children have mostly the lines of its own
def function_columns(line):
    columns = [unescape(c) for c in line.split("\t")]
    return [int(c, 16) for c in columns[:3]] + columns[3:6]


class Trace:
    def __init__(self, directory):
        self.directory = directory
        with open(os.path.join(directory, "manifest.json")) as f:
            self.manifest = json.load(f)
        self.complete = self.manifest["complete"]
        self.pid = self.manifest["pid"]
        self.modules, self.functions = {}, {}
        self.read_symbols()
        self.threads = []
        self.read_threads()

    def read_symbols(self):
        """One line per function, columns between tabs, after its module's line; the last line is their number, perhaps
        with zeros before it."""
        with open(os.path.join(self.directory, "symbols"), errors="surrogateescape", newline="\n") as f:
            lines = f.read().split("\n")
        if not lines[0].startswith("contrail-symbols\t1\t"):
            raise BadTrace("symbols begins with %r" % lines[0])
        word, _, total = lines[-2].partition("\t")
        if self.complete and (lines[-1] or word != "total" or int(total, 16) != sum(map(is_function, lines[1:]))):
            raise BadTrace("symbols has no right end: %r" % lines[-2:])
        module = None
        for line in lines[1:-1]:
            if line.startswith("module\t"):
                columns = [unescape(c) for c in line.split("\t")]
                module = Module(int(columns[1], 16), columns[4], columns[3], int(columns[2], 16))
                self.modules[module.id] = module
            elif is_function(line):
                ident, offset, size, *texts = function_columns(line)
                if ident >> 32 != module.id:  # added while it was followed
                    module = self.modules.get(ident >> 32)
                if not module:
                    raise BadTrace("a function of a module that is not known: %s" % line)
                self.functions[ident] = Function(ident, module, offset, size, *texts)

    def read_threads(self):
        told = {t["id"]: t for t in self.manifest["threads"]}
        for path in glob.glob(os.path.join(glob.escape(self.directory), "thread_*", "index.[ac]t[fp]")):
            ident = int(os.path.basename(os.path.dirname(path))[len("thread_"):])
            data, finished, tid = read_index(path, self.complete)
            about = told.pop(ident, {})
            if self.complete and not about:
                raise BadTrace("thread %d is not in the manifest" % ident)
            if self.complete and about["events"] != len(data) // 32:
                raise BadTrace("thread %d: the manifest tells %d events, there are %d" % (ident, about["events"],
                                                                                        len(data) // 32))
            self.threads.append(Thread(ident, about.get("tid", tid), about.get("name", ""), data, finished))
        if self.complete and any(t["events"] for t in told.values()):
            raise BadTrace("threads without a file: %s" % sorted(told))
        self.threads.sort(key=lambda t: t.id)

    @property
    def lost(self):
        return sum(self.manifest["events"]["lost"].values())

    def check(self):
        """Time never goes back, depths fit, calls are paired: a list of sentences, empty when all is well."""
        problems = []
        gaps = {t["id"]: {g["at"] for g in t.get("gaps", [])} for t in self.manifest["threads"]}
        entry_only = {i for i, f in self.functions.items() if f.entry_only}
        for thread in self.threads:
            problems += check_thread(thread, self.functions, entry_only, gaps.get(thread.id, set()))
        return problems


def check_thread(thread, functions, entry_only, gaps):
    problems = []
    place = "thread %d, event " % thread.id
    if not all(map(operator.le, thread.times, thread.times[1:])):
        at = next(i for i in range(1, len(thread)) if thread.times[i] < thread.times[i - 1])
        problems.append("%s%d: time goes back by %d ns" % (place, at, thread.times[at - 1] - thread.times[at]))
    if not details_are_numbered(thread.details):
        problems.append("%s?: details are not numbered from 0 on" % place)
    seen = set(thread.functions)
    if set(thread.kinds) - {CALL, RETURN, EXCEPTION}:
        problems.append("%s?: kinds %s" % (place, set(thread.kinds)))
    if SIGNAL in seen and any(f == SIGNAL and k != EXCEPTION for f, k in zip(thread.functions, thread.kinds)):
        problems.append("%s?: a call or return of no function" % place)
    unknown = seen - functions.keys() - {SIGNAL}
    if unknown:
        problems.append("%s%d: unknown function %#x" % (place, thread.functions.index(min(unknown)), min(unknown)))
        return problems
    if not gaps and depths_are_plain(thread, seen & (entry_only | {SIGNAL})):
        return problems
    return problems + check_depths(thread, functions, entry_only, gaps, place)


def details_are_numbered(details):
    if details.count(NO_DETAIL) == len(details):
        return True
    linked = [d for d in details if d != NO_DETAIL]
    return linked == list(range(len(linked)))


NO_FRAME = 4  # in place of a kind


def depths_are_plain(thread, frameless):
    """What check_depths() finds of a thread with one stack and no gaps, without a loop in Python. `frameless`: its
    functions that open no frame."""
    kinds = array.array("I", thread.kinds)
    for function in frameless:
        for at in positions(thread.functions, function):
            kinds[at] = NO_FRAME
    after = itertools.accumulate(map((0, 1, -1, -1, 0).__getitem__, kinds))
    told = map(operator.add, thread.depths, map(CALL.__eq__, kinds))
    return max(kinds, default=0) <= NO_FRAME and all(map(operator.eq, after, told))


def positions(values, value):
    at = -1
    while True:
        try:
            at = values.index(value, at + 1)
        except ValueError:
            return
        yield at


OTHER_STACK, GROUP = 1 << 31, 4096  # of depths: docs/TRACE-FORMAT.md


def check_depths(thread, functions, entry_only, gaps, place):
    """Depths of the thread's first stack are counted; those of others say their stack and place, where no two may be
    open."""
    problems, depth, others, known = [], 0, {}, True
    for number, (function, kind, told) in enumerate(zip(thread.functions, thread.kinds, thread.depths)):
        if number in gaps:
            known, others = False, {}
            if told < OTHER_STACK:
                depth = told if kind == CALL else told + 1
        if told >= OTHER_STACK and function != SIGNAL:
            if not check_other(others, function, kind, told, entry_only) and known:
                problems.append("%s%d: %s of %s at depth %#x, which does not fit" % (
                    place, number, ("", "call", "return", "end")[kind], functions[function].where, told))
                if len(problems) > 5:
                    break
            continue
        if kind != CALL and function != SIGNAL:
            depth -= 1
        if told != depth and (function != SIGNAL or told < OTHER_STACK):
            problems.append("%s%d: %s of %s at depth %d instead of %d" % (
                place, number, ("", "call", "return", "end")[kind],
                functions[function].where if function != SIGNAL else "a signal", told, depth))
            depth = told
            if len(problems) > 5:
                break
        if kind == CALL and function not in entry_only:
            depth += 1
    return problems


def check_other(others, function, kind, depth, entry_only):
    if kind != CALL:
        return others.pop(depth, function) == function
    fits = depth not in others and (depth % GROUP == 0 or depth - 1 in others)
    if function not in entry_only:
        others[depth] = function
    return fits


def recorded_events(directory):
    """The number of events that the manifest states, for callers that need no more: `contrail verify` compares it with
    the files."""
    with open(os.path.join(directory, "manifest.json")) as f:
        return sum(thread["events"] for thread in json.load(f)["threads"])


def find(output):
    """The pid_N directories below an output directory."""
    return sorted(glob.glob(os.path.join(glob.escape(output), "session_*", "pid_*")))


def first(output):
    """The directory of the process that was spawned or attached to; the others are its children's. None without one."""
    for directory in find(output):
        with open(os.path.join(directory, "manifest.json")) as f:
            if json.load(f).get("origin") in ("spawn", "attach"):
                return directory
    return None
