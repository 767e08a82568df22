/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of a script beside a recording: the recording has hooked the function, and its stub is switched, under a stop,
 * to code that records and tells guests. What the stub had before is kept in the hook's entry, which recorded functions
 * have no other use for: so the last guest can switch back what any of them has switched. */
#include "base/grow.h"
#include "script/script_guest.h"
#include <contrail/status.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CODES 65536
#define MOST_HOOKS (1u << 22)

/* ---- what the recording has hooked ---- */

static int by_function(const void *a, const void *b) {
    const struct ct_script_recorded *x = a, *y = b;
    return x->function < y->function ? -1 : x->function > y->function;
}

static struct ct_script_recorded *find(struct ct_script_guest *g, uint64_t function) {
    const struct ct_script_recorded wanted = {.function = function};
    return g->recorded_count ? bsearch(&wanted, g->recorded, g->recorded_count, sizeof wanted, by_function) : NULL;
}

static struct ct_script_recorded *by_number(struct ct_script_guest *g, uint32_t number) {
    for (size_t i = 0; i < g->recorded_count; i++)
        if (g->recorded[i].number == number)
            return &g->recorded[i];
    return NULL;
}

/* A range of stubs, copied. */
struct range {
    uint64_t start, size;
    uint8_t *bytes;
};

static int read_ranges(struct ct_script *s, const struct ct_boot_code *code, struct range **out) {
    if (code->region_count > MOST_CODES)
        return CT_ERR_BAD_FILE;
    *out = calloc(code->region_count + 1, sizeof **out);
    if (!*out)
        return CT_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < code->region_count; i++) {
        struct ct_boot_region r;
        int status = ct_remote_read(s->remote, code->regions + i * sizeof r, &r, sizeof r);
        if (status || r.size > MOST_HOOKS * 1024ull)
            return status ? status : CT_ERR_BAD_FILE;
        (*out)[i] = (struct range){r.start, r.size, malloc(r.size)};
        if (!(*out)[i].bytes || (status = ct_remote_read(s->remote, r.start, (*out)[i].bytes, r.size)))
            return (*out)[i].bytes ? status : CT_ERR_NO_MEMORY;
    }
    return 0;
}

static void free_ranges(struct range *ranges, uint64_t count) {
    for (uint64_t i = 0; ranges && i < count; i++)
        free(ranges[i].bytes);
    free(ranges);
}

static int add_stub(struct ct_script *s, const struct range *ranges, uint64_t count, uint64_t stub) {
    struct ct_script_guest *g = s->guest;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t number;
        if (stub - ranges[i].start >= ranges[i].size || ranges[i].size - (stub - ranges[i].start) < CT_SCRIPT_STUB_HEAD)
            continue;
        memcpy(&number, ranges[i].bytes + (stub - ranges[i].start) + CT_STUB_NUMBER, sizeof number);
        if (number >= g->room ||
            !ct_grow(&g->recorded, &g->recorded_room, g->recorded_count, sizeof *g->recorded, 1024))
            return number >= g->room ? 0 : CT_ERR_NO_MEMORY;
        g->recorded[g->recorded_count++] =
            (struct ct_script_recorded){.stub = stub, .shared = ranges[i].start, .number = number};
        return 0;
    }
    return 0;
}

static int read_code(struct ct_script *s, const struct ct_boot_code *code) {
    struct range *ranges = NULL;
    struct ct_boot_stub *stubs = NULL;
    int status = code->stub_count > MOST_HOOKS ? CT_ERR_BAD_FILE : 0;
    if (!status && code->stub_count)
        status = read_ranges(s, code, &ranges);
    if (!status && code->stub_count && !(stubs = malloc(code->stub_count * sizeof *stubs)))
        status = CT_ERR_NO_MEMORY;
    if (!status && stubs)
        status = ct_remote_read(s->remote, code->stubs, stubs, code->stub_count * sizeof *stubs);
    for (uint64_t i = 0; !status && stubs && i < code->stub_count; i++)
        status = add_stub(s, ranges, code->region_count, stubs[i].address);
    free(stubs);
    free_ranges(ranges, code->region_count);
    return status;
}

/* The functions come from the entries. */
static int read_functions(struct ct_script *s) {
    struct ct_script_guest *g = s->guest;
    uint32_t most = 0;
    for (size_t i = 0; i < g->recorded_count; i++)
        most = g->recorded[i].number > most ? g->recorded[i].number : most;
    struct ct_hook_entry *entries = malloc((most + 1) * sizeof *entries);
    int status = entries ? ct_remote_read(s->remote, g->recorder.hooks, entries, (most + 1) * sizeof *entries)
                         : CT_ERR_NO_MEMORY;
    size_t kept = 0;
    for (size_t i = 0; !status && i < g->recorded_count; i++) {
        const struct ct_hook_entry *e = &entries[g->recorded[i].number];
        g->recorded[i].function = e->function;
        g->recorded[i].entry_only = e->entry_only;
        if (e->flavor == CT_ACTION_RECORD && !e->special)
            g->recorded[kept++] = g->recorded[i];
    }
    g->recorded_count = status ? 0 : kept;
    free(entries);
    return status;
}

/* Reads the recorder's tables again: libraries may have been loaded. */
static int refresh(struct ct_script *s) {
    struct ct_script_guest *g = s->guest, before = *g;
    struct ct_boot boot;
    int status = ct_remote_read(s->remote, g->boot, &boot, sizeof boot);
    struct ct_boot_code code = boot.code;
    g->recorded = NULL;
    g->recorded_count = g->recorded_room = 0;
    for (int i = 0; !status && i < MOST_CODES; i++) {
        status = read_code(s, &code);
        if (status || !code.next)
            break;
        status = ct_remote_read(s->remote, code.next, &code, sizeof code);
    }
    if (!status)
        status = read_functions(s);
    if (g->recorded_count)
        qsort(g->recorded, g->recorded_count, sizeof *g->recorded, by_function);
    for (size_t i = 0; i < before.recorded_count; i++) {
        struct ct_script_recorded *now = find(g, before.recorded[i].function);
        if (now && now->stub == before.recorded[i].stub) {
            now->wanted = before.recorded[i].wanted;
            now->switched = before.recorded[i].switched;
        }
    }
    free(before.recorded);
    return status;
}

static const struct ct_target_function *known_function(const struct ct_script *s, uint64_t address) {
    for (size_t p = s->plan_count; p-- > 0;)
        for (size_t i = 0; i < s->plans[p].plan->module_count; i++) {
            const struct ct_target_module *m = &s->plans[p].plan->modules[i];
            for (size_t k = 0; address >= m->start && address < m->end && k < m->function_count; k++)
                if (m->bias + m->functions[k].offset == address)
                    return &m->functions[k];
        }
    return NULL;
}

/* NULL: *status says why, and it is explained. */
static struct ct_script_recorded *hookable(struct ct_script *s, uint64_t address, int *status) {
    struct ct_script_recorded *r = find(s->guest, address);
    if (!r && !refresh(s))
        r = find(s->guest, address);
    if (r && ct_script_has_small_stacks(s, address)) {
        *status = ct_script_no_room(s, address);
        return NULL;
    }
    if (r && !r->wanted)
        return r;
    if (r)
        *status = ct_script_fail(s, CT_ERR_ALREADY_HOOKED, "0x%llx is hooked already", (unsigned long long)address);
    else if (known_function(s, address))
        *status = ct_script_fail(s, CT_ERR_HOOK_FAILED,
                                 "%s cannot be hooked: the recording beside this script does not record it",
                                 known_function(s, address)->name);
    else
        *status = ct_script_fail(s, CT_ERR_NOT_FUNCTION, "0x%llx is not the beginning of a function that is known",
                                 (unsigned long long)address);
    return NULL;
}

static int check_returns(struct ct_script *s, const struct ct_script_recorded *r, const struct ct_script_hook *want) {
    if (!r->entry_only || (!(want->flags & CT_SCRIPT_ON_LEAVE) && !want->native_leave))
        return 0;
    return ct_script_fail(s, CT_ERR_UNSUPPORTED,
                          "returns of the function at 0x%llx cannot be seen, onLeave would never be called",
                          (unsigned long long)want->address);
}

int ct_script_guest_check(struct ct_script *s, const struct ct_script_hook *want) {
    int status = 0;
    const struct ct_script_recorded *r = hookable(s, want->address, &status);
    return r ? check_returns(s, r, want) : status;
}

bool ct_script_guest_records(struct ct_script *s, uint64_t address) {
    if (!s->guest->recorded_count)
        (void)refresh(s);
    return find(s->guest, address) != NULL;
}

/* ---- stubs ---- */

static uint64_t entry_of(const struct ct_script *s, uint32_t number) {
    return s->guest->recorder.hooks + (uint64_t)number * sizeof(struct ct_hook_entry);
}

/* `user` of the entry: it is switched; the listener's words: what was there. */
static int switch_stub(struct ct_script *s, struct ct_script_recorded *r) {
    struct ct_hook_entry e;
    struct ct_shared_code shared;
    uint8_t head[CT_SCRIPT_STUB_HEAD];
    uint64_t saved[2];
    int status = ct_remote_read(s->remote, entry_of(s, r->number), &e, sizeof e);
    if (!status && e.user) { /* by another guest */
        r->switched = true;
        return 0;
    }
    if (!status)
        status = ct_remote_read(s->remote, r->stub, head, sizeof head);
    ct_shared_code_at(&shared, r->shared);
    if (!status && (e.function != r->function || !ct_script_switch(r->stub, &shared, head, saved)))
        return ct_script_fail(s, CT_ERR_HOOK_FAILED,
                              "0x%llx cannot be hooked: the recording has switched it off; `contrail ctl %d include` "
                              "switches it on",
                              (unsigned long long)r->function, s->pid);
    if (status)
        return status;
    memcpy(&e.listener, saved, sizeof saved);
    e.user = (void *)1;
    status = ct_remote_write(s->remote, entry_of(s, r->number), &e, sizeof e);
    if (!status)
        status = ct_remote_write(s->remote, r->stub, head, sizeof head);
    r->switched = !status;
    return status;
}

static int restore_stub(struct ct_script *s, struct ct_script_recorded *r) {
    struct ct_hook_entry e;
    uint8_t head[CT_SCRIPT_STUB_HEAD];
    uint64_t saved[2];
    int status = ct_remote_read(s->remote, entry_of(s, r->number), &e, sizeof e);
    if (!status)
        status = ct_remote_read(s->remote, r->stub, head, sizeof head);
    if (status || !e.user || e.flavor != CT_ACTION_RECORD || e.function != r->function)
        return status;
    memcpy(saved, &e.listener, sizeof saved);
    ct_script_switch_restore(head, saved);
    status = ct_remote_write(s->remote, r->stub, head, sizeof head);
    memset(&e.listener, 0, sizeof e.listener);
    e.user = NULL;
    r->switched = false;
    return status ? status : ct_remote_write(s->remote, entry_of(s, r->number), &e, sizeof e);
}

static bool is_alone(struct ct_script *s) {
    for (uint32_t i = 0; i < CT_HOOK_GUESTS; i++)
        if (i != s->guest->place && ct_script_guest_has(s, i))
            return false;
    return true;
}

int ct_script_guest_switch_back(struct ct_script *s) {
    int status = is_alone(s) ? refresh(s) : CT_ERR_BUSY;
    for (size_t i = 0; !status && i < s->guest->recorded_count; i++)
        status = restore_stub(s, &s->guest->recorded[i]);
    return status == CT_ERR_BUSY ? 0 : status;
}

/* ---- hooking ---- */

static int write_wish(struct ct_script *s, uint32_t number, const struct ct_script_hook *want) {
    uint64_t enter = want->flags & CT_SCRIPT_ON_ENTER ? s->shared->on_enter : 0;
    uint64_t leave = want->flags & CT_SCRIPT_ON_LEAVE ? s->shared->on_leave : 0;
    const struct ct_script_guest_hook h = {
        .on_call = want->native_enter ? want->native_enter : enter,
        .on_return = want->native_leave ? want->native_leave : leave,
        .user = want->user,
    };
    return ct_remote_write(s->remote, s->guest->hooks + (uint64_t)number * sizeof h, &h, sizeof h);
}

static int prepare(struct ct_script *s, struct ct_script_hook *want, bool *stop) {
    int status = 0;
    if (want->replacement)
        return ct_script_fail(s, CT_ERR_UNSUPPORTED,
                              "0x%llx cannot be replaced while the process is recorded; a listener can change its "
                              "arguments and its result",
                              (unsigned long long)want->address);
    struct ct_script_recorded *r = hookable(s, want->address, &status);
    if (!r || (status = check_returns(s, r, want)))
        return status;
    want->id = r->number;
    r->wanted = true;
    *stop |= !r->switched;
    return write_wish(s, r->number, want);
}

static int switch_all(struct ct_script *s, struct ct_script_hook *hooks, size_t count) {
    bool was;
    int status = ct_script_stop(s, &was);
    if (status)
        return status;
    ct_remote_limit(s->remote, CT_SCRIPT_STILL_MS, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        struct ct_script_recorded *r = hooks[i].status ? NULL : find(s->guest, hooks[i].address);
        if (r && !r->switched)
            hooks[i].status = switch_stub(s, r);
    }
    ct_remote_limit(s->remote, 0, NULL, NULL);
    ct_script_go_on(s, was);
    return 0;
}

int ct_script_guest_hook(struct ct_script *s, struct ct_script_hook *hooks, size_t count) {
    static const struct ct_script_hook nothing;
    bool stop = false;
    int installed = 0;
    for (size_t i = 0; i < count; i++)
        hooks[i].status = prepare(s, &hooks[i], &stop);
    int status = stop ? switch_all(s, hooks, count) : 0;
    for (size_t i = 0; i < count; i++) {
        struct ct_script_recorded *r = find(s->guest, hooks[i].address);
        bool failed = status || hooks[i].status;
        if (failed && r && hooks[i].status != CT_ERR_ALREADY_HOOKED) {
            r->wanted = false;
            (void)write_wish(s, r->number, &nothing);
        }
        installed += !failed;
    }
    s->hooked_count += (uint64_t)installed;
    return status ? status : installed;
}

int ct_script_guest_change(struct ct_script *s, const struct ct_script_hook *hook) {
    struct ct_script_recorded *r = by_number(s->guest, hook->id);
    if (!r || !r->wanted)
        return ct_script_fail(s, CT_ERR_NOT_FOUND, "there is no such hook");
    int status = check_returns(s, r, hook);
    return status ? status : write_wish(s, r->number, hook);
}

/* Stubs stay switched until we leave, or until there is nothing that we want: then the recording is as fast as
 * before. */
int ct_script_guest_unhook(struct ct_script *s, const uint32_t *ids, size_t count) {
    static const struct ct_script_hook nothing;
    int status = 0;
    bool was;
    for (size_t i = 0; i < count && !status; i++) {
        struct ct_script_recorded *r = by_number(s->guest, ids[i]);
        if (!r || !r->wanted)
            return ct_script_fail(s, CT_ERR_NOT_FOUND, "there is no such hook");
        r->wanted = false;
        s->hooked_count--;
        status = write_wish(s, r->number, &nothing);
    }
    if (status || s->hooked_count || (status = ct_script_stop(s, &was)))
        return status;
    ct_remote_limit(s->remote, CT_SCRIPT_STILL_MS, NULL, NULL);
    status = ct_script_guest_switch_back(s);
    ct_remote_limit(s->remote, 0, NULL, NULL);
    ct_script_go_on(s, was);
    return status;
}
