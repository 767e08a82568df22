#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings with detail: replay --args must show what the program itself printed, call by call.

arguments.py CONTRAIL PROGRAM..."""
import json
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "record"))
from recorder import PATIENCE, TIMEOUT  # noqa: E402

REGISTERS = {"x86_64": ["rdi", "rsi", "rdx", "rcx", "r8", "r9"],
             "aarch64": [f"x{i}" for i in range(8)]}[platform.machine()]
NAMES = ("length_of", "many", "moved", "sum", "nothing", "mixed", "deref", "partly", "whole", "constant")


def run(*command, codes=(0,)):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT,
                          stdin=subprocess.DEVNULL)
    assert done.returncode in codes, f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def record(contrail, directory, options, command, codes=(0,)):
    told = run(contrail, "spawn", "--quiet", "-o", directory, *PATIENCE, *options, "--", *command, codes=codes)
    session, = pathlib.Path(directory).glob("session_*")
    assert "OK" in run(contrail, "verify", session)
    return session, [line.split("\t") for line in told.splitlines()]


def calls_of(contrail, session, program):
    """(name, text of the arguments, text of the result) of the program's own functions; None: there is no record."""
    lines = run(contrail, "replay", "--args", "--module", program.name, session).splitlines()[1:]
    calls = []
    for line in lines:
        text = line[14:].strip()
        name = re.match(r"\w*", text)[0]
        text = name + re.sub(r"^(\.\w+)*", "", text[len(name):])  # f.constprop.0 is made of f
        if name not in NAMES:
            continue
        body, end = text[len(name):].rsplit(")", 1) if "(" in text else (None, text)
        result = end.split(" = ", 1)[1].split("  ")[0] if " = " in end else None
        calls.append([name, body and body[1:], result])
    return calls


def lost_records(session):
    """Loss is never silent: this many may be missing, and no more."""
    manifest = json.loads(next(session.glob("pid_*/manifest.json")).read_text())
    return sum(manifest["detail"]["lost"].values())


def compare(told, calls, lost=0):
    assert len(told) == len(calls), f"{len(told)} calls were made, {len(calls)} are shown"
    missing = 0
    for (name, arguments, result), got in zip(told, calls):
        missing += (got[1] is None) + (got[2] is None and result != "")
        assert got[0] == name and got[1] in (arguments, None) and got[2] in (result, None), \
            f"told {name, arguments, result}, shown {got}"
    assert missing <= lost, f"{missing} records are missing, {lost} were lost"


def everything(contrail, program, directory):
    session, told = record(contrail, directory, ["--detail", "always", "--vectors", "--stack-bytes", "512",
                                                 "--detail-mem", "256M"], [program])
    calls = calls_of(contrail, session, program)
    assert told[-1][0] == "deref" and len(told) == 200 * 6 + 2
    compare(told[:-1], calls, lost_records(session))
    rows = [row for row in json.loads(run(contrail, "replay", "--args", "--json", "--module", program.name, session))
            if row.get("function") == "many"]
    assert len(rows) == 200
    for i, row in enumerate(rows):
        values = {argument["name"]: argument["value"] for argument in row.get("args", ())}
        assert not values or values == dict(a=i, b=-i, c=3 * i, d=(i + 128) % 256 - 128, e=4000000000, f=2**64 - 1,
                                            g=-7, h=i - 100)
    report = json.loads(run(contrail, "report", "--args", "--json", "--function", "many", session))["functions"][0]
    a, b = report["args"][:2]
    assert 0 <= a["min"] <= 10 and 190 <= a["max"] <= 199 and -199 <= b["min"] <= -190, report
    assert report["detailed_calls"] == sum("args" in row for row in rows)


def crash(contrail, program, directory):
    """The last call's arguments and the signal are there; what is there of the calls before is right."""
    session, told = record(contrail, directory, ["--trigger", "crash", "--pre-roll-ms", "100000", "--vectors",
                                                 "--stack-bytes", "512"], [program, "x"], codes=(139,))
    calls = calls_of(contrail, session, program)
    assert calls[-1] == ["deref", "n=2, where=0x10", None], calls[-1]
    assert sum(call[1] is not None for call in calls[-40:]) >= 30, "the last calls have records"
    compare(told, calls, len(told) * 2)
    text = run(contrail, "info", session)
    # Instructions at the beginning of a function run in their copies, which are in no module.
    assert re.search(r"SIGSEGV \(address not mapped\), address 0x10, at (deref\+)?0x", text), text
    assert "#0   deref [" in text and "#1   main [" in text, text
    assert "-- SIGSEGV (address not mapped), address 0x10, at " in run(contrail, "replay", session)


def registers(contrail, program, directory):
    """Without debug information: the registers."""
    stripped = pathlib.Path(directory, program.name)
    run("strip", "--strip-debug", "-o", stripped, program)
    session, told = record(contrail, directory + "/traces", ["--detail", "always", "--detail-mem", "256M"], [stripped])
    calls = [call for call in calls_of(contrail, session, stripped) if call[0] == "many"]
    assert len(calls) == 200 and sum(call[1] is not None for call in calls) > 150
    for i, call in enumerate(calls):
        if call[1] is None:
            continue
        values = dict(word.split("=") for word in call[1].split(", "))
        assert list(values) == REGISTERS
        first, second = (int(values[name], 16) for name in REGISTERS[:2])
        assert first == i and second & 0xFFFFFFFF == -i & 0xFFFFFFFF, call
    # Its debug information is elsewhere, and known by its build-id.
    manifest = json.loads(next(session.glob("pid_*/manifest.json")).read_text())
    identity = next(module["build_id"] for module in manifest["modules"] if module["path"] == str(stripped))
    place = pathlib.Path(directory, "debug", ".build-id", identity[:2])
    place.mkdir(parents=True)
    run("objcopy", "--only-keep-debug", program, place / (identity[2:] + ".debug"))
    text = run(contrail, "replay", "--args", "--debug-dir", place.parent.parent, "--module", stripped.name, session)
    assert len(re.findall(r"moved\(p=\{x=\d+, y=-?\d+\}, mode=[A-Z|8]+\) = \{x=\d+, y=-?\d+\}",
                          text)) > 150, text[-500:]


def honest(contrail, program, directory):
    """Of functions that the compiler has changed: what is shown is right, and the rest is "?"."""
    session, told = record(contrail, directory, ["--detail", "always", "--detail-mem", "256M"], [program])
    calls = calls_of(contrail, session, program)
    assert len(calls) == len(told) == 60
    known = 0
    for (name, arguments, result), got in zip(told, calls):
        values = dict(word.split("=") for word in arguments.split(", "))
        shown = dict(word.split("=") for word in (got[1] or "").split(", ") if word)
        assert got[0] == name and set(shown) <= set(values), (name, got)
        wrong = [word for word, value in shown.items() if value not in ("?", values[word])]
        assert not wrong and got[2] in (None, "?", result), f"told {name, arguments, result}, shown {got}"
        known += sum(value != "?" for value in shown.values())
    assert known >= 60, f"only {known} values are known"


def main():
    contrail, *programs = sys.argv[1:]
    for program in map(pathlib.Path, programs):
        for check in (honest,) if program.name.startswith("local") else (everything, crash, registers):
            with tempfile.TemporaryDirectory() as directory:
                try:
                    check(contrail, program, directory)
                except AssertionError as problem:
                    raise AssertionError(f"{program.name}, {check.__name__}: {problem}") from problem
    print(f"{len(programs)} programs: replay shows what they printed")


if __name__ == "__main__":
    sys.exit(main())
