/* SPDX-License-Identifier: Apache-2.0 */
/* How threads of a process that hooks itself find their blocks: GS points to the block. See runtime.h; the agent has
 * agent/table.c instead. */
#include "hook/runtime.h"
#include "os/thread.h"

bool ct_block_by_pointer(void) {
    return false;
}

struct ct_block *ct_block_found(void) {
    return ct_os_block();
}

int ct_block_install(struct ct_block *b) {
    return ct_os_set_block(b);
}

void ct_block_place(struct ct_block *b) {
    (void)b;
}
