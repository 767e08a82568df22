#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second opinion on index and detail files: reads and validates them as docs/TRACE-FORMAT.md describes them.

    atf_check.py [--dump] [--unfinished] [--symbols FILE] index.atf|detail.atf...

A detail file is compared with the index.atf beside it, when there is one: both must name each other.

Shares no code with Contrail. Prints one line per file, with --dump one line per event as well; problems go to standard
error. Exit code 1 when there was one. --unfinished: files without a footer are fine. --symbols: function ids must be in
it."""

import argparse
import struct
import sys
import zlib

HEADER = struct.Struct("<4sBBBBIIB7sIIQQQQ")
EVENT = struct.Struct("<QQIIII")
FOOTER = struct.Struct("<4sIQQQQ24s")
KINDS = {1: "CALL", 2: "RETURN", 3: "EXCEPTION"}
DETAIL_HEADER = struct.Struct("<4sBBBBIIIQQQQQ4s")
DETAIL_EVENT = struct.Struct("<IHHIIQ")
DETAIL_CALL = struct.Struct("<Q8QQQQHH")
DETAIL_SIGNAL = struct.Struct("<IiQ18Q")
DETAIL_FOOTER = struct.Struct("<4sIQQQQ24s")
DETAIL_KINDS = {3: 1, 4: 2, 5: 3}  # those of the index
NONE = 0xFFFFFFFF
assert (HEADER.size, EVENT.size, FOOTER.size) == (64, 32, 64)
assert (DETAIL_HEADER.size, DETAIL_EVENT.size, DETAIL_CALL.size, DETAIL_SIGNAL.size,
        DETAIL_FOOTER.size) == (64, 24, 100, 160, 64)


class Problem(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Problem(text)


def unescape(text):
    out, i = "", 0
    while i < len(text):
        if text[i] != "\\":
            out += text[i]
        elif text[i + 1] == "x":
            out += chr(int(text[i + 2:i + 4], 16))
            i += 3
        else:
            out += {"t": "\t", "n": "\n", "\\": "\\"}[text[i + 1]]
            i += 1
        i += 1
    return out


def read_symbols(path):
    """function_id -> (name, entry_only)"""
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        lines = file.read().split("\n")
    expect(lines[0].startswith("contrail-symbols\t1\t"), "not a symbols file of version 1")
    expect(lines[-1] == "", "the symbols file is cut")
    functions, modules = {}, {}
    for line in lines[1:-1]:
        columns = line.split("\t")
        if columns[0] == "module":
            modules[int(columns[1], 16)] = unescape(columns[4])
        elif columns[0] == "total":
            expect(int(columns[1], 16) == len(functions), "functions are missing in symbols")
        elif columns[0][0] in "0123456789abcdef":
            number = int(columns[0], 16)
            expect(number >> 32 in modules, "function %x is of no module" % number)
            expect(number not in functions, "function %x is there twice" % number)
            functions[number] = (unescape(columns[3]), columns[5] != "")
    return functions


def check_header(data):
    expect(len(data) >= HEADER.size, "shorter than a header")
    (magic, endian, version, arch, system, flags, thread, clock, reserved, size, count, events_at, footer_at, start,
     end) = HEADER.unpack_from(data)
    expect(magic == b"ATI2", "wrong magic")
    expect(endian == 1, "wrong byte order")
    expect(version == 1, "wrong version")
    expect(arch in (1, 2), "unknown architecture")
    expect(system == 4, "not of Linux")
    expect(flags & ~1 == 0, "unknown flags")
    expect(clock == 3, "not the boot-time clock")
    expect(reserved == bytes(7), "reserved bytes in use")
    expect(size == 32, "wrong event size")
    expect(events_at == 64, "events do not follow the header")
    return thread, count, events_at, footer_at, start, end


def check_file(path, options, functions):
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] == b"ATD2":
        check_detail(path, data, options)
        return
    thread, count, events_at, footer_at, start, end = check_header(data)
    finished = footer_at != 0
    if finished:
        expect(footer_at == events_at + 32 * count, "the footer is not behind the events")
        expect(len(data) == footer_at + 64, "the file does not end with its footer")
    else:
        expect(options.unfinished, "it has no footer")
        expect((count, start, end) == (0, 0, 0), "counts in an unfinished header")
        count = (len(data) - events_at) // 32
    last = 0
    first = 0
    for i in range(count):
        time, function, tid, kind, depth, detail = EVENT.unpack_from(data, events_at + 32 * i)
        first = first if i else time
        expect(time >= last, "event %d goes back in time" % i)
        expect(tid == thread, "event %d is of thread %d" % (i, tid))
        expect(kind in KINDS, "event %d is of kind %d" % (i, kind))
        expect(functions is None or function in functions or (kind == 3 and function == 0),
               "event %d names an unknown function" % i)
        last = time
        if options.dump:
            name = functions[function][0] if functions and function in functions else "%x" % function
            print("%d %s %s depth %d%s" % (time, KINDS[kind], name, depth,
                                           "" if detail == 0xFFFFFFFF else " detail %d" % detail))
    if finished:
        magic, crc, total, footer_start, footer_end, length, reserved = FOOTER.unpack_from(data, footer_at)
        expect(magic == b"2ITA", "wrong magic of the footer")
        expect(crc == zlib.crc32(data[events_at:footer_at]), "wrong checksum")
        expect(total == count, "the footer counts %d events" % total)
        expect(length == 32 * count, "the footer counts %d bytes" % length)
        expect((footer_start, footer_end) == (start, end), "header and footer tell other times")
        expect((start, end) == (first, last), "the times are not those of the events")
        expect(reserved == bytes(24), "reserved bytes of the footer in use")
    print("%s: thread %d, %d events%s" % (path, thread, count, "" if finished else ", unfinished"))


def read_records(data, at, end):
    """(offset, fields of the head, payload) of each whole record, and where they end."""
    records = []
    while end - at >= DETAIL_EVENT.size:
        head = DETAIL_EVENT.unpack_from(data, at)
        if not DETAIL_EVENT.size <= head[0] <= min(16384, end - at):
            break
        records.append((head, data[at + DETAIL_EVENT.size:at + head[0]]))
        at += head[0]
    return records, at


def check_payload(number, kind, flags, payload):
    """The function of a call or return, 0 of a signal."""
    expect(flags & ~7 == 0, "record %d has unknown flags" % number)
    if kind == 5:
        expect(len(payload) == DETAIL_SIGNAL.size, "record %d has %d bytes of a signal" % (number, len(payload)))
        signal, code, fault, *registers = DETAIL_SIGNAL.unpack_from(payload)
        return 0, "SIGNAL %d code %d address %x pc %x" % (signal, code, fault, registers[16])
    expect(len(payload) >= DETAIL_CALL.size, "record %d is too short" % number)
    function, *registers, back, frame, stack, stack_size, reserved = DETAIL_CALL.unpack_from(payload)
    expect(reserved == 0, "reserved bytes of record %d in use" % number)
    expect(stack_size <= 512 and stack_size % 8 == 0, "record %d has %d bytes of stack" % (number, stack_size))
    expected = DETAIL_CALL.size + stack_size + (128 if flags & 1 else 0) + (8 if flags & 4 else 0)
    expect(len(payload) == expected or (flags & 2 and len(payload) > expected),
           "record %d is not as long as it says" % number)
    return function, "%s %x(%s) sp %x stack %d" % ("CALL" if kind == 3 else "RETURN", function,
                                                  " ".join("%x" % r for r in registers), stack, stack_size)


def check_link(number, head, function, index):
    kind, position, time = DETAIL_KINDS[head[1]], head[3], head[5]
    if position == NONE or index is None:
        return
    if position >= len(index):
        raise Problem("record %d names event %d, which is not there" % (number, position))
    event_time, event_function, _, event_kind, _, detail = index[position]
    expect((event_time, event_function, event_kind) == (time, function, kind),
           "record %d is not that of event %d" % (number, position))
    expect(detail == number, "event %d names record %d, not %d" % (position, detail, number))


def read_index(path):
    """The events of the index file beside a detail file; None: there is none that is finished."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    _, count, events_at, footer_at, _, _ = check_header(data)
    return list(EVENT.iter_unpack(data[events_at:footer_at])) if footer_at else None


def check_detail(path, data, options):
    expect(len(data) >= DETAIL_HEADER.size, "shorter than a header")
    (magic, endian, version, arch, system, flags, thread, first, events_at, count, length, index_start, index_end,
     reserved) = DETAIL_HEADER.unpack_from(data)
    expect((magic, endian, version) == (b"ATD2", 1, 1), "wrong magic, byte order or version")
    expect(arch in (1, 2) and system == 4 and flags == 0 and reserved == bytes(4), "wrong header")
    expect(events_at == 64, "records do not follow the header")
    finished = len(data) >= events_at + length + 64 and data[events_at + length:][:4] == b"2DTA"
    expect(finished or options.unfinished, "it has no footer")
    records, end = read_records(data, events_at, events_at + length if finished else len(data))
    index = read_index(path.replace("detail.atf", "index.atf"))
    places = []
    for number, (head, payload) in enumerate(records, first):
        _, kind, flags, position, tid, time = head
        expect(kind in DETAIL_KINDS, "record %d is of type %d" % (number, kind))
        expect(tid == thread, "record %d is of thread %d" % (number, tid))
        function, text = check_payload(number, kind, flags, payload)
        check_link(number, head, function, index)
        places += [position] if position != NONE else []
        if options.dump:
            print("%d %d %s" % (time, position, text))
    if index is not None and not first:
        named = [event[5] for event in index if event[5] != NONE]
        expect(all(n < len(records) for n in named), "an event names a record that is not there")
    if finished:
        footer = DETAIL_FOOTER.unpack_from(data, end)
        times = (records[0][0][5], records[-1][0][5]) if records else (0, 0)
        expect(end == events_at + length and len(records) == count, "the header counts other records")
        expect(footer == (b"2DTA", zlib.crc32(data[events_at:end]), count, length, *times, bytes(24)), "wrong footer")
        expect((index_start, index_end) == ((places[0], places[-1]) if places else (0, 0)), "wrong places in the index")
        expect(len(data) == end + 64, "the file does not end with its footer")
    print("%s: thread %d, %d records%s" % (path, thread, len(records), "" if finished else ", unfinished"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", action="store_true")
    parser.add_argument("--unfinished", action="store_true")
    parser.add_argument("--symbols")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    failed = False
    functions = None
    try:
        functions = read_symbols(options.symbols) if options.symbols else None
    except (Problem, ValueError, IndexError, KeyError, OSError) as problem:
        print("%s: %s" % (options.symbols, problem), file=sys.stderr)
        failed = True
    for path in options.files:
        try:
            check_file(path, options, functions)
        except (Problem, OSError) as problem:
            print("%s: %s" % (path, problem), file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
