/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the target as requests: see hook/fault.h and agent/script_agent.c. */
#include "abi/boot_abi.h"
#include "inject/inject_memory.h"
#include "script/script_internal.h"
#include <contrail/status.h>

/* Under `work`. Handlers stay taken until we leave. */
static int take_handlers(struct ct_script *s) {
    struct ct_boot boot;
    uint64_t result = 0;
    const uint64_t none[6] = {0};
    bool was;
    if (ct_remote_read(s->remote, s->injection.boot, &boot, sizeof boot) || !boot.faults)
        return ct_script_fail(s, CT_ERR_UNSUPPORTED,
                              "faults cannot be watched: the program's sigaction is not known, so it would see our "
                              "handler in place of its own");
    int status = ct_script_stop(s, &was);
    if (status)
        return status;
    ct_remote_limit(s->remote, CT_SCRIPT_STILL_MS, NULL, NULL);
    status = ct_remote_call(s->remote, s->shared->watch_faults, s->injection.stack, none, &result);
    ct_remote_limit(s->remote, 0, NULL, NULL);
    ct_script_go_on(s, was);
    status = status ? status : ct_inject_said((int32_t)result);
    return status ? ct_script_fail(s, status, "faults cannot be watched: the process does not let us set its handlers")
                  : 0;
}

int ct_script_watch_faults(struct ct_script *s, bool on) {
    int status = 0;
    pthread_mutex_lock(&s->work);
    if (ct_script_is_gone(s))
        status = ct_script_fail(s, CT_ERR_NOT_FOUND, "the process has ended");
    else if (s->guest)
        status = ct_script_fail(s, CT_ERR_UNSUPPORTED, "faults cannot be watched while the process is recorded");
    else if (on && !s->watches_faults)
        status = take_handlers(s);
    s->watches_faults |= on && !status;
    __atomic_store_n(&s->shared->faults, on && !status, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->work);
    return status;
}
