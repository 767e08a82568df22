/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that come and go, told while the thread that has loaded or unloaded them waits in the agent, before
 * constructors run. */
#include "os/os.h"
#include "script/script_internal.h"
#include <contrail/status.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS  20u
#define LIMIT_MS 1000u

/* The dynamic linker calls a function when its list has changed: is it there, and hooked? */
static bool has_linker(const struct ct_script *s) {
    for (size_t p = 0; p < s->plan_count; p++)
        for (size_t i = 0; i < s->plans[p].plan->hook_count; i++)
            if (s->plans[p].plan->hooks[i].special == CT_SPECIAL_LOADED)
                return true;
    return false;
}

int ct_script_watch_modules(struct ct_script *s, bool on) {
    int status = 0;
    pthread_mutex_lock(&s->work);
    if (on && s->guest)
        status = ct_script_fail(s, CT_ERR_UNSUPPORTED, "modules cannot be observed while the process is recorded");
    else if (on && !has_linker(s))
        status = ct_script_fail(s, CT_ERR_UNSUPPORTED,
                                "modules cannot be observed: the program has no dynamic linker that is known");
    if (!status)
        __atomic_store_n(&s->watches_modules, on, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->work);
    return status;
}

/* Who waits for the end of work does not look for news, and the work may be what has loaded something. */
static bool works(struct ct_script *s) {
    bool any = false;
    pthread_mutex_lock(&s->slots);
    for (uint32_t i = 0; i < CT_SCRIPT_SLOTS; i++)
        any |= s->running[i] != 0;
    pthread_mutex_unlock(&s->slots);
    return any;
}

static bool is_over(struct ct_script *s) {
    return __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE) || __atomic_load_n(&s->stop_service, __ATOMIC_ACQUIRE) ||
           !ct_remote_is_alive(s->remote) || works(s);
}

void ct_script_tell_modules(struct ct_script *s) {
    if (!__atomic_load_n(&s->watches_modules, __ATOMIC_ACQUIRE))
        return;
    uint32_t news = __atomic_add_fetch(&s->modules_changed, 1, __ATOMIC_SEQ_CST), seen;
    uint64_t since = ct_clock_now(), limit = (s->options.timeout_ms ? s->options.timeout_ms : LIMIT_MS) * 1000000ull;
    const struct timespec nap = {0, LOOK_MS * 1000000L};
    ct_script_ring(s);
    while ((seen = __atomic_load_n(&s->modules_seen, __ATOMIC_ACQUIRE)) != news && !is_over(s) &&
           ct_clock_now() - since < limit)
        (void)syscall(SYS_futex, &s->modules_seen, FUTEX_WAIT_PRIVATE, seen, &nap, NULL, 0);
}

bool ct_script_take_modules(struct ct_script *s, uint64_t *ticket) {
    uint32_t changed = __atomic_load_n(&s->modules_changed, __ATOMIC_ACQUIRE);
    pthread_mutex_lock(&s->slots);
    bool news = s->modules_told != changed && __atomic_load_n(&s->watches_modules, __ATOMIC_ACQUIRE);
    s->modules_told = changed;
    pthread_mutex_unlock(&s->slots);
    *ticket = changed;
    return news;
}

void ct_script_modules_seen(struct ct_script *s, const struct ct_script_request *request) {
    __atomic_store_n(&s->modules_seen, (uint32_t)request->ticket, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &s->modules_seen, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
