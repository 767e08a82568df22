#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a budget hold? For each program: its CPU time for equal work with `spawn --budget`, against that without.

usage: bench_budget [--budget 10%] [--seconds S] [--rounds N] [--long] [--json FILE] [PROGRAM ...]

CONTRAIL in the environment is the tool to measure.

Each run works in equal units for S seconds; those of the first 0.5 s do not count, since the budget takes its decisions
then. Runs with and without contrail take turns; the figure is the median of the rounds. The default is short;
--long is 10 s and five rounds. Programs that are not installed are left out."""
import argparse
import glob
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONTRAIL = os.environ.get("CONTRAIL", os.path.join(HERE, "..", "..", "src", "cli", "contrail"))

LUA = r"""
local seconds = tonumber(arg[1])
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local function unit()
  local t = {}
  for i = 1, 3000 do t[i] = tostring(i) .. "x" end
  table.sort(t)
  local n = 0
  for w in table.concat(t, ","):gmatch("%d+") do n = n + #w end
  return n + fib(16)
end
local start, first, units, begun = os.clock(), nil, 0, nil
while true do
  unit()
  units = units + 1
  local now = os.clock() - start
  if not first and now > 0.5 then first, begun = units, now end
  if now > seconds then print((now - begun) / (units - first)) break end
end
"""
PYTHON = r"""
import json, sys, time
seconds = float(sys.argv[1])
def unit():
    rows = [{"name": "n%d" % i, "value": i * i, "list": list(range(i % 7))} for i in range(300)]
    text = json.dumps(rows)
    back = json.loads(text)
    return sum(len(r["name"]) + r["value"] % 3 for r in sorted(back, key=lambda r: -r["value"]))
start, first, units = time.process_time(), 0, 0
while True:
    unit()
    units += 1
    now = time.process_time() - start
    if not first and now > 0.5:
        first, begun = units, now
    if now > seconds:
        print((now - begun) / (units - first))
        break
"""
CXX = r"""
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>
struct Shape { virtual ~Shape() = default; virtual double area() const = 0; };
struct Square : Shape { double a; explicit Square(double x) : a(x) {} double area() const override; };
struct Circle : Shape { double r; explicit Circle(double x) : r(x) {} double area() const override; };
__attribute__((noinline)) double Square::area() const { return a * a; }
__attribute__((noinline)) double Circle::area() const { return 3.14159 * r * r; }
__attribute__((noinline)) std::string name_of(int i) { return "shape " + std::to_string(i % 97); }
__attribute__((noinline)) double unit() {
    std::vector<std::unique_ptr<Shape>> shapes;
    std::map<std::string, double> sums;
    for (int i = 0; i < 2000; i++)
        shapes.push_back(i % 2 ? std::unique_ptr<Shape>(new Square(i)) : std::unique_ptr<Shape>(new Circle(i)));
    for (size_t i = 0; i < shapes.size(); i++) sums[name_of((int)i)] += shapes[i]->area();
    std::sort(shapes.begin(), shapes.end(), [](const auto &x, const auto &y) { return x->area() < y->area(); });
    return sums.begin()->second + shapes[0]->area();
}
static double cpu() { timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int, char **argv) {
    double seconds = atof(argv[1]), start = cpu(), begun = 0, sum = 0;
    for (long units = 1, first = 0;; units++) {
        sum += unit();
        double now = cpu() - start;
        if (!first && now > 0.5) first = units, begun = now;
        if (now > seconds) { printf("%g\n", (now - begun) / (units - first)); return sum == 0; }
    }
}
"""
SQL = """CREATE TEMP TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
SELECT i, (i * 7919) % 4001 AS v, 'row ' || i AS s FROM n;
CREATE INDEX temp.byv ON t(v); SELECT sum(length(s)), max(v) FROM t WHERE v BETWEEN 100 AND 3000;
SELECT count(*) FROM (SELECT a.i FROM t a JOIN t b ON a.v = b.i ORDER BY b.s); DROP TABLE t;
"""


class Bench:
    def __init__(self, options):
        self.options = options
        self.directory = tempfile.mkdtemp(prefix="contrail-bench-")
        self.left_out = self.estimate = 0

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def command(self, recorded, command):
        if not recorded:
            return command
        shutil.rmtree(os.path.join(self.directory, "traces"), ignore_errors=True)
        return [self.options.contrail, "spawn", "--quiet", "--output", os.path.join(self.directory, "traces"),
                "--budget", self.options.budget, "--", *command]

    def run(self, recorded, command, **more):
        done = subprocess.run(self.command(recorded, command), capture_output=True, text=True, check=True, **more)
        if recorded:
            self.look()
        return done.stdout

    def look(self):
        for path in glob.glob(self.directory + "/traces/session_*/pid_*/manifest.json"):
            with open(path) as file:
                budget = json.load(file).get("budget", {})
            self.left_out, self.estimate = budget.get("left_out", 0), budget.get("used_in_all", 0)

    # Each returns the CPU seconds of one unit of work.

    def lua(self, recorded):
        return float(self.run(recorded, ["lua", self.write("w.lua", LUA), str(self.options.seconds)]))

    def python3(self, recorded):
        return float(self.run(recorded, ["/usr/bin/python3", self.write("w.py", PYTHON), str(self.options.seconds)]))

    def cxx(self, recorded):
        program = os.path.join(self.directory, "w")
        if not os.path.exists(program):
            subprocess.run(["g++", "-O2", "-o", program, self.write("w.cc", CXX)], check=True)
        return float(self.run(recorded, [program, str(self.options.seconds)]))

    def sqlite(self, recorded):
        """The shell says what each statement took; a unit has four that count and ends with DROP."""
        script = ".timer on\n" + SQL * self.sqlite_units()
        out = self.run(recorded, ["sqlite3", ":memory:"], input=script)
        times = []
        for line in out.splitlines():
            if line.startswith("Run Time:"):
                words = line.split()
                times.append(float(words[words.index("user") + 1]) + float(words[words.index("sys") + 1]))
        per_unit = 5
        units = [sum(times[i:i + per_unit]) for i in range(0, len(times), per_unit)]
        spent, first = 0, 0
        while spent < 0.5 and first < len(units) // 2:
            spent += units[first]
            first += 1
        return statistics.fmean(units[first:])

    def sqlite_units(self):
        if not hasattr(self, "sql_units"):
            start = time.monotonic()
            subprocess.run(["sqlite3", ":memory:"], input=SQL * 20, capture_output=True, text=True, check=True)
            self.sql_units = max(40, int(self.options.seconds / ((time.monotonic() - start) / 20)))
        return self.sql_units

    def redis(self, recorded):
        """The server's CPU time for a number of requests; a client makes them."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        server = subprocess.Popen(self.command(recorded, ["redis-server", "--port", port, "--save", "", "--appendonly",
                                                          "no", "--io-threads", "1", "--dir", self.directory]),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        requests = ["redis-benchmark", "-p", port, "-q", "-P", "16", "-c", "10", "-t", "set,get,lpush,incr"]
        try:
            deadline = time.monotonic() + 30
            while subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True).returncode:
                if time.monotonic() > deadline:
                    raise TimeoutError("redis-server does not answer")
                time.sleep(0.05)
            info = subprocess.run(["redis-cli", "-p", port, "info", "server"], capture_output=True, text=True).stdout
            pid = int(info.split("process_id:")[1].split()[0])
            clock = (~pid << 3) | 2  # CPU time of the process
            start = time.monotonic()
            while time.monotonic() - start < 0.7:
                subprocess.run([*requests, "-n", "20000"], stdout=subprocess.DEVNULL, check=True)
            before, units, start = time.clock_gettime(clock), 0, time.monotonic()
            while time.monotonic() - start < self.options.seconds:
                subprocess.run([*requests, "-n", "50000"], stdout=subprocess.DEVNULL, check=True)
                units += 1
            used = time.clock_gettime(clock) - before
        finally:
            subprocess.run(["redis-cli", "-p", port, "shutdown", "nosave"], capture_output=True)
            server.wait(30)
        if recorded:
            self.look()
        return used / units

    def measure(self, name):
        work = getattr(self, name)
        native, with_budget = [], []
        for _ in range(self.options.rounds):
            native.append(work(False))
            with_budget.append(work(True))
        a, b = statistics.median(native), statistics.median(with_budget)
        return {"program": name, "native_us": a * 1e6, "budget_us": b * 1e6, "cost": b / a - 1,
                "left_out": self.left_out, "estimate": self.estimate}


NEEDS = {"lua": "lua", "sqlite": "sqlite3", "python3": "/usr/bin/python3", "redis": "redis-server", "cxx": "g++"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(NEEDS))
    parser.add_argument("--budget", default="10%")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_intermixed_args()
    options.contrail = os.path.abspath(CONTRAIL)
    if options.long:
        options.seconds, options.rounds = 10, 5
    bench, rows = Bench(options), []
    limit = float(options.budget.rstrip("% ")) / 100
    print("%-8s %14s %14s %8s %9s %9s  %s" % ("PROGRAM", "NATIVE us/unit", "BUDGET us/unit", "COST", "ESTIMATE",
                                             "LEFT OUT", "HOLDS"))
    for name in options.programs or NEEDS:
        if not shutil.which(NEEDS[name]):
            continue
        row = bench.measure(name)
        row["holds"] = row["cost"] <= limit + 0.02
        rows.append(row)
        print("%-8s %14.1f %14.1f %7.1f%% %8.1f%% %9d  %s" % (
            name, row["native_us"], row["budget_us"], row["cost"] * 100, row["estimate"] * 100, row["left_out"],
            "yes" if row["holds"] else "NO"), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    shutil.rmtree(bench.directory)


if __name__ == "__main__":
    main()
