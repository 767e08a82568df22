# SPDX-License-Identifier: Apache-2.0
"""Call trees as text, in the notation of harness.h:

f(...) was called and returned, f! was left without returning, f; is known on entry only, f? is still open; *3 repeats
what comes before it. Here also: *+ repeats any number of times, but once at least; f^1000(...) is f in f in f, a
thousand deep.

Trees are compared in a canonical form: no blanks, equal neighbours merged into one with a repetition."""
import re

TOKEN = re.compile(r"\s*([A-Za-z_.~$@<>:,&{}\[\]0-9=+-][^\s()!;?*^]*|[()!;?]|\*(?:\d+|\+)|\^\d+)")


class Node:
    def __init__(self, name, children=None, how="", times=1):
        self.name, self.children, self.how, self.times = name, children or [], how, times


class Writer:
    """Canonical text from a sequence of enter and leave. Never recursive: trees may be 100,000 deep. The text of a
    node is complete when it is left; it becomes a repetition when its left neighbour's is the same."""

    def __init__(self):
        self.buffer = bytearray()
        self.stack = [Open("", 0)]

    def enter(self, name):
        parent = self.stack[-1]
        if len(self.stack) > 1 and not parent.last_size:
            self.buffer += b"("
        elif parent.last_size:
            self.buffer += b" "
        self.stack.append(Open(name, len(self.buffer)))
        self.buffer += name.encode()

    def leave(self, how, times=1):
        node = self.stack.pop()
        self.buffer += (b")" if node.last_size else b"" if how else b"()") + how.encode()
        parent, text = self.stack[-1], self.buffer
        size = len(text) - node.start
        same = parent.last_size == size and text[parent.last:parent.last + size] == text[node.start:]
        if same and parent.times != "+" and times != "+":
            parent.times += times
            del text[parent.last + size:]
        else:
            parent.last, parent.last_size, parent.times = node.start, size, times
        if parent.times != 1:
            text += b"*%s" % str(parent.times).encode()

    @property
    def depth(self):
        return len(self.stack) - 1

    @property
    def top(self):
        return self.stack[-1].name

    def text(self):
        while self.depth:
            self.leave("?")
        return self.buffer.decode()


class Open:
    """A node that is not left yet, and what is rightmost among its children."""
    __slots__ = ("name", "start", "last", "last_size", "times")

    def __init__(self, name, start):
        self.name, self.start = name, start
        self.last, self.last_size, self.times = 0, 0, 1


def parse(text):
    """A list of nodes. Raises ValueError."""
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise ValueError("not a tree at %r" % text[at:at + 30])
        tokens.append(match.group(1))
        at = match.end()
    tokens.reverse()
    nodes = parse_list(tokens)
    if tokens:
        raise ValueError("a bracket too many")
    return nodes


def parse_list(tokens):
    nodes = []
    while tokens and tokens[-1] != ")":
        nodes.append(parse_node(tokens))
    return nodes


def parse_node(tokens):
    node, deep = Node(tokens.pop()), 1
    if tokens and tokens[-1][0] == "^":
        deep = int(tokens.pop()[1:])
    if tokens and tokens[-1] == "(":
        tokens.pop()
        node.children = parse_list(tokens)
        if not tokens:
            raise ValueError("a bracket is missing")
        tokens.pop()
    if tokens and tokens[-1] in "!;?":
        node.how = tokens.pop()
    node.deep = deep
    if tokens and tokens[-1][0] == "*":
        times = tokens.pop()[1:]
        node.times = times if times == "+" else int(times)
    return node


def write(nodes, writer=None):
    """Canonical text of parsed nodes."""
    writer = writer or Writer()
    for node in nodes:
        for _ in range(node.deep):
            writer.enter(node.name)
        write(node.children, writer)
        for i in range(node.deep):
            writer.leave(node.how, node.times if i == node.deep - 1 else 1)
    return writer


def canonical(text):
    return write(parse(text)).text()


def matches(expected, actual):
    """Both canonical."""
    if "*+" not in expected:
        return expected == actual
    # What comes before *+ may be repeated.
    pattern = re.escape(expected).replace(r"\*\+", r"(?:\*\d+)?")
    return re.fullmatch(pattern, actual) is not None


def difference(expected, actual):
    at = 0
    while at < min(len(expected), len(actual)) and expected[at] == actual[at]:
        at += 1
    start = max(0, at - 100)
    return "  expected: %s%s\n  seen:     %s%s" % ("..." if start else "", expected[start:start + 400] or "(nothing)",
                                                  "..." if start else "", actual[start:start + 400] or "(nothing)")
