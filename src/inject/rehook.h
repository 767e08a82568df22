/* SPDX-License-Identifier: Apache-2.0 */
/* Takes single hooks out of a stopped target that has them, and puts them back, while all other hooks stay.
 *
 * Stubs, tables and shadow stacks stay too: calls that are open return through their stubs as before, and a recorder
 * that cleans up after us restores only bytes that are ours (eject.h). A change of one hook lies in one page each: if
 * we die in the middle, every hook is either there or not. */
#ifndef CT_INJECT_REHOOK_H
#define CT_INJECT_REHOOK_H

#include "plan/target_plan.h"
#include "remote/remote.h"

/* Can its bytes be changed without a moment in which they are half changed? */
bool ct_rehook_is_possible(const struct ct_target_hook *hook);

/* Takes out, or puts back, the hooks in this order, until the time is over (CLOCK_BOOTTIME). done[i]: it is as wanted
 * now. A hook whose bytes are not as expected (another module is there) is left alone, and not done; so is one whose
 * host is not in place. The caller takes guests out before their hosts, and puts hosts back before their guests
 * (ct_plan.host). After an error, done[] says nothing. */
struct ct_rehook {
    struct ct_remote *remote;
    const struct ct_target_hook *const *hooks;
    const struct ct_target_hook *const *hosts; /* by hook; NULL: it has none */
    size_t count;
    uint64_t until_ns;
    bool *done;
};
int ct_rehook_take_out(const struct ct_rehook *change);
int ct_rehook_put_back(const struct ct_rehook *change);

#endif
