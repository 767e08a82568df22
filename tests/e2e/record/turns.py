#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""turns.py: coroutines that take turns, recorded, attached to and followed: the tree of each is exact, however many
there are."""
import os
import shutil
import subprocess
import sys

import atf
import building
import targets
from expectation import own_functions
from recorder import Failure, finish, read_line
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


def trees(trace, thread, names):
    """The outermost nodes of the functions OWN; every end is at the depth of its call. Written from
    docs/TRACE-FORMAT.md: a depth below 2^31 is a place in one row, others come in groups of 4,096; the frame at the
    depth before is the caller, or else the one that ran."""
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
                raise Failure("a return of %s at depth %x that is not open there" % (trace.functions[function].where,
                                                                                     depth))
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


def read(shop, output, program, may_leave=False):
    found, = atf.find(output)
    shop.read("verify", found)
    trace = atf.Trace(found)
    if trace.lost:
        raise Failure("%d events were lost" % trace.lost)
    events = trace.manifest["events"]
    if events["deep_calls"] or (events["left_frames"] and not may_leave):
        raise Failure("calls that were left or left out: %s" % events)
    names = own_functions(trace, program) if program else {}
    return [node for thread in trace.threads for node in trees(trace, thread, names)]


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


def command_of(name, how, *words):
    return [built(name).path] + ([how] if how else []) + [str(w) for w in words]


def recorded(how, count, rounds, options=(), name="turns", words=()):
    def check(shop):
        output = shop.new_output()
        result = shop.run(shop.spawn_command(output, ["--lossless"] + list(options),
                                             command_of(name, how, count, rounds, *words)))
        check_output(result, count, rounds)
        check_bodies(read(shop, output, built(name)), count, rounds)
    return check


VERBS = {"attach": ["--lossless"], "stalk": ["--pid"]}
OPTIONS = {"spawn": ["--lossless"], "stalk": []}


def come_in_the_middle(shop, verb, name, how, output):
    """When each is suspended inside its calls."""
    process = shop.start(command_of(name, how, 100, 4, "hold"), stdin=subprocess.PIPE)
    read_line(process.stdout, "all coroutines are suspended")
    recorder = shop.attach(process.pid, output, VERBS[verb], verb)
    check_output(finish(process), 100, 4)
    ended = finish(recorder)
    if ended.code:
        raise Failure("%s ends with %d: %r" % (verb, ended.code, ended.err))


def attached(verb, how, name="turns"):
    """What began before is not seen, and its returns are not either."""
    def check(shop):
        output = shop.new_output()
        come_in_the_middle(shop, verb, name, how, output)
        roots = read(shop, output, built(name))
        seen = sorted(n.text() for n in all_nodes(roots, "work") if n.text().count("(") > 1)
        whole = [t for t in seen if t.endswith(")")]
        for number in range(5):
            times = whole.count(work_text(number))
            inner = 20 * 3 * (5 - number)  # those of deeper ones, too
            if times != inner:
                raise Failure("%d calls %s instead of %d" % (times, work_text(number), inner))
    return check


def followed(how, count, rounds, name="turns", may_leave=False, words=()):
    def check(shop):
        output = shop.new_output()
        result = shop.run([shop.contrail, "stalk", "--quiet", "--output", output, "--"] +
                          command_of(name, how, count, rounds, *words))
        check_output(result, count, rounds)
        check_bodies(read(shop, output, built(name), may_leave), count, rounds)
    return check


def build_other(name, flags, linked=()):
    try:
        targets.programs[name, "O2"] = building.build(targets.checks.directory("O2"), name, [
            os.path.join(building.PROGRAMS, name + ".cc")], "O2", flags, linked=linked)
    except (building.NoCompiler, RuntimeError) as e:
        return "skipped: %s does not build here: %s" % (name, str(e).splitlines()[-1])
    return None


def boost(check):
    def built_first(shop):
        return build_other("turns_boost", ["-std=c++17"], ["-lboost_context"]) or check(shop)
    return built_first


def stackless(verb):
    """Coroutines without stacks are functions that are called again and again."""
    def check(shop):
        name, output = "turns_stackless", shop.new_output()
        skipped = build_other(name, ["-std=c++20", "-fcoroutines"])
        if skipped:
            return skipped
        if verb == "attach":
            come_in_the_middle(shop, verb, name, "", output)
        else:
            check_output(shop.run([shop.contrail, verb, "--quiet", "--output", output] + OPTIONS[verb] +
                                  ["--"] + command_of(name, "", 100, 5)), 100, 5)
        roots = read(shop, output, built(name))
        works = sorted(n.text() for b in all_nodes(roots, "resume") + all_nodes(roots, "body") for n in b.children
                       if n.name == "work")
        if works != sorted(work_text(n, False) for n in range(100) for _ in range(3 if verb == "attach" else 5)):
            raise Failure("%d calls of work" % len(works))
        return None
    return check


FIBERS = """s = 0
all = (0...200).map { |k| Fiber.new { loop { s += k; Fiber.yield } } }
10.times { all.each(&:resume) }
p s"""


def ruby(verb):
    """Every end is at its call's depth, whatever Ruby does: its own exceptions are longjmps."""
    def check(shop):
        if not shutil.which("ruby"):
            return "skipped: ruby is not installed"
        output = shop.new_output()
        result = shop.run([shop.contrail, verb, "--quiet", "--output", output] + OPTIONS[verb] +
                          ["--", "ruby", "--disable=gems", "-e", FIBERS])
        if result.code or result.out != b"199000\n":
            raise Failure("it ends with %d, %r, %r" % (result.code, result.out, result.err))
        read(shop, output, None, True)
        return None
    return check


TABLE = {
    "ucontext": recorded("ucontext", 20, 10),
    "switch": recorded("switch", 20, 10),
    "ucontext 10,000": recorded("ucontext", 10000, 1),
    "switch 10,000": recorded("switch", 10000, 1),
    "own functions only": recorded("switch", 200, 5, ["--only", "turns"]),
    "raw": recorded("switch", 50, 5, ["--format", "atf2"]),
    "on a thread": recorded("ucontext", 200, 5, words=["thread"]),
    "far apart": recorded("switch", 200, 5, words=["far"]),
    "boost": boost(recorded("", 100, 5, name="turns_boost")),
    "stackless": stackless("spawn"),
    "ruby": ruby("spawn"),
    "attached": attached("attach", "ucontext"),
    "attached, switch": attached("attach", "switch"),
    "attached, boost": boost(attached("attach", "", "turns_boost")),
    "attached, stackless": stackless("attach"),
    "followed ucontext": followed("ucontext", 100, 5),
    "followed switch": followed("switch", 100, 5),
    "followed 10,000": followed("ucontext", 10000, 1),
    "followed, far apart": followed("switch", 200, 5, words=["far"]),
    "followed boost": boost(followed("", 100, 5, "turns_boost", may_leave=True)),  # jump_fcontext ends by a jump
    "followed stackless": stackless("stalk"),
    "followed ruby": ruby("stalk"),
    "followed from the middle": attached("stalk", "ucontext"),
    "followed from the middle, switch": attached("stalk", "switch"),
}


if __name__ == "__main__":
    sys.exit(targets.run_table(__doc__, TABLE))
