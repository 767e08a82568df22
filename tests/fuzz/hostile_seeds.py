#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs for the hostile targets of tests/fuzz: what was once a hole, and honest targets to start from.

    hostile_seeds.py DIRECTORY     writes corpus_hostile_lane/ and corpus_hostile_tables/ there

The numbers are those of hostile_lane.c and hostile_tables.c; files whose names begin with `hole-` were made to fail."""
import os
import struct
import sys

# ---- hostile_lane.c ----

DETAIL, ALWAYS, STALK, LOSSLESS, PACKED, PRE_EVENTS, TABLES, EARLY = (1 << i for i in range(8))
(PASS, WRITE, CHUNK, THREAD, SEGMENT, LETTER, LOOK, TIME, MARK, CODE, LATER, AGAIN, GENERATIONS, SCRIBBLE,
 SIGNAL) = range(15)
# regions of a lane; those after EVENTS are there only with detail, or when the target is followed
CONTROL, LIVENESS, LETTERS, MARKS, MORE_MARKS, THREADS, CHUNKS, EVENTS = range(8)
SEGMENTS, DETAIL_CHUNKS = 8, 9
TABLE, TARGETS, BLOCKS, CODES, LENGTHS = range(8, 13)
# fields: offsets in their structures
EXTRA_OFFSET = 352
UNMAPPED = 208
FREE, TAKEN, ACTIVE, FULL, DRAINING = range(5)
ALIVE, ENDED = 1, 2
CALL, RETURN, ENTRY, EXCEPTION, VOID, BLOCK, COMPILED, PART = range(8)
FORKED, EXEC, LOADED = 1, 2, 3
VICTIM, TARGET, INIT, ANY = range(4)
POSTED, ANSWERED = 2, 4
WIDE = 3  # eight bytes


def value(number):
    return b"\x80" + struct.pack("<Q", number & (1 << 64) - 1)


def op(kind, fmt="", *fields):
    return bytes([kind]) + struct.pack("<" + fmt, *fields)


def place(region, index, offset, width):
    return struct.pack("<BHHB", region, index, offset, width)


def write(region, index, offset, width, number):
    return op(WRITE) + place(region, index, offset, width) + value(number)


def later(after, region, index, offset, width, number, kind=LATER):
    return op(kind, "H", after) + place(region, index, offset, width) + value(number)


def scribble(region, index, offset, width, one, other):
    return op(SCRIBBLE) + place(region, index, offset, width) + value(one) + value(other)


def thread(slot=0, generation=1, state=ALIVE):
    return op(THREAD, "BBB", slot, generation, state)


def chunk(at=0, slot=0, ahead=0, state=FULL, kinds=CALL | RETURN << 4, count=255, hook=1, depth=0):
    return op(CHUNK, "BBBBBHI", at, slot, ahead, state, kinds, count, hook) + value(depth)


def segment(at=0, slot=0, state=2, count=10, step=0, number=1):
    calls = (count + 1) // 2
    return op(SEGMENT, "BBBBBH", at, slot, state, count, step, number) + value(32) * calls


def request(kind, pid, tid, index=0, argument=0x4000, state=POSTED):
    return op(LETTER, "BBBB", index, kind, pid, tid) + value(argument) + value(-100) + bytes([state])


def code(number, start, lengths, size, insns):
    return op(CODE, "H", number) + value(start) + value(lengths) + value(size) + value(insns)


def lane(flags, *operations):
    return bytes([flags]) + b"".join(operations)


def pass_(times=1):
    return op(PASS) * times


NUMBERED = 128
BLOCKS_OF = BLOCK | BLOCK << 4

LANE = {
    "honest": lane(PACKED, thread(), chunk(0), chunk(1, state=ACTIVE, count=100), pass_(2), thread(0, 1, ENDED),
                   pass_(3)),
    "honest-detail": lane(DETAIL | ALWAYS, thread(), chunk(0, kinds=NUMBERED | CALL | RETURN << 4), segment(number=1),
                          pass_(2), segment(1, state=1, number=11), pass_(2)),
    "honest-marks": lane(DETAIL | PRE_EVENTS, thread(), chunk(0, kinds=NUMBERED | CALL | RETURN << 4),
                         segment(number=1),
                         op(MARK, "BBH", 3, 0, 5), pass_(3), op(MARK, "BBB", 128, 0, 9) + value(3), pass_(),
                         op(TIME, "H", 5000), pass_(2)),
    "honest-stalk": lane(STALK | TABLES, code(5, 0x400100, 0, 65, 7), thread(), chunk(0, hook=5, kinds=BLOCKS_OF),
                         chunk(1, hook=5, kinds=COMPILED | PART << 4), chunk(2, hook=5), pass_(2)),
    "honest-requests": lane(0, request(EXEC, TARGET, TARGET), op(LOOK), request(LOADED, TARGET, TARGET, 1), op(LOOK),
                            pass_()),
    "honest-signals": lane(DETAIL | PACKED, thread(), chunk(0, state=ACTIVE, count=10), op(SIGNAL, "B", 1), pass_(4)),
    "time": lane(DETAIL, thread(), chunk(0, count=10), pass_(), op(TIME, "H", 3000), pass_(), op(TIME, "H", 3000),
                 pass_(2)),
    # what the recorder must not believe
    "hole-liveness": lane(0, write(LIVENESS, 0, 24, WIDE, 0x4141414141414140),
                          write(LIVENESS, 0, 32, WIDE, 0x4242424242424240), pass_()),
    "hole-depth": lane(0, thread(), chunk(0, ahead=3, depth=0xffffffff), pass_()),
    "hole-generations": lane(0, op(GENERATIONS, "BB", 0, 60), pass_(), op(GENERATIONS, "BB", 0, 60), pass_()),
    "hole-generations-many": lane(0, *[op(GENERATIONS, "BB", 0, 64) + pass_() for _ in range(40)]),
    "hole-request-forked": lane(0, request(FORKED, VICTIM, VICTIM), op(LOOK), pass_()),
    "hole-request-exec": lane(0, request(EXEC, VICTIM, VICTIM), op(LOOK), pass_()),
    "hole-request-tid": lane(0, request(EXEC, TARGET, VICTIM), op(LOOK), pass_()),
    "hole-request-pid": lane(0, request(EXEC, VICTIM, TARGET), op(LOOK), pass_()),
    "hole-request-init": lane(0, request(FORKED, INIT, INIT), op(LOOK), pass_()),
    "hole-extra-offset": lane(STALK | EARLY, write(CONTROL, 0, EXTRA_OFFSET, WIDE, 1 << 40), pass_(2)),
    "hole-extra-offset-near": lane(STALK | EARLY, write(CONTROL, 0, EXTRA_OFFSET, WIDE, 1 << 28), pass_(2)),
    "hole-targets-offset": lane(STALK, write(TABLE, 0, 8, WIDE, 1 << 40), thread(), chunk(0, hook=5), pass_(2)),
    "hole-blocks-offset-asked": lane(STALK, code(1, 0x400100, 0, 65, 7), write(TABLE, 0, UNMAPPED, WIDE, 1),
                                     write(TABLE, 0, 16, WIDE, 1 << 40), pass_(2)),
    "hole-blocks-offset": lane(STALK | TABLES, write(TABLE, 0, 16, WIDE, 1 << 40), pass_(2)),
    "hole-code-offset": lane(STALK, write(TABLE, 0, 24, WIDE, 1 << 40), thread(), chunk(0, hook=5, kinds=BLOCKS_OF),
                             pass_(2)),
    "hole-lengths-offset": lane(STALK, code(5, 0x400100, 0, 64, 7), write(TABLE, 0, 32, WIDE, 1 << 40), thread(),
                                chunk(0, hook=5, kinds=BLOCKS_OF), pass_(2)),
    "hole-code-capacity": lane(STALK, write(TABLE, 0, 56, WIDE, 0xffffffff), thread(),
                               chunk(0, hook=0x00ffff00, kinds=BLOCKS_OF), pass_(2)),
    "hole-code-capacity-near": lane(STALK, write(TABLE, 0, 56, WIDE, 0xffffffff), thread(),
                                    chunk(0, hook=1 << 20, kinds=BLOCKS_OF, count=1), pass_(2)),
    "hole-code-capacity-small": lane(STALK, write(TABLE, 0, 56, WIDE, 0xffffffff), thread(),
                                     chunk(0, hook=1 << 12, kinds=BLOCKS_OF, count=1), pass_(2)),
    "hole-code-count": lane(STALK, write(TABLE, 0, 40, WIDE, 1 << 62), write(TABLE, 0, 56, WIDE, 0xffffffff),
                            code(1, 0x400100, 0, 65, 7), write(TABLE, 0, 40, WIDE, 1 << 62),
                            write(TABLE, 0, UNMAPPED, WIDE, 1), pass_(2)),
    "ended-other-generation": lane(0, thread(), chunk(0), pass_(2), thread(0, 2, ENDED), pass_(2), thread(0, 3),
                                   chunk(1), pass_(2)),
    # threads without chunks, all of them at once
    "threads-all": lane(0, *[thread(i) + write(THREADS, i, 72 + 8, WIDE, 1) + write(THREADS, i, 72, WIDE, 1)
                             for i in range(0, 60, 4)], write(CONTROL, 0, 204, 2, 0xffffffff), pass_(2)),
}
# What was looked at changes before it is looked at again.
NEAR = 0x8000
for n in range(1, 15):
    LANE["changing-number-%d" % n] = lane(STALK, code(5, 0x400100, 0, 64, 7), thread(),
                                          chunk(0, hook=5, kinds=BLOCKS_OF, count=1),
                                          later(NEAR + n, EVENTS, 0, 8, 2, 0x00ffffff), pass_(2))
for n in range(1, 7):
    LANE["changing-lengths-%d" % n] = lane(STALK, code(5, 0x400100, 0, 64, 7), thread(),
                                           chunk(0, hook=5, kinds=BLOCKS_OF, count=1),
                                           later(NEAR + n, CODES, 5, 16, WIDE, 1 << 40), pass_(2))
    LANE["changing-request-%d" % n] = lane(0, request(EXEC, TARGET, TARGET),
                                          later(NEAR + n, LETTERS, 0, 8, WIDE, 1 << 32 | 1), op(LOOK), pass_())
for n in range(1, 4):
    LANE["changing-depth-%d" % n] = lane(0, thread(), chunk(0, depth=1, ahead=3),
                                         later(NEAR + n, CHUNKS, 0, 32, 2, 0xffffffff), pass_(2))
# A target that goes on while the recorder wants to finish.
LANE["goes-on"] = lane(0, thread(), chunk(63, count=256), pass_(), later(0, EVENTS, 63, 0, WIDE, 1, AGAIN),
                       later(0, CHUNKS, 63, 8, WIDE, -1, AGAIN), later(0, CHUNKS, 63, 0, WIDE, 1 << 32 | FULL, AGAIN),
                       pass_())


# ---- hostile_tables.c ----

EJECT, BEHIND, WALK, LEAVE = range(4)
(POKE, BOOT, RUNTIME, BLOCK_LIST, SHADOW, REGISTERS, PATCH, PATTERN, LANE_OF_STALK, CODE_LIST) = range(10)
HEAP_AT, STACK_AT, BLOCKS_AT, SHADOW_AT, CODES_AT, PATTERN_AT = range(6)
PATCHES, REGIONS = 8192, 16384
CYCLIC, IN_USE = 1, 2


def at(arena, offset=0):
    return struct.pack("<BH", arena, offset)


def number(n):
    return b"\x07" + value(n)


def list_of_code(map_size=0, regions=0, patches=0, patches_at=None):
    return (number(0x900000) + value(map_size) + at(HEAP_AT, REGIONS) + value(regions) +
            (patches_at or at(HEAP_AT, PATCHES)) +
            value(patches))


def boot(code=None, next_code=None):
    return op(BOOT, "B", 1) + number(0) + (code or list_of_code()) + value(4096) + (next_code or number(0))


def runtime(blocks=None, parked=None, parked_count=0):
    return op(RUNTIME) + (blocks or at(BLOCKS_AT)) + (parked or number(0)) + value(parked_count)


def blocks(how, count, base, entries):
    return op(BLOCK_LIST, "BB", how, count) + base + value(entries)


def shadow(chain, slot, step, resume):
    return op(SHADOW, "B", chain) + slot + bytes([step]) + resume


def registers(pc=None, sp=None, gs=None):
    return op(REGISTERS) + (pc or number(0x400000)) + (sp or at(STACK_AT, 256)) + (gs or at(BLOCKS_AT))


def patch(index, where, forward=None, size=5, service=0):
    return op(PATCH, "B", index) + where + (forward or number(0)) + number(0) + bytes([size, service])


def poke(place, what):
    return op(POKE, "H", place) + what


def tables(mode, *operations):
    return bytes([mode]) + b"".join(operations)


RESUME = number(0x8000000)
ONE_SLOT = shadow(1, at(STACK_AT, 1024), 0, RESUME)
FIRST_RETURN = poke(1024 | 1, RESUME)  # in the stack: where the chain begins
TABLES_OF = {
    "honest": tables(EJECT, boot(list_of_code(patches=2, regions=1)), runtime(), blocks(IN_USE, 3, at(SHADOW_AT), 20),
                     shadow(0, at(STACK_AT, 1024), 1, RESUME), FIRST_RETURN, patch(0, at(HEAP_AT, 40000)),
                     patch(1, at(HEAP_AT, 40100), service=1), registers()),
    "honest-walk": tables(WALK, runtime(), blocks(IN_USE, 3, at(SHADOW_AT), 20),
                          shadow(0, at(STACK_AT, 1024), 1, RESUME),
                          FIRST_RETURN, registers(at(SHADOW_AT), at(STACK_AT, 1024))),
    "honest-stalk": tables(LEAVE, op(LANE_OF_STALK, "B", 1) + number(0x5000) + number(0x6000) + at(HEAP_AT, 49152) +
                           number(0x7000) + value(4096) + number(0x8000) + value(4096), registers()),
    "hole-blocks-cyclic": tables(EJECT, boot(), runtime(), blocks(IN_USE | CYCLIC, 3, at(SHADOW_AT), 2),
                                 shadow(0, at(STACK_AT, 1024), 1, RESUME), registers()),
    "hole-blocks-cyclic-empty": tables(EJECT, boot(), runtime(), blocks(CYCLIC, 1, number(0), 0), registers()),
    "hole-blocks-endless": tables(EJECT, boot(), runtime(), blocks(IN_USE, 0, at(SHADOW_AT), 2), registers()),
    "hole-one-slot": tables(EJECT, boot(), runtime(), blocks(IN_USE, 1, at(SHADOW_AT), 4 << 20), ONE_SLOT, FIRST_RETURN,
                            registers()),
    "hole-one-slot-small": tables(EJECT, boot(), runtime(), blocks(IN_USE, 1, at(SHADOW_AT), 1 << 18), ONE_SLOT,
                                  FIRST_RETURN, registers()),
    "one-slot-many-blocks": tables(EJECT, boot(), runtime(), blocks(IN_USE, 200, at(SHADOW_AT), 1 << 14), ONE_SLOT,
                                        FIRST_RETURN, registers()),
    "hole-shadow-large": tables(EJECT, boot(), runtime(), blocks(IN_USE, 1, at(SHADOW_AT), 36 << 20),
                                shadow(0, at(STACK_AT, 1024), 1, RESUME), registers()),
    "shadow-huge": tables(EJECT, boot(), runtime(), blocks(IN_USE, 1, at(SHADOW_AT), 1 << 34), ONE_SLOT, registers()),
    "codes-endless": tables(EJECT, boot(next_code=at(CODES_AT)),
                                 op(CODE_LIST) + list_of_code(4096, 0, 4 << 20, at(PATTERN_AT)), runtime(),
                            registers()),
    "codes-endless-empty": tables(EJECT, boot(next_code=at(CODES_AT)), op(CODE_LIST) + list_of_code(4096), runtime(),
                                  registers()),
    "patches-most": tables(EJECT, boot(list_of_code(patches=4 << 20, patches_at=at(PATTERN_AT))), runtime(),
                           registers()),
    "behind-cyclic": tables(BEHIND, boot(), runtime(), blocks(IN_USE | CYCLIC, 3, at(SHADOW_AT), 2), registers()),
    "behind-guarded": tables(BEHIND, boot(), runtime(),
                             op(BLOCK_LIST, "BBB", IN_USE | 4, 1, 0xff) + at(SHADOW_AT) + value(2), registers()),
    "walk-chain": tables(WALK, runtime(), blocks(IN_USE, 1, at(SHADOW_AT), 1 << 34),
                         shadow(1, at(STACK_AT, 1024), 0, RESUME),
                         FIRST_RETURN, registers(at(SHADOW_AT), at(STACK_AT, 1024))),
    "walk-blocks": tables(WALK, runtime(), blocks(IN_USE, 0, at(SHADOW_AT), 1 << 20),
                          shadow(0, at(STACK_AT, 1024), 1, RESUME),
                          poke(1024 | 1, at(PATTERN_AT, 64)), registers(at(PATTERN_AT), at(STACK_AT, 1024))),
    # stacks full of what looks like frames of handlers
    "frames": tables(EJECT, boot(), runtime(), blocks(IN_USE, 1, at(SHADOW_AT), 1),
                     *[op(PATTERN, "B", i) + number(0x002b000000000033) for i in range(0, 256, 8)],
                     *[registers(sp=at(PATTERN_AT)) for _ in range(4)]),
}


def main():
    for name, programs in {"lane": LANE, "tables": TABLES_OF}.items():
        directory = os.path.join(sys.argv[1], "corpus_hostile_" + name)
        os.makedirs(directory, exist_ok=True)
        for file, program in programs.items():
            with open(os.path.join(directory, file), "wb") as out:
                out.write(program)


main()
