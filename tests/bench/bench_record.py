#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of recording, from start to files, with the command line tool as a user runs it.

    bench_record [--long] [--output DIR] [--only NAME]...

NAME is pair, clock, detail, throw, switch, memory, mark, rate, start or attach. Prints figures next to the goals.
Ratios are measured in one run; on a busy machine, figures say how busy it was. --long: keeps up the rate for 30 s
instead of 5 (5 GB on disk during that time). Traces go to DIR (default: a temporary directory) and are removed."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONTRAIL = os.environ.get("CONTRAIL", os.path.join(HERE, "..", "..", "src", "cli", "contrail"))
WORK = os.path.join(HERE, "record_work")
THROW_WORK = os.path.join(HERE, "throw_work")
SWITCH_WORK = os.path.join(HERE, "switch_work")
PYTHON = "/usr/bin/python3"  # the distribution's: one on PATH may be a script


class Bench:
    def __init__(self, directory, long_form):
        self.directory, self.long = directory, long_form
        self.cache = os.path.join(directory, "cache")
        self.missed = []

    def line(self, text):
        print(text, flush=True)

    def verdict(self, name, value, limit, unit):
        met = value <= limit
        if not met:
            self.missed.append(name)
        self.line("  %-46s %9.1f %-3s (asked for: at most %.1f%s)" %
                  (name, value, unit, limit, "" if met else "; MISSED"))

    def losses(self, manifest):
        self.verdict("events lost", lost_events(manifest), 0, "")
        for reason, count in manifest["events"]["lost"].items():
            if count:
                self.line("    %-44s %9d" % (reason, count))

    def environment(self):
        return dict(os.environ, XDG_CACHE_HOME=self.cache)

    def contrail(self, *arguments, **options):
        return subprocess.run([CONTRAIL, *arguments], check=True, stdout=subprocess.PIPE, text=True,
                              env=self.environment(), **options).stdout

    def record(self, command, *options):
        """Runs a command under the recorder. Returns its output, the manifest, and the trace's directory."""
        place = os.path.join(self.directory, "trace")
        shutil.rmtree(place, ignore_errors=True)
        output = self.contrail("spawn", "--quiet", "--output", place, *options, "--", *command)
        return output, *read_manifest(place)

    def follow(self, command):
        """Runs a command under `stalk`. Returns its output."""
        place = os.path.join(self.directory, "trace")
        shutil.rmtree(place, ignore_errors=True)
        return self.contrail("stalk", "--quiet", "--output", place, "--", *command)

    def clean(self):
        shutil.rmtree(os.path.join(self.directory, "trace"), ignore_errors=True)


def read_manifest(place):
    session = os.path.join(place, os.listdir(place)[0])
    process = next(name for name in os.listdir(session) if name.startswith("pid_"))
    with open(os.path.join(session, process, "manifest.json")) as f:
        return json.load(f), session


def lost_events(manifest):
    return sum(manifest["events"]["lost"].values())


def hooked(manifest):
    return sum(module["hooked"] for module in manifest["modules"])


# ---- what a call costs ----


def bench_pair(bench):
    rounds, calls = (60, 200000) if bench.long else (20, 200000)
    command = [WORK, "pair", str(rounds), str(calls)]
    native = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    output, manifest, _ = bench.record(command)
    traced = json.loads(output)
    bench.line("call and return, through the whole pipeline (%d bursts of %d calls)" % (rounds, calls))
    bench.line("  two bare timestamps                            %9.1f ns  best, %.1f ns median" %
               (traced["stamps_best"], traced["stamps"]))
    bench.line("  bare call and return                           %9.1f ns  best, %.1f ns median" %
               (native["pair_best"], native["pair"]))
    bench.line("  recorded call and return                       %9.1f ns  best, %.1f ns median" %
               (traced["pair_best"], traced["pair"]))
    bench.verdict("beyond two timestamps, best", traced["pair_best"] - traced["stamps_best"], 20, "ns")
    bench.line("  median against its timestamps                  %9.2f x" % (traced["pair"] / traced["stamps"]))
    bench.losses(manifest)
    expected = 2 * traced["calls"]
    bench.verdict("events missing of the leaf's %d" % expected, max(0, expected - manifest["events"]["written"]), 0, "")


# ---- what the fast clock saves ----


def bench_clock(bench):
    """Bursts, as in bench_pair, and sustained: 2 s as fast as it goes, in turns."""
    pair = [WORK, "pair", "40" if bench.long else "15", "200000"]
    kinds = {"exact": [], "fast": []}
    sustained = {"exact": [], "fast": []}
    late = []
    for _ in range(5):
        for kind in kinds:
            options = ["--clock", kind, "--detail", "off", "--only", "record_work"]
            kinds[kind].append(json.loads(bench.record(pair, *options)[0]))
            bench.clean()
            output, manifest, _ = bench.record([WORK, "full", "1"], *options)
            sustained[kind].append(2e9 / json.loads(output)["events_per_s"])
            bench.clean()
            late += [manifest["clock"]["late_ns"]] if kind == "fast" else []
    stamps = min(run["stamps_best"] for runs in kinds.values() for run in runs)
    bench.line("call and return with each clock (two bare timestamps: %.1f ns)" % stamps)
    for kind, runs in kinds.items():
        bench.line("  %-5s bursts %6.1f ns best, %6.1f ns median; sustained %6.1f ns best, %6.1f ns median" %
                   (kind, min(run["pair_best"] for run in runs), statistics.median(run["pair"] for run in runs),
                    min(sustained[kind]), statistics.median(sustained[kind])))
    bench.line("  times late by at most                          %9.0f us best, %.0f us median" %
               (min(late) / 1e3, statistics.median(late) / 1e3))
    bench.verdict("fast clock, bursts, best", min(run["pair_best"] for run in kinds["fast"]), 12, "ns")
    bench.verdict("fast clock, sustained, best", min(sustained["fast"]), 12, "ns")


# ---- what detail costs ----


def bench_detail(bench):
    command = [WORK, "pair", "30" if bench.long else "10", "200000"]
    kinds = {"--detail off": [], "--stack-bytes 0": [], "--stack-bytes 128": [], "--stack-bytes 512": [],
             "--vectors": [], "--stack-bytes 128 --clock fast": []}
    stamps = []
    for _ in range(5):  # in turns: what disturbs one disturbs all
        for kind, found in kinds.items():
            run = json.loads(bench.record(command, *kind.split())[0])
            found.append(run["pair_best"])
            stamps.append(run["stamps_best"])
            bench.clean()
    index = min(kinds["--detail off"])
    bench.line("call and return with detail, best of each")
    for kind, found in kinds.items():
        bench.line("  %-46s %9.1f ns  best, %.1f ns median   %.2f x" %
                   (kind, min(found), statistics.median(found), min(found) / index))
    reals = [WORK, "reals"] + command[2:]
    found = {kind: min(json.loads(bench.record(reals, *kind.split())[0])["pair_best"] for _ in range(5))
             for kind in ("--stack-bytes 128", "--vectors")}
    bench.clean()
    bench.line("  %-46s %9.1f ns" % ("floating-point numbers, --stack-bytes 128", found["--stack-bytes 128"]))
    bench.line("  %-46s %9.1f ns" % ("floating-point numbers, --vectors", found["--vectors"]))
    bench.verdict("128 bytes of stack add", min(kinds["--stack-bytes 128"]) - index, 25, "ns")
    bench.verdict("with them, beyond two timestamps", min(kinds["--stack-bytes 128"]) - min(stamps), 24, "ns")


# ---- what an exception costs ----


def bench_throw(bench):
    """Measures processor time of the throwing thread: a throw that takes long never has the machine to itself."""
    bench.line("exception: thrown, and caught this many frames above; beside it, with the fast clock, and of the "
               "program's own functions alone")
    for kind in "plain", "cleanup":
        each = {}
        for depth in 1, 10, 100, 1000, 8000:
            command = [THROW_WORK, kind, str(depth), str(max(10, (4000 if bench.long else 1000) // depth))]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            native = json.loads(done.stdout)["throw_best"]
            found = []
            for options in [], ["--detail", "off"], ["--detail", "off", "--clock", "fast"], ["--only", "throw_work"]:
                found.append(json.loads(bench.record(command, *options)[0])["throw_best"])
                bench.clean()
            each[depth] = found[-1] / depth
            bench.line("  %-7s %4d frames   untraced %9.1f us, recorded %9.1f us %6.1f x, without detail %6.1f x, "
                       "fast clock %6.1f x, own functions %6.1f x" %
                       (kind, depth, native / 1e3, found[0] / 1e3, *(f / native for f in found)))
        bench.verdict("%s: a frame of 8,000 against one of 100" % kind, each[8000] / each[100], 2, "x")


# ---- what a switch of coroutines costs ----


def bench_switch(bench):
    """Measures processor time of the thread. The last column of each line counts: the growth with the number."""
    bench.line("a switch to another coroutine, with the calls and returns around it; in brackets: as many times what "
               "it is with 10")
    for how in "plain", "ucontext":
        first = None
        for count in 10, 1000, 10000:
            command = [SWITCH_WORK, how, str(count), "20" if bench.long else "5"]
            outputs = (subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout,
                       bench.record(command, "--lossless")[0], bench.follow(command))
            bench.clean()
            found = [json.loads(output)["switch_best"] for output in outputs]
            first = first or found
            bench.line("  %-8s %6d coroutines   %s" % (how, count, ", ".join(
                "%s %7.1f ns (%.2f x)" % (name, ns, ns / ns10)
                for name, ns, ns10 in zip(("untraced", "recorded", "followed"), found, first))))


def lane_memory(pid):
    """Resident bytes of the memory that the recorder and the program share."""
    resident, ours = 0, False
    with open("/proc/%d/smaps" % pid) as file:
        for line in file:
            if "-" in line.split(" ")[0] and not line[0].isupper():
                ours = "/memfd:" in line
            elif ours and line.startswith("Rss:"):
                resident += int(line.split()[1]) * 1024
    return resident


def recorded(bench, command, *options):
    place = os.path.join(bench.directory, "trace")
    recorder = subprocess.Popen([CONTRAIL, "spawn", "--quiet", "--output", place, *options, "--", *command],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=bench.environment())
    recorder.stdout.readline()
    with open("/proc/%d/task/%d/children" % (recorder.pid, recorder.pid)) as file:
        children = file.read().split()
    return recorder, int(children[0])


def bench_memory(bench):
    recorder, pid = recorded(bench, [WORK, "threads", "1000"])
    time.sleep(0.3)
    size = lane_memory(pid)
    recorder.stdin.close()
    recorder.wait()
    bench.line("1,000 threads alive that have made 3,000 calls each")
    bench.verdict("shared memory, resident", size / 1e6, 68, "MB")


def bench_mark(bench):
    place = os.path.join(bench.directory, "trace")
    recorder = subprocess.Popen([CONTRAIL, "spawn", "--quiet", "--output", place, "--post-roll-ms", "200", "--",
                                 WORK, "rate", "20000", "5"], stdout=subprocess.DEVNULL, env=bench.environment())
    time.sleep(1)
    with open("/proc/%d/task/%d/children" % (recorder.pid, recorder.pid)) as file:
        pid = file.read().split()[0]
    spent = []
    for _ in range(4):
        begin = time.time()
        bench.contrail("ctl", pid, "mark")
        time.sleep(0.6)
        written = [os.path.getmtime(os.path.join(path, name)) for path, _, names in os.walk(place) for name in names
                   if name.startswith("detail")]
        spent.append((max(written) - begin) * 1e3 - 200)
    recorder.wait()
    bench.line("from `ctl mark`, with its own start, to the window's last write, beyond the post-roll")
    bench.line("  best, worst                                    %9.1f ms, %.1f ms" % (min(spent), max(spent)))
    bench.verdict("median", statistics.median(spent), 100, "ms")


# ---- how many events a second ----


def bench_rate(bench):
    rate, seconds = 5e6, 30 if bench.long else 5
    output, manifest, session = bench.record([WORK, "rate", "%.0f" % rate, str(seconds)])
    made = json.loads(output)
    latency = manifest["latency"]
    bench.line("%.0f M events/s for %d s" % (rate / 1e6, seconds))
    bench.line("  made                                           %9.2f M events/s" % (made["events_per_s"] / 1e6))
    bench.losses(manifest)
    bench.verdict("events missing of %d" % (2 * made["calls"]),
                  max(0, 2 * made["calls"] - manifest["events"]["written"] - lost_events(manifest)), 0, "")
    bench.verdict("capture to disk, median", latency["p50_ns"] / 1e6, 25, "ms")
    bench.verdict("capture to disk, 99 %", latency["p99_ns"] / 1e6, 250, "ms")
    bench.line("  most of the index lane that was in use         %9.0f %%" %
               (100 - 100 * manifest.get("lane_least_free", 0) / manifest["lane_bytes"]))
    bench.line("  on disk                                        %9.0f MiB" % (tree_size(session) / 2**20))
    bench.clean()
    output, manifest, _ = bench.record([WORK, "full", "2"], "--lossless")
    made = json.loads(output)
    bench.line("as fast as it goes, --lossless")
    bench.line("  made and written                               %9.1f M events/s" % (made["events_per_s"] / 1e6))
    bench.losses(manifest)


def tree_size(top):
    return sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(top) for name in names)


# ---- how long it takes to start ----


def time_to_main(bench):
    """Seconds from the start of contrail to the first function that python's main calls, by the trace's clock."""
    start = time.clock_gettime(time.CLOCK_BOOTTIME)
    _, manifest, session = bench.record([PYTHON, "-c", "pass"], "--lossless")
    text = bench.contrail("replay", session, "--function", "Py_BytesMain", "--depth", "1", "--absolute", "--limit", "2",
                          stderr=subprocess.DEVNULL)
    seconds = next(float(words[0]) for words in map(str.split, text.splitlines())
                   if len(words) > 1 and words[1] == "Py_BytesMain")
    return seconds - start, manifest


def bench_start(bench):
    rounds = 7 if bench.long else 3
    cold, warm, natives = [], [], []
    for _ in range(rounds):
        shutil.rmtree(bench.cache, ignore_errors=True)
        cold.append(time_to_main(bench)[0])
    for _ in range(rounds):
        seconds, manifest = time_to_main(bench)
        warm.append(seconds)
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([PYTHON, "-c", "pass"], check=True)
        natives.append(time.perf_counter() - start)
    bench.line("start to main of %s (%d functions hooked)" % (PYTHON, hooked(manifest)))
    bench.line("  untraced, all of `python3 -c pass`             %9.1f ms" % (min(natives) * 1e3))
    bench.verdict("nothing planned yet, best of %d" % rounds, min(cold) * 1e3, 300, "ms")
    bench.verdict("plans cached, best of %d" % rounds, min(warm) * 1e3, 100, "ms")


# ---- how long attaching stops a process ----


def attach_once(bench, pid):
    place = os.path.join(bench.directory, "trace")
    shutil.rmtree(place, ignore_errors=True)
    bench.contrail("attach", str(pid), "--quiet", "--duration", "0.2", "--output", place)
    return read_manifest(place)[0]


def bench_attach(bench):
    script = ("import sys, ssl, sqlite3, ctypes, decimal, lzma, bz2, threading, time\n"
              "for i in range(8): threading.Thread(target=sys.stdin.readline, daemon=True).start()\n"
              "print('ready', flush=True)\nsys.stdin.read()\n")
    target = subprocess.Popen([PYTHON, "-c", "%s" % script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        target.stdout.readline()
        manifests = [attach_once(bench, target.pid) for _ in range(9 if bench.long else 4)]
    finally:
        target.stdin.close()
        target.wait()
    pauses = [m["pause_ns"] / 1e6 for m in manifests]
    count = hooked(manifests[0])
    bench.line("attaching to %s with %d functions hooked in %d modules, 9 threads" %
               (PYTHON, count, len(manifests[0]["modules"])))
    bench.line("  pause                                          %9.1f ms  best, %.1f ms median, %.1f ms worst" %
               (min(pauses), statistics.median(pauses), max(pauses)))
    bench.verdict("pause for each 10,000 functions, best", min(pauses) * 1e4 / max(count, 1), 50, "ms")
    bench.line("  planned meanwhile, the process running         %9.1f ms, cached" %
               (min(m["plan_ns"] for m in manifests) / 1e6))


BENCHES = {"pair": bench_pair, "clock": bench_clock, "detail": bench_detail, "throw": bench_throw,
           "switch": bench_switch, "memory": bench_memory, "mark": bench_mark, "rate": bench_rate,
           "start": bench_start, "attach": bench_attach}


def main():
    parser = argparse.ArgumentParser(prog="bench_record")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--output")
    parser.add_argument("--only", action="append", choices=BENCHES)
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="bench_record.", dir=options.output)
    bench = Bench(directory, options.long)
    try:
        for name, run in BENCHES.items():
            if not options.only or name in options.only:
                run(bench)
                bench.clean()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if bench.missed:
        bench.line("missed: %s" % ", ".join(bench.missed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
