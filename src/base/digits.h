/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as decimal digits, for what prints millions of them. */
#ifndef CT_BASE_DIGITS_H
#define CT_BASE_DIGITS_H

#include <stddef.h>
#include <stdint.h>

enum { CT_DIGITS = 20 }; /* of the largest number */

/* Writes the digits into the end of the array, without a NUL. Returns where they begin. */
static inline size_t ct_digits(char digits[CT_DIGITS], uint64_t number) {
    size_t at = CT_DIGITS;
    for (; number >= 100; number /= 100) { /* two at a time: each division waits for the one before */
        unsigned two = (unsigned)(number % 100);
        digits[--at] = (char)('0' + two % 10);
        digits[--at] = (char)('0' + two / 10);
    }
    if (number >= 10) {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    }
    digits[--at] = (char)('0' + number);
    return at;
}

#endif
