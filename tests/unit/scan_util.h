/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of code to scan: bytes at an address of their own, with functions in them, and a check of the bits that a scan
 * sets. For files that include cmocka.h. */
#ifndef SCAN_UTIL_H
#define SCAN_UTIL_H

#include "hook/scan.h"

#define BASE     0x7f0012340000ull
#define LOW_BASE 0x400000ull /* of a program that does not move */

struct sample {
    struct ct_scan scan;
    struct ct_scan_func funcs[8];
    uint8_t code[512];
};

/* Functions are given as pairs of offsets; the list ends with -1. */
static inline void make_sample(struct sample *s, uint64_t base, const uint8_t *code, size_t size, const int *ranges) {
    memset(s, 0, sizeof *s);
    memcpy(s->code, code, size);
    for (; *ranges >= 0; ranges += 2)
        s->funcs[s->scan.func_count++] =
            (struct ct_scan_func){.start = base + (unsigned)ranges[0], .end = base + (unsigned)ranges[1]};
    s->scan.code = s->code;
    s->scan.start = base;
    s->scan.end = base + size;
    s->scan.funcs = s->funcs;
}
#define SAMPLE_AT(s, base, code, ...) make_sample(s, base, code, sizeof code, (const int[]){__VA_ARGS__, -1})
#define SAMPLE(s, code, ...)          SAMPLE_AT(s, BASE, code, __VA_ARGS__)

static inline void run(struct sample *s) {
    assert_int_equal(ct_scan_run(&s->scan), 0);
}

/* The offsets whose bit is set must be exactly these; the list ends with -1. */
static inline void check_bits(const struct sample *s, const uint64_t *map, const char *what, const int *expected) {
    for (int at = 0; at < (int)(s->scan.end - s->scan.start); at++) {
        bool wanted = *expected == at;
        if (ct_scan_bit(&s->scan, map, s->scan.start + (unsigned)at) != wanted)
            fail_msg("%s: offset %d should%s be set", what, at, wanted ? "" : " not");
        expected += wanted;
    }
    assert_int_equal(*expected, -1);
}
#define CHECK_BITS(s, map, ...) check_bits(s, (s)->scan.map, #map, (const int[]){__VA_ARGS__, -1})

#endif
