#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads packed index files (index.ctp) without any of Contrail's code: a second opinion on docs/TRACE-FORMAT.md.

    ctp.py [--blocks] index.ctp...        one line per event, or per block

As a module: read(path, complete) gives the events as the bytes that index.atf has between header and footer."""
import array
import itertools
import operator
import re
import struct
import sys
import zlib

HEADER = struct.Struct("<4sBBBBIIB7xQ28xI")
BLOCK = struct.Struct("<4sIIIB3xIQQQII")
ENTRY = struct.Struct("<QQQIHHII")
FOOTER = struct.Struct("<4sIQQQQQQ8x")
assert (HEADER.size, BLOCK.size, ENTRY.size, FOOTER.size) == (64, 56, 40, 64)
EVENTS, LINKS, TABLE, STACK = 1, 2, 3, 4
CALL, RETURN, EXCEPTION = 1, 2, 3
NO_DETAIL = 0xFFFFFFFF
ALL = 0xFFFFFFFF


class Bad(Exception):
    pass


class Block:
    def __init__(self, content, at):
        (self.magic, header_crc, self.size, payload_crc, self.type, self.count, self.first, self.start, self.end,
         self.depth, self.span) = BLOCK.unpack_from(content, at)
        self.at = at
        if self.magic != b"CTPB" or header_crc != zlib.crc32(content[at + 8:at + 56]):
            raise Bad("no block at %d" % at)
        if self.size % 8 or self.size < 56 or at + self.size > len(content):
            raise Bad("the block at %d is cut" % at)
        self.payload = content[at + 56:at + self.size]
        if payload_crc != zlib.crc32(self.payload):
            raise Bad("the block at %d is damaged" % at)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


def lz4(data, size):
    out, at = bytearray(), 0
    while at < len(data):
        token = data[at]
        at += 1
        length = token >> 4
        if length == 15:
            more = 255
            while more == 255:
                more = data[at]
                at += 1
                length += more
        out += data[at:at + length]
        at += length
        if at >= len(data):
            break
        distance = data[at] | data[at + 1] << 8
        at += 2
        length = token & 15
        if length == 15:
            more = 255
            while more == 255:
                more = data[at]
                at += 1
                length += more
        length += 4
        start = len(out) - distance
        if distance >= length:
            out += out[start:start + length]
        else:
            piece = bytes(out[start:])
            out += (piece * (length // distance + 1))[:length]
    if len(out) != size:
        raise Bad("a column has %d bytes instead of %d" % (len(out), size))
    return bytes(out)


def column(data, at):
    head, at = varint(data, at)
    if not head & 1:
        return data[at:at + (head >> 1)], at + (head >> 1)
    stored, at = varint(data, at)
    return lz4(data[at:at + stored], head >> 1), at + stored


def functions_of(names, count):
    ids, last, at = [], 0, 0
    for _ in range(count):
        value, at = varint(names, at)
        last = last + unzigzag(value) & 0xFFFFFFFFFFFFFFFF
        ids.append(last)
    if at != len(names):
        raise Bad("more than %d functions" % count)
    return ids


SHORT_STEPS = re.compile(rb"[\x00-\xbf]+")


def times_of(data, count, now):
    times, at = [], 0
    while at < len(data):
        run = SHORT_STEPS.match(data, at)
        if run:
            times += itertools.islice(itertools.accumulate(run.group(), initial=now), 1, None)
            now, at = times[-1], run.end()
            continue
        byte = data[at]
        at += 1
        if byte < 248:
            now += 192 + ((byte - 192) << 8) + data[at]
            at += 1
        else:
            n = byte - 247
            now = now + 192 + (56 << 8) + int.from_bytes(data[at:at + n], "little") & 0xFFFFFFFFFFFFFFFF
            at += n
        times.append(now)
    if at != len(data) or len(times) != count:
        raise Bad("%d times instead of %d" % (len(times), count))
    return times


class Odd:
    """The events that are written in full, and what they do to the open calls."""

    def __init__(self, data, ids, tid):
        self.data, self.ids, self.tid, self.at = data, ids, tid, 0

    def next(self, depth, stack):
        first = self.data[self.at]
        self.at += 1
        kind, thread = first & 3, self.tid
        if not kind:
            kind, self.at = varint(self.data, self.at)
        level = depth if kind == CALL else depth - 1 & ALL
        if first & 4:
            level, self.at = varint(self.data, self.at)
        if first & 8:
            thread, self.at = varint(self.data, self.at)
        code, self.at = varint(self.data, self.at)
        function = self.ids[code]
        return (kind, level, thread, function), self.follow(kind, level, function, depth, stack)

    @staticmethod
    def follow(kind, level, function, depth, stack):
        """The new depth."""
        if kind == CALL:
            if level != depth:
                stack.clear()
            stack.append(function)
            return level + 1 & ALL
        if kind != RETURN and (kind != EXCEPTION or not function):
            return depth
        if level + 1 & ALL == depth:
            if stack:
                stack.pop()
            return level
        if level < depth:
            above = depth - level
            if above <= len(stack) and stack[-above] == function:
                del stack[-above]
            elif above <= len(stack):
                del stack[-above:]
                return level
            return depth - 1
        if level > depth:
            stack.clear()
        return level


# Calls of functions with short codes, and returns from them: nearly all of a trace.
PLAIN = re.compile(rb"[\x00\x03-\xdf]+")
KIND_OF = bytes([RETURN] + [CALL] * 255)
IS_CALL = bytes([0] + [1] * 255)
STEP_OF = [-1] + [1] * 255


def plain_functions(run, ids, stack):
    """The functions of a run of plain events."""
    found = []
    add, push, pop = found.append, stack.append, stack.pop
    for byte in run:
        if byte:
            function = ids[byte - 3]
            push(function)
            add(function)
        else:
            add(pop())
    return found


def plain_depths(run, depth):
    """Their depths, and the depth after them."""
    after = list(itertools.accumulate(map(STEP_OF.__getitem__, run), initial=depth))
    if min(after) < 0 or max(after) > ALL:
        after = [d & ALL for d in after]
    return map(ALL.__and__, map(operator.sub, after[1:], run.translate(IS_CALL))), after[-1]


def unpack_shape(block, tid, shape, odd, ids):
    """Columns: functions, threads, kinds, depths."""
    functions, threads, kinds, depths = [], [tid] * block.count, [], []
    odd, stack, depth, at = Odd(odd, ids, tid), [], block.depth, 0
    while at < len(shape):
        run = PLAIN.match(shape, at)
        if run:
            functions += plain_functions(run.group(), ids, stack)
            kinds += run.group().translate(KIND_OF)
            more, depth = plain_depths(run.group(), depth)
            depths += more
            at = run.end()
            continue
        byte = shape[at]
        at += 1
        if byte >= 224:
            code = 221 + ((byte - 224) << 8) + shape[at]
            at += 1
            functions.append(ids[code])
            kinds.append(CALL)
            depths.append(depth)
            stack.append(ids[code])
            depth = depth + 1 & ALL
        elif byte == 2:
            depth = depth - 1 & ALL
            stack.pop()
        else:
            (kind, level, thread, function), depth = odd.next(depth, stack)
            threads[len(kinds)] = thread
            functions.append(function)
            kinds.append(kind)
            depths.append(level)
    if len(kinds) != block.count or odd.at != len(odd.data):
        raise Bad("the block at %d has other events than its header says" % block.at)
    return functions, threads, kinds, depths


def unpack(block, tid):
    """Columns: times, functions, threads, kinds, depths."""
    id_count, at = varint(block.payload, 0)
    names, at = column(block.payload, at)
    shape, at = column(block.payload, at)
    time, at = column(block.payload, at)
    odd, at = column(block.payload, at)
    if any(block.payload[at:]) or len(block.payload) - at > 7:
        raise Bad("bytes after the columns")
    times = times_of(time, block.count, block.start)
    if block.end != times[-1]:
        raise Bad("the block at %d ends at another time than its header says" % block.at)
    return (times,) + unpack_shape(block, tid, shape, odd, functions_of(names, id_count))


def links_of(block):
    at = seq = detail = 0
    pairs, _ = column(block.payload, 0)
    for _ in range(block.count):
        value, at = varint(pairs, at)
        seq += unzigzag(value)
        value, at = varint(pairs, at)
        detail += unzigzag(value)
        if not block.first <= seq <= block.first + block.span:
            raise Bad("a link out of its block's range")
        yield seq, detail


def records(columns):
    """As in index.atf."""
    count = len(columns[0])
    data = bytearray(32 * count)
    longs, words = memoryview(data).cast("Q"), memoryview(data).cast("I")
    longs[0::4], longs[1::4] = array.array("Q", columns[0]), array.array("Q", columns[1])
    for i, values in enumerate(columns[2:], 4):
        words[i::8] = array.array("I", values)
    words[7::8] = array.array("I", [NO_DETAIL]) * count
    return data


def blocks_of(content, finished):
    """One after the other; in an unfinished file the next one is looked for where there is none."""
    at, end = HEADER.size, len(content) - (FOOTER.size if finished else 0)
    while at < end:
        try:
            block = Block(content, at)
        except (Bad, struct.error):
            if finished:
                raise
            at = content.find(b"CTPB", at + 1)
            if at < 0:
                return
            continue
        yield block
        at += block.size


def newest(blocks):
    """Of blocks that hold the same positions, the one that holds the most."""
    kept = []
    for block in blocks:
        if kept and kept[-1].first <= block.first and block.first + block.count <= kept[-1].first + kept[-1].count:
            continue
        while kept and kept[-1].first >= block.first:
            kept.pop()
        kept.append(block)
    return kept


def check_footer(content, blocks, links):
    magic, crc, table, events, start, end, count, link_count = FOOTER.unpack_from(content, len(content) - 64)
    entries = []
    while table:
        block = Block(content, table)
        if block.type != TABLE:
            raise Bad("no table at %d" % table)
        table = struct.unpack_from("<Q", block.payload)[0]
        entries[:0] = [ENTRY.unpack_from(block.payload, 8 + 40 * i) for i in range(block.count)]
    told = [(b.at, b.first, b.start, b.count, b.type, 0, b.span, b.size) for b in blocks if b.type != TABLE]
    if entries != told or count != len(entries):
        raise Bad("the tables do not tell of the blocks that are there")
    held = [b for b in blocks if b.type == EVENTS]
    if (events, link_count) != (sum(b.count for b in held), links):
        raise Bad("the footer's counts are not those of the blocks")
    if held and (start, end) != (held[0].start, held[-1].end):
        raise Bad("the footer's times are not those of the blocks")


def is_finished(content):
    return (len(content) >= 128 and content[-64:-60] == b"1PTC" and
            struct.unpack_from("<I", content, len(content) - 60)[0] == zlib.crc32(content[-56:]))


def read(path, complete=True):
    """The events as bytes, whether the file was finished, its thread, the position of the first event."""
    with open(path, "rb") as f:
        content = f.read()
    if len(content) < 64:
        if complete:
            raise Bad("%s is shorter than a header" % path)
        return b"", False, 0, 0
    magic, endian, version, arch, system, flags, tid, clock, first, crc = HEADER.unpack_from(content)
    if crc != zlib.crc32(content[:60]):
        raise Bad("%s: the header is damaged" % path)
    if (magic, endian, version, system, clock) != (b"CTP1", 1, 1, 4, 3) or arch not in (1, 2):
        raise Bad("%s: header %r" % (path, content[:64]))
    finished = is_finished(content)
    if complete and not finished:
        raise Bad("%s has no footer" % path)
    blocks = list(blocks_of(content, finished))
    data, following = bytearray(), first
    for block in newest(b for b in blocks if b.type == EVENTS):
        if block.first != following:
            raise Bad("%s: events %d to %d are missing" % (path, following, block.first))
        data += records(unpack(block, tid))
        following += block.count
    words, links = memoryview(data).cast("I"), 0
    for block in blocks:
        for seq, detail in links_of(block) if block.type == LINKS else ():
            links += 1
            if first <= seq < following:
                words[8 * (seq - first) + 7] = detail
    if finished:
        check_footer(content, blocks, links)
    return bytes(data), finished, tid, first


def main():
    names = {EVENTS: "events", LINKS: "links", TABLE: "table", STACK: "stack"}
    for path in [a for a in sys.argv[1:] if not a.startswith("--")]:
        if "--blocks" in sys.argv:
            with open(path, "rb") as f:
                content = f.read()
            for b in blocks_of(content, is_finished(content)):
                print("%10d %-6s %6d bytes %6d from %d, depth %d" % (b.at, names.get(b.type, "?"), b.size, b.count,
                                                                     b.first, b.depth))
            continue
        data, finished, tid, first = read(path, False)
        for i in range(len(data) // 32):
            print(first + i, *struct.unpack_from("<QQIIII", data, 32 * i))
        print("finished" if finished else "cut", "thread", tid)


if __name__ == "__main__":
    main()
