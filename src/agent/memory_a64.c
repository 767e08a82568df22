/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of libc that compilers call by themselves on arm64, also in freestanding code: the agents bring their
 * own. */
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)
void *memset(void *to, int value, size_t size);
void *memcpy(void *restrict to, const void *restrict from, size_t size);
#pragma GCC visibility pop

void *memset(void *to, int value, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = (uint8_t)value;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}
