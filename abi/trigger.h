/* SPDX-License-Identifier: Apache-2.0 */
/* How the return value of a function is compared: by the agent at the return itself, and by tests. Freestanding. */
#ifndef CT_ABI_TRIGGER_H
#define CT_ABI_TRIGGER_H

#include <stdint.h>

/* Number of function triggers (symbol, return, slow) that can be active at once: bits of a hook's mask. */
#define CT_TRIGGER_BITS 16u

enum ct_trigger_compare { CT_COMPARE_EQ, CT_COMPARE_NE, CT_COMPARE_LT, CT_COMPARE_GT };

/* The type of the result is not known. An int of -1 is returned as 0x00000000ffffffff: when the upper half is zero and
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
    default:
        return is > value;
    }
}

#endif
