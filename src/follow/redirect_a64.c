/* SPDX-License-Identifier: Apache-2.0 */
/* Moving threads of another process into and out of translated code, arm64: as ct_stalk_redirect does
 * (stalk/link_a64.c). */
#include "os/linux/registers_a64.h"
#include "stalk/layout.h"
#include "stalk_internal.h"

int ct_stalk_redirect_remote(struct ct_remote *remote, struct ct_registers *regs, uint64_t block) {
    struct ct_registers_a64 *r = ct_registers_as_a64(regs);
    uint64_t area = block + CT_AREA;
    int status = ct_remote_write(remote, area + 8 * 17, &r->x[17], 2 * sizeof r->x[17]); /* x17 and x18 */
    if (!status)
        r->x[18] = area;
    return status;
}
