#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [options] NAME...: records test programs by spawn and attach, and compares with what they do untraced and with
the calls that they must cause.

A test is programs/NAME.c (or .cc) with programs/NAME.expect beside it (README.md has its format), or one of the
hazard programs in the directory above, linked with injected.c instead of the harness: these state their trees
themselves.

Each program is built in the variants that its .expect lists, and each variant is run in its modes: spawn, attach (the
program waits for it), detach (the same, and it is let go before its end). Exit status: 0 passed, 1 failed, 77
skipped."""
import argparse
import glob
import os
import sys
import time

import atf
import building
import prebuilt
from expectation import Expectation, compare_trees, own_functions
from notes import Replay, read_notes
from recorder import Failure, Gate, TIMEOUT, Workshop, descriptors, finish, text_changes

# What files of this machine's instructions have in their names.
MACHINE_FILES = {"aarch64": "a64"}.get(prebuilt.MACHINE, "x64")

# Hazard programs that state their own trees: more sources, libraries, link arguments; "output": what is printed depends
# on time; "trees": what they expect depends on what a hook set reports; "reopened": has stacks inside another
# stack's frames, so that frames look left and return later.
INJECTED = {
    "arguments": {},
    "backtrace": {},
    "cancel": {},
    "coroutines": {"reopened": True},
    "coroutines_asm": {"reopened": True},
    "dlsym_next": {"libraries": [("libe2e_wrapper.so", ["dlsym_next_wrapper.c"]),
                                 ("libe2e_real.so", ["dlsym_next_real.c"])]},
    "entry_shapes": {"sources": ["entry_shapes_asm.S"], "trees": "none"},
    "exceptions": {},
    "exceptions_static": {"main": "exceptions", "linked": ["-static-libgcc", "-static-libstdc++"]},
    "exceptions_runtime": {},
    "exceptions_signals": {},
    "fork": {},
    "ifunc": {},
    "interrupted_calls": {"output": "any"},
    "longjmp": {},
    "migration": {},
    # glibc's unwind table of code that binds a function is wrong on arm64: see ../meson.build
    "profiled": {"trees": "none", "environment": {} if MACHINE_FILES == "x64" else {"LD_BIND_NOW": "1"}},
    "recursion": {},
    "registers": {"sources": ["registers_asm.S"]} if MACHINE_FILES == "x64" else
                 {"main": "registers_a64", "sources": ["registers_asm_a64.S"]},
    "return_address": {},
    "seccomp": {},
    "shared_memory_child": {},
    "short_functions": {"trees": "none"},
    "signals": {},
    "small_signal_stack": {"reopened": True},
    "spawn": {},
    "stress": {"trees": "none", "output": "any"},
    "tail_calls": {},
    "terminate": {},
    "threads": {},
    "vectors": {},
}

DEFAULT_OPTIONS = ["--lossless"]


# ---- one run ----

class Case:
    """One program in one variant and mode."""

    def __init__(self, arguments, name, variant, mode, built, expectation):
        self.arguments, self.name, self.variant, self.mode = arguments, name, variant, mode
        self.built, self.expectation = built, expectation
        self.problems = []

    def title(self):
        return "%s (%s, %s)" % (self.name, self.variant, self.mode)

    def option(self, key, default=""):
        return self.expectation.values.get(key, default) if self.expectation else default

    def run(self):
        shop = self.shop = Workshop(self.arguments.contrail, self.name, os.path.join(self.arguments.build, "cache"))
        try:
            self.command = [self.built.path] + self.option("args").split()
            self.text = self.option("stdin").encode().decode("unicode_escape").encode() or None
            self.limit = int(self.option("timeout", str(TIMEOUT)))
            plain = self.plain()
            if plain.code == 77:
                return "skipped: " + plain.out.decode(errors="replace").strip()
            if self.arguments.untraced:
                return None
            output = shop.new_output()
            traced = getattr(self, "run_" + self.mode)(output)
            if not self.expectation and INJECTED[self.name].get("output") == "any":
                traced.out = plain.out
            self.problems += plain.differences(traced)
            self.look_at(output)
            self.problems += shop.leftovers()
        except (Failure, atf.BadTrace) as e:
            self.problems.append(str(e))
        finally:
            shop.close(keep=self.arguments.keep)
        return None

    def plain(self):
        result = self.shop.run(self.command, self.limit, text=self.text, environment=self.own_environment())
        expected = int(self.option("exit", "0"))
        if result.code not in (expected, 77):
            raise Failure("untraced it ends with %d: %s" % (result.code, (result.out + result.err).decode()[-2000:]))
        return result

    def options(self):
        if self.option("options") == "none":
            return []
        return self.option("options").split() if self.option("options") else DEFAULT_OPTIONS

    def environment(self):
        return {} if self.expectation else {"E2E_LOG": self.shop.path("notes"), **self.own_environment()}

    def own_environment(self):
        return {} if self.expectation else INJECTED[self.name].get("environment", {})

    def run_spawn(self, output):
        return self.shop.run(self.shop.spawn_command(output, self.options(), self.command), self.limit, text=self.text,
                             environment=self.environment())

    def run_attach(self, output, detach=False):
        gates = [Gate(self.shop.path(n)) for n in ("start", "end")]
        environment = dict(self.environment(), E2E_WAIT=gates[0].path)
        if detach:
            environment["E2E_WAIT_END"] = gates[1].path
        process = self.shop.start(self.command, environment=environment)
        gates[0].wait(process)
        before = descriptors(process.pid)
        recorder = self.shop.attach(process.pid, output, self.options())
        if descriptors(process.pid) != before:
            self.problems.append("descriptors became %s, were %s" % (descriptors(process.pid), before))
        gates[0].open()
        if detach:
            gates[1].wait(process)
            ended = self.shop.detach(process.pid, recorder)
            self.problems += text_changes(process.pid)
            gates[1].open()
            result = finish(process, self.limit, "the program after detach")
        else:
            result = finish(process, self.limit)
            ended = finish(recorder, what="contrail attach after the program's end")
        if ended.err or ended.out:
            self.problems.append("attach --quiet says %r" % (ended.out + ended.err)[:500])
        return result

    def run_detach(self, output):
        return self.run_attach(output, detach=True)

    def verify(self, directory):
        if self.expectation or not INJECTED[self.name].get("reopened"):
            self.shop.read("verify", directory)
            return
        said = self.shop.run([self.shop.contrail, "verify", directory]).out.decode().splitlines()
        self.problems += [line for line in said[:-1] if "returns have no call" not in line]

    def look_at(self, output):
        found = atf.find(output)
        traces = [atf.Trace(directory) for directory in found]
        first = [trace for trace in traces if trace.manifest["origin"] in ("spawn", "attach")]
        if len(first) != 1:
            raise Failure("%d of the %d traces in %s are the first process's" % (len(first), len(found), output))
        trace = first[0]
        for each in traces:
            if not each.complete:
                self.problems.append("the trace of process %d is not complete" % each.manifest["pid"])
        for directory in found:
            self.verify(directory)
        self.shop.read("info", found[traces.index(trace)])
        if trace.lost and not self.option("lossy"):
            self.problems.append("events were lost: %s" % trace.manifest["events"]["lost"])
        if self.expectation:
            if not self.option("unnested"):
                self.problems += trace.check()
            names = own_functions(trace, self.built)
            self.problems += compare_trees(self.expectation, self.mode, trace, names)
        else:
            replay = Replay(trace, read_notes(self.shop.path("notes"), trace.pid))
            if not any("unnested" in n for n in replay.notes.values()):
                self.problems += trace.check()
            if INJECTED[self.name].get("trees") != "none":
                self.problems += replay.run(self.mode == "attach")


# ---- the table ----

def build_expected(name, variant, directory):
    expectation = Expectation(os.path.join(building.PROGRAMS, name + ".expect"))
    full = lambda names: [os.path.join(building.PROGRAMS, n) for n in names]
    sources = expectation.words("sources") or [os.path.basename(p) for p in
                                               glob.glob(os.path.join(building.PROGRAMS, name + ".c*"))]
    libraries = [(n, full(s)) for n, s in expectation.libraries]
    return building.build(directory, name, full(sources), variant, expectation.words("flags"), libraries,
                          expectation.words("linked"))


def build_injected(name, variant, directory):
    how = INJECTED[name]
    full = lambda names: [os.path.join(building.E2E, n) for n in names]
    main = how.get("main", name)
    source = main + (".c" if os.path.exists(os.path.join(building.E2E, main + ".c")) else ".cc")
    libraries = [(n, full(s)) for n, s in how.get("libraries", [])]
    strange = [os.path.join(building.HERE, "injected.c")] + full(["clobber_%s.S" % MACHINE_FILES])
    flags = ["-Wno-missing-field-initializers", "-pthread"]
    return building.build(directory, name, full([source] + how.get("sources", [])), variant, flags, libraries,
                          how.get("linked", []) + ["-lm", "-ldl"], strange)


def short_modes(name, number, modes):
    """All modes for a program's first variant, one for each of the others: in turn, and another one to begin with in
    each program."""
    return modes if number == 0 else [modes[(number + len(name)) % len(modes)]]


def cases(arguments, name):
    path = os.path.join(building.PROGRAMS, name + ".expect")
    expectation = Expectation(path) if os.path.exists(path) and not name.startswith("injected/") else None
    short = name[len("injected/"):] if name.startswith("injected/") else name
    variants = building.variants(expectation.words("variants", "O2") if expectation else ["O2"])
    modes = expectation.words("modes", "spawn") if expectation else ["spawn", "attach"]
    for number, variant in enumerate(variants):
        if arguments.variant and variant != arguments.variant:
            continue
        directory = os.path.join(arguments.build, "record", short if expectation else "injected_" + short, variant)
        os.makedirs(directory, exist_ok=True)
        try:
            built = (build_expected if expectation else build_injected)(short, variant, directory)
        except building.NoCompiler as e:
            print("skipped %s (%s): %s" % (name, variant, e))
            continue
        except RuntimeError as e:
            print("FAILED  %s (%s) does not compile: %s" % (name, variant, e))
            arguments.broken = True
            continue
        for mode in short_modes(name, number, modes) if arguments.short else modes:
            if not arguments.mode or mode == arguments.mode:
                yield Case(arguments, short, variant, mode, built, expectation)


def all_names():
    own = [os.path.basename(p)[:-len(".expect")] for p in glob.glob(os.path.join(building.PROGRAMS, "*.expect"))]
    return sorted(own) + ["injected/" + n for n in sorted(INJECTED)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contrail", default="build/contrail")
    parser.add_argument("--build", default="/tmp", help="where programs are built")
    parser.add_argument("--variant")
    parser.add_argument("--mode")
    parser.add_argument("--short", action="store_true", help="all modes with the first variant, one with each other")
    parser.add_argument("--build-only", action="store_true", help="for other machines: prebuilt.py")
    parser.add_argument("--untraced", action="store_true", help="only build, and run as they are")
    parser.add_argument("--keep", action="store_true", help="keep traces and notes")
    parser.add_argument("--list", action="store_true", help="print all names")
    parser.add_argument("--complete", action="store_true", help="check that the names given are all there are")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.broken = False
    arguments.contrail = os.path.abspath(arguments.contrail)
    arguments.build = os.path.abspath(arguments.build)
    if arguments.list:
        print("\n".join(all_names()))
        return 0
    if arguments.complete:
        strange = set(arguments.names) ^ set(all_names())
        print("not in both the list and the directory: %s" % sorted(strange) if strange else "complete")
        return 1 if strange else 0
    if arguments.build_only:
        return 0 if all(case.built for name in arguments.names for case in cases(arguments, name)) else 1
    ran = failed = 0
    for name in arguments.names or all_names():
        for case in cases(arguments, name):
            started = time.monotonic()
            skipped = case.run()
            took = "%.1f s" % (time.monotonic() - started)
            if skipped:
                print("%s: %s" % (case.title(), skipped))
                continue
            ran += 1
            failed += bool(case.problems)
            print("%s %s, %s%s" % ("FAILED " if case.problems else "ok     ", case.title(), took,
                                   ", kept in " + case.shop.directory if arguments.keep else ""))
            for problem in case.problems[:8]:
                print("  " + problem.replace("\n", "\n  "))
            sys.stdout.flush()
    if not ran and not arguments.broken:
        return 77
    print("%d runs, %d failed" % (ran, failed))
    return 1 if failed or arguments.broken else 0


if __name__ == "__main__":
    sys.exit(main())
