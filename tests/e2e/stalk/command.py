#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""command.py --contrail C --build DIR [NAME...]: `contrail stalk` from outside.

Each test_NAME below is a test. Exit status: 0 passed, 1 failed."""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
HEADER_DIRECTORIES = [os.path.join(ROOT, "abi"), os.path.join(ROOT, "include", "contrail")]
HEADERS = [path for directory in HEADER_DIRECTORIES for path in glob.glob(os.path.join(directory, "*.h"))]
INCLUDES = ["-I" + os.path.join(ROOT, name) for name in ("", "src", "include")]
sys.path.insert(0, os.path.join(HERE, "..", "record"))
import drcov  # noqa: E402
import prebuilt  # noqa: E402
from recorder import PATIENCE, TIMEOUT, Failure, Workshop, finish, read_line  # noqa: E402


def same(what, expected, seen):
    if expected != seen:
        raise Failure("%s: %r expected, %r seen" % (what, expected, seen))


def contains(text, *words):
    for word in words:
        if word not in text:
            raise Failure("%r is not in %r" % (word, text[-1500:]))


class Bench:
    """The workshop, programs that are built once, and ways to follow them."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.stepped = {}
        self.directory = os.path.join(arguments.build, "stalk_programs")
        os.makedirs(self.directory, exist_ok=True)

    def open(self, name):
        self.shop = Workshop(self.arguments.contrail, "stalk_" + name, os.path.join(self.arguments.build, "cache"))

    def build(self, source, *flags, name=None):
        """Builds a program unless there is one that is newer than its source and than the headers of the ABI."""
        path = os.path.join(self.directory, name or source)
        source = glob.glob(os.path.join(HERE, source + ".c*"))[0]
        if os.path.exists(path) and os.path.getmtime(path) >= max(map(os.path.getmtime, [source] + HEADERS)):
            return path
        command = ["g++" if source.endswith(".cc") else "gcc", "-O1", "-pthread", source, "-o", path] + list(flags)
        at = prebuilt.place(HEADER_DIRECTORIES, [source], [os.path.basename(path), list(flags)])
        if not prebuilt.fetch(at, self.directory):
            subprocess.run(prebuilt.command(command), check=True)
            prebuilt.store(at, self.directory, {os.path.basename(path): {}})
        return path

    def build_all(self):
        """What an emulated machine's compiler would take long for: prebuilt.py."""
        plain = [os.path.basename(path).split(".")[0] for path in glob.glob(os.path.join(HERE, "*.c*"))]
        for source, *flags in [[name] for name in plain] + [["swaps", "-ldl"], ["throws", "-O2"], ["half"] + INCLUDES]:
            try:
                self.build(source, *flags)
            except subprocess.CalledProcessError:
                pass  # it is no program by itself
            finally:
                if os.path.exists(os.path.join(self.directory, source)):
                    os.remove(os.path.join(self.directory, source))
        self.build("covered", "-g", name="covered_lines")

    def stalk(self, options, command=(), code=0, **more):
        """(result, directory of the first process's trace)"""
        output = self.shop.new_output()
        result = self.shop.run([self.arguments.contrail, "stalk", "--output", output] + PATIENCE + list(options) +
                               (["--"] + list(command) if command else []), **more)
        if code is not None and result.code != code:
            raise Failure("stalk %s ended with %d: %s" % (" ".join(options), result.code, result.err.decode()))
        found = [d for d in glob.glob(os.path.join(output, "*", "pid_*"))
                 if self.manifest(d)["origin"] in ("spawn", "attach")]
        return result, found[0] if found else None

    def family(self, directory):
        """Manifests of all processes of the session, and their directories."""
        found = glob.glob(os.path.join(os.path.dirname(directory), "pid_*"))
        return [(self.manifest(d), d) for d in found]

    def steps(self, subject):
        """Places of all instructions of the program's own file that a single-stepped run executes, in order."""
        if subject not in self.stepped:
            self.stepped[subject] = self.shop.run([self.build("steps"), subject]).out.decode().split()
        return self.stepped[subject]

    def manifest(self, directory):
        with open(os.path.join(directory, "manifest.json")) as f:
            return json.load(f)

    def check(self, directory):
        contains(self.shop.read("verify", os.path.dirname(directory)).out.decode(), "OK")

    def equal(self, command, options=(), **more):
        """Followed and native are the same; the trace verifies."""
        plain = self.shop.run(command, **more)
        followed, directory = self.stalk(["--quiet"] + list(options), command, code=None, **more)
        differences = plain.differences(followed)
        if differences:
            raise Failure("%s: %s" % (command[0], "; ".join(differences)))
        if directory is None:
            raise Failure("%s left no trace" % command[0])
        self.check(directory)
        return self.manifest(directory)

    def start_busy(self, name="busy"):
        process = self.shop.start([self.build(name)])
        return process, int(read_line(process.stdout, "the busy program's process id"))

    def end_busy(self, process):
        """It ran on rightly."""
        process.send_signal(signal.SIGTERM)
        result = finish(process)
        same("the end of the program", (5, b"1\n"), (result.code, result.out))

    def begin(self, pid, *options):
        """`stalk -p PID` that is following."""
        process = self.shop.start([self.arguments.contrail, "stalk", "--output", self.shop.new_output(), "--pid",
                                   str(pid)] + PATIENCE + list(options))
        deadline = time.monotonic() + TIMEOUT
        while not self.shop.is_recording(pid):
            if process.poll() == 0 and "--duration" in options:
                return process  # it has followed, and let go already
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise Failure("stalk does not follow: %r" % (process.communicate(),))
            time.sleep(0.02)
        return process


# ---- what it reports ----

def test_coverage(b):
    """Blocks of the program's own file are exactly what a single-stepped run executes."""
    subject = b.build("covered")
    file = b.shop.path("run.drcov")
    result, directory = b.stalk(["--events", "none", "--coverage", file], [subject], code=3)
    same("output", b.shop.run([subject]).out, result.out)
    modules, blocks = drcov.read(file)
    own = [m.id for m in modules.values() if m.path == os.path.realpath(subject)]
    same("modules that are the program", 1, len(own))
    listing = subprocess.run(["objdump", "-d", "-w", "--no-show-raw-insn", subject], stdout=subprocess.PIPE, check=True)
    places = [int(m.group(1), 16) for m in re.finditer(r"^\s+([0-9a-f]+):\t", listing.stdout.decode(), re.M)]
    ranges = [(offset, offset + size) for module, offset, size in blocks if module == own[0]]
    covered = {p for p in places if any(start <= p < end for start, end in ranges)}
    stepped = {int(place, 16) for place in b.steps(subject)}
    same("instructions that are covered and were not executed", set(), covered - stepped)
    same("instructions that were executed and are not covered", set(), stepped - covered)
    same("blocks that begin between instructions", [], [s for s, _ in ranges if s not in stepped])
    if len(covered) < 50:
        raise Failure("only %d instructions are covered" % len(covered))
    text = open(os.path.join(directory, "blocks")).read()
    contains(text, "contrail-blocks\t1\n", "\t" + os.path.realpath(subject))


def test_handlers(b):
    """A handler is called by what it interrupts, also on another stack; one that is jumped out of ends there."""
    _, directory = b.stalk(["--quiet"], [b.build("handled")], code=3)
    own = {"plain", "nested", "left", "leaf", "on_usr1", "on_usr2", "on_term"}
    path, seen = [], []
    for spaces, name in re.findall(r"^ +[0-9.]+( +)(\w+)  ?[0-9{]", b.shop.read("replay", directory).out.decode(),
                                   re.M):
        path = [(depth, n) for depth, n in path if depth < len(spaces)] + [(len(spaces), name)]
        if name in own:
            seen.append("/".join(n for _, n in path if n in own))
    same("calls", ["plain", "plain/on_usr1", "plain/on_usr1/leaf", "plain/leaf", "nested", "nested/on_usr2",
                   "nested/on_usr2/leaf", "nested/on_usr2/on_usr1", "nested/on_usr2/on_usr1/leaf", "nested/leaf",
                   "left", "left/on_term", "left/on_term/leaf", "left/leaf"], seen)
    b.check(directory)
    for events in ("none", "call"):
        result, _ = b.stalk(["--events", events, "--summary"], [b.build("handled")], code=3)
        lines = dict(reversed(l.split(None, 1)) for l in result.err.decode().splitlines() if l.endswith("]"))
        same("calls of a handler", ("2", "1"), (lines.get("on_usr1 [handled]"), lines.get("on_term [handled]")))


def unguard(path):
    """arm64: the program's pages are not guarded, because libc's own start is not marked."""
    type_of_property = 0x6474e553
    with open(path, "r+b") as file:
        data = file.read()
        headers, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for at in range(headers, headers + size * count, size):
            if struct.unpack_from("<I", data, at)[0] == type_of_property:
                file.seek(at)
                file.write(bytes(4))


def test_marked_linkage(b):
    """A linkage table whose entries begin with endbr64 (arm64: bti c), bound when they are first used: calls are those
    of the functions."""
    marks = {"x86_64": ["-fcf-protection=full", "-Wl,-z,ibtplt"],
             "aarch64": ["-mbranch-protection=standard", "-no-pie", "-Wl,-z,force-bti"]}[os.uname().machine]
    subject = b.build("handled", *marks, "-Wl,-z,lazy", name="handled_marked")
    if os.uname().machine == "aarch64":
        unguard(subject)
    for events in ("none", "call,ret"):
        result, _ = b.stalk(["--events", events, "--summary"], [subject], code=3)
        lines = dict(reversed(l.split(None, 1)) for l in result.err.decode().splitlines() if l.endswith("[libc.so.6]"))
        same("calls of raise", "4", lines.get("raise [libc.so.6]"))


def interleaved(subject, stepped):
    """Places of instructions with +NAME before the first of a call of the program's own functions, -NAME after its
    return."""
    listing = subprocess.run(["objdump", "-d", "-w", "--no-show-raw-insn", subject], stdout=subprocess.PIPE,
                             check=True).stdout.decode()
    starts, returns = {}, {}
    for name, body in re.findall(r"^[0-9a-f]+ <(main|choose|leaf)>:\n((?:.+\n)*)", listing, re.M):
        places = re.findall(r"^ +([0-9a-f]+):\t(\S+)", body, re.M)
        starts[places[0][0]] = name
        returns.update({place: name for place, word in places if word == "ret"})
    tokens = []
    for place in stepped:
        tokens += ["+" + starts[place], place] if place in starts else [place]
        tokens += ["-" + returns[place]] if place in returns else []
    return tokens


def test_code(b):
    """Instructions in the trace, with calls and returns between them, are those of a single-stepped run, in the same
    order; blocks are made of them."""
    subject = b.build("covered")
    result, directory = b.stalk(["--events", "call,ret,block,exec,compile"], [subject], code=3)
    same("output", b.shop.run([subject]).out, result.out)
    b.check(directory)
    replay = [b.arguments.contrail, "replay", directory]
    stepped = b.steps(subject)
    stepped = [p for i, p in enumerate(stepped) if not i or stepped[i - 1] != p]  # rep movs: a step for each time
    lines = json.loads(b.shop.run(replay + ["--instructions", "--json"]).out)
    own = [l for l in lines if l.get("module") == os.path.basename(subject)]
    signs = {"open": "+", "close": "-"}
    seen = ["%x" % l["offset"] if l["kind"] == "instruction" else signs[l["kind"]] + l["function"] for l in own
            if l["kind"] == "instruction" or (l["kind"] in signs and l["function"] in ("main", "choose", "leaf"))]
    same("calls among instructions", interleaved(subject, stepped), seen)
    same("times that go back", [], [i for i in range(1, len(lines)) if lines[i]["time_ns"] < lines[i - 1]["time_ns"]])
    executed = [p for p in seen if p[0] not in "+-"]
    lines = json.loads(b.shop.run(replay + ["--blocks", "--json"]).out)
    blocks = [l for l in lines if l["kind"] == "block" and l["module"] == os.path.basename(subject)]
    begins, at = [], 0
    for block in blocks:
        begins.append(executed[at])
        at += block["executed"]
    same("places where blocks begin", begins, ["%x" % block["offset"] for block in blocks])
    same("instructions of blocks", len(executed), at)
    text = b.shop.run(replay + ["--blocks"]).out.decode()
    contains(text, "  choose+0x0  (", "(translated, ")
    same("lines", len(lines), len(text.splitlines()) - 1)
    manifest = b.manifest(directory)
    code = manifest["threads"][0]["code"]
    same("blocks", manifest["stalk"]["events"]["block"], code["blocks"])
    same("translations", manifest["stalk"]["events"]["compile"], code["compiled"])
    same("lost", 0, code["lost"])
    same("lines of blocks", code["blocks"] + code["compiled"], sum(l["kind"] in ("block", "translated") for l in lines))
    same("lines of instructions", manifest["stalk"]["events"]["exec"],
         len(re.findall(r"^ +\S+ +\S+\+0x\S+(?:  \S+)?$", b.shop.run(replay + ["--instructions"]).out.decode(), re.M)))
    report = [b.arguments.contrail, "report", "--blocks", "--json", "--limit", "0", directory]
    rows = json.loads(b.shop.run(report).out)
    same("blocks in the report", (code["blocks"], manifest["stalk"]["events"]["exec"]),
         (rows["count"], rows["executed"]))
    counts = collections.Counter((l["module"], l["offset"], l["size"]) for l in lines if l["kind"] == "block")
    same("counts", counts, {(r["module"], r["offset"], r["size"]): r["count"] for r in rows["blocks"]})
    copy = os.path.dirname(directory) + ".atf2"
    same("export", 0, b.shop.run([b.arguments.contrail, "export", "--format", "atf2", "-o", copy,
                                  os.path.dirname(directory)]).code)
    contains(b.shop.read("verify", copy).out.decode(), "OK")
    same("blocks of the copy", rows["blocks"], json.loads(b.shop.run(report[:-1] + [copy]).out)["blocks"])
    shutil.rmtree(copy)
    file = os.path.join(directory, "thread_1", "code.ctc")
    data = bytearray(open(file, "rb").read())
    for change in (lambda d: d[:-1], lambda d: d[:200] + bytes([d[200] ^ 1]) + d[201:], lambda d: b"XXXX" + d[4:],
                   lambda d: d + b"0"):
        open(file, "wb").write(change(data))
        contains(b.shop.read("verify", os.path.dirname(directory), 1).out.decode(), "code.ctc")
        if len(change(data)) == len(data):
            same("replay of a damaged file", 69, b.shop.run(replay + ["--blocks"]).code)
            same("report of a damaged file", 69, b.shop.run(report).code)
    os.unlink(file)
    contains(b.shop.read("verify", os.path.dirname(directory), 1).out.decode(), "it is missing")


def test_lines(b):
    """Blocks in the report have the source lines that addr2line prints."""
    subject = b.build("covered", "-g", name="covered_lines")
    _, directory = b.stalk(["--quiet", "--events", "block"], [subject], code=3)
    rows = json.loads(b.shop.run([b.arguments.contrail, "report", "--blocks", "--json", "--lines", "--limit", "0",
                                  "--function", "choose", "--module", "covered_lines", directory]).out)["blocks"]
    places = ["0x%x" % row["offset"] for row in rows]
    told = subprocess.run(["addr2line", "-e", subject] + places, stdout=subprocess.PIPE,
                          check=True).stdout.decode().split("\n")
    same("lines", [re.sub(r" \(.*", "", line) for line in told[:len(rows)]], [row.get("line") for row in rows])
    same("the first block of choose", [16], [row["count"] for row in rows if row["function_offset"] == 0])


def test_swapped(b):
    """A library that is loaded where another one was has its own names."""
    arguments = []
    for name in ("early", "later"):
        path = os.path.join(b.directory, "lib%s.so" % name)
        if not os.path.exists(path):
            subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", path], check=True,
                           input=b"int %s(int x) { return x * 3 + 1; }\n" % name.encode())
        arguments += [path, name]
    result, directory = b.stalk(["--summary", "--events", "call,ret,block", "--coverage", b.shop.path("swapped")],
                                [b.build("swaps", "-ldl")] + arguments, code=None)
    same("output", b"early 12\nlater 35\n", result.out)
    report = json.loads(b.shop.run([b.arguments.contrail, "report", "--json", "--limit", "100000", directory]).out)
    calls = {f["name"]: (f["calls"], os.path.basename(f["module"])) for f in report["functions"]}
    same("calls", ((3, "libearly.so"), (5, "liblater.so")), (calls.get("early"), calls.get("later")))
    text = b.shop.run([b.arguments.contrail, "replay", "--blocks", directory]).out.decode()
    same("blocks of both", [3, 5], [len(re.findall(r"  %s\+0x0  " % n, text)) for n in ("early", "later")])
    table = [l.split("\t") for l in open(os.path.join(directory, "blocks"))]
    modules = {l[1]: os.path.basename(l[5].strip()) for l in table if l[0] == "module"}
    counts = {m: sum(int(l[4]) for l in table if l[0] == "block" and modules.get(l[1]) == m and int(l[3], 16) < 16)
              for m in ("libearly.so", "liblater.so")}
    if not counts["libearly.so"] >= 3 or not counts["liblater.so"] >= 5:
        raise Failure("blocks are counted for other modules: %r" % counts)
    b.check(directory)
    return "" if result.code == 0 else "they were not loaded at the same place"


def test_many_excluded(b):
    """Hundreds of ranges: every function whose name ends so."""
    result, directory = b.stalk(["--exclude", "*[aeiou]", "--events", "call,ret"], [b.build("covered")], code=3)
    same("output", b.shop.run([b.build("covered")]).out, result.out)
    ranges = b.manifest(directory)["stalk"]["excluded_ranges"]
    if ranges < 200:
        raise Failure("only %d ranges" % ranges)
    b.check(directory)


def test_summary(b):
    """choose is called 16 times, leaf by two of its four cases: 4 + 8 times."""
    for events in ("call,ret", "none", "call"):
        result, directory = b.stalk(["--events", events, "--summary"], [b.build("covered")], code=3)
        lines = dict(reversed(l.split(None, 1)) for l in result.err.decode().splitlines() if l.endswith("[covered]"))
        same("calls of choose with " + events, "16", lines.get("choose [covered]"))
        same("calls of leaf with " + events, "12", lines.get("leaf [covered]"))
        same("calls of never", None, lines.get("never [covered]"))
        if "call" in events:
            contains(b.shop.read("info", directory).out.decode(), " returns, 0 exceptions")
        else:
            report = b.shop.run([b.arguments.contrail, "report", "--limit", "0", directory]).out.decode()
            rows = dict(reversed(l.split(None, 1)) for l in report.splitlines() if l.endswith("[covered]"))
            same("counts in report", lines, {name: rows[name] for name in lines})
        b.check(directory)


def test_made(b):
    """Code of no file is followed, and named by its address."""
    result, directory = b.stalk(["--events", "call,ret,block", "--summary"], [b.build("made")])
    same("output", b"100\n", result.out)
    if not re.search(r"^ +100  0x[0-9a-f]+ \[no symbol\]$", result.err.decode(), re.M):
        raise Failure("its calls are not told: %r" % result.err)
    b.check(directory)
    same("blocks of no file", 1, sum(l.startswith("block\t0\t") for l in open(os.path.join(directory, "blocks"))))


def test_disasm(b):
    result, _ = b.stalk(["--events", "none", "--disasm"], [b.build("covered")], code=None)
    text = result.err.decode()
    if "--disasm needs" in text:
        return "skipped: Zydis is not installed"
    same("exit code", 3, result.code)
    part = re.search(r"\nchoose:\n(.*?)\n\n", text, re.S).group(1)
    contains(part, "16x", "ret")
    if "\nnever:\n" in text:
        raise Failure("never is listed")


def test_events(b):
    """Counts are printed and in the manifest; what is not asked for is not there."""
    subject = [b.build("covered")]
    result, directory = b.stalk(["--events", "block,exec,compile"], subject, code=3)
    stalk = b.manifest(directory)["stalk"]
    same("kinds", {"exec", "block", "compile"}, set(stalk["events"]))
    if not stalk["events"]["exec"] > stalk["events"]["block"] > stalk["events"]["compile"] > 100:
        raise Failure("numbers that cannot be: %r" % stalk)
    same("blocks", stalk["events"]["compile"], stalk["blocks_translated"])
    contains(result.err.decode(), "following 1 thread", "followed 1 thread: ", " exec", " block", " compile")
    contains(b.shop.read("info", directory).out.decode(), "Followed", "1 thread through translated code", " exec")
    result, directory = b.stalk(["--events", "none"], subject, code=3)
    contains(result.err.decode(), "followed 1 thread;")
    same("threads", (1, 1, 0), tuple(b.manifest(directory)["stalk"]["threads_" + w]
                                     for w in ("followed", "finished", "left")))
    b.check(directory)


def calls_of(b, directory):
    """Depths and names of all calls, and how they ended, without times."""
    text = b.shop.read("replay", directory).out.decode()
    text = re.sub(r"^ +[0-9.]+ ", "", text, flags=re.M)
    return [re.sub(r" -?[0-9.]+ [mun]?s( |$)", " ", line).rstrip() for line in text.splitlines()]


def test_taken(b):
    """The agent takes records of calls and returns as they are. With blocks it receives events instead, from the same
    records: the calls are the same, with both clocks."""
    found = {}
    for options in (["call,ret,block"], ["call,ret"], ["call,ret", "--clock", "fast"]):
        result, directory = b.stalk(["--quiet", "--events"] + options, [b.build("mixed", "-Wl,-z,now")])
        b.check(directory)
        counts = b.manifest(directory)["stalk"]["events"]
        found[" ".join(options)] = ["%d %d" % (counts["call"], counts["ret"])] + calls_of(b, directory)
    expected = found.pop("call,ret,block")
    if len(expected) < 100000:
        raise Failure("only %d lines" % len(expected))
    for options, seen in found.items():
        for at, (one, other) in enumerate(zip(expected + [""], seen + [""])):
            same("%s, line %d" % (options, at), one, other)


def test_exclude(b):
    """Calls of what is excluded are seen and come back; what it calls is not seen. The program still runs from main."""
    subject = [b.build("covered")]
    result, directory = b.stalk(["--exclude", "choose", "--summary"], subject, code=3)
    contains(result.err.decode(), "16  choose [covered]")
    if "leaf [covered]" in result.err.decode():
        raise Failure("leaf is called by what is excluded, and was seen")
    same("ranges", 1, b.manifest(directory)["stalk"]["excluded_ranges"])
    b.check(directory)
    result, directory = b.stalk(["--exclude", "libc.so*", "--exclude", "ld-linux*", "--summary"], subject, code=3)
    contains(result.err.decode(), "12  leaf [covered]")
    b.check(directory)


def test_trust(b):
    for trust in ("-1", "0", "7"):
        manifest = b.equal([b.build("covered")], ["--trust", trust])
        same("trust", trust, manifest["stalk"]["trust"])


def test_clock(b):
    for clock in ("exact", "fast"):
        manifest = b.equal([b.build("covered")], ["--clock", clock])
        same("clock", clock, manifest["stalk"]["clock"])


# ---- processes that run ----

def test_attach(b):
    process, pid = b.start_busy()
    thread = max(int(t) for t in os.listdir("/proc/%d/task" % pid))
    for options, count in ((["--follow-threads", "all"], 2), (["--tid", str(thread)], 1),
                           (["--follow-threads", "main"], 1), (["--events", "none"], 2)):
        for duration in (100, 1000, 10000, 50000):  # a thread may not have had its turn
            result, directory = b.stalk(["--pid", str(pid), "--duration", "%dms" % duration] + options)
            manifest = b.manifest(directory)
            same("threads with %s" % options, count, manifest["stalk"]["threads_followed"])
            if "none" in options or len(manifest["threads"]) >= count:
                break
        same("its end", "detach", manifest["end"]["reason"])
        b.check(directory)
        if "none" not in options and count == 1:
            same("thread", [thread if "--tid" in options else pid], [t["tid"] for t in manifest["threads"]])
    b.end_busy(process)


def test_leave(b):
    """Ctrl-C, `contrail detach`, one after the other; then hooks."""
    process, pid = b.start_busy()
    for how in ("signal", "detach"):
        recorder = b.begin(pid)
        b.shop.wait_for_events(pid, 1000)
        if how == "signal":
            recorder.send_signal(signal.SIGINT)
        else:
            same("detach", 0, b.shop.run([b.arguments.contrail, "detach", str(pid)]).code)
        same("stalk that is told to leave", 0, finish(recorder).code)
        with open("/proc/%d/maps" % pid) as f:
            same("shared memory that is left", 0, f.read().count("/memfd:contrail"))
    result = b.shop.run([b.arguments.contrail, "attach", "--duration", "50ms", "-o", b.shop.new_output(), str(pid)])
    same("attach afterwards: %r" % result.err, 0, result.code)
    b.end_busy(process)


def test_killed_recorder(b):
    """The program runs on, and can be followed again."""
    process, pid = b.start_busy()
    for options in ([], ["--events", "none"]):
        recorder = b.begin(pid, *options)
        if not options:
            b.shop.wait_for_events(pid, 1000)
        recorder.kill()
        finish(recorder)
        result, directory = b.stalk(["--pid", str(pid), "--duration", "50ms"])
        b.check(directory)
    b.end_busy(process)


def test_half_made(b):
    """Memory of a recorder that was killed before anything was followed is no obstacle."""
    process = b.shop.start([b.build("half", *INCLUDES)])
    pid = int(read_line(process.stdout, "the program's process id"))
    result, directory = b.stalk(["--pid", str(pid), "--duration", "10ms"])
    b.check(directory)
    with open("/proc/%d/maps" % pid) as f:
        same("shared memory that is left", 0, f.read().count("/memfd:contrail"))
    b.end_busy(process)


def test_again_and_again(b):
    """Followed, let go and left by killed recorders many times: it stays whole, and hardly grows."""
    process, pid = b.start_busy()

    def size():
        with open("/proc/%d/statm" % pid) as f:
            return int(f.read().split()[0]) * 4096

    b.stalk(["--quiet", "--pid", str(pid), "--duration", "10ms"])
    before = size()
    for i in range(48 if b.arguments.long else 12):
        events = ("call,ret", "none", "block")[i % 3]
        if i % 4 == 3:
            recorder = b.begin(pid, "--events", events)
            recorder.kill()
            finish(recorder)
        else:
            b.stalk(["--quiet", "--pid", str(pid), "--events", events, "--duration", "%dms" % (i + 1)])
    b.stalk(["--quiet", "--pid", str(pid), "--duration", "10ms"])
    if size() - before > 2 << 20:
        raise Failure("it has grown by %d bytes" % (size() - before))
    b.end_busy(process)


def test_takes_gs(b):
    """A thread that has taken the register for itself, and went on natively, keeps it when the others are let go."""
    if os.uname().machine != "x86_64":
        return "skipped: the GS register is x86_64's"
    recorder = b.shop.start([b.arguments.contrail, "stalk", "--quiet", "--output", b.shop.new_output(),
                             b.build("takes_gs")],
                            stdin=subprocess.PIPE)
    same("what it prints", b"taken\n", read_line(recorder.stdout, "GS is taken"))
    pid = int(read_line(recorder.stdout, "the program's process id"))
    same("detach", 0, b.shop.run([b.arguments.contrail, "detach", str(pid)]).code)
    same("the end of the program", 0, finish(recorder).code)  # also the end of its input
    return None


def test_churn(b):
    """Threads and children come and go, signals too, while it is followed and let go."""
    process, pid = b.start_busy("churn")
    for i in range(13 if b.arguments.long else 5):
        if i % 4 == 3:
            recorder = b.begin(pid)
            recorder.kill()
            finish(recorder)
        else:
            _, directory = b.stalk(["--quiet", "--pid", str(pid), "--events", ("call,ret", "none", "block")[i % 3],
                                    "--duration", "%dms" % (10 * i + 1), "--exclude", ("none", "libc.so*")[i % 2]])
            b.check(directory)
    b.stalk(["--quiet", "--pid", str(pid), "--duration", "10ms"])
    b.end_busy(process)


def test_killed_program(b):
    process, pid = b.start_busy()
    recorder = b.begin(pid)
    b.shop.wait_for_events(pid, 1000)
    process.kill()
    finish(process)
    result = finish(recorder)
    same("stalk", 0, result.code)
    b.check(glob.glob(os.path.join(b.shop.directory, "traces*", "*", "pid_*"))[0])


# ---- bad input ----

def test_refused(b):
    process, pid = b.start_busy()
    recorder = b.begin(pid)
    for command in (["stalk", "--pid", str(pid)], ["attach", str(pid)]):
        result = b.shop.run([b.arguments.contrail] + command + ["--output", b.shop.new_output()])
        same("exit code of a second recorder", 69, result.code)
        contains(result.err.decode(), "is being followed already; `contrail detach %d` ends that" % pid)
    for command in ("mark", "exclude add x", "record off", "trigger add crash"):
        result = b.shop.run([b.arguments.contrail, "ctl", str(pid)] + command.split())
        contains(result.err.decode(), "accepts only status, pause, resume and stop")
    for command in ("pause", "resume", "status"):
        same("ctl " + command, 0, b.shop.run([b.arguments.contrail, "ctl", str(pid), command]).code)
    recorder.send_signal(signal.SIGINT)
    finish(recorder)
    recorder = b.shop.attach(pid, b.shop.new_output())
    result, _ = b.stalk(["--pid", str(pid)], code=69)
    contains(result.err.decode(), "is being recorded already")
    recorder.send_signal(signal.SIGINT)
    finish(recorder)
    result, directory = b.stalk(["--pid", str(pid), "--tid", "1"], code=69)
    contains(result.err.decode(), "has no thread 1")
    same("trace of nothing", None, directory)
    b.end_busy(process)
    for options, code, words in (
            (["--pid", "4999999"], 69, "there is no process 4999999"),
            (["--events", "call,jump", "true"], 64, "there is no event \"jump\""),
            (["--events", "", "true"], 64, "--events needs a value"),
            (["--exclude", "", "true"], 64, "--exclude needs a value"),
            (["--trust", "-2", "true"], 64, "--trust takes a number from -1 on"),
            (["--clock", "slow", "true"], 64, "--clock takes exact or fast"),
            (["--follow-threads", "some", "true"], 64, "--follow-threads"),
            (["--pid", str(os.getpid()), "true"], 64, "not both"),
            ([], 64, "give a PROGRAM"),
            (["--coverage", "/nonexistent/file", "true"], 69, "/nonexistent/file cannot be written"),
            (["/nonexistent/program"], 69, "/nonexistent/program")):
        result, _ = b.stalk(options, code=None)
        same("exit code with %s: %r" % (options, result.err), code, result.code)
        contains(result.err.decode(), words)


# ---- real programs ----

def test_children(b):
    """Forks, pipelines, exec, posix_spawn, vfork, clone: equal output; with --no-children they are let go."""
    script = "for i in 1 2 3; do echo $i | cat | wc -c; done; (exit 3); echo $?; x=$(echo in); echo $x; exec echo end"
    b.equal(["bash", "-c", script])
    b.equal([b.build("makes")])
    manifest = b.equal(["bash", "-c", script], ["--no-children"])
    same("children that were let go", 11, manifest["stalk"]["children_let_go"])
    same("threads", 1, len(manifest["threads"]))
    b.equal(["bash", "-c", script], ["--events", "none"])
    b.equal([b.build("makes")], ["--no-children"])
    static = os.path.join(b.directory, "covered_static")
    subprocess.run(["gcc", "-O1", "-static", os.path.join(HERE, "covered.c"), "-o", static], check=True)
    b.equal(["sh", "-c", static + "; echo $?"])
    b.equal([b.build("vforks"), "20"])
    b.equal(["sh", "-c", "exec true"])
    if shutil.which("make"):
        with open(b.shop.path("Makefile"), "w") as f:
            f.write("all: a b\na b:\n\t@echo $@ | tr a-b x-y\n")
        b.equal(["make", "-s", "-f", b.shop.path("Makefile")])
    with open(b.shop.path("small.c"), "w") as f:
        f.write("int f(int x) { return x + 1; }\n")
    b.equal(["gcc", "-O2", "-S", "-o", "-", b.shop.path("small.c")])


def test_family(b):
    """Every process has its calls, blocks and coverage; they are shown together."""
    file, covered = b.shop.path("all.drcov"), b.build("covered")
    result, directory = b.stalk(["--summary", "--coverage", file, "--disasm"],
                                ["sh", "-c", "%s; %s; exit 5" % (covered, covered)], code=5)
    members = b.family(directory)
    same("processes", ["exec", "exec", "spawn"], sorted(m["origin"] for m, _ in members if m["origin"] != "fork"))
    lines = dict(reversed(l.split(None, 1)) for l in result.err.decode().splitlines() if l.endswith("[covered]"))
    same("calls of choose", "32", lines.get("choose [covered]"))
    others = [d.rsplit("pid_", 1)[1] for _, d in members if d != directory]
    same("files of coverage", sorted(file + "." + d for d in others), sorted(glob.glob(file + ".*")))
    for name in [file] + [file + "." + d for d in others]:
        drcov.read(name)
    same("listings that have choose", 2, result.err.decode().count("\nchoose:\n"))
    report = json.loads(b.shop.run([b.arguments.contrail, "report", "--json", "--limit", "100000",
                                    os.path.dirname(directory)]).out)
    calls = [f["calls"] for f in report["functions"] if f["name"] == "choose"]
    same("calls in the report", 32, sum(calls))
    contains(b.shop.read("replay", os.path.dirname(directory)).out.decode(), "choose")
    b.check(directory)


def test_attach_family(b):
    """What a process makes after it was taken over is followed, and a shell whose pipelines run is left whole."""
    shell = b.shop.start(["bash", "-c", "read x; for i in 1 2 3; do /bin/echo $i | cat; done; exit 6"],
                         stdin=subprocess.PIPE)
    recorder = b.begin(shell.pid)
    out, _ = shell.communicate(b"\n", timeout=TIMEOUT)
    same("output", (6, b"1\n2\n3\n"), (shell.returncode, out))
    result = finish(recorder)
    contains(result.err.decode(), " processes in ")
    sessions = re.search(r"contrail report (\S+)", result.err.decode()).group(1)
    origins = sorted(b.manifest(d)["origin"] for d in glob.glob(sessions + "/pid_*"))
    same("processes", ["attach"] + ["exec"] * 6 + ["fork"] * 6, origins)
    contains(b.shop.read("verify", sessions).out.decode(), "OK")
    loop = "for i in $(seq 1 30); do /bin/echo $i | cat | tr 0-9 a-j; done"
    plain = b.shop.run(["bash", "-c", loop])
    for duration in ("50ms", "300ms"):
        shell = b.shop.start(["bash", "-c", "read x; " + loop], stdin=subprocess.PIPE)
        recorder = b.begin(shell.pid, "--duration", duration)
        out, _ = shell.communicate(b"\n", timeout=TIMEOUT)
        same("output of what was let go after " + duration, (0, plain.out), (shell.returncode, out))
        same("its recorder", 0, finish(recorder).code)


THREADS = """
import json, threading, decimal
r = []
def f(n):
    for i in range(20): r.append(len(json.dumps(list(range(n)))))
t = [threading.Thread(target=f, args=(100 + i,)) for i in range(3)]
[x.start() for x in t]; [x.join() for x in t]
print(sorted(r)[::20], decimal.Decimal(2).sqrt())
"""


def test_python(b):
    """Threads that start later are followed, libraries that are loaded later have names."""
    result, directory = b.stalk(["--summary"], ["/usr/bin/python3", "-S", "-c", THREADS])
    same("output", b.shop.run(["/usr/bin/python3", "-S", "-c", THREADS]).out, result.out)
    same("threads", 4, b.manifest(directory)["stalk"]["threads_followed"])
    same("threads with events", 4, len(b.manifest(directory)["threads"]))
    b.check(directory)
    modules = {os.path.basename(m["path"]).split(".")[0] for m in b.manifest(directory)["modules"]}
    if not modules & {"_json", "_decimal"}:
        return "this python has its modules built in"
    with open(os.path.join(directory, "symbols")) as f:
        text = f.read()
    calls = [line.split("\t") for line in open(os.path.join(directory, "calls")) if line.startswith("call")]
    late = {m["id"] for m in b.manifest(directory)["modules"] if "_json" in m["path"] or "_decimal" in m["path"]}
    if not any(int(c[1], 16) >> 32 in late for c in calls):
        raise Failure("no call into a library that was loaded later has a name")
    same("targets of no module", [], re.findall(r"^[0-9a-f]+\t[^\t]*\t0\t0x7f[^\t]*", text, re.M)[:3])
    return None


PROGRAMS = {
    "sqlite3": [":memory:",
                "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<500) "
                            "insert into t select x, x*x from c; select count(*), sum(b) from t;"],
    "perl": ["-e", "my %h; $h{$_ % 7} += $_ for 1..3000; print join(',', map {\"$_=$h{$_}\"} sort keys %h), \"\\n\"; "
                   "print `echo child`; eval { die 'caught' }; print $@;"],
    "git": ["-c", "color.ui=never", "help", "-g"],
    "openssl": ["sha256", "/bin/true"],
    "xz": ["-T2", "-1", "-c", "-k", "--block-size=100000", "/bin/bash"],
}


def test_programs(b):
    missing = []
    for name, arguments in PROGRAMS.items():
        if not shutil.which(name):
            missing.append(name)
            continue
        manifest = b.equal([name] + arguments)
        same("losses", {0}, set(manifest["events"]["lost"].values()))
        if name == "xz" and manifest["stalk"]["threads_followed"] < 2:
            raise Failure("xz -T2 had %d threads" % manifest["stalk"]["threads_followed"])
    return "not installed: " + ", ".join(missing) if missing else None


def test_throws(b):
    manifest = b.equal([b.build("throws", "-O2")])
    same("threads", 2, manifest["stalk"]["threads_followed"])


def test_leaves(b):
    """Exceptions and longjmp out of what is excluded: the program goes on rightly, and is followed."""
    subject = [b.build("leaves")]
    for module in ("libc.so*", "libstdc++*", "libgcc_s*"):
        b.equal(subject, ["--exclude", module])
        result, directory = b.stalk(["--exclude", module, "--summary"], subject)
        contains(result.err.decode(), "400  witness [leaves]")


def test_node(b):
    if not shutil.which("node"):
        return "not installed"
    b.equal(["node", "-e", "console.log([1, 2, 3].map(x => x * 2).join())"], ["--events", "none"], timeout=250)
    return None


# ---- all of them ----

def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contrail", default="build/contrail")
    parser.add_argument("--build", default="/tmp")
    parser.add_argument("--long", action="store_true", help="threads come and go for longer")
    parser.add_argument("--build-only", action="store_true", help="for other machines: prebuilt.py")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.contrail, arguments.build = os.path.abspath(arguments.contrail), os.path.abspath(arguments.build)
    bench, failed = Bench(arguments), 0
    if arguments.build_only:
        bench.build_all()
        return 0
    tests = {n[len("test_"):]: f for n, f in globals().items() if n.startswith("test_")}
    for name in arguments.names or tests:
        started = time.monotonic()
        bench.open(name)
        try:
            said = tests[name](bench)
            problems = bench.shop.leftovers()
        except (Failure, drcov.BadFile, OSError, AttributeError) as e:
            said, problems = None, [str(e) or repr(e)]
        finally:
            bench.shop.close()
        failed += bool(problems)
        if said and said.startswith("skipped") and not problems:
            print("%s: %s" % (name, said))
            continue
        print("%s %s, %.1f s%s" % ("FAILED " if problems else "ok     ", name, time.monotonic() - started,
                                   " (%s)" % said if said else ""))
        for problem in problems[:5]:
            print("  " + problem.replace("\n", "\n  "))
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
