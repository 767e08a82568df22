/* SPDX-License-Identifier: Apache-2.0 */
/* See frame.h. No state. */
#include "hook/frame.h"

/* Which slots belong to a chain of frame records cannot be said: all of the stack is looked at. */
uint64_t ct_frame_chain_end(uint64_t slot, uint64_t frame, uint64_t top, uint32_t count) {
    (void)slot, (void)frame, (void)count;
    return top;
}

void ct_frame_store_reals(uint64_t *to, bool returned) {
    __asm__ volatile("stp d0, d1, [%0]" : : "r"(to) : "memory");
    if (returned)
        return;
    __asm__ volatile("stp d2, d3, [%0, #16]\n\t"
                     "stp d4, d5, [%0, #32]\n\t"
                     "stp d6, d7, [%0, #48]"
                     :
                     : "r"(to)
                     : "memory");
}
