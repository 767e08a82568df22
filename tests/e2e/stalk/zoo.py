#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zoo.py [options] NAME...: the programs of ../record followed by `contrail stalk` from their first instruction to
their end.

Each is built as ../record/README.md says, run natively and followed: output, errors and exit code must be equal, the
trace must verify, nothing may be left behind, and the calls must be the expected ones. A name may carry a variant:
jumps:clang. Exit status: 0 passed, 1 failed, 77 skipped."""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
import building  # noqa: E402
import run  # noqa: E402
from recorder import Workshop  # noqa: E402

# A jump to another function is no call: the expected trees are those of programs without such jumps.
for variant, (compiler, compiling, linking, after) in building.VARIANTS.items():
    building.VARIANTS[variant] = (compiler, compiling + ["-fno-optimize-sibling-calls"], linking, after)

# Programs whose trees differ when they are followed, and why; their traces must verify all the same.
ENTRIES = "hooks know these functions on entry only"
NO_TREES = {
    "coroutines": "frames of another stack look left",
    "coroutines_asm": "frames of another stack look left",
    "dlsym_next": ENTRIES,
    "longjmp": ENTRIES,
    "return_address": ENTRIES,
    "seccomp_filter": "threads are let go before they confine themselves",
    "seccomp_throws": "threads are let go before they confine themselves",
    "tail_calls": "jumps are no calls",
    "tight_memory": "there is no memory for translated code",
    "where": ENTRIES,
}
# Many events: comparing their trees takes long. --quick leaves that out.
LONG = {"fork", "migration", "recursion", "threads"}


class Shop(Workshop):
    def spawn_command(self, output, options, command):
        own = [o for o in options if o not in run.DEFAULT_OPTIONS]
        return [self.contrail, "stalk", "--quiet", "--output", output] + own + ["--"] + command


class Case(run.Case):
    def look_at(self, output):
        if self.name in NO_TREES or (self.arguments.quick and self.name in LONG):
            for directory in run.atf.find(output):
                self.shop.read("verify", directory)
                self.shop.read("info", directory)
            return
        super().look_at(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contrail", default="build/contrail")
    parser.add_argument("--build", default="/tmp")
    parser.add_argument("--variant")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--quick", action="store_true", help="programs with many events: without their trees")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.contrail, arguments.build = os.path.abspath(arguments.contrail), os.path.abspath(arguments.build)
    arguments.mode, arguments.short, arguments.untraced, arguments.broken = "spawn", False, False, False
    run.Workshop, run.Case = Shop, Case
    wanted = arguments.variant
    ran = failed = 0
    for name in arguments.names or run.all_names():
        name, _, variant = name.partition(":")
        arguments.variant = variant or wanted
        for case in run.cases(arguments, name):
            started = time.monotonic()
            skipped = case.run()
            took = time.monotonic() - started
            if skipped:
                print("%s: %s" % (case.title(), skipped))
                continue
            ran += 1
            failed += bool(case.problems)
            print("%s %s, %.1f s%s" % ("FAILED " if case.problems else "ok     ", case.title(), took,
                                       ", kept in " + case.shop.directory if arguments.keep else ""))
            for problem in case.problems[:6]:
                print("  " + problem.replace("\n", "\n  "))
            sys.stdout.flush()
    print("%d runs, %d failed" % (ran, failed))
    return 1 if failed or arguments.broken else 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
