# SPDX-License-Identifier: Apache-2.0
"""Measuring: runs of several ways in turns, figures with their goals, and where results are kept."""
import json
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Unavailable(Exception):
    """A program is not there, or the machine refuses something. The sentence says what."""


class Figure:
    """One measured value. `goal` is None, or what it should be: at most, or at least when `more` is set."""

    def __init__(self, group, label, unit, values, goal=None, more=False):
        self.group, self.label, self.unit, self.goal, self.more = group, label, unit, goal, more
        self.values = list(values)

    @property
    def name(self):
        return self.group + ": " + self.label

    @property
    def best(self):
        return max(self.values) if self.more else min(self.values)

    @property
    def median(self):
        return statistics.median(self.values)

    def met(self):
        if self.goal is None:
            return None
        return self.best >= self.goal if self.more else self.best <= self.goal

    def row(self):
        goal = "" if self.goal is None else "%s %s" % (">=" if self.more else "<=", number(self.goal))
        verdict = {None: "", True: "met", False: "MISSED"}[self.met()]
        return "  %-58s %10s %10s %-9s %-10s %s" % (self.label[:58], number(self.best), number(self.median), self.unit,
                                                   goal, verdict)

    def record(self):
        return {"name": self.name, "unit": self.unit, "best": self.best, "median": self.median, "goal": self.goal,
                "more": self.more, "met": self.met(), "values": self.values}


def number(value):
    return "%.0f" % value if abs(value) >= 1000 else "%.3g" % value if abs(value) < 10 else "%.1f" % value


class Bench:
    """What the groups of figures share: the tool, a directory, how often to measure, and what was found."""

    def __init__(self, build, directory, rounds, scale):
        self.build, self.rounds, self.scale = build, rounds, scale
        self.tool = os.path.join(build, "src", "cli", "contrail")
        self.directory = tempfile.mkdtemp(prefix="contrail-bench.", dir=directory)
        self.figures, self.series, self.absent = [], [], []
        self.group = ""

    # ---- what is printed and kept ----

    def begin(self, group, text):
        self.group = group
        print("\n%s: %s" % (group, text), flush=True)
        print("  %-58s %10s %10s %-9s %s" % ("", "best", "median", "", "goal"), flush=True)

    def figure(self, name, unit, values, goal=None, more=False):
        self.figures.append(Figure(self.group, name, unit, values, goal, more))
        print(self.figures[-1].row(), flush=True)

    def leave_out(self, what, why):
        """Says and keeps that something was not measured."""
        self.absent.append({"group": self.group, "what": what, "why": str(why)})
        print("  %-58s not measured: %s" % (what, why), flush=True)

    def plot(self, name, title, x, y, lines):
        """`lines`: {name of a line: [(x, y), ...]}"""
        self.series.append({"name": name, "title": title, "x": x, "y": y, "lines": lines})

    # ---- runs ----

    def path(self, *parts):
        return os.path.join(self.build, *parts)

    def bench_program(self, name):
        return self.path("tests", "bench", name)

    def environment(self):
        return dict(os.environ, XDG_CACHE_HOME=os.path.join(self.directory, "cache"))

    def output(self, command, timeout=300, **options):
        """Standard output of a command that must succeed."""
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                                  env=self.environment(), **options)
        except FileNotFoundError:
            raise Unavailable("%s is not installed" % command[0]) from None
        except subprocess.TimeoutExpired:
            raise Unavailable("%s took more than %d s" % (command[0], timeout)) from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [""]
            raise Unavailable("%s ended with %d: %s" % (os.path.basename(command[0]), done.returncode, said[0]))
        return done.stdout.decode(errors="replace")

    def trace_place(self):
        place = os.path.join(self.directory, "trace")
        shutil.rmtree(place, ignore_errors=True)
        return place

    def recorded(self, command, *options):
        """(output, manifest) of a command under `contrail spawn`."""
        place = self.trace_place()
        text = self.output([self.tool, "spawn", "--quiet", "--output", place, *options, "--", *command])
        return text, read_manifest(place)

    def followed(self, command, *options):
        """Output of a command under `contrail stalk`."""
        return self.output([self.tool, "stalk", "--quiet", "--output", self.trace_place(), *options, "--", *command])

    def in_turns(self, ways, rounds=None):
        """{name: [result, ...]} of functions that are called in turns, so that what disturbs one disturbs all. One that
        is not available has no entry."""
        found = {name: [] for name in ways}
        for _ in range(rounds or self.rounds):
            for name, measure in ways.items():
                if name not in found:
                    continue
                try:
                    found[name].append(measure())
                except Unavailable as why:
                    self.leave_out(name, why)
                    del found[name]
        shutil.rmtree(os.path.join(self.directory, "trace"), ignore_errors=True)
        return found

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def read_manifest(place):
    session = os.path.join(place, sorted(os.listdir(place))[0])
    process = next(name for name in sorted(os.listdir(session)) if name.startswith("pid_"))
    with open(os.path.join(session, process, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def written(manifest):
    return manifest["events"]["written"]


def lost(manifest):
    return sum(manifest["events"]["lost"].values())


def kept_percent(manifest):
    return 100.0 * written(manifest) / max(1, written(manifest) + lost(manifest))


def seconds_of(bench, command):
    """Elapsed time of a whole command."""
    start = time.perf_counter()
    bench.output(command)
    return time.perf_counter() - start


def ratios(values, base):
    """Each value beside the best of `base`, which was measured in turns with it."""
    return [value / min(base) for value in values]


def machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith(("model name", "CPU part")):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpus": os.cpu_count(), "model": model, "kernel": platform.release(), "machine": platform.machine(),
            "load": os.getloadavg()[0]}
