/* SPDX-License-Identifier: Apache-2.0 */
/* The branch from one form of the shared code to the other, arm64. It replaces an instruction that is no branch, which
 * no thread may be executing meanwhile. */
#include "hook/runtime.h"

uint64_t ct_switch_jump(uint64_t word, uint64_t distance) {
    return (word & ~0ull << 32) | 0x14000000u | ((uint32_t)(distance >> 2) & 0x03ffffffu);
}
