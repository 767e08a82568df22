#!/usr/bin/env python3
"""turns.py: coroutines that take turns, recorded, attached to and followed: the tree of each is exact, however many there are."""
import os
import subprocess
import sys

import atf
import building
import targets
from checks import Checks
from expectation import own_functions
from recorder import Failure, finish
from targets import built

OTHER, GROUP = 1 << 31, 4096
OWN = {"body", "work", "rest", "resume"}


class Node:
    __slots__ = ("name", "children", "ended")

    def __init__(self, name):
        self.name, self.children, self.ended = name, [], False

    def text(self):
        inner = " ".join(c.text() for c in self.children)
        return "%s(%s)%s" % (self.name, inner, "" if self.ended else "?")


def trees(trace, program):
    """The outermost nodes of the functions OWN. Written from docs/TRACE-FORMAT.md: a depth below 2^31 is a place in one row, others
    come in groups of 4,096; the frame at the depth before is the caller, or else the one that ran."""
    names = own_functions(trace, program)
    thread, = trace.threads
    row, others, roots, running = [], {}, [], None
    for function, kind, depth in zip(thread.functions, thread.kinds, thread.depths):
        entry_only = trace.functions[function].entry_only
        if kind == atf.CALL:
            if depth < OTHER:
                if depth != len(row):
                    raise Failure("a call at depth %d while %d are open" % (depth, len(row)))
                parent = row[-1] if row else None
            else:
                parent = others.get(depth - 1) if depth % GROUP else running
            if entry_only:
                running = parent
                continue
            node = Node(names.get(function, ""))
            node_parent = parent
            if node.name in OWN:
                while node_parent is not None and node_parent[1] is None:
                    node_parent = node_parent[2]
                (node_parent[1].children if node_parent else roots).append(node)
            frame = (function, node if node.name in OWN else None, parent)
            if depth < OTHER:
                row.append(frame)
            elif depth in others:
                raise Failure("a call at depth %x, where one is open" % depth)
            else:
                others[depth] = frame
            running = frame
        else:
            frame = row.pop() if depth < OTHER and depth == len(row) - 1 else others.pop(depth, None)
            if not frame or frame[0] != function:
                raise Failure("a return of %s at depth %x that is not open there" % (trace.functions[function].where, depth))
            if frame[1]:
                frame[1].ended = kind == atf.RETURN
            running = row[-1] if depth < OTHER and row else others.get(depth - 1) if depth % GROUP else frame[2]
    return roots


def all_nodes(nodes, name):
    found, waiting = [], list(nodes)
    while waiting:
        node = waiting.pop()
        if node.name == name:
            found.append(node)
        waiting += node.children
    return found


def work_text(number, suspends=True):
    return "work(" * (number % 5 + 1) + ("rest()" if suspends else "") + ")" * (number % 5 + 1)


def read(shop, output, program):
    found, = atf.find(output)
    shop.read("verify", found)
    trace = atf.Trace(found)
    if trace.lost:
        raise Failure("%d events were lost" % trace.lost)
    events = trace.manifest["events"]
    if events["deep_calls"] or events["left_frames"]:
        raise Failure("calls that were left or left out: %s" % events)
    return trees(trace, program)


def check_output(result, count, rounds):
    expected = sum(n % 5 + 1 for n in range(count)) * rounds
    if result.code or result.out.split()[-1:] != [b"%d" % expected]:
        raise Failure("it ends with %d, %r, %r" % (result.code, result.out, result.err))


def check_bodies(roots, count, rounds):
    """`body` of each coroutine, whichever was the first to begin."""
    expected = sorted("body(%s)" % " ".join([work_text(n)] * rounds) for n in range(count))
    seen = sorted(n.text() for n in all_nodes(roots, "body"))
    if seen != expected:
        wrong = next((s for s, e in zip(seen, expected) if s != e), "")
        raise Failure("%d bodies instead of %d; one is %s" % (len(seen), len(expected), wrong[:500]))
    resumes = all_nodes(roots, "resume")
    if len(resumes) != count * (rounds + 1):
        raise Failure("%d calls of resume" % len(resumes))


def recorded(how, count, rounds, options=(), name="turns"):
    def check(shop):
        program = built(name)
        output = shop.new_output()
        words = [how] if how else []
        result = shop.run(shop.spawn_command(output, ["--lossless"] + list(options),
                                             [program.path] + words + [str(count), str(rounds)]))
        check_output(result, count, rounds)
        check_bodies(read(shop, output, program), count, rounds)
    return check


def attached(command):
    """In the middle, when each is suspended inside its calls: what began before is not seen, and its returns are not either."""
    def check(shop):
        program, output = built("turns"), shop.new_output()
        process = shop.start([program.path, "ucontext", "100", "4", "hold"], stdin=subprocess.PIPE)
        process.stdout.readline()
        recorder = shop.attach(process.pid, output, ["--lossless"])
        result = finish(process)
        check_output(result, 100, 4)
        ended = finish(recorder)
        if ended.code:
            raise Failure("attach ends with %d: %r" % (ended.code, ended.err))
        roots = read(shop, output, program)
        seen = sorted(n.text() for n in all_nodes(roots, "work") if n.text().count("(") > 1)
        whole = [t for t in seen if t.endswith(")")]
        for number in range(5):
            times = whole.count(work_text(number))
            inner = 20 * 3 * (5 - number)  # those of deeper ones, too
            if times != inner:
                raise Failure("%d calls %s instead of %d" % (times, work_text(number), inner))
    return check


def followed(how, count, rounds):
    def check(shop):
        program, output = built("turns"), shop.new_output()
        result = shop.run([shop.contrail, "stalk", "--quiet", "--output", output, "--", program.path, how, str(count),
                           str(rounds)])
        check_output(result, count, rounds)
        check_bodies(read(shop, output, program), count, rounds)
    return check


def build_other(name, flags, linked=()):
    try:
        targets.programs[name, "O2"] = building.build(targets.checks.directory("O2"), name, [
            os.path.join(building.PROGRAMS, name + ".cc")], "O2", flags, linked=linked)
    except (building.NoCompiler, RuntimeError) as e:
        return "skipped: %s does not build here: %s" % (name, str(e).splitlines()[-1])
    return None


def boost(shop):
    return build_other("turns_boost", ["-std=c++17"], ["-lboost_context"]) or recorded("", 100, 5, name="turns_boost")(shop)


def stackless(shop):
    """Coroutines without stacks are functions that are called again and again."""
    skipped = build_other("turns_stackless", ["-std=c++20", "-fcoroutines"])
    if skipped:
        return skipped
    program, output = built("turns_stackless"), shop.new_output()
    result = shop.run(shop.spawn_command(output, ["--lossless"], [program.path, "100", "5"]))
    check_output(result, 100, 5)
    roots = read(shop, output, program)
    works = sorted(n.text() for b in all_nodes(roots, "resume") + all_nodes(roots, "body") for n in b.children
                   if n.name == "work")
    if works != sorted(work_text(n, False) for n in range(100) for _ in range(5)):
        raise Failure("%d calls of work" % len(works))
    return None


TABLE = {
    "ucontext": recorded("ucontext", 20, 10),
    "switch": recorded("switch", 20, 10),
    "ucontext 10,000": recorded("ucontext", 10000, 3),
    "switch 10,000": recorded("switch", 10000, 3),
    "own functions only": recorded("switch", 200, 5, ["--only", "turns"]),
    "raw": recorded("switch", 50, 5, ["--format", "atf2"]),
    "boost": boost,
    "stackless": stackless,
    "attached": attached("attach"),
    "followed ucontext": followed("ucontext", 100, 5),
    "followed switch": followed("switch", 100, 5),
    "followed 10,000": followed("ucontext", 10000, 3),
}


def main():
    targets.checks = checks = Checks(__doc__)
    for name, function in TABLE.items():
        checks.run(name, function)
    return checks.verdict()


if __name__ == "__main__":
    sys.exit(main())
