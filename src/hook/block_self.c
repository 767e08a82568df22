/* SPDX-License-Identifier: Apache-2.0 */
/* How threads of a process that hooks itself find their blocks: GS points to the block, or the word beside the thread
 * pointer does. See runtime.h; the agent has agent/table.c instead. */
#include "hook/runtime.h"
#include "os/thread.h"

static struct ct_block *stray;

int ct_block_prepare(struct ct_runtime *rt) {
    if (!stray && ct_block_by_pointer())
        stray = ct_block_make_stray(rt);
    return stray || !ct_block_by_pointer() ? CT_OK : CT_ERR_NO_MEMORY;
}

void ct_block_literals(uint64_t literals[2]) {
    literals[0] = 0;
    literals[1] = (uint64_t)stray;
}

bool ct_block_by_pointer(void) {
    return !ct_os_inherits_block();
}

struct ct_block *ct_block_found(void) {
    struct ct_block *b = ct_os_block();
    return b ? b : stray;
}

int ct_block_install(struct ct_block *b) {
    return b->borrows && ct_block_by_pointer() ? 0 : ct_os_set_block(b);
}

void ct_block_place(struct ct_block *b) {
    if (ct_block_by_pointer())
        (void)ct_block_install(b);
}
