/* SPDX-License-Identifier: Apache-2.0 */
/* The way into a target and out of it. Stubs of all functions are planned and mapped at once; none is reached before a
 * script hooks its function, which changes a few bytes (inject/rehook.h). What the engine itself needs is patched from
 * the start: clone, longjmp, unwinders. */
#include "base/grow.h"
#include "inject/agent_image.h"
#include "inject/eject.h"
#include "remote/frames.h"
#include "isa/machine.h"
#include "script/script_guest.h"
#include <contrail/status.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STOP_MS      5000u
#define INSTALL_MS   60000u
#define LEAVE_NS     10000000000ull
#define OTHERS_NS    5000000000ull
#define REPLANS      4
#define MAX_DEPTH    (1u << 20)
#define INDEX_MEMORY (1u << 20) /* nobody writes events; the agent's lane has a few chunks all the same */
#define CLOCK_NS     5000000ull
#define SPIN_US      30u
#define LIMIT_MS     1000u

/* ---- stops ---- */

int ct_script_stop(struct ct_script *s, bool *was) {
    struct ct_remote_error error = {""};
    *was = ct_remote_is_stopped(s->remote);
    if (*was)
        return 0;
    int status = ct_remote_stop(s->remote, STOP_MS, &error);
    return status ? ct_script_fail(s, status, "%s", error.text) : 0;
}

void ct_script_go_on(struct ct_script *s, bool was) {
    if (!was && ct_remote_is_stopped(s->remote))
        (void)ct_remote_resume(s->remote);
}

static int stop_again(void *script) {
    bool was;
    return ct_script_stop(script, &was);
}

static void go_on(void *script) {
    ct_script_go_on(script, false);
}

static int eject(struct ct_script *s, struct ct_ejection *e, uint64_t limit_ns, bool *clean) {
    const struct ct_eject_turns turns = {stop_again, go_on, s};
    return ct_eject_all(e, &turns, limit_ns, clean);
}

/* ---- what others have left ---- */

/* Beside a recording that lives the script becomes its guest; what was left by others is removed. */
static int clean_after_others(struct ct_script *s) {
    const struct ct_eject_turns turns = {stop_again, go_on, s};
    int status = ct_script_guest_find(s);
    if (status != CT_ERR_NOT_FOUND)
        return status;
    status = ct_eject_others(s->remote, &turns, OTHERS_NS);
    if (status == CT_ERR_BUSY)
        return ct_script_fail(s, status,
                              "process %d is recorded, followed or scripted already; end that first, or try "
                              "again later",
                              s->pid);
    return status ? ct_script_fail(s, status,
                                   "process %d has memory of another recorder, which cannot be removed (%s); "
                                   "restart it",
                                   s->pid, ct_status_text(status))
                  : 0;
}

static int find_own_recording(struct ct_script *s) {
    int status = ct_script_guest_find(s);
    return status == CT_ERR_NOT_FOUND ? ct_script_fail(s, status, "process %d is not recorded", s->pid) : status;
}

/* ---- plans ---- */

static int make_plan(struct ct_script *s, const struct ct_target_known *known, size_t count, bool has_unwinder,
                     struct ct_target_plan **out) {
    char cache[PATH_MAX];
    struct ct_remote_error error = {""};
    const struct ct_target_plan_options options = {
        .cache_dir = ct_target_cache_find(cache, sizeof cache, true) ? NULL : cache,
        .known = known,
        .known_count = count,
        .first_module = s->next_module,
        .first_hook = s->next_hook,
        .has_unwinder = has_unwinder,
        .listen = true,
        .names_only = s->guest != NULL,
    };
    int status = ct_target_plan_make(out, s->remote, &options, &error);
    return status ? ct_script_fail(s, status, "%s", error.text) : 0;
}

static int keep_plan(struct ct_script *s, struct ct_target_plan *plan) {
    if (!ct_grow(&s->plans, &s->plan_room, s->plan_count, sizeof *s->plans, 8))
        return CT_ERR_NO_MEMORY;
    size_t hooks = s->next_hook + plan->hook_count;
    struct ct_script_hooked *grown = realloc(s->hooked, (hooks + 1) * sizeof *grown);
    if (!grown)
        return CT_ERR_NO_MEMORY;
    s->hooked = grown;
    memset(s->hooked + s->next_hook, 0, plan->hook_count * sizeof *grown);
    for (size_t i = 0; i < plan->hook_count; i++)
        s->hooked[s->next_hook + i].hook = &plan->hooks[i];
    s->hooked_room = hooks;
    s->plans[s->plan_count++] = (struct ct_script_plan){plan, s->next_hook};
    s->next_hook += (uint32_t)plan->hook_count;
    s->next_module += (uint32_t)plan->module_count;
    return 0;
}

static void drop_plans(struct ct_script *s) {
    for (size_t i = 0; i < s->plan_count; i++)
        ct_target_plan_free(s->plans[i].plan);
    s->plan_count = 0;
    s->next_hook = s->next_module = 0;
}

/* ---- the way in ---- */

static int inject(struct ct_script *s) {
    const struct ct_injection_options options = {
        .lane = {.index_memory = INDEX_MEMORY, .extra = CT_SCRIPT_EXTRA},
        .agent = ct_script_agent_image,
        .dormant = true,
        .max_depth = MAX_DEPTH,
    };
    for (int tries = 0;; tries++) {
        struct ct_remote_error error = {""};
        struct ct_target_plan *plan = NULL;
        bool was;
        int status = make_plan(s, NULL, 0, false, &plan);
        if (!status && (status = keep_plan(s, plan)))
            ct_target_plan_free(plan);
        if (!status)
            status = ct_script_stop(s, &was);
        if (status)
            return status;
        status = ct_inject(&s->injection, s->remote, plan, &s->lane, &options, &error);
        if (!status)
            return 0;
        ct_lane_destroy(&s->lane);
        if (status != CT_ERR_BUSY || tries == REPLANS)
            return ct_script_fail(s, status, "%s", error.text[0] ? error.text : ct_status_text(status));
        if (!ct_script_stays_stopped(s))
            ct_script_go_on(s, false);
        drop_plans(s);
    }
}

/* The recording has planned all hooks. */
static int join(struct ct_script *s) {
    struct ct_target_plan *plan = NULL;
    bool was;
    int status = make_plan(s, NULL, 0, false, &plan);
    if (!status && (status = keep_plan(s, plan)))
        ct_target_plan_free(plan);
    if (!status)
        status = ct_script_stop(s, &was);
    if (!status && !ct_script_guest_is_served(s))
        status = ct_script_fail(s, CT_ERR_BUSY, "the recording of process %d ends; try again", s->pid);
    return status ? status : ct_script_guest_join(s);
}

static uint64_t counts_of(const struct ct_script *s, uint64_t us) {
    return (uint64_t)(ct_clock_hz(&s->clock) / 1e6 * (double)us);
}

int ct_script_set_timeout(struct ct_script *s, uint32_t timeout_ms) {
    uint64_t first = s->options.timeout_ms ? s->options.timeout_ms : LIMIT_MS;
    uint64_t counts = counts_of(s, 1000ull * (timeout_ms ? timeout_ms : first));
    __atomic_store_n(&s->shared->limit_counts, counts, __ATOMIC_RELEASE);
    return 0;
}

static void open_shared(struct ct_script *s) {
    const struct ct_script_options *o = &s->options;
    while (ct_clock_now() - s->clock.first.ns < CLOCK_NS)
        usleep(500);
    ct_clock_calibrate(&s->clock);
    s->shared = (struct ct_script_shared *)s->lane.extra;
    (void)ct_script_set_timeout(s, 0);
    s->spin_counts = o->spin_us == UINT32_MAX ? 0 : counts_of(s, o->spin_us ? o->spin_us : SPIN_US);
    s->shared->spin_counts = s->spin_counts;
    __atomic_store_n(&s->shared->open, 1, __ATOMIC_RELEASE);
}

static int find_table(struct ct_script *s) {
    struct ct_boot boot;
    int status = ct_remote_read(s->remote, s->injection.boot, &boot, sizeof boot);
    s->hook_table = boot.hooks;
    return status;
}

static int enter_stopped(struct ct_script *s) {
    struct ct_remote_error error = {""};
    int status = s->guest ? 0 : find_table(s);
    if (status)
        return ct_script_fail(s, status, "the agent could not be read");
    open_shared(s);
    status = ct_script_start_service(s);
    if (status)
        return ct_script_fail(s, status, "%s", ct_status_text(status));
    if (s->guest)
        return 0;
    status = ct_inject_hooks(&s->injection, &error);
    return status ? ct_script_fail(s, status, "%s", error.text) : 0;
}

int ct_script_enter(struct ct_script *s) {
    bool clean, was = true;
    ct_clock_start(&s->clock);
    int status = s->spawned ? 0 : ct_script_stop(s, &was);
    if (!status && s->borrowed)
        status = find_own_recording(s);
    else if (!status && !s->spawned)
        status = clean_after_others(s);
    if (!ct_script_stays_stopped(s))
        ct_script_go_on(s, false);
    ct_remote_limit(s->remote, INSTALL_MS, NULL, NULL);
    if (!status)
        status = s->guest ? join(s) : inject(s);
    if (!status)
        status = enter_stopped(s);
    if (!status)
        s->main_base = s->plans[0].plan->module_count ? s->plans[0].plan->modules[0].start : 0;
    if (status && s->injection.image)
        (void)ct_script_leave(s, &clean);
    ct_remote_limit(s->remote, 0, NULL, NULL);
    if (!ct_script_stays_stopped(s))
        ct_script_go_on(s, false);
    return status;
}

/* ---- libraries that were loaded later ---- */

struct survey {
    struct ct_target_known *known;
    size_t count;
    bool something_new;
};

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct survey *v = arg;
    v->something_new |= ct_target_is_code(map) && !ct_target_find_known(v->known, v->count, map);
    return v->something_new;
}

static int list_known(const struct ct_script *s, struct survey *v, bool *has_unwinder) {
    *v = (struct survey){.known = calloc(s->next_module + 1, sizeof *v->known)};
    *has_unwinder = false;
    if (!v->known)
        return CT_ERR_NO_MEMORY;
    for (size_t p = 0; p < s->plan_count; p++) {
        const struct ct_target_plan *plan = s->plans[p].plan;
        *has_unwinder |= plan->get_cfa != 0;
        for (size_t i = 0; i < plan->module_count; i++)
            v->known[v->count++] =
                (struct ct_target_known){plan->modules[i].start, plan->modules[i].end, plan->modules[i].inode};
    }
    return 0;
}

static int add_plan(struct ct_script *s, struct ct_target_plan *plan) {
    struct ct_remote_error error = {""};
    uint32_t first = s->next_hook;
    bool was;
    int status = plan->module_count ? 0 : CT_ERR_NOT_FOUND;
    if (!status)
        status = keep_plan(s, plan);
    if (status) {
        ct_target_plan_free(plan);
        return status == CT_ERR_NOT_FOUND ? 0 : status;
    }
    if (s->guest)
        return 0; /* the recorder hooks it */
    status = ct_script_stop(s, &was);
    ct_remote_limit(s->remote, CT_SCRIPT_STILL_MS, NULL, NULL);
    if (!status && (status = ct_inject_more(&s->injection, plan, first, &error)))
        ct_script_fail(s, status, "%s", error.text);
    ct_remote_limit(s->remote, 0, NULL, NULL);
    ct_script_go_on(s, was);
    return status;
}

int ct_script_update(struct ct_script *s) {
    struct survey v;
    struct ct_target_plan *plan;
    bool has_unwinder;
    int status = list_known(s, &v, &has_unwinder);
    if (!status && (status = ct_remote_each_map(s->remote, look_at_map, &v)) >= 0)
        status = 0;
    if (!status && v.something_new && !(status = make_plan(s, v.known, v.count, has_unwinder, &plan)))
        status = add_plan(s, plan);
    free(v.known);
    return status;
}

/* ---- the way out ---- */

static bool is_in_memory(const void *script, uint64_t pc) {
    const struct ct_script *s = script;
    for (size_t i = 0; i < s->memory_count; i++)
        if (pc - s->memory[i].address < s->memory[i].size)
            return true;
    return false;
}

bool ct_script_unmap_memory(struct ct_script *s) {
    int64_t result;
    if (ct_remote_comes_to(s->remote, is_in_memory, s))
        return false; /* in a replacement of the script's */
    for (size_t i = 0; i < s->memory_count; i++) {
        const uint64_t a[6] = {s->memory[i].address, s->memory[i].size};
        ct_script_guest_unlist(s, &s->memory[i]);
        (void)ct_remote_syscall(s->remote, SYS_munmap, a, &result);
    }
    s->memory_count = 0;
    return true;
}

int ct_script_leave(struct ct_script *s, bool *clean) {
    struct ct_ejection e;
    bool recorded, was;
    if (s->guest)
        return ct_script_guest_leave(s, clean);
    *clean = false;
    if (s->shared)
        __atomic_store_n(&s->shared->open, 0, __ATOMIC_RELEASE);
    int status = ct_script_stop(s, &was);
    if (status)
        return status;
    ct_remote_limit(s->remote, CT_SCRIPT_STILL_MS, NULL, NULL);
    status = ct_eject_open_at(&e, s->remote, s->injection.boot, &recorded);
    if (status == CT_ERR_NOT_FOUND) {
        *clean = true;
        return 0;
    }
    if (!status) {
        e.own = true;
        status = eject(s, &e, LEAVE_NS, clean);
        ct_eject_close(&e);
    }
    if (!status && *clean)
        *clean = ct_script_unmap_memory(s);
    ct_remote_limit(s->remote, 0, NULL, NULL);
    return status;
}
