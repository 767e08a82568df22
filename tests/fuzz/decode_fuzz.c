/* Decoder against Zydis on random bytes.
 *
 * Two ways to run. As a libFuzzer target (scripts/fuzz.sh) the coverage guides it. Alone, it replays the files given as
 * arguments and then tries `--cases N` deterministic random inputs, half of them shaped like instructions (prefixes, then
 * an escape), since most raw random bytes decode to a handful of one-byte opcodes. Exit 1 on any unexplained disagreement. */
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

static uint64_t random_cases(uint64_t cases) {
    uint64_t bad = 0, valid = 0;
    struct compared c;
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t raw[INPUT / 8];
        for (unsigned k = 0; k < INPUT / 8; k++)
            raw[k] = next_random();
        uint8_t *bytes = (uint8_t *)raw;
        if (i & 1)
            shape(bytes);
        diff_compare(bytes, INPUT, 0x401000, &c);
        valid += c.zydis_valid;
        if (c.unexplained && bad++ < 1000 && !seen_before(&c))
            diff_print(bytes, INPUT, &c);
        if (c.status == 0 && i % 16 == 0)
            check_truncated(bytes, c.ours.length);
    }
    printf("%llu random cases, %llu of them valid, %llu unexplained disagreements\n", (unsigned long long)cases,
           (unsigned long long)valid, (unsigned long long)bad);
    return bad;
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
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--cases") == 0 && i + 1 < argc)
            cases = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            state ^= strtoull(argv[++i], NULL, 0) * 0xd1342543de82ef95u;
        else
            rc |= replay(argv[i]);
    }
    diff_init();
    return random_cases(cases) || rc ? 1 : 0;
}

#endif
