# SPDX-License-Identifier: Apache-2.0
"""What the checks of odd targets and of special recordings share."""
import os
import subprocess

import atf
import building
from checks import Checks
from expectation import Expectation, compare_trees, own_functions
from recorder import Failure, read_line

checks = None  # the script's, set before its first check
programs = {}


def run_table(description, table):
    """A script that is a table of checks: name, function."""
    global checks
    checks = Checks(description)
    for name, function in table.items():
        checks.run(name, function)
    return checks.verdict()


def built(name, variant="O2"):
    if (name, variant) not in programs:
        directory = checks.directory(variant)
        flags = [] if variant.startswith("musl") else ["-pthread"]
        programs[name, variant] = building.build(directory, name, [os.path.join(building.PROGRAMS, name + ".c")],
                                                 variant, flags)
    return programs[name, variant]


def compare(shop, output, name, mode, program):
    """The trace is right, as the program's .expect says."""
    found = atf.find(output)
    if len(found) != 1:
        raise Failure("%d traces" % len(found))
    shop.read("verify", found[0])
    trace = atf.Trace(found[0])
    problems = compare_trees(Expectation(os.path.join(building.PROGRAMS, name + ".expect")), mode, trace,
                             own_functions(trace, program))
    if problems:
        raise Failure(problems[0])
    return trace


def start_answer(shop, command):
    """A program `answer` that has begun, and ends with 21 when its input does: finish() closes that."""
    process = shop.start(command + ["100", "hold"], stdin=subprocess.PIPE)
    read_line(process.stdout, "the program has begun")
    return process


def need_root():
    return "skipped: needs root" if os.getuid() != 0 else None


def count_calls(output, program, name):
    trace = atf.Trace(atf.find(output)[0])
    names = own_functions(trace, program)
    return sum(kind == atf.CALL and names[f] == name for t in trace.threads for _, _, f, kind in t.chosen(names))
