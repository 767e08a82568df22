/* SPDX-License-Identifier: Apache-2.0 */
/* See redirect.h: x18 leads to the area, which has the program's x17 and x18. */
#include "inject/redirect.h"
#include "os/linux/registers_a64.h"
#include "stalk/layout.h"

int ct_inject_redirect(struct ct_remote *remote, struct ct_registers *regs, uint64_t block) {
    struct ct_registers_a64 *r = ct_registers_as_a64(regs);
    uint64_t area = block + CT_AREA;
    int status = ct_remote_write(remote, area + 8 * 17, &r->x[17], 2 * sizeof r->x[17]); /* x17 and x18 */
    if (!status)
        r->x[18] = area;
    return status;
}
