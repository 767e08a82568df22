/* SPDX-License-Identifier: Apache-2.0 */
/* Decoder against Zydis on random bytes.
 *
 * Two ways to run. As a libFuzzer target (scripts/fuzz.sh) coverage guides it; since our decoder is mostly tables, the
 * instructions that the oracle sees count as coverage too. Alone, it replays the files given as arguments and then
 * tries `--cases N` deterministic random inputs, half of them shaped like instructions (prefixes, then an escape),
 * since most raw random bytes decode to a handful of one-byte opcodes; `--sweep` goes through all opcodes, prefixes and
 * modrm bytes instead. Exit 1 on any unexplained disagreement. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../diff/compare.h"

static void check_truncated(const uint8_t *data, size_t length) {
    struct ct_x64_insn insn;
    for (size_t n = 0; n < length; n++) {
        /* A copy of exactly n bytes, so that the address sanitizer sees a read past the end. */
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, data, n);
        if (ct_x64_decode(copy, n, &insn) == 0) {
            printf("%zu of %zu bytes decode as a whole instruction\n", n, length);
            abort();
        }
        free(copy);
    }
}

#ifdef CT_LIBFUZZER
#define COUNTERS 16384
__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t counters[COUNTERS];

static void count(const struct compared *c) {
    uint32_t what = c->zydis_valid ? c->zydis.mnemonic : 2000 + c->ours.map * 256u + c->ours.opcode;
    uint32_t form = c->ours.encoding | (c->ours.modrm < 0xc0) << 3 | (uint32_t)(c->status == 0) << 4;
    counters[(what * 2654435761u ^ form * 40503u) >> 7 & (COUNTERS - 1)]++;
}
#else
static void count(const struct compared *c) {
    (void)c;
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool ready;
    struct compared c;
    if (!ready)
        diff_init();
    ready = true;
    if (size == 0)
        return 0;
    diff_compare(data, size, 0x401000, &c);
    count(&c);
    if (c.unexplained) {
        diff_print(data, size, &c);
        abort();
    }
    if (c.status == 0)
        check_truncated(data, c.ours.length);
    return 0;
}

#ifndef CT_LIBFUZZER

#define INPUT 24

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Gives random bytes the beginning of an instruction. */
static void shape(uint8_t *b) {
    static const uint8_t prefixes[] = {0x66, 0xf2, 0xf3, 0xf0, 0x67, 0x64, 0x2e, 0x48, 0x41, 0x44, 0x4f, 0x40};
    uint64_t r = next_random();
    size_t n = 0;
    for (unsigned i = r & 3; i; i--)
        b[n++] = prefixes[(r >>= 8) % sizeof prefixes];
    switch (next_random() % 12) {
    case 0:
        break;
    case 1:
    case 2:
        b[n] = 0x0f;
        break;
    case 3:
        b[n] = 0x0f, b[n + 1] = 0x38;
        break;
    case 4:
        b[n] = 0x0f, b[n + 1] = 0x3a;
        break;
    case 5:
        b[0] = 0xc5;
        break;
    case 6:
        b[0] = 0xc4, b[1] = (uint8_t)((b[1] & 0xe0) | (1 + b[1] % 3));
        break;
    case 7:
        b[0] = 0x8f, b[1] = (uint8_t)((b[1] & 0xe0) | (8 + b[1] % 3));
        break;
    default: /* EVEX, mostly with the reserved bits right */
        b[0] = 0x62, b[1] = (uint8_t)((b[1] & 0xf0) | (1 + b[1] % 6)), b[2] |= 4;
        if (r & 1)
            b[2] |= 0x78, b[3] |= 8;
        if (r & 2)
            b[3] &= 0x68;
        break;
    }
}

/* Remembers (mnemonic, class) pairs so that one cause prints once. */
static bool seen_before(const struct compared *c) {
    static uint32_t seen[ZYDIS_MNEMONIC_MAX_VALUE + 1];
    uint32_t *mine = &seen[c->zydis_valid ? c->zydis.mnemonic : 0], fresh = c->unexplained & ~*mine;
    *mine |= c->unexplained;
    return c->zydis_valid && !fresh;
}

static uint64_t tried, valid, bad;

static void try(const uint8_t *bytes) {
    static struct compared c;
    diff_compare(bytes, INPUT, 0x401000, &c);
    valid += c.zydis_valid;
    if (c.unexplained && bad++ < 1000 && !seen_before(&c))
        diff_print(bytes, INPUT, &c);
    if (c.status == 0 && tried % 16 == 0)
        check_truncated(bytes, c.ours.length);
    tried++;
}

static void fill(uint8_t *bytes, size_t from) {
    for (size_t i = from; i < INPUT; i++)
        bytes[i] = (uint8_t)(next_random() >> 24);
}

static void random_cases(uint64_t cases) {
    uint8_t bytes[INPUT];
    for (uint64_t i = 0; i < cases; i++) {
        fill(bytes, 0);
        if (i & 1)
            shape(bytes);
        try(bytes);
    }
}

/* All opcodes and modrm bytes after the first n bytes; what follows modrm is random. */
static void sweep_behind(uint8_t *bytes, size_t n) {
    for (unsigned op = 0; op < 256; op++)
        for (unsigned modrm = 0; modrm < 256; modrm++) {
            bytes[n] = (uint8_t)op;
            bytes[n + 1] = (uint8_t)modrm;
            fill(bytes, n + 2);
            try(bytes);
        }
}

static void sweep_legacy(void) {
    static const uint8_t escapes[4][3] = {{0}, {1, 0x0f}, {2, 0x0f, 0x38}, {2, 0x0f, 0x3a}};
    static const uint8_t prefixes[] = {0, 0x66, 0xf3, 0xf2, 0xf0, 0x67};
    static const uint8_t rexes[] = {0, 0x40, 0x41, 0x42, 0x44, 0x48, 0x4d};
    uint8_t bytes[INPUT];
    for (size_t p = 0; p < sizeof prefixes; p++)
        for (size_t r = 0; r < sizeof rexes; r++)
            for (size_t e = 0; e < 4; e++) {
                size_t n = 0;
                if (prefixes[p])
                    bytes[n++] = prefixes[p];
                if (rexes[r])
                    bytes[n++] = rexes[r];
                memcpy(bytes + n, escapes[e] + 1, escapes[e][0]);
                sweep_behind(bytes, n + escapes[e][0]);
            }
}

/* VEX and XOP: every pp, L and W, with registers low, high or unused. */
static void sweep_vex(uint8_t escape, unsigned first_map) {
    static const uint8_t extensions[] = {0xe0, 0x60, 0xc0, 0x00}, vvvvs[] = {0x78, 0x70, 0x08};
    uint8_t bytes[INPUT] = {escape};
    for (unsigned map = first_map; map < first_map + 3; map++)
        for (unsigned low = 0; low < 16; low++)
            for (size_t x = 0; x < sizeof extensions; x++)
                for (size_t v = 0; v < sizeof vvvvs; v++) {
                    bytes[1] = (uint8_t)(extensions[x] | map);
                    bytes[2] = (uint8_t)((low & 8) << 4 | vvvvs[v] | (low & 7));
                    sweep_behind(bytes, 3);
                }
}

/* EVEX: every pp, W, L'L, b; with and without mask and zeroing, registers low, high or unused. */
static void sweep_evex(void) {
    static const uint8_t extensions[] = {0xf0, 0x00}, vvvvs[] = {0x78, 0x00};
    uint8_t bytes[INPUT] = {0x62};
    for (unsigned map = 1; map <= 6; map++)
        for (unsigned low = 0; low < 64; low++)
            for (unsigned shape = 0; shape < 12; shape++) {
                unsigned mask = shape % 3, third = mask == 2 ? 0x81 : mask;
                bytes[1] = (uint8_t)(extensions[shape / 3 & 1] | map);
                bytes[2] = (uint8_t)((low & 4) << 5 | vvvvs[shape / 6] | 4 | (low & 3));
                bytes[3] = (uint8_t)(third | (low >> 3 & 7) << 4 | (shape / 6 ? 0 : 8));
                sweep_behind(bytes, 4);
            }
}

static int report(void) {
    printf("%llu cases, %llu of them valid, %llu unexplained disagreements\n", (unsigned long long)tried,
           (unsigned long long)valid, (unsigned long long)bad);
    return bad != 0;
}

static int replay(const char *path) {
    uint8_t buf[4096];
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    size_t n = fread(buf, 1, sizeof buf, f);
    fclose(f);
    LLVMFuzzerTestOneInput(buf, n);
    return 0;
}

int main(int argc, char **argv) {
    uint64_t cases = 5000000;
    int rc = 0;
    diff_init();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--cases") == 0 && i + 1 < argc) {
            cases = strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            state ^= strtoull(argv[++i], NULL, 0) * 0xd1342543de82ef95u;
        } else if (strcmp(argv[i], "--sweep") == 0) {
            cases = 0;
            sweep_legacy();
            sweep_vex(0xc4, 1);
            sweep_vex(0x8f, 8);
            sweep_evex();
        } else {
            rc |= replay(argv[i]);
        }
    }
    random_cases(cases);
    return report() || rc ? 1 : 0;
}

#endif
