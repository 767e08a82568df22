#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server of `contrail view`: who gets an answer, and what is in it, compared with `contrail query`.

view.py CONTRAIL MAKE_TRACE HOSTILE_TRACE GROWS MANY_EVENTS [NAME...]: all checks, or those with these names."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

import recordings  # noqa: F401  # its checks
from checking import CHECKS, cells_of, check, rows
from served import PATIENCE, Served

# ---- who gets an answer ----

PATHS = ["/", "/app/index.html", "/api/traces", "/api/info", "/api/cells?threads=1", "/api/call?id=0", "/nothing"]


@check
def strangers_get_nothing(contrail, traces):
    """Without the token, by another name, or from another page: a refusal without a word of the trace."""
    with Served(contrail, traces["whole"]) as served:
        for path in PATHS:
            for words in ({"token": False}, {"token": "0" * 32}, {"token": "short"}, {"host": "evil.example"},
                          {"host": f"evil.example:{served.port}"}, {"host": "127.0.0.1.evil.example"},
                          {"Origin": "http://evil.example"}, {"Origin": "null"},
                          {"Origin": f"http://127.0.0.1:{served.port + 1}"},
                          {"Origin": f"https://127.0.0.1:{served.port}"}):
                status, headers, body = served.request(path, **words)
                assert status in (401, 403), (path, words, status)
                assert b"sample" not in body and b"main" not in body and "Set-Cookie" not in headers, (path, words)
        for path in PATHS[2:]:  # a page of this machine that is not ours, with our cookie
            status, _, _ = served.request(path, Sec_Fetch_Site="same-site", Sec_Fetch_Mode="no-cors")
            assert status == 403, path
        status, _, _ = served.request("/?token=" + served.token, token=False, Sec_Fetch_Site="cross-site",
                                      Sec_Fetch_Mode="navigate")
        assert status == 200  # a link that somebody follows
        status, _, _ = served.request("/api/info?token=" + served.token, token=False)
        assert status == 401  # a token in an address is for the page alone


@check
def cookie_and_tunnel(contrail, traces):
    """The address gives a cookie, which other requests need; a tunnel may have any port."""
    with Served(contrail, traces["whole"]) as served:
        status, headers, body = served.request("/?token=" + served.token, token=False)
        assert status == 200 and b"<!doctype html>" in body.lower()
        policy = headers["Content-Security-Policy"]
        for word in "default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'":
            assert word in policy, policy
        assert "unsafe" not in policy and headers["X-Content-Type-Options"] == "nosniff"
        cookie = headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie, cookie
        pair = cookie.split(";")[0]
        for host in f"127.0.0.1:{served.port}", "localhost:8123", "[::1]:1", "localhost":
            status, headers, _ = served.request("/api/traces", token=False, host=host, Cookie=pair)
            assert status == 200 and "Set-Cookie" not in headers, (host, status)
            assert served.request("/api/traces", token=False, host=host, Cookie=pair, Origin=f"http://{host}")[0] == 200
        assert served.request("/api/traces", token=False, Cookie=pair[:-1] + "x")[0] == 401


@check
def wrong_questions(contrail, traces):
    """A mistake has a sentence, and the server lives."""
    with Served(contrail, traces["whole"]) as served:
        for path, status in (("/api/call?id=99999999999", 404), ("/api/call", 404), ("/api/at?thread=77&time=1", 404),
                             ("/api/info?trace=9", 404), ("/api/at?thread=1&time=9999999999999999999999", 404),
                             ("/nothing", 404), ("/app/../etc/passwd", 404), ("/app/", 404)):
            found, _, body = served.request(path)
            assert found == status, (path, found, body)
            if path.startswith("/api"):
                assert json.loads(body)["error"], path
        assert served.request("/api/info", "POST", b"{}")[0] == 405
        for query in ("threads=-1,x,,1&from=99&to=2&width=0&depth=9-1", "threads=1&width=99999999&depth=0-99999999",
                      "threads=1&from=-5&to=18446744073709551615&width=3", "threads=" + "1," * 500):
            assert served.request("/api/cells?" + query)[0] == 200, query
        assert served.ask("traces")["traces"][0]["live"] is False


# ---- what is in it ----

CALLS = "SELECT id, thread, start, duration, depth, function FROM calls"


@check
def cells_are_calls(contrail, traces):
    """In a picture with a pixel for each nanosecond or so, the cells with a call are the calls of the query."""
    for name in "whole", "crash", "cut", "arm", "many", "code":
        trace = traces[name]
        calls = {row["id"]: row for row in rows(contrail, trace, CALLS)}
        with Served(contrail, trace) as served:
            info = served.ask("info")
            seen = set()
            for thread in info["threads"][:5]:
                for of, depth, cell in cells_of(served, threads=thread["thread"], width=4096):
                    start, end, function, share, count, call = cell
                    assert of == thread["thread"] and start <= end and 0 <= share <= 255, cell
                    if call < 0:
                        continue
                    row = calls[call]
                    assert (row["thread"], row["depth"], row["function"]) == (of, depth, function), (cell, row)
                    assert row["start"] <= start and count <= 1, (cell, row)
                    assert row["duration"] is None or end <= max(row["start"] + row["duration"], start + 1), (cell, row)
                    seen.add(call)
                    asked = served.ask("call", id=call)
                    assert asked["name"] == row["function"] and asked["start"] == row["start"], (asked, row)
                    assert asked["duration"] == (-1 if row["duration"] is None else row["duration"]), (asked, row)
            assert seen, name
            assert sum(thread["events"] for thread in info["threads"]) == info["events"]


@check
def bounded(contrail, traces):
    """Cells of a row are few, whatever the width: at most three for each pixel."""
    with Served(contrail, traces["many"]) as served:
        for width in 1, 7, 100:
            rows_of = {}
            for thread, depth, _ in cells_of(served, threads=",".join(map(str, range(1, 65))), width=width):
                rows_of[thread, depth] = rows_of.get((thread, depth), 0) + 1
            assert rows_of and max(rows_of.values()) <= 3 * width, (width, rows_of)


@check
def map_has_all_events(contrail, traces):
    with Served(contrail, traces["whole"]) as served:
        info, answer = served.ask("info"), served.ask("map", width=50)
        assert len(answer["calls"]) == len(answer["lost"]) == 50
        assert abs(sum(answer["calls"]) - info["events"] / 2) <= 25
        assert any(answer["lost"]) and info["losses"][0]["events"] == 250


@check
def the_same_function(contrail, traces):
    """Beside a call are the times of all calls of its function, as soon as they are known."""
    trace = traces["whole"]
    row = rows(contrail, trace, "SELECT calls, p50, p99, max FROM functions WHERE function = 'recurse'")[0]
    call = rows(contrail, trace, "SELECT id FROM calls WHERE function = 'recurse'")[0]["id"]
    with Served(contrail, trace) as served:
        while "same" not in (answer := served.ask("call", id=call)):
            time.sleep(0.02)
        assert answer["same"] == {"calls": row["calls"], "median": row["p50"], "p99": row["p99"],
                                  "longest": row["max"]}, answer


@check
def at_is_what_is_painted(contrail, traces):
    """Asking for the middle of a cell gives its call."""
    with Served(contrail, traces["whole"]) as served:
        for thread, depth, (start, end, function, _, _, call) in list(cells_of(served, threads="1,3", width=4096)):
            if call >= 0 and end - start > 1:
                found = served.ask("at", thread=thread, depth=depth, time=(start + end) // 2)
                assert found["id"] == call and found["name"] == function, (call, found)


# ---- what is computed ----

@check
def functions_are_those_of_the_query(contrail, traces):
    trace = traces["whole"]
    table = {(row["function"], row["module"]): row
             for row in rows(contrail, trace, "SELECT function, module, calls, total, self, max, p50 FROM functions")}
    with Served(contrail, trace) as served:
        answer = served.ask("functions", limit=1000)
        assert answer["total"] == len(answer["rows"]) == len(table)
        selves = [row["self"] for row in answer["rows"]]
        assert selves == sorted(selves, reverse=True)
        for row in answer["rows"]:
            other = table[row["name"], row["module"]]
            assert row["calls"] == other["calls"] and row["self"] == (other["self"] or 0), (row, other)
            assert row["longest"] == (other["max"] or 0) and row["median"] == (other["p50"] or 0), (row, other)
            assert sum(row["spark"]) <= row["calls"]
        assert [row["name"] for row in served.ask("functions", text="REC", limit=5)["rows"]] == ["recurse"]
        assert len(served.ask("functions", limit=2, offset=1)["rows"]) == 2
        part = served.ask("functions", from_=0, to=4000, thread=1)
        assert {row["name"] for row in part["rows"]} == {"main", "setjmp", "recurse"}, part


@check
def search_and_hits(contrail, traces):
    """A function is found by a part of its name; its hits are its calls; stepping visits each of them."""
    trace = traces["whole"]
    with Served(contrail, trace) as served:
        found = served.ask("search", text="WORK")
        assert [f["name"] for f in found["functions"]] == ["work", "worker"] and found["total"] == 2, found
        for name in "work", "leaf", "recurse":
            calls = rows(contrail, trace, f"SELECT id, start FROM calls WHERE function = '{name}' ORDER BY start")
            number = served.ask("search", text=name)["functions"][0]["function"]
            assert sum(served.ask("hits", function=number, width=17)["columns"]) == len(calls)
            there = sorted((call["start"], call["id"]) for call in calls)
            assert steps(served, number, "after", after=-1) == there, name
            assert steps(served, number, "before", before=10**15) == there[::-1], name
            last = served.ask("hits", function=number, before=10**15)
            assert last["start"] == calls[-1]["start"]


def steps(served, function, side, **first):
    """The calls that are met on the way from one to the next, those that begin at the same time too."""
    met, words = [], first
    while True:
        hit = served.ask("hits", function=function, **words)
        if hit["call"] < 0:
            return met
        met.append((hit["start"], hit["call"]))
        words = {side: hit["start"], "call": hit["call"]}


@check
def latency_has_every_call(contrail, traces):
    trace = traces["whole"]
    with Served(contrail, trace) as served:
        number = served.ask("search", text="recurse")["functions"][0]["function"]
        answer = served.ask("latency", function=number, width=5, height=20)
        calls = rows(contrail, trace, "SELECT id, duration FROM calls WHERE function = 'recurse'")
        assert sum(map(sum, answer["columns"])) == len(calls) and answer["high"] - answer["low"] == 20
        listed = set()
        for column, counts in enumerate(answer["columns"]):
            for bucket, count in enumerate(counts):
                if count:
                    square = served.ask("latency", function=number, width=5, height=20, column=column,
                                        bucket=bucket)
                    assert len(square["calls"]) == count
                    for call in square["calls"]:
                        assert call["duration"].bit_length() - 1 == answer["low"] + bucket, (call, bucket)
                    listed |= {call["id"] for call in square["calls"]}
        assert listed == {call["id"] for call in calls}


@check
def flames_and_ranges(contrail, traces):
    trace = traces["whole"]
    with Served(contrail, trace, traces["crash"]) as served:
        table = {row["function"]: row
                 for row in rows(contrail, trace, "SELECT function, sum(self) AS self FROM functions GROUP BY 1")}
        answer = served.ask("flame")
        lies_within(answer)
        selves = {}
        for depth, x, width, function, self, calls in answer["rows"]:
            name = answer["functions"][str(function)][0]
            selves[name] = selves.get(name, 0) + self
            assert depth >= 0 and calls and 0 <= x and x + width <= answer["total"] and self <= width
        for name, self in selves.items():  # what is narrower than a pixel of 4,096 is left out
            assert 0 <= table[name]["self"] - self <= 8 * answer["total"] / 4096, (name, self, table[name])
        assert served.ask("flame", mode="time", thread=3)["rows"]
        callers_add_up(served, answer)
        whole = served.ask("select")
        assert abs(sum(part["share"] for part in whole["functions"]) - 1) < 1e-6, whole
        assert abs(sum(part["share"] for part in whole["threads"]) - 1) < 1e-6, whole
        both = served.ask("compare")
        assert {"main", "recurse"} <= {row["name"] for row in both["rows"]} and both["total"] == len(both["rows"])
        lies_within(served.ask("compare/flame"))
        lies_within(served.ask("compare/flame", trace=1, with_=0))
    with Served(contrail, trace) as served:
        assert served.request("/api/compare")[0] == 404


def lies_within(flame):
    """No box of a flame graph lies on its neighbour, or goes beyond the one above it."""
    above, ends = [(0, flame["total"])], {}
    for depth, x, width, *_ in flame["rows"]:
        del above[depth + 1:]
        assert len(above) == depth + 1 and above[-1][0] <= x and x + width <= above[-1][1], (depth, x, width, above)
        assert x >= ends.get(depth, 0), (depth, x, width)
        ends[depth] = x + width
        above.append((x, x + width))
    assert flame["rows"]


def callers_add_up(served, callees):
    """Who caused the time of all functions: as much as there is. Of one function: all its time."""
    answer = served.ask("flame", mode="callers")
    assert answer["total"] == served.ask("functions")["self"] == callees["total"], (answer["total"], callees["total"])
    for depth, x, width, function, self, calls in answer["rows"]:
        assert width == self and calls and x + width <= answer["total"], (depth, x, width, self)
    assert not answer["cut"]
    lies_within(answer)
    number = served.ask("search", text="recurse")["functions"][0]["function"]
    (row,) = served.ask("functions", text="recurse")["rows"]
    one = served.ask("flame", mode="callers", function=number)
    assert one["total"] == row["total"] and one["rows"][0][3:5] == [number, row["self"]], (one, row)


@check
def sql_and_control(contrail, traces):
    with Served(contrail, traces["whole"], traces["crash"]) as served:
        answer = served.post("sql", sql="SELECT function, duration FROM calls ORDER BY id LIMIT 3")
        assert answer["columns"] == ["function", "duration"] and len(answer["rows"]) == 3
        assert served.post("sql", sql="SELECT id FROM calls", limit=2)["truncated"] is True
        assert served.post("sql", sql="SELECT (SELECT count(*) FROM a.calls), (SELECT count(*) FROM b.calls)")["rows"]
        for wrong in "DELETE FROM calls", "SELECT nothing FROM calls", "ATTACH '/tmp/x' AS y", "":
            assert served.post("sql", sql=wrong)["error"], wrong
        assert served.request("/api/sql", "POST", b"{")[0] == 400
        assert served.request("/api/sql")[0] == 405
        status, _, body = served.request("/api/ctl", "POST", b'{"command": "mark x"}')
        assert status == 409 and json.loads(body)["error"]
        _, headers, body = served.request("/api/live")
        assert headers["Content-Type"] == "text/event-stream" and b"event: ended" in body and b'"events":' in body


# ---- blocks of code ----

def block_words(block):
    return {"process": block["process"], "module": block["module_id"], "address": block["address"],
            "size": block["size"]}


def listing_of(text, path):
    """The instructions of a module in what --disasm prints: text by address."""
    part = re.search(rf"^{re.escape(path)}\n(.*?)(?=^/|\Z)", text, re.S | re.M).group(1)
    return {int(address, 16): words for address, words in re.findall(r"^ {14} +([0-9a-f]+)  (.*)$", part, re.M)}


@check
def instructions_of_blocks(contrail, traces):
    """A block has the instructions that `stalk --disasm` prints, only while its module's file is the recorded one."""
    directory = traces["whole"].parent.parent / "followed"
    directory.mkdir()
    program = directory / "program"
    shutil.copy(traces["grows"], program)
    done = subprocess.run([contrail, "stalk", "--events", "block", "--disasm", "--output", directory, "--", program],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    listing = {} if "--disasm needs" in done.stderr else listing_of(done.stderr, str(program))
    with Served(contrail, str(next(directory.glob("session_*")))) as served:
        total = served.ask("blocks", limit=0)["total"]
        pages = [served.ask("blocks", offset=offset, limit=1000)["blocks"] for offset in range(0, total, 1000)]
        blocks = [block for page in pages for block in page if block["module"] == "program"]
        assert len(blocks) > 3 and (not listing or len(listing) > 10), (blocks, done.stderr)
        main = next(block for block in blocks if block["name"] == "main" and not block["into"])
        for block in blocks if listing else []:
            answer = served.ask("block", **block_words(block))
            assert answer["count"] == block["count"] and answer["function"] == block["name"], (answer, block)
            assert len(answer["instructions"]) == block["instructions"], (answer, block)
            assert sum(len(one["bytes"]) for one in answer["instructions"]) == 2 * block["size"], (answer, block)
            for one in answer["instructions"]:
                assert one["text"] == listing[one["address"]], (one, listing[one["address"]])
        if listing:
            answer = served.ask("block", **block_words(main))
            assert answer["into"] == 0 and re.search(r"grows\.c:\d+$", answer["instructions"][0]["line"]), answer
            assert answer["problem"] is None, answer
        for wrong in ({"address": main["address"] + 1}, {"size": main["size"] + 1}, {"module": 4000000000},
                      {"process": 9}, {"size": 2**64 - 1}):
            query = urllib.parse.urlencode(block_words(main) | wrong)
            status, _, body = served.request("/api/block?" + query)
            assert status == 404 and json.loads(body)["error"], (wrong, status, body)
        program.unlink()
        shutil.copy("/bin/true", program)
        answer = served.ask("block", **block_words(main))
        assert not answer["instructions"] and "build-id" in answer["problem"], answer
        program.unlink()
        answer = served.ask("block", **block_words(main))
        assert not answer["instructions"] and "not here" in answer["problem"], answer


# ---- traces that mean harm ----

QUESTIONS = ["info", "map?width=300", "cells?threads=1,2&width=500&depth=0-511",
             "cells?threads=2&width=4096&depth=4000", "call?id=7", "at?thread=2&time=5000&depth=3",
             "at?thread=1&time=900000", "search?text=%3Cscript", "search?text=x", "hits?function=0&width=50",
             "hits?function=1&after=0", "flame", "flame?mode=callers", "flame?mode=time&thread=2",
             "functions?limit=50", "latency?function=0&width=20", "select", "crash", "blocks", "block",
             "flame?function=0", "functions?from=5&to=100000"]


def ask_everything(served, questions=QUESTIONS):
    """Every answer is JSON that no browser takes for a page, and bounded; the server lives."""
    for question in questions:
        status, headers, body = served.request("/api/" + question)
        assert status in (200, 404, 503), (question, status, body[:300])
        assert headers["Content-Type"] == "application/json" and headers["X-Content-Type-Options"] == "nosniff"
        assert len(body) < 16 << 20, (question, len(body))
        answer = json.loads(body)
        if question == "functions?limit=50" and status == 200:
            assert all(len(row["name"]) <= 1010 for row in answer["rows"])
    served.post("sql", sql="SELECT count(*), max(depth) FROM calls")
    assert served.request("/api/traces")[0] == 200


@check
def hostile_traces(contrail, traces):
    source = traces["hostile"]
    with Served(contrail, source) as served:
        ask_everything(served, QUESTIONS[:9])
        while served.ask("map", width=1)["progress"] < 1:
            time.sleep(0.05)
        ask_everything(served)
        rows_of = {}
        for thread, depth, cell in cells_of(served, threads="1,2", width=60, depth="0-500"):
            rows_of[thread, depth] = rows_of.get((thread, depth), 0) + 1
            assert cell[0] <= cell[1]
        assert rows_of and max(rows_of.values()) <= 180
    for name, harm in (("cut", lambda b: b[:len(b) // 3]), ("flipped", lambda b: b[:9000] + b"\xff" * 4000 + b[13000:]),
                       ("empty", lambda b: b"")):
        copy = source.parent / name
        shutil.copytree(source, copy)
        for file in ("thread_1/index.ctp", "thread_2/index.ctp", "symbols"):
            path = copy / "pid_77" / file
            path.write_bytes(harm(path.read_bytes()))
        with Served(contrail, copy, stderr=subprocess.DEVNULL) as served:
            ask_everything(served, [question for question in QUESTIONS if "callers" not in question])
            assert served.ask("info")["damage"], name


# ---- levels ----

def wait_for(ready):
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


def make_levels(contrail, trace):
    with Served(contrail, trace) as served:
        wait_for(lambda: served.ask("map", width=1)["progress"] == 1)


def levels_of(trace):
    """The files of levels, also those that are not complete: (name, inode, bytes)."""
    return {(path, path.stat().st_ino, path.read_bytes()) for path in trace.glob("pid_*/thread_*/*levels*")}


@check
def levels_are_kept(contrail, traces):
    """They are made once, also of root's trace, which the server reads as nobody; a file that does not fit is made
    again, and what a killed server leaves is removed."""
    trace = traces["whole"].parent.parent / "repeated"
    piece = next(traces["whole"].glob("pid_*"))
    subprocess.run([traces["many_events"], trace, "1000000", piece], check=True, stdout=subprocess.DEVNULL)
    make_levels(contrail, trace)
    kept = levels_of(trace)
    assert sorted(path.name for path, *_ in kept) == ["levels.ctv"] * 2, kept
    make_levels(contrail, trace)
    assert levels_of(trace) == kept
    path, _, whole = min(kept)
    path.write_bytes(whole[:30] + b"\x55" + whole[31:])
    make_levels(contrail, trace)
    again = levels_of(trace)
    assert {(name, text) for name, _, text in again} == {(name, text) for name, _, text in kept} and again != kept
    if os.getuid() == 0:
        with Served(contrail, trace) as served:
            served.process.kill()
        wait_for(lambda: levels_of(trace) == again)
    path.unlink()
    path.parent.chmod(0o777)  # anybody could write a file there: it is kept in the cache, or nowhere
    make_levels(contrail, trace)
    assert len(levels_of(trace)) == 1


# ---- the browser ----

@check
def opens_the_browser(contrail, traces):
    """xdg-open gets an address whose token is good once, and for its user alone: all can read its command line. A
    sentence says why when nothing is opened."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        opener = place / "xdg-open"
        opener.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"${0%/*}/new" && /bin/mv "${0%/*}/new" "${0%/*}/opened"\n')
        opener.chmod(0o755)
        plain = {name: value for name, value in os.environ.items()
                 if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
        seen = plain | {"PATH": f"/nothing:{directory}", "DISPLAY": ":7"}
        with Served(contrail, traces["whole"], no_open=False, env=seen) as served:
            end = time.monotonic() + PATIENCE
            while not (place / "opened").exists() and time.monotonic() < end:
                time.sleep(0.02)
            opened = (place / "opened").read_text().strip()
            path = opened[opened.index("/?"):]
            assert opened.startswith(served.address.split("?")[0] + "?token=") and served.token not in opened
            if os.getuid() == 0:
                code = ("import encodings.idna, os, sys, urllib.request; os.setgid(65534); os.setuid(65534); "
                        "urllib.request.urlopen(sys.argv[1])")
                stranger = subprocess.run([sys.executable, "-c", code, opened], stderr=subprocess.PIPE, text=True,
                                          check=False)
                assert "401" in stranger.stderr, stranger.stderr
            assert served.request(path.replace("/?", "/api/traces?"), token=False)[0] == 401
            status, headers, _ = served.request(path, token=False)
            assert status == 200 and served.token in headers["Set-Cookie"]
            assert served.request(path, token=False)[0] == 401
            assert served.request(path, token=False, Cookie=headers["Set-Cookie"].split(";")[0])[0] == 200
        (place / "opened").unlink()
        for environment, words in (({"PATH": "/nothing", "DISPLAY": ":7"}, "xdg-open is not in PATH"),
                                   ({"PATH": directory}, "there is no display")):
            with Served(contrail, traces["whole"], no_open=False, env=plain | environment,
                        stderr=subprocess.PIPE) as served:
                assert served.ask("traces")["traces"]
                assert words in served.process.stderr.readline()
                served.process.stderr.close()
        with Served(contrail, traces["whole"], env=seen) as served:
            served.ask("traces")
        assert not (place / "opened").exists()  # --no-open


@check
def readers_of_two_traces(contrail, traces):
    """Many questions about several traces at once: none waits for one that waits for it."""
    slow = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 30000) SELECT count(*) FROM n"
    with Served(contrail, traces["whole"], traces["crash"]) as served:
        def ask(number):
            if number % 4 == 3:
                return bool(served.ask("compare/flame", trace=number // 4 % 2, with_=1 - number // 4 % 2)["rows"])
            answer = served.post("sql", trace=number % 2, sql=slow)
            other = served.post("sql", trace=number % 2, sql="SELECT (SELECT command FROM a.processes LIMIT 1), "
                                "(SELECT command FROM b.processes LIMIT 1)")["rows"][0]
            return answer["rows"] == [[30000]] and other == (commands if number % 2 == 0 else commands[::-1])
        commands = [rows(contrail, traces[name], "SELECT command FROM processes")[0]["command"]
                    for name in ("whole", "crash")]
        with concurrent.futures.ThreadPoolExecutor(48) as pool:
            assert all(pool.map(ask, range(96)))


def main():
    contrail, make_trace, make_hostile, grows, many_events, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        os.environ["XDG_CACHE_HOME"] = directory + "/cache"
        subprocess.run([make_trace, directory], check=True)
        traces = {path.name: next(path.glob("session_*")) for path in pathlib.Path(directory).iterdir()}
        hostile = pathlib.Path(directory) / "hostile" / "session_20250102_030405"
        hostile.mkdir(parents=True)
        subprocess.run([make_hostile, hostile / "pid_77"], check=True)
        traces |= {"hostile": hostile, "grows": grows, "many_events": many_events}
        for name, function in CHECKS.items():
            if not names or name in names:
                print(name, flush=True)
                function(contrail, traces)


if __name__ == "__main__":
    main()
