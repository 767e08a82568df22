#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fidelity.py: programs of the distribution do under contrail what they do without.

Each program of programs/ runs untraced (twice), recorded, recorded with all detail, followed, attached to in the
middle, and followed from the middle on. Output, errors, exit code and files are those of the untraced run, and
`contrail verify` has nothing to say. A table shows coverage, events, losses and slowdown. README.md says how to add a
program."""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import traceback

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.append(os.path.join(ROOT, "tests", "e2e", "record"))

from modes import Bench, differences, look_at  # noqa: E402
from program import DIRECTORY, MODES, BadProgram, load, missing_packages, package_list  # noqa: E402
from recorder import Failure, Workshop  # noqa: E402

ATTACHING = ("attach", "stalk-attach")
COLUMNS = (("program", "%-16s"), ("mode", "%-13s"), ("same", "%-12s"), ("coverage", "%9s"), ("events", "%12s"),
           ("lost", "%11s"), ("native", "%8s"), ("slowdown", "%9s"))


def row(program, mode, same, problem="", **more):
    return dict({"program": program.name, "mode": mode, "same": same, "problem": problem}, **more)


def text_of(cell, value):
    if value is None or isinstance(value, str):
        return value or "-"
    if cell == "coverage":
        return "%.2f %%" % value
    if cell == "native":
        return "%.2f s" % value
    if cell == "slowdown":
        return "%.1f" % value
    return "{:,}".format(value)


def print_row(one):
    print(" ".join(form % text_of(cell, one.get(cell)) for cell, form in COLUMNS).rstrip())
    for text in (one["problem"], one.get("said")):
        if text:
            print("    " + text.replace("\n", "\n    "))
    sys.stdout.flush()


class Runner:
    def __init__(self, arguments, programs):
        self.arguments = arguments
        self.missing = missing_packages(programs)
        self.cache = os.path.join(os.path.abspath(arguments.build), "cache")

    def shares(self, mode):
        """How much of its work a program does. Who is attached to has to run for a while, but is recorded for a part of
        it."""
        return self.arguments.work_attached if mode in ATTACHING else self.arguments.work

    def run(self, program):
        """Rows of one program. A fault of the harness itself must not cost the results of the others."""
        try:
            return self.run_program(program)
        except Exception:  # pylint: disable=broad-except
            return [row(program, "-", "NO", "the harness failed: " + traceback.format_exc())]

    def run_program(self, program):
        absent = self.missing & set(program.packages)
        if absent:
            return [row(program, "-", "skipped", "not installed: %s" % ", ".join(sorted(absent)))]
        modes = [m for m in MODES if not self.arguments.mode or m in self.arguments.mode]
        rows = [row(program, m, "left out", program.leave_out[m]) for m in modes if m in program.leave_out]
        modes = [m for m in modes if m not in program.leave_out]
        for share in sorted({self.shares(m) for m in modes} or {self.arguments.work}):
            rows += self.run_share(program, share, [m for m in modes if self.shares(m) == share])
        return rows

    def run_share(self, program, share, modes):
        shop = Workshop(os.path.abspath(self.arguments.contrail), program.name, self.cache)
        try:
            bench = Bench(shop, program, share, self.arguments.patience)
            native = bench.run_native()
            if self.arguments.show:
                show(native)
            rows = [row(program, "native", "yes", native=native.cpu, seconds=native.seconds, slowdown=1.0)]
            return rows + [self.run_mode(shop, bench, mode) for mode in modes]
        except (BadProgram, Failure, OSError, subprocess.SubprocessError) as e:
            return [row(program, "native", "NO", str(e))]
        finally:
            shop.close(keep=self.arguments.keep)

    def run_mode(self, shop, bench, mode):
        program, output = bench.program, shop.new_output()
        about = {"native": bench.native.cpu}
        try:
            run = bench.run_mode(mode, output)
            about.update(seconds=run.seconds, slowdown=run.seconds / bench.native.seconds, said=run.said)
            problems = differences(bench.native, run)
            if run.attached:
                about.update(look_at(shop, output))
                if not about["events"] and mode not in ATTACHING:
                    problems.append("nothing was recorded")
            problems += shop.leftovers()
        except (Failure, OSError, subprocess.SubprocessError) as e:
            problems = [str(e)]
        finally:
            if not self.arguments.keep:
                shutil.rmtree(output, ignore_errors=True)
        if problems:
            return row(program, mode, "NO", "\n".join(problems[:5]), **about)
        if not run.attached:
            return row(program, mode, "ended first", **about)
        return row(program, mode, "yes" if about["events"] else "no calls", **about)


def show(run):
    """For the author of a program file: does it do what it should?"""
    print("exit code %d\noutput: %r\nerrors: %r\nfiles: %s" % (
        run.result.code, run.result.out[:600], run.result.err[:600],
        {name: len(run.files[name]) for name in run.files}))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contrail", default="build/src/cli/contrail")
    parser.add_argument("--build", default="/tmp", help="where analyses of modules are cached")
    parser.add_argument("--programs", default=DIRECTORY, metavar="DIR", help="where the program files are")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this program; may be repeated")
    parser.add_argument("--tag", help="programs with this tag")
    parser.add_argument("--mode", action="append", choices=("native",) + MODES,
                        help="this mode, beside the untraced one; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="programs at the same time")
    parser.add_argument("--work", type=float, default=1.0, help="share of its work that each program does")
    parser.add_argument("--work-attached", type=float, help="the same where it is attached to (default: as --work)")
    parser.add_argument("--patience", type=float, default=60,
                        help="seconds, and times the untraced run, until a run hangs")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--table", action="store_true", help="print all rows, not only those that differ")
    parser.add_argument("--show", action="store_true", help="print what the untraced program makes")
    parser.add_argument("--keep", action="store_true", help="keep the working directories")
    parser.add_argument("--list", action="store_true", help="print the names of the programs")
    parser.add_argument("--check-packages", action="store_true",
                        help="is packages-fidelity.txt what the program files say?")
    parser.add_argument("--write-packages", action="store_true", help="make it so")
    arguments = parser.parse_args()
    if arguments.work_attached is None:
        arguments.work_attached = arguments.work
    return arguments


def see_to_packages(write):
    path, right = os.path.join(ROOT, "packages-fidelity.txt"), package_list(ROOT)
    if write:
        with open(path, "w") as f:
            f.write(right)
    with open(path) as f:
        if f.read() != right:
            print("packages-fidelity.txt does not fit the program files: "
                  "run tests/fidelity/fidelity.py --write-packages")
            return 1
    return 0


def sum_up(rows, programs):
    count = {same: sum(r["same"] == same for r in rows) for same in ("yes", "NO", "left out", "ended first", "no calls",
                                                               "skipped")}
    print("%d programs, %d skipped; %d runs alike, %d differ, %d left out, %d ended before they were attached to, "
          "%d made no calls meanwhile" % (
        len(programs), count["skipped"], count["yes"], count["NO"], count["left out"], count["ended first"],
        count["no calls"]))
    if count["NO"]:
        return 1
    return 77 if count["skipped"] == len(programs) else 0


def main():
    arguments = parse()
    try:
        programs = [p for p in load(arguments.only, arguments.programs) if not arguments.tag or arguments.tag in p.tags]
        if arguments.check_packages or arguments.write_packages:
            return see_to_packages(arguments.write_packages)
    except BadProgram as e:
        print(e)
        return 1
    if arguments.list:
        print("\n".join(p.name for p in programs))
        return 0
    runner, rows = Runner(arguments, programs), []
    print_row(dict({cell: cell for cell, _ in COLUMNS}, problem=""))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        try:
            for future in concurrent.futures.as_completed([pool.submit(runner.run, p) for p in programs]):
                rows += future.result()
                for one in future.result():
                    if arguments.table or one["same"] != "yes":
                        print_row(one)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    if arguments.json:
        with open(arguments.json, "w") as f:
            json.dump(rows, f, indent=1)
    return sum_up(rows, programs)


if __name__ == "__main__":
    sys.exit(main())
