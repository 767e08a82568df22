#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent may contain, and that it makes no system call while it records.

usage: agent_test.py AGENT CONTRAIL TARGET

AGENT is the image that is put into other processes: nobody relocates it, nobody resolves its symbols, it has no
thread-local storage, and the vector registers are not its own. TARGET is a program that only calls functions until it
gets SIGTERM."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "record"))
from recorder import read_line  # noqa: E402

SIZE_LIMIT = 128 << 10
# What stubs that capture detail do: they store vector registers, and copy stack through one that they put aside.
MOVES = re.compile(r"(movups|movq) +(%xmm[0-7],\S*\(%r[a-z]+(,%r[a-z]+,1)?\)|\S*\(%r[a-z]+(,%r[a-z]+,1)?\),%xmm0)$")
EVENTS_PER_CHUNK = 512  # of the default lane
ENOUGH_SWAPS = 300
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_TLS, PT_GNU_STACK = 1, 2, 3, 7, 0x6474E551
(DT_NEEDED, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_RELASZ, DT_RELSZ, DT_TEXTREL,
 DT_GNU_HASH) = 1, 2, 5, 6, 8, 18, 22, 0x6FFFFEF5
failures = 0


def check(ok, text):
    global failures
    print(("ok      " if ok else "FAILED  ") + text)
    failures += not ok


class Image:
    def __init__(self, path):
        self.bytes = open(path, "rb").read()
        self.entry, self.phoff = struct.unpack_from("<QQ", self.bytes, 24)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.bytes, self.phoff + i * size) for i in range(count)]

    def of_type(self, kind):
        return [s for s in self.segments if s[0] == kind]

    def dynamic(self):
        entries = []
        for s in self.of_type(PT_DYNAMIC):
            for at in range(s[2], s[2] + s[5], 16):
                tag, value = struct.unpack_from("<qQ", self.bytes, at)
                if tag == 0:
                    break
                entries.append((tag, value))
        return entries

    def offset(self, address):
        for s in self.of_type(PT_LOAD):
            if s[3] <= address < s[3] + s[5]:
                return address - s[3] + s[2]
        raise ValueError(hex(address))

    def symbols(self):
        """Names of dynamic symbols, and whether they are defined. The string table follows the symbol table."""
        tags = dict(self.dynamic())
        if DT_SYMTAB not in tags:
            return []
        start, names = self.offset(tags[DT_SYMTAB]), self.offset(tags[DT_STRTAB])
        found = []
        for at in range(start + 24, names - 23, 24):
            name, _, _, section = struct.unpack_from("<IBBH", self.bytes, at)
            found.append((self.bytes[names + name:self.bytes.index(b"\0", names + name)].decode(), section != 0))
        return found


def check_image(path):
    image = Image(path)
    tags = image.dynamic()
    names = [tag for tag, _ in tags]
    symbols = image.symbols()
    check(len(image.bytes) < SIZE_LIMIT, f"the image is small: {len(image.bytes)} bytes")
    check(not [n for n, defined in symbols if not defined], "no undefined symbols")
    check(("ct_agent_run", True) in symbols, "the entry point is known by name")
    check(DT_NEEDED not in names, "no library is needed")
    check(not image.of_type(PT_INTERP), "no loader is asked for")
    check(not any(v for t, v in tags if t in (DT_RELASZ, DT_RELSZ, DT_PLTRELSZ)) and DT_TEXTREL not in names,
          "no relocations: nobody would apply them")
    check(not image.of_type(PT_TLS), "no thread-local storage")
    check(all(not s[1] & 1 for s in image.of_type(PT_GNU_STACK)) and image.of_type(PT_GNU_STACK),
          "no executable stack")
    check(all(s[1] & 3 != 3 for s in image.of_type(PT_LOAD)), "nothing is both writable and executable")
    text = [s for s in image.of_type(PT_LOAD) if s[1] & 1]
    check(len(text) == 1 and text[0][3] <= image.entry < text[0][3] + text[0][6],
          "one text segment with the entry point")
    check(text[0][2] == text[0][3] < 4096, "the text begins the image")


def check_code(path):
    result = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    vectors, strange, count, moves = [], [], 0, 0
    for line in result.stdout.splitlines():
        parts = line.split("\t")
        if len(parts) < 2:
            continue
        count += 1
        code = parts[1].strip()
        name = code.split()[0]
        if MOVES.match(code):
            moves += 1
        elif re.search(r"%([xyz]mm|mm[0-7]|st\b|k[0-7]\b)", code):
            vectors.append(line.strip())
        elif (re.match(r"(f(?!s:|s\b|s_)|v[a-z]|ldmxcsr|stmxcsr|emms|xsave|xrstor)", name)
              and not re.match(r"(xsave64|xrstor64|fninit|ldmxcsr)$", name)):
            strange.append(line.strip())
        elif name == "(bad)":
            strange.append(line.strip())
    check(count > 1000, f"disassembled: {count} instructions")
    check(not vectors and moves < 512, f"no vector or floating-point register is used, {moves} moves of stubs apart" +
          "".join("\n        " + v for v in vectors[:5]))
    check(not strange,
          "no other instruction of theirs, saving and restoring apart" + "".join("\n        " + v for v in strange[:5]))


def events_of(contrail, pid):
    result = subprocess.run([contrail, "ctl", "--json", str(pid), "status"], capture_output=True, text=True)
    try:
        text = result.stdout[result.stdout.index("{"):]
        events = json.loads(text)["events"]
        return events["written"] + sum(events["lost"].values())
    except (ValueError, KeyError):
        return None


def wait_for(what, condition, seconds=100):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    print(f"not within {seconds} s: {what}")
    return None


def child_of(pid, name):
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            for child in open(f"/proc/{pid}/task/{tid}/children").read().split():
                if open(f"/proc/{child}/comm").read().strip() == name[:15]:
                    return int(child)
    except OSError:
        pass
    return None


def watch(contrail, pid, directory):
    """strace until there was enough to see, and how many events there were in it."""
    log = os.path.join(directory, "strace")
    strace = subprocess.Popen(["strace", "-f", "-p", str(pid), "-o", log], stderr=subprocess.PIPE, text=True)
    attached = read_line(strace.stderr, "strace is attached")  # "Process N attached"
    if "attached" not in attached:
        strace.wait()
        return None, attached.strip()
    before = wait_for("the recorder states its events", lambda: events_of(contrail, pid))
    wait_for("enough events while strace looks",
             lambda: (events_of(contrail, pid) or 0) - before > (ENOUGH_SWAPS + 1) * EVENTS_PER_CHUNK)
    after = wait_for("the recorder states its events", lambda: events_of(contrail, pid))
    strace.send_signal(signal.SIGINT)
    strace.wait()
    calls = [line for line in open(log).read().splitlines() if re.search(r"\w+\(", line) and "<detached" not in line]
    return (before, after), calls


def check_silence(contrail, target):
    directory = tempfile.mkdtemp(prefix="contrail-agent-")
    recorder = subprocess.Popen([contrail, "spawn", "--quiet", "--output", directory, target], stdout=subprocess.PIPE,
                                text=True)
    pid = None
    try:
        check(read_line(recorder.stdout, "the target is ready") == "ready\n", "the program runs under the recorder")
        pid = wait_for("the target starts", lambda: child_of(recorder.pid, os.path.basename(target)))
        check(pid is not None, "it is a child of the recorder")
        if not wait_for("the target is recorded", lambda: (events_of(contrail, pid) or 0) > 1000):
            check(False, "its events are counted")
            return
        counts, calls = watch(contrail, pid, directory)
        if counts is None:
            check("ptrace" in calls.lower() or "permitted" in calls.lower(), "strace: " + calls)
            print("skipped: strace may not attach here")
            return
        swaps = (counts[1] - counts[0]) // EVENTS_PER_CHUNK
        check(swaps > ENOUGH_SWAPS, f"chunks were replaced meanwhile: {swaps}")
        check(not calls, "no system call was made" + "".join("\n        " + c for c in calls[:5]))
    finally:
        if pid:
            os.kill(pid, signal.SIGTERM)
        output = recorder.communicate(timeout=60)[0]
        shutil.rmtree(directory, ignore_errors=True)
    check(recorder.returncode == 0 and output == "done\n", "the program has ended as it does alone")


def main():
    agent, contrail, target = sys.argv[1:4]
    check_image(agent)
    check_code(agent)
    check_silence(contrail, target)
    sys.exit(1 if failures else 0)


main()
