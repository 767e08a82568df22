/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over a module's code: what a patch must not cover, and what is unusual about each function.
 *
 * Bytes to bytes: `code` is the module's text as bytes, `start` the address it runs at; nothing is executed or written.
 * The result is immutable. The pass itself is implemented per instruction set (scan_<isa>.c). */
#ifndef CT_HOOK_SCAN_H
#define CT_HOOK_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ct_scan_flag {
    CT_SCAN_LOOPED = 1 << 0,         /* a branch inside it goes to its own entry */
    CT_SCAN_CLONES = 1 << 1,         /* makes the clone, clone3 or vfork system call */
    CT_SCAN_USES_RETURN = 1 << 2,    /* looks at or changes its own return address */
    CT_SCAN_CONDITIONAL = 1 << 3,    /* another function jumps to it conditionally */
    CT_SCAN_INDIRECT = 1 << 4,       /* jumps through a register or a table */
    CT_SCAN_POPS_ARGUMENTS = 1 << 5, /* ret n */
    CT_SCAN_EXECS = 1 << 7,          /* makes the execve or execveat system call */
    CT_SCAN_SETS_STACK = 1 << 8, /* begins by putting a register into the stack pointer: entered without being called */
    CT_SCAN_LONGJMP = 1 << 6,    /* unscrambles a stack pointer with the thread's secret and goes there */
    CT_SCAN_TAKES_GS = 1 << 10,  /* sets the GS register, or asks the kernel to */
    CT_SCAN_TRACES = 1 << 9,     /* begins a stack trace as the sanitizers' walk along frame pointers does */
    CT_SCAN_REALS = 1 << 11,     /* computes with floating-point numbers in vector registers, or passes them on */
    CT_SCAN_SYSCALLS = 1 << 12,  /* makes a system call itself */
    CT_SCAN_SIGNS_A = 1 << 13,   /* signs its return address (arm64) ... */
    CT_SCAN_SIGNS_B = 1 << 14,   /* ... with the other key */
};

struct ct_scan_func {
    uint64_t start, end;
    uint32_t flags; /* enum ct_scan_flag, filled by the scan */
};

/* A branch from inside a function to its own entry. */
struct ct_scan_loop {
    uint64_t branch;
    uint32_t function; /* index */
    uint8_t length;    /* of the branch instruction; its displacement ends it */
    uint8_t disp_size; /* 1 or 4; 4 where the displacement is a part of the instruction's only word */
};

/* A branch out of a function whose frame is empty: a tail call, if it goes to a function. */
struct ct_scan_tail {
    uint64_t target;
    uint32_t function; /* index */
};

/* What the pass found out about jump tables; see ct_scan_follow_tables. In the order of functions. */
enum ct_scan_table_kind {
    CT_SCAN_TABLE_NAMED,  /* a function that jumps indirectly names this address: it may be a table */
    CT_SCAN_TABLE_USED,   /* a jump takes its target from the table that begins here: this is certain */
    CT_SCAN_TABLE_JUMP,   /* an operand of a jump: an array of addresses, which may begin after this address */
    CT_SCAN_TABLE_NEEDED, /* no address: the function must have a table */
};
struct ct_scan_table {
    uint64_t address;
    uint32_t function; /* index */
    uint8_t kind;      /* enum ct_scan_table_kind */
};

struct ct_scan {
    const uint8_t *code;
    uint64_t start, end;
    struct ct_scan_func *funcs; /* sorted by start; the caller's array */
    size_t func_count;
    uint64_t *landing;    /* one bit per byte: control may arrive here */
    uint64_t *foreign;    /* one bit per byte: of these, not by a direct branch of the same function */
    uint64_t *referenced; /* one bit per byte: called, jumped to or its address taken */
    uint64_t *taken;      /* one bit per byte of padding or room that a plan uses */
    uint64_t *room;       /* one bit per byte: free in the bytes of a hooked function; NULL: none is (springboard.h) */
    uint64_t *needy;      /* one bit per byte: a short jump only fits here; NULL: not known */
    struct ct_scan_loop *loops;
    size_t loop_count, loop_capacity;
    struct ct_scan_tail *tails;
    size_t tail_count, tail_capacity;
    struct ct_scan_tail *calls; /* until they are followed: scan_reals.h */
    size_t call_count, call_capacity;
    struct ct_scan_table *tables; /* until they are followed */
    size_t table_count, table_capacity;
    const bool *cancelled; /* read before each function, true: CT_ERR_TIMEOUT; NULL: cannot be cancelled */
    /* Readable data of the module, for jump tables. */
    const uint8_t *(*read)(void *arg, uint64_t address, size_t size);
    void *read_arg;
};

/* Expects code, start, end, funcs, func_count and read in `scan`; fills the rest. Freed with ct_scan_free. */
int ct_scan_run(struct ct_scan *scan);
void ct_scan_free(struct ct_scan *scan);

/* The scan in parts, for several threads: each looks at the functions [first, end). `scan` is set up as for ct_scan_run
 * and must not change meanwhile; all threads call `read`. Parts that cover all functions are joined in their order,
 * into a scan with maps and loops of NULL and 0; a join ends the part, whatever it returns. The scan is whole after
 * ct_scan_finish. */
int ct_scan_run_part(const struct ct_scan *scan, struct ct_scan *part, size_t first, size_t end);
int ct_scan_join(struct ct_scan *scan, struct ct_scan *part);
int ct_scan_finish(struct ct_scan *scan);

/* Per instruction set: looks at functions [first, end) and at what is before each; if they include the last one, also
 * at what is after it. CT_ERR_UNSUPPORTED: functions overlap so much that it would take too long. */
int ct_scan_walk(struct ct_scan *scan, size_t first, size_t end);
/* Per instruction set: marks where the tables lead that the pass has found. Where a table ends is known only after all
 * functions were looked at. */
int ct_scan_follow_tables(struct ct_scan *scan);
/* Per instruction set: may a loop be like this? For loops that come from a file. */
bool ct_scan_loop_valid(const struct ct_scan_loop *loop);

/* Bytes, or entries of tables, that a pass may look at: functions overlap, and tables have common entries. */
static inline uint64_t ct_scan_work(const struct ct_scan *s) {
    return (4ull << 20) + 8 * (s->end - s->start);
}

static inline bool ct_scan_bit(const struct ct_scan *s, const uint64_t *map, uint64_t address) {
    uint64_t i = address - s->start;
    return map[i / 64] >> (i % 64) & 1;
}
static inline void ct_scan_set(const struct ct_scan *s, uint64_t *map, uint64_t address) {
    uint64_t i = address - s->start;
    if (address >= s->start && address < s->end)
        map[i / 64] |= 1ull << (i % 64);
}
static inline void ct_scan_clear(const struct ct_scan *s, uint64_t *map, uint64_t address) {
    uint64_t i = address - s->start;
    if (address >= s->start && address < s->end)
        map[i / 64] &= ~(1ull << (i % 64));
}
static inline bool ct_scan_covers(const struct ct_scan *s, uint64_t address) {
    return address >= s->start && address < s->end;
}
static inline const uint8_t *ct_scan_bytes(const struct ct_scan *s, uint64_t address) {
    return s->code + (address - s->start);
}
/* Index of the first function that starts after the address. */
size_t ct_scan_after(const struct ct_scan *scan, uint64_t address);
/* Index of the function that starts at the address, or -1. */
long ct_scan_find(const struct ct_scan *scan, uint64_t address);

#endif
