/* SPDX-License-Identifier: Apache-2.0 */
/* The jump from one form of the shared code to the other, x86_64. */
#include "hook/runtime.h"

uint64_t ct_switch_jump(uint64_t word, uint64_t distance) {
    enum { JUMP_SIZE = 5 };
    uint32_t displacement = (uint32_t)(distance - JUMP_SIZE);
    return (word & ~0ull << 40) | (uint64_t)displacement << 8 | 0xe9;
}
