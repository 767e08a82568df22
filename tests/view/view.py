#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server of `contrail view`: who gets an answer, and what is in it, compared with `contrail query`.

view.py CONTRAIL MAKE_TRACE [NAME...]: all checks, or those with these names."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from served import Served

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def rows(contrail, trace, sql):
    done = subprocess.run([contrail, "query", "--json", "--allow-damaged", trace, sql], capture_output=True, check=True)
    return json.loads(done.stdout)


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


def cells_of(served, **words):
    """(thread, depth, cell) of an answer; a cell: start, end, function's name, share, calls, call."""
    answer = served.ask("cells", **words)
    for thread in answer["threads"]:
        for depth, flat in enumerate(thread["depths"]):
            for at in range(0, len(flat), 6):
                start, end, function, share, calls, call = flat[at:at + 6]
                yield thread["thread"], depth, (start, end, answer["functions"][str(function)][0], share, calls, call)


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
def at_is_what_is_painted(contrail, traces):
    """Asking for the middle of a cell gives its call."""
    with Served(contrail, traces["whole"]) as served:
        for thread, depth, (start, end, function, _, _, call) in list(cells_of(served, threads="1,3", width=4096)):
            if call >= 0 and end - start > 1:
                found = served.ask("at", thread=thread, depth=depth, time=(start + end) // 2)
                assert found["id"] == call and found["name"] == function, (call, found)


def main():
    contrail, make_trace, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        subprocess.run([make_trace, directory], check=True)
        traces = {path.name: next(path.glob("session_*")) for path in pathlib.Path(directory).iterdir()}
        for name, function in CHECKS.items():
            if not names or name in names:
                print(name, flush=True)
                function(contrail, traces)


if __name__ == "__main__":
    main()
