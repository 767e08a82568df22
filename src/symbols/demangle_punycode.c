/* SPDX-License-Identifier: Apache-2.0 */
/* Punycode (RFC 3492), in which Rust writes identifiers beyond ASCII. */
#include "symbols/demangle.h"
#include <string.h>

enum { PUNY_BASE = 36, PUNY_MIN = 1, PUNY_MAX = 26, PUNY_SKEW = 38, PUNY_DAMP = 700, PUNY_LIMIT = 128 };

static uint32_t puny_adapt(uint32_t delta, uint32_t count, bool first) {
    uint32_t k = 0;
    delta = first ? delta / PUNY_DAMP : delta / 2;
    delta += delta / count;
    for (; delta > ((PUNY_BASE - PUNY_MIN) * PUNY_MAX) / 2; k += PUNY_BASE)
        delta /= PUNY_BASE - PUNY_MIN;
    return k + (PUNY_BASE - PUNY_MIN + 1) * delta / (delta + PUNY_SKEW);
}

/* Reads one variable-length number; false at the end or when it is damaged. */
static bool puny_number(const char **at, const char *end, uint32_t bias, uint64_t *value) {
    uint64_t weight = 1;
    *value = 0;
    for (uint32_t k = PUNY_BASE;; k += PUNY_BASE) {
        if (*at == end)
            return false;
        char c = *(*at)++;
        int digit = c >= 'a' && c <= 'z' ? c - 'a' : c >= '0' && c <= '9' ? c - '0' + 26 : -1;
        if (digit < 0)
            return false;
        *value += (uint64_t)digit * weight;
        uint32_t t = k <= bias ? PUNY_MIN : k >= bias + PUNY_MAX ? PUNY_MAX : k - bias;
        if (*value > UINT32_MAX)
            return false;
        if ((uint32_t)digit < t)
            return true;
        weight *= PUNY_BASE - t;
    }
}

bool ct_demangle_punycode(struct ct_demangle_text *out, const char *plain, size_t plain_length, const char *code,
                          size_t code_length) {
    uint32_t text[PUNY_LIMIT], n = 128, bias = 72;
    size_t count = plain_length;
    uint64_t i = 0, delta;
    if (count >= PUNY_LIMIT)
        return false;
    for (size_t k = 0; k < count; k++)
        text[k] = (uint8_t)plain[k];
    for (const char *at = code, *end = at + code_length; at < end;) {
        if (count == PUNY_LIMIT || !puny_number(&at, end, bias, &delta))
            return false;
        i += delta;
        count++;
        bias = puny_adapt((uint32_t)delta, (uint32_t)count, count == plain_length + 1);
        uint64_t c = n + i / count;
        if (c >= 0x110000)
            return false;
        n = (uint32_t)c;
        i %= count;
        memmove(&text[i + 1], &text[i], (count - 1 - i) * sizeof *text);
        text[i++] = n;
    }
    for (size_t k = 0; k < count; k++)
        ct_demangle_add_utf8(out, text[k]);
    return !out->failed;
}
