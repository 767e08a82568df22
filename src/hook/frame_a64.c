/* SPDX-License-Identifier: Apache-2.0 */
/* See frame.h. No state. */
#include "hook/frame.h"
#include <contrail/status.h>

/* Which slots belong to a chain of frame records cannot be said: all of the stack is looked at. */
uint64_t ct_frame_chain_end(uint64_t slot, uint64_t frame, uint64_t top, uint32_t count) {
    (void)slot, (void)frame, (void)count;
    return top;
}

/* Not written yet: no function asks for them. */
void ct_frame_store_reals(uint64_t *to, bool returned) {
    for (unsigned i = 0; i < (returned ? 2 : 8); i++)
        to[i] = 0;
}

/* Not written yet. */
int ct_frame_find(const struct ct_frame_memory *memory, uint64_t slot, bool (*is_ours)(const void *arg, uint64_t value),
                  const void *arg, struct ct_frame_return *found) {
    (void)memory, (void)slot, (void)is_ours, (void)arg, (void)found;
    return CT_ERR_UNSUPPORTED;
}

int ct_frame_replace(const struct ct_frame_memory *memory, const struct ct_frame_return *found, uint64_t value) {
    (void)memory, (void)found, (void)value;
    return CT_ERR_UNSUPPORTED;
}
