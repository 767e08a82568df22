# SPDX-License-Identifier: Apache-2.0
"""What a program must do, from its .expect file (README.md has the format), and the comparison with a trace."""
import os
import re

import atf
import calltree
from recorder import Failure


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
    """What is left of a tree when recording begins while main is in wait_for_start (and ends in wait_for_end)."""
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
