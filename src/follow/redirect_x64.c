/* SPDX-License-Identifier: Apache-2.0 */
/* Moving threads of another process into and out of translated code, x86_64: GS leads to the area. */
#include "stalk_internal.h"

int ct_stalk_redirect_remote(struct ct_remote *remote, struct ct_registers *regs, uint64_t block) {
    (void)remote, (void)regs, (void)block;
    return 0;
}
