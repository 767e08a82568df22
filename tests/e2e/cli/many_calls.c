/* SPDX-License-Identifier: Apache-2.0 */
/* Makes enough calls for a summary of its trace; `seldom` is called in the middle only. */
#include <stdio.h>

#define KEPT __attribute__((noinline))

KEPT static unsigned step(unsigned value) {
    for (unsigned i = 0; i < 3; i++) {
        __asm__ volatile("" : "+r"(value));
        value = value * 7 + i;
    }
    return value;
}

KEPT static unsigned some_steps(unsigned value) {
    for (unsigned i = 0; i < 40; i++)
        value = step(value);
    return value;
}

KEPT static unsigned seldom(unsigned value) {
    return step(value) + some_steps(value);
}

int main(void) {
    unsigned value = 1;
    for (unsigned i = 0; i < 8000; i++)
        value += i == 4000 ? seldom(value) : some_steps(value);
    printf("%u\n", value);
    return 0;
}
