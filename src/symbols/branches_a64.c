/* SPDX-License-Identifier: Apache-2.0 */
/* Where code of arm64 calls and jumps to: b and bl. Conditional branches do not leave a function. */
#include "symbols/branches.h"

void ct_branches_each_a64(const uint8_t *bytes, size_t size, uint64_t address, ct_branch_sink *each, void *arg) {
    for (size_t at = 0; at + 4 <= size; at += 4) {
        uint32_t word = (uint32_t)bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16 |
                        (uint32_t)bytes[at + 3] << 24;
        if ((word & 0x7c000000) != 0x14000000)
            continue;
        uint64_t distance = (uint64_t)(word & 0x3ffffff) << 2;
        if (distance >> 27) /* negative */
            distance |= ~UINT64_C(0xfffffff);
        each(arg, address + at + distance);
    }
}
