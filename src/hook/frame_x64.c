/* SPDX-License-Identifier: Apache-2.0 */
/* See frame.h. No state. */
#include "hook/frame.h"

/* Pairs: the caller's frame pointer, then the return address. */
uint64_t ct_frame_chain_end(uint64_t slot, uint64_t frame, uint64_t top, uint32_t count) {
    uint64_t end = slot + 8, before = slot;
    for (; count && frame > before && !(frame & 7) && frame < top - 16; count--) {
        before = frame;
        end = frame + 16;
        frame = *(const uint64_t *)frame;
    }
    return end;
}

void ct_frame_store_reals(uint64_t *to, bool returned) {
    __asm__ volatile("movq %%xmm0, 0(%0)\n\tmovq %%xmm1, 8(%0)" : : "r"(to) : "memory");
    if (returned)
        return;
    __asm__ volatile("movq %%xmm2, 16(%0)\n\t"
                     "movq %%xmm3, 24(%0)\n\t"
                     "movq %%xmm4, 32(%0)\n\t"
                     "movq %%xmm5, 40(%0)\n\t"
                     "movq %%xmm6, 48(%0)\n\t"
                     "movq %%xmm7, 56(%0)"
                     :
                     : "r"(to)
                     : "memory");
}
