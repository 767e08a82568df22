#!/usr/bin/env python3
"""A second opinion on index files: reads and validates them as docs/TRACE-FORMAT.md describes them.

    atf_check.py [--dump] [--unfinished] [--symbols FILE] index.atf...

Shares no code with Contrail. Prints one line per file, with --dump one line per event as well; problems go to standard
error. Exit code 1 when there was one. --unfinished: files without a footer are fine. --symbols: function ids must be in it."""

import argparse
import struct
import sys
import zlib

HEADER = struct.Struct("<4sBBBBIIB7sIIQQQQ")
EVENT = struct.Struct("<QQIIII")
FOOTER = struct.Struct("<4sIQQQQ24s")
KINDS = {1: "CALL", 2: "RETURN", 3: "EXCEPTION"}
assert (HEADER.size, EVENT.size, FOOTER.size) == (64, 32, 64)


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
