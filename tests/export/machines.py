#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports of a trace from another machine: registers have that machine's names, and its number stays in the headers.

machines.py CONTRAIL MAKE_TRACE ATF_PACK"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import readers

ARM64 = 2
NAMES = {"x%d" % i for i in range(31)} | {"sp", "pc", "pstate"}


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def check_protobuf(contrail, trace, place):
    output(contrail, "export", "-f", "atf-pb", "-o", place / "atf.pb", trace)
    records = readers.atf_pb(place / "atf.pb")
    calls = [r["detail"] for kind, r in records if kind == "call" and "detail" in r]
    assert len(calls) == 5 and not any("registers" in detail for detail in calls), calls
    registers = [detail["arm_registers"][0] for detail in calls]
    assert registers[1] == {name: [value] for name, value in dict(
        x0=7, x1=8, x2=9, x3=10, x4=11, x5=12, x29=0x7FFD00, sp=0x7FFC00).items()}, registers[1]  # zeros are left out
    assert registers[0]["x1"] == [0x7FFE10], registers[0]
    results = [r["detail"]["arm_registers"][0] for kind, r in records if kind == "return" and "detail" in r]
    assert [set(r) for r in results] == [{"x0", "x29", "sp"}] and results[0]["x0"] == [2**64 - 1], results
    signals = [r["signal"]["arm_registers"][0] for kind, r in records if kind == "exception" and "signal" in r]
    assert len(signals) == 2 and all(set(r) == NAMES for r in signals), signals
    assert signals[1]["x30"] == [0x11E] and signals[1]["pc"] == [0x10121C], signals[1]


def check_chrome(contrail, trace, place):
    output(contrail, "export", "-f", "chrome", "-o", place / "chrome.json", trace)
    events = readers.json_file(place / "chrome.json")["traceEvents"]
    arguments = next(event["args"] for event in events if event.get("name") == "other" and event["ph"] == "B")
    assert arguments["x5"] == "0xc" and "rdi" not in arguments, arguments


def archs(directory):
    return {path.name: path.read_bytes()[6] for path in directory.rglob("*.atf")} | {
        path.name: path.read_bytes()[6] for path in directory.rglob("*.ctp")}


def check_headers(contrail, atf_pack, trace, place):
    """Packs and unpacks the trace on a machine other than the trace's."""
    packed = place / "packed"
    shutil.copytree(trace, packed)
    for path in packed.rglob("index.atf"):
        path.unlink()
    process = next(trace.glob("pid_*"))
    output(atf_pack, process, packed / process.name)
    assert archs(packed) == {"index.ctp": ARM64, "detail.atf": ARM64}, archs(packed)
    manifest = packed / process.name / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"atf2"', '"packed"', 1))
    output(contrail, "verify", packed)
    output(contrail, "export", "-f", "atf2", "-o", place / "raw", packed)
    assert archs(place / "raw") == {"index.atf": ARM64, "detail.atf": ARM64}, archs(place / "raw")
    output(contrail, "verify", place / "raw")


def main():
    contrail, make_trace, atf_pack = [pathlib.Path(word).absolute() for word in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        subprocess.run([make_trace, place], check=True)
        trace = place / "arm" / "session_20250102_030405"
        check_protobuf(contrail, trace, place)
        check_chrome(contrail, trace, place)
        check_headers(contrail, atf_pack, trace, place)
    print("registers and headers are of the machine that was recorded")


if __name__ == "__main__":
    main()
