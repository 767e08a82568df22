/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of triggers on functions: how the agent compares values, at the call or return itself. Freestanding. */
#ifndef CT_ABI_TRIGGER_H
#define CT_ABI_TRIGGER_H

#include <stdint.h>

/* Number of function triggers (symbol, return, slow) that can be active at once: bits of a hook's mask. */
#define CT_TRIGGER_BITS 16u

/* Conditions that a trigger can have; all must hold. */
#define CT_TRIGGER_CONDITIONS 4u
#define CT_TRIGGER_TEXT_BYTES 256u /* how much of a text is compared with a pattern */
#define CT_TRIGGER_PATTERN    112u /* bytes of a pattern, including its 0 */

/* LIKE: the text that the value points to matches a pattern. */
enum ct_trigger_compare { CT_COMPARE_EQ, CT_COMPARE_NE, CT_COMPARE_LT, CT_COMPARE_GT, CT_COMPARE_LIKE };

/* Which value: an argument (0 to 5) of a call; the result of a return; errno, if the call has set it. */
enum ct_trigger_value { CT_TRIGGER_ARGUMENTS = 6, CT_TRIGGER_RESULT = 6, CT_TRIGGER_ERRNO = 7 };

struct ct_trigger_condition {
    uint32_t value, compare; /* enum ct_trigger_value, enum ct_trigger_compare */
    int64_t number;
    char pattern[CT_TRIGGER_PATTERN]; /* LIKE: * is any text, ? any character */
};
_Static_assert(sizeof(struct ct_trigger_condition) == 128, "two cache lines");

/* The type of the value is not known. An int of -1 is returned as 0x00000000ffffffff: when the upper half is zero and
 * the wanted value fits an int, the lower half is compared as an int; everything else is compared as 64 bits,
 * signed. */
static inline int ct_trigger_compares(uint32_t compare, int64_t value, uint64_t result) {
    int64_t is = (int64_t)result;
    if (!(result >> 32) && value == (int32_t)value)
        is = (int32_t)(uint32_t)result;
    switch (compare) {
    case CT_COMPARE_EQ:
        return is == value;
    case CT_COMPARE_NE:
        return is != value;
    case CT_COMPARE_LT:
        return is < value;
    case CT_COMPARE_GT:
        return is > value;
    default:
        return 0;
    }
}

/* Does the text match? Both end with a 0, or with their room. A * is tried again from one character further on, so a
 * match takes at most size * CT_TRIGGER_PATTERN steps. */
static inline int ct_trigger_is_like(const char *pattern, const char *text, uint32_t size) {
    uint32_t p = 0, t = 0, star = UINT32_MAX, from = 0;
    while (t < size && text[t]) {
        char c = p < CT_TRIGGER_PATTERN ? pattern[p] : 0;
        if (c == '*') {
            star = p++;
            from = t;
        } else if (c && (c == '?' || c == text[t])) {
            p++;
            t++;
        } else if (star != UINT32_MAX) {
            p = star + 1;
            t = ++from;
        } else {
            return 0;
        }
    }
    while (p < CT_TRIGGER_PATTERN && pattern[p] == '*')
        p++;
    return p == CT_TRIGGER_PATTERN || !pattern[p];
}

#endif
