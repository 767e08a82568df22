#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the page asks does not grow with the trace: the same requests, of a trace of a million events and of one that
is much larger, have answers of the same size, and for pictures and single calls the server reads as much.

sizes.py CONTRAIL MANY_EVENTS TOUR [EVENTS]: EVENTS of the large trace (10,000,000). Both repeat a recorded TOUR."""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from served import Served

SMALL = 10 ** 6
PATIENCE = 600  # seconds until everything that is prepared is there
ASKED = 6  # answers to each kind of request, at places all over the trace
SPANS = {"20 us": 20_000, "1 ms": 1_000_000, "50 ms": 50_000_000}  # of pictures, in nanoseconds
NARROW = 48  # columns of a picture of the whole: as many as have something everywhere in the small trace too
GROWTH = 1.3  # numbers have more digits
ROOM = 4096  # bytes of an answer that may come on top
READ_ROOM = 2 << 20  # bytes that the server may read on top: blocks are cut elsewhere
OF_ALL_CALLS = ("flame", "functions", "latency", "select")  # sums of what is in a range: it is read


def make(many_events, directory, events, piece):
    subprocess.run([many_events, directory, str(events), piece], check=True, stdout=subprocess.DEVNULL)
    return directory


def read_bytes(served):
    """Bytes that the server has read from files until now."""
    text = pathlib.Path(f"/proc/{served.process.pid}/io").read_text()
    return int(re.search(r"^rchar: (\d+)", text, re.M)[1])


def prepared(served):
    """Waits for levels and summaries."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if served.ask("info")["counted"] and served.ask("map", width=10)["progress"] == 1:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("levels and summaries were not ready in time")
    while "same" not in served.ask("call", id=0) and time.monotonic() < end:
        time.sleep(0.1)


def questions(info, function):
    """(kind, address) of requests at places all over the trace: what the page asks when it is opened and used."""
    length = info["end"] - info["start"]
    for i in range(ASKED):
        at = length * i // ASKED
        for name, span in SPANS.items():
            start = max(0, min(at, length - span))
            yield f"cells, {name}", f"cells?threads=1,2&from={start}&to={start + span}&width=1024&depth=0-31"
        yield "at", f"at?thread=1&time={at}"
        yield "next hit", f"hits?function={function}&after={at}"
    everything = f"from={info['start']}&to={info['end']}"
    yield "traces", "traces"
    yield "info", "info"
    yield "map", "map?width=1200"
    yield "cells, the whole", f"cells?threads=1,2&{everything}&width={NARROW}&depth=0-31"
    yield "call", "call?id=0"
    yield "search", "search?text=e&limit=100"
    yield "hits", f"hits?function={function}&width=1200"
    yield "flame", "flame?mode=callees"
    yield "functions", "functions?limit=100"
    yield "latency", f"latency?function={function}&width=200&height=40"
    yield "select", f"select?{everything}"
    yield "crash", "crash"
    yield "blocks", "blocks"


def measure(contrail, trace):
    """{kind: bytes of the largest answer}, {kind: bytes of files that the server read}; how many events there are."""
    sizes, reads = {}, {}
    with Served(contrail, trace) as served:
        prepared(served)
        found = served.ask("search", text="new_word", limit=1)["functions"]
        info = served.ask("info")
        for kind, address in questions(info, found[0]["function"]):
            before = read_bytes(served)
            status, _, body = served.request("/api/" + address)
            reads[kind] = reads.get(kind, 0) + read_bytes(served) - before
            assert status == 200 or kind == "at" and b"no call is open" in body, (address, body[:300])
            sizes[kind] = max(sizes.get(kind, 0), len(body))
        for name in ("/", "/app/main.js", "/app/timeline.js", "/app/app.css"):
            sizes[name] = len(served.request(name)[2])
        return sizes, reads, info["events"]


def main():
    contrail, many_events, tour, *rest = sys.argv[1:]
    large = int(rest[0]) if rest else 10 ** 7
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        subprocess.run([contrail, "spawn", "--quiet", "--output", place / "piece", "--", tour], check=True,
                       stdout=subprocess.DEVNULL)
        piece = next(place.glob("piece/session_*/pid_*"))
        few, few_read, events = measure(contrail, make(many_events, place / "small", SMALL, piece))
        many, many_read, more = measure(contrail, make(many_events, place / "large", large, piece))
    assert more > 0.9 * large / SMALL * events, (events, more)
    print(f"{events} and {more} events: bytes of the largest answer, bytes that were read for all answers of a kind")
    for kind, size in many.items():
        read = (few_read.get(kind, 0), many_read.get(kind, 0))
        print(f"  {kind}: {few[kind]} and {size}, {read[0]} and {read[1]}")
        assert size <= GROWTH * few[kind] + ROOM, (kind, few[kind], size)
        assert kind in OF_ALL_CALLS or read[1] <= GROWTH * read[0] + READ_ROOM, (kind, read)


if __name__ == "__main__":
    main()
