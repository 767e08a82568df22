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
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    return at;
}

#endif
