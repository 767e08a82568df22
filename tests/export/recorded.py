# SPDX-License-Identifier: Apache-2.0
"""A recorded trace as the model that checks.py compares with, read from its files by docs/TRACE-FORMAT.md."""
import json
import pathlib
import re
import struct
import sys

import traces

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import ctp  # noqa: E402

EVENT = struct.Struct("<QQIIII")
KINDS = {1: "call", 2: "return", 3: "exception"}


def unescape(text):
    return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" and len(m[1]) == 3 else
                  {"t": "\t", "n": "\n"}.get(m[1], m[1]), text)


def read_symbols(path):
    """{function_id: (name, entry only)}"""
    functions, module = {}, ""
    for line in path.read_text(errors="surrogateescape").splitlines():
        columns = line.split("\t")
        if columns[0] == "module":
            module = pathlib.Path(unescape(columns[4])).name
        elif re.fullmatch("[0-9a-f]+", columns[0]):
            name = unescape(columns[3]) or f"{module}+0x{columns[1].lstrip('0') or '0'}"
            functions[int(columns[0], 16)] = (name, bool(columns[5]))
    return functions


def read_thread(directory, facts, functions):
    thread = traces.Thread(facts["id"], facts["tid"], facts["name"])
    data, finished, _, _ = ctp.read(directory / f"thread_{facts['id']}" / "index.ctp")
    for at in range(len(data) // 32):
        time, function, tid, kind, depth, _ = EVENT.unpack_from(data, 32 * at)
        assert tid == thread.tid
        name, entry_only = functions[function]
        if entry_only and kind == 1:
            thread.entry_places.add(at)
        thread.events.append((time, KINDS[kind], name, depth))
    thread.losses = [(gap["lost"], gap["reason"]) for gap in facts["gaps"]]
    thread.loss_places = [gap["at"] for gap in facts["gaps"]]
    thread.script = ["recorded"] if thread.events or thread.losses else []
    return thread


def read(session):
    """The trace; the calls that are open at its end are not known."""
    processes = []
    for directory in sorted(pathlib.Path(session).glob("pid_*")):
        manifest = json.loads((directory / "manifest.json").read_text())
        functions = read_symbols(directory / "symbols")
        threads = [read_thread(directory, facts, functions) for facts in manifest["threads"]]
        process = traces.Process(manifest["pid"], threads, 0, not manifest["complete"])
        process.program = pathlib.Path(manifest["modules"][0]["path"]).name
        processes.append(process)
    trace = traces.Trace(processes)
    trace.path = str(session)
    trace.recorded = True
    return trace
