#!/usr/bin/env python3
"""run.py [options] NAME...: records test programs by spawn and attach, and compares with what they do untraced and with the
calls that they must cause.

A test is programs/NAME.c (or .cc) with programs/NAME.expect beside it (README.md tells its format), or one of the hazard
programs in the directory above, linked with injected.c instead of the harness: these state their trees themselves.

Each program is built in the variants that its .expect lists, and each variant is run in its modes: spawn, attach (the
program waits for it), detach (the same, and it is let go before its end). Exit status: 0 passed, 1 failed, 77 skipped."""
import argparse
import bisect
import glob
import os
import re
import sys
import time

import atf
import building
import calltree
from recorder import Failure, Gate, TIMEOUT, Workshop, descriptors, finish, text_changes

# Hazard programs that state their own trees: more sources, libraries, link arguments; "output": what is printed depends on
# time; "trees": what they expect depends on what a hook set tells them; "reopened": has stacks inside another stack's
# frames, so that frames look left and return later.
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
    "fork": {},
    "ifunc": {},
    "interrupted_calls": {"output": "any"},
    "longjmp": {},
    "migration": {},
    "recursion": {},
    "registers": {"sources": ["registers_asm.S"]},
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


# ---- expectations ----

class Expectation:
    """A .expect file: `key: value` lines, then blocks of trees and counts, each under a line that ends with a colon."""
    KEYS = {"modes", "variants", "flags", "linked", "sources", "library", "args", "stdin", "options", "exit", "lossy",
            "unnested", "timeout", "functions", "untraced", "ignore"}

    def __init__(self, path):
        self.values, self.blocks, self.libraries = {}, {}, []
        block = None
        with open(path) as f:
            for number, line in enumerate(f, 1):
                line = re.sub(r"(^|\s)#.*", "", line).rstrip()
                if not line:
                    continue
                key, colon, value = line.partition(":")
                if not line[0].isspace() and colon and value.strip() and key in self.KEYS:
                    if key == "library":
                        name, sources = value.split("=", 1)
                        self.libraries.append((name.strip(), sources.split()))
                    else:
                        self.values[key] = value.strip()
                elif not line[0].isspace() and colon and not value.strip():
                    block = self.blocks.setdefault(key, [])
                elif block is not None:
                    block.append(line.strip())
                else:
                    raise Failure("%s:%d: neither a key nor in a block: %s" % (path, number, line))

    def words(self, key, default=""):
        return self.values.get(key, default).split()

    def tree(self, name):
        """Parsed nodes of a block, or None."""
        return calltree.parse(" ".join(self.blocks[name])) if name in self.blocks else None

    def threads(self, mode):
        """[(canonical tree, how many threads)] besides the main thread; how many "+" is one or more."""
        found = []
        for name in self.blocks:
            match = re.fullmatch(r"(?:(\w+) )?thread(?: x(\d+|\+))?(?: \w+)?", name)
            if match and (match.group(1) or mode) == mode:
                times = match.group(2) or "1"
                found.append((calltree.write(self.tree(name)).text(), times if times == "+" else int(times)))
        return found

    def main(self, mode):
        """What the main thread must do: as spawned, or from the gate on when attached."""
        own = self.tree("%s main" % mode)
        if own is not None:
            return calltree.write(own).text()
        whole = self.tree("main")
        if whole is None:
            return None
        return calltree.write(whole if mode == "spawn" else from_gate(whole, mode)).text()


def from_gate(nodes, mode):
    """What is left of a tree when recording begins while wait_for_start stands inside main (and ends in wait_for_end)."""
    for position, node in enumerate(nodes):
        names = [c.name for c in node.children]
        if node.name != "main" or "wait_for_start" not in names:
            continue
        rest = node.children[names.index("wait_for_start") + 1:]
        if mode == "attach":
            return rest + nodes[position + 1:]
        names = [c.name for c in rest]
        if "wait_for_end" not in names:
            raise Failure("the tree has no wait_for_end")
        rest = rest[:names.index("wait_for_end") + 1]
        rest[-1].how = "?"
        return rest
    raise Failure("the tree has no wait_for_start in main")


# ---- what a trace says ----

def own_functions(trace, built):
    """{function_id: name} of the program's own functions, by their place: stripped programs have no names."""
    found = {}
    for function in trace.functions.values():
        places = built.own.get(os.path.basename(function.module.path))
        if places and function.offset in places:
            found[function.id] = places[function.offset]
    return found


def trees(trace, names, ignore=()):
    """{thread: canonical tree} of threads with calls that count, and {name: [calls, returns, left]}."""
    found, counts = {}, {}
    for thread in trace.threads:
        writer, seen = calltree.Writer(), False
        for _, _, function, kind in thread.chosen(names):
            name = names[function]
            if name in ignore:
                continue
            seen = True
            count = counts.setdefault(name, [0, 0, 0])
            count[kind - 1] += 1
            if kind == atf.CALL:
                writer.enter(name)
                if trace.functions[function].entry_only:
                    writer.leave(";")
            elif writer.top != name:
                writer.enter("<%s of %s in %s>" % ("return" if kind == atf.RETURN else "end", name, writer.top))
                writer.leave("")
            else:
                writer.leave("" if kind == atf.RETURN else "!")
        if seen:
            found[thread] = writer.text()
    return found, counts


def compare_trees(expectation, mode, trace, names):
    problems = []
    ignore = set(expectation.words("ignore"))
    found, counts = trees(trace, names, ignore)
    main = expectation.main(mode)
    if main is not None:
        seen = " ".join(t for thread, t in found.items() if thread.tid == trace.pid)
        if not calltree.matches(main, seen):
            problems.append("the main thread's calls differ\n" + calltree.difference(main, seen))
    others = [t for thread, t in found.items() if thread.tid != trace.pid]
    wanted = expectation.threads(mode)
    if wanted or "counts" not in expectation.blocks:
        problems += compare_threads(wanted, others)
    for line in expectation.blocks.get("%s counts" % mode, expectation.blocks.get("counts", [])):
        problems += compare_count(line, counts)
    return problems


def compare_threads(wanted, others):
    problems, unmatched = [], list(others)
    for tree, times in wanted:
        same = [t for t in unmatched if calltree.matches(tree, t)]
        unmatched = [t for t in unmatched if not calltree.matches(tree, t)]
        if (times == "+" and not same) or (times != "+" and len(same) != times):
            problems.append("%d threads instead of %s have the tree %s" % (len(same), times, tree[:300]))
    for tree in unmatched[:3]:
        best = wanted[0][0] if wanted else ""
        problems.append("a thread's calls are not expected\n" + calltree.difference(best, tree))
    return problems


def compare_count(line, counts):
    """`name CALLS`, or `name CALLS RETURNS LEFT`; N.. is at least N."""
    name, *numbers = line.split()
    seen = counts.get(name, [0, 0, 0])
    for what, number, actual in zip(("calls", "returns", "ends by jumps"), numbers, seen):
        right = actual >= int(number[:-2]) if number.endswith("..") else actual == int(number)
        if not right:
            return ["%s: %d %s instead of %s" % (name, actual, what, number)]
    return []


# ---- programs that state their own trees ----

def read_notes(path, pid):
    """{tid: [note]} of the traced process itself; children write to the same file."""
    notes = {}
    with open(path, errors="surrogateescape") as f:
        for line in f.read().split("\n"):
            match = re.match(r"(\d+) (\d+) (.*)", line, re.S)
            if match and int(match.group(1)) == pid:
                notes.setdefault(int(match.group(2)), []).append(match.group(3))
    return notes


def addresses_of(notes, trace):
    """{function_id: name} of everything that the program asked to record, and e2e_mark's id."""
    by_address = {f.module.base + f.offset: f.id for f in trace.functions.values()}
    names = {}
    for own in notes.values():
        for note in own:
            word, *rest = note.split(" ", 2)
            if word in ("record", "try_record"):
                ident = by_address.get(int(rest[0], 16))
                if ident is None:
                    raise Failure("the trace knows no function %s at %s" % (rest[1], rest[0]))
                names[ident] = rest[1]
    harness = {f.id for f in trace.functions.values() if f.name.startswith("e2e_")}
    marks = [f for f in harness if trace.functions[f].name == "e2e_mark"]
    return names, harness, marks[0] if marks else None


class Part:
    """A thread of the trace as a Replay sees it: marks, what the harness called itself, and how far the expectations are."""

    def __init__(self, thread, harness, mark):
        self.thread, self.at, self.marks, self.inside = thread, 0, [], []
        depth = 0
        for _, number, function, kind in thread.chosen(harness):
            if function == mark and kind == atf.CALL:
                self.marks.append(number)
            depth += 1 if kind == atf.CALL else -1
            if depth == 1 and kind == atf.CALL:
                self.inside.append([number, len(thread)])
            elif depth == 0 and kind != atf.CALL:
                self.inside[-1][1] = number

    def take(self, end, names, since):
        """The events up to `end` that count, and nobody asked for yet."""
        functions, kinds, times = self.thread.functions, self.thread.kinds, self.thread.times
        found = [(i, functions[i], kinds[i]) for i in range(self.at, end)
                 if functions[i] in names and times[i] >= since.get(functions[i], 1 << 64)]
        starts = [s for s, _ in self.inside]
        self.at = end

        def own(number):
            at = bisect.bisect(starts, number) - 1
            return at < 0 or self.inside[at][1] < number
        return [(f, k) for i, f, k in found if own(i)]


class Replay:
    """Goes through the marks of all threads by time, and does at each what the program noted there."""

    def __init__(self, trace, notes):
        self.trace, self.notes = trace, {tid: list(reversed(own)) for tid, own in notes.items()}
        self.names, harness, mark = addresses_of(notes, trace)
        self.parts = [Part(t, harness, mark) for t in trace.threads]
        self.since, self.problems = {}, []

    def run(self, attached):
        if attached:  # e2e_begin notes "ready" before the gate
            for own in self.notes.values():
                if own[-1] == "ready":
                    own.pop()
        for when, number, part in sorted(((p.thread.times[n], n, p) for p in self.parts for n in p.marks),
                                         key=lambda m: (m[0], m[2].thread.id, m[1])):
            self.note(when, number, part)
        left = sum(len(n) for n in self.notes.values())
        if left:
            self.problems.append("%d notes of the program are not in the trace" % left)
        return self.problems

    def note(self, when, number, part):
        own = self.notes.get(part.thread.tid)
        if not own:
            self.problems.append("a mark in thread %d that the program did not make" % part.thread.tid)
            return
        word, _, rest = own.pop().partition(" ")
        if word in ("record", "try_record"):
            name = rest.split(" ", 1)[1]
            self.since.update({i: when for i, n in self.names.items() if n == name and i not in self.since})
        elif word in ("forget", "count_only"):
            for other in self.parts:
                other.at = number if other is part else bisect.bisect(other.thread.times, when)
        elif word in ("expect", "flat"):
            whom, place, tree = rest.split(" ", 2)
            self.compare(word, place, tree, self.events_of(int(whom) or part.thread.tid, when, number, part))

    def events_of(self, tid, when, number, part):
        events = []
        for other in self.parts:
            if other.thread.tid == tid:
                end = number if other is part else bisect.bisect(other.thread.times, when)
                events += other.take(end, self.names, self.since)
        return events

    def compare(self, word, place, tree, events):
        if word == "flat":
            signs = {atf.CALL: "+", atf.RETURN: "-", atf.EXCEPTION: "!"}
            expected = " ".join(tree.split())
            seen = " ".join((";" if self.trace.functions[f].entry_only else signs[k]) + self.names[f] for f, k in events)
        else:
            expected, seen = calltree.canonical(tree), self.tree(events)
        if expected != seen:
            self.problems.append("%s: the calls differ\n%s" % (place, calltree.difference(expected, seen)))

    def tree(self, events):
        writer = calltree.Writer()
        for function, kind in events:
            name = self.names[function]
            if kind == atf.CALL:
                writer.enter(name)
                if self.trace.functions[function].entry_only:
                    writer.leave(";")
            elif writer.top != name:
                writer.enter("<end of %s>" % name)
                writer.leave("")
            else:
                writer.leave("" if kind == atf.RETURN else "!")
        return writer.text()


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
        result = self.shop.run(self.command, self.limit, text=self.text)
        expected = int(self.option("exit", "0"))
        if result.code not in (expected, 77):
            raise Failure("untraced it ends with %d: %s" % (result.code, (result.out + result.err).decode()[-2000:]))
        return result

    def options(self):
        if self.option("options") == "none":
            return []
        return self.option("options").split() if self.option("options") else DEFAULT_OPTIONS

    def environment(self):
        return {} if self.expectation else {"E2E_LOG": self.shop.path("notes")}

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
        if len(found) != 1:
            raise Failure("%d traces in %s instead of one" % (len(found), output))
        trace = atf.Trace(found[0])
        if not trace.complete:
            self.problems.append("the trace is not complete")
        self.verify(found[0])
        self.shop.read("info", found[0])
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
    strange = [os.path.join(building.HERE, "injected.c")] + full(["clobber.S"])
    flags = ["-Wno-missing-field-initializers", "-pthread"]
    return building.build(directory, name, full([source] + how.get("sources", [])), variant, flags, libraries,
                          how.get("linked", []) + ["-lm", "-ldl"], strange)


def cases(arguments, name):
    path = os.path.join(building.PROGRAMS, name + ".expect")
    expectation = Expectation(path) if os.path.exists(path) and not name.startswith("injected/") else None
    short = name[len("injected/"):] if name.startswith("injected/") else name
    variants = expectation.words("variants", "O2") if expectation else ["O2"]
    modes = expectation.words("modes", "spawn") if expectation else ["spawn", "attach"]
    for variant in variants:
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
        for mode in modes:
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
