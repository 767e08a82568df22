/* SPDX-License-Identifier: Apache-2.0 */
/* Restores real return addresses on stacks, on x86_64: they are in the frames' slots. See eject_internal.h. */
#include "inject/eject_internal.h"
#include <contrail/status.h>

/* What is in the slot may be a real address, or a coroutine's stack may be gone. */
static int put_right(struct ct_remote *remote, const struct ct_eject_group *group) {
    uint64_t slot = group->at->slot, now, real;
    if (ct_remote_read(remote, slot, &now, sizeof now) || !ct_eject_is_resume(group, now))
        return ct_remote_is_over(remote) ? CT_ERR_TIMEOUT : 0;
    int status = ct_eject_real_return(remote, group, now, &real);
    if (!status && real != now)
        (void)ct_remote_write(remote, slot, &real, sizeof real);
    return status;
}

int ct_eject_put_right(struct ct_ejection *e, const struct ct_eject_return *at, size_t count, uint64_t hooks) {
    int status = 0;
    (void)hooks;
    for (size_t i = 0; !status && i < count;) {
        const struct ct_eject_group group = ct_eject_group_at(at, count, i);
        status = put_right(e->remote, &group);
        i += group.count;
    }
    return status;
}
