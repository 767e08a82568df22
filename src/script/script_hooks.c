/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of scripts. Stubs are there from the start (script_enter.c), so a hook is: its entry in the agent's table, the
 * first word of its stub, and its bytes in the function, which are written under one stop for many hooks.
 *
 * Short functions have a springboard in the bytes of another one, their host, which must be patched first. A host that
 * no script wants has a stub that goes straight to the function. Owner: the holder of `work`. */
#include "base/grow.h"
#include "hook/runtime.h"
#include "inject/rehook.h"
#include "script/script_guest.h"
#include <contrail/status.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CHANGE_NS 2000000000ull /* of one stop */

/* ---- which hook ---- */

/* Number of the hook of the function at this address, or -1. Libraries that were loaded last come first: their
 * addresses may have been others' before. */
static int64_t find_number(const struct ct_script *s, uint64_t address) {
    for (size_t p = s->plan_count; p-- > 0;) {
        const struct ct_script_plan *plan = &s->plans[p];
        const struct ct_target_hook *h = ct_target_plan_hook(plan->plan, address);
        if (h)
            return plan->first_hook + (h - plan->plan->hooks);
    }
    return -1;
}

static const struct ct_target_function *find_function(const struct ct_script *s, uint64_t address) {
    for (size_t p = s->plan_count; p-- > 0;)
        for (size_t i = 0; i < s->plans[p].plan->module_count; i++) {
            const struct ct_target_module *m = &s->plans[p].plan->modules[i];
            for (size_t k = 0; address >= m->start && address < m->end && k < m->function_count; k++)
                if (m->bias + m->functions[k].offset == address)
                    return &m->functions[k];
        }
    return NULL;
}

static int64_t number_of(struct ct_script *s, uint64_t address) {
    int64_t number = find_number(s, address);
    if (number < 0 && !find_function(s, address) && !ct_script_update(s))
        number = find_number(s, address);
    return number;
}

static int explain_none(struct ct_script *s, uint64_t address) {
    const struct ct_target_function *f = find_function(s, address);
    if (!f)
        return ct_script_fail(s, CT_ERR_NOT_FUNCTION, "0x%llx is not the beginning of a function that is known",
                              (unsigned long long)address);
    return ct_script_fail(s, CT_ERR_HOOK_FAILED, "%s at 0x%llx cannot be hooked: %s",
                          f->name[0] ? f->name : "the function", (unsigned long long)address,
                          f->skip ? ct_hook_skip_text(f->skip) : "Contrail itself watches it");
}

int ct_script_no_room(struct ct_script *s, uint64_t address) {
    return ct_script_fail(s, CT_ERR_HOOK_FAILED,
                          "0x%llx cannot be hooked: Go's stacks have no room for what is saved there; Stalker works",
                          (unsigned long long)address);
}

/* Some functions look at their return address, return twice or not at all: their returns are not seen. */
static int check_returns(struct ct_script *s, const struct ct_target_hook *h, const struct ct_script_hook *want) {
    if (h->entry_only == CT_HOOK_ENTRY_ONLY_NONE || (!(want->flags & CT_SCRIPT_ON_LEAVE) && !want->native_leave))
        return 0;
    return ct_script_fail(s, CT_ERR_UNSUPPORTED,
                          "returns of the function at 0x%llx cannot be seen, onLeave would never be called: it %s",
                          (unsigned long long)want->address, ct_hook_entry_only_text(h->entry_only));
}

static int check_hook(struct ct_script *s, const struct ct_script_hook *want, uint32_t *number) {
    int64_t found = number_of(s, want->address);
    if (found < 0)
        return explain_none(s, want->address);
    const struct ct_script_hooked *h = &s->hooked[found];
    *number = (uint32_t)found;
    if (h->hook->special || h->hook->service || h->hook->action != CT_ACTION_LISTEN)
        return ct_script_fail(s, CT_ERR_HOOK_FAILED, "0x%llx cannot be hooked: Contrail itself watches this function",
                              (unsigned long long)want->address);
    if (ct_script_has_small_stacks(s, want->address))
        return ct_script_no_room(s, want->address);
    if (!ct_rehook_is_possible(h->hook))
        return ct_script_fail(s, CT_ERR_HOOK_FAILED,
                              "0x%llx cannot be hooked: its first bytes are in two pages, and could be half changed",
                              (unsigned long long)want->address);
    if (h->wanted)
        return ct_script_fail(s, CT_ERR_ALREADY_HOOKED, "0x%llx is hooked already", (unsigned long long)want->address);
    return check_returns(s, h->hook, want);
}

/* ---- entries ---- */

static int write_entry(struct ct_script *s, uint32_t number, const struct ct_script_hook *want) {
    const struct ct_target_hook *h = s->hooked[number].hook;
    struct ct_hook_entry e = {
        .user = (void *)(uintptr_t)want->user,
        .function = h->plan.function,
        .flavor = CT_ACTION_LISTEN,
        .entry_only = h->entry_only != CT_HOOK_ENTRY_ONLY_NONE,
        .signs = h->plan.signs,
    };
    uint64_t enter = want->native_enter                 ? want->native_enter
                     : want->flags & CT_SCRIPT_ON_ENTER ? s->shared->on_enter
                                                        : 0;
    uint64_t leave = want->native_leave                 ? want->native_leave
                     : want->flags & CT_SCRIPT_ON_LEAVE ? s->shared->on_leave
                                                        : 0;
    /* The number of a call begins with its entry. */
    if (!enter && leave == s->shared->on_leave)
        enter = 0;
    memcpy(&e.listener.on_call, &enter, sizeof enter);
    memcpy(&e.listener.on_return, &leave, sizeof leave);
    if (want->replacement) {
        e.flavor = CT_ACTION_DIVERT;
        e.user = (void *)(uintptr_t)want->replacement;
    }
    return ct_remote_write(s->remote, s->hook_table + (uint64_t)number * sizeof e, &e, sizeof e);
}

/* A stub that nobody wants goes straight to the function. */
static int write_word(struct ct_script *s, uint32_t number) {
    const struct ct_script_hooked *h = &s->hooked[number];
    uint64_t word = h->wanted ? h->hook->plan.word_on : h->hook->plan.word_off;
    return ct_remote_write(s->remote, h->hook->plan.stub, &word, sizeof word);
}

/* ---- a change of several hooks ---- */

struct change {
    uint32_t *numbers;
    const struct ct_target_hook **hooks, **hosts;
    bool *done;
    size_t count, room;
};

static int begin_change(struct change *c, size_t most) {
    *c = (struct change){.room = most};
    c->numbers = calloc(most + 1, sizeof *c->numbers);
    c->hooks = calloc(most + 1, sizeof(struct ct_target_hook *));
    c->hosts = calloc(most + 1, sizeof(struct ct_target_hook *));
    c->done = calloc(most + 1, sizeof *c->done);
    return c->numbers && c->hooks && c->hosts && c->done ? 0 : CT_ERR_NO_MEMORY;
}

static void end_change(struct change *c) {
    free(c->numbers);
    free(c->hooks);
    free(c->hosts);
    free(c->done);
}

static struct ct_script_hooked *host_of(struct ct_script *s, const struct ct_target_hook *h) {
    int64_t number = h->plan.host ? find_number(s, h->plan.host) : -1;
    return number < 0 ? NULL : &s->hooked[number];
}

static void add(struct ct_script *s, struct change *c, uint32_t number) {
    for (size_t i = 0; i < c->count; i++)
        if (c->numbers[i] == number)
            return;
    struct ct_script_hooked *host = host_of(s, s->hooked[number].hook);
    c->numbers[c->count] = number;
    c->hooks[c->count] = s->hooked[number].hook;
    c->hosts[c->count++] = host ? host->hook : NULL;
}

static int apply(struct ct_script *s, const struct change *c, bool back) {
    const struct ct_rehook r = {s->remote, c->hooks, c->hosts, c->count, ct_clock_now() + CHANGE_NS, c->done};
    bool was;
    if (!c->count)
        return 0;
    int status = ct_script_stop(s, &was);
    if (status)
        return status;
    ct_remote_limit(s->remote, CT_SCRIPT_STILL_MS, NULL, NULL);
    status = back ? ct_rehook_put_back(&r) : ct_rehook_take_out(&r);
    for (size_t i = 0; i < c->count; i++)
        if (c->done[i])
            (void)ct_script_code_changed(s, c->hooks[i]->plan.function);
    ct_remote_limit(s->remote, 0, NULL, NULL);
    ct_script_go_on(s, was);
    for (size_t i = 0; i < c->count; i++) {
        struct ct_script_hooked *h = &s->hooked[c->numbers[i]], *host = host_of(s, h->hook);
        if (!c->done[i] || h->in_place == back)
            continue;
        h->in_place = back;
        if (host)
            host->guests += back ? 1 : (uint32_t)-1;
    }
    return status;
}

/* ---- hooking ---- */

static int prepare(struct ct_script *s, struct ct_script_hook *want) {
    int status = check_hook(s, want, &want->id);
    if (!status)
        status = write_entry(s, want->id, want);
    if (status)
        return status;
    want->original = s->hooked[want->id].hook->plan.body;
    s->hooked[want->id].wanted = true;
    return write_word(s, want->id);
}

static void collect(struct ct_script *s, struct change *c, const struct ct_script_hook *hooks, size_t count,
                    bool hosts) {
    for (size_t i = 0; i < count; i++) {
        const struct ct_script_hooked *h = hooks[i].status ? NULL : &s->hooked[hooks[i].id];
        struct ct_script_hooked *host = h ? host_of(s, h->hook) : NULL;
        if (hosts && host && !host->in_place) {
            if (!host->wanted)
                (void)write_word(s, (uint32_t)(host - s->hooked));
            add(s, c, (uint32_t)(host - s->hooked));
        }
        if (!hosts && h && !h->in_place && c->count < c->room)
            c->numbers[c->count] = hooks[i].id, c->hooks[c->count] = h->hook,
            c->hosts[c->count++] = host ? host->hook : NULL;
    }
}

static int hook_all(struct ct_script *s, struct ct_script_hook *hooks, size_t count) {
    struct change c;
    if (s->guest)
        return ct_script_guest_hook(s, hooks, count);
    int installed = 0, status = begin_change(&c, 2 * count);
    for (size_t i = 0; !status && i < count; i++)
        hooks[i].status = prepare(s, &hooks[i]);
    if (!status) {
        collect(s, &c, hooks, count, true);
        size_t hosts = c.count;
        if (hosts)
            status = apply(s, &c, true);
        c.count = 0;
    }
    if (!status) {
        collect(s, &c, hooks, count, false);
        status = apply(s, &c, true);
    }
    for (size_t i = 0; i < count; i++) {
        struct ct_script_hooked *h = hooks[i].status ? NULL : &s->hooked[hooks[i].id];
        if (h && !h->in_place) {
            h->wanted = false;
            hooks[i].status = ct_script_fail(s, CT_ERR_HOOK_FAILED,
                                             "0x%llx cannot be hooked: the code there is not what its file has",
                                             (unsigned long long)hooks[i].address);
        }
        installed += !hooks[i].status;
    }
    s->hooked_count += (uint64_t)installed;
    end_change(&c);
    return status ? status : installed;
}

int ct_script_hook(struct ct_script *s, struct ct_script_hook *hooks, size_t count) {
    pthread_mutex_lock(&s->work);
    int status =
        ct_script_is_gone(s) ? ct_script_fail(s, CT_ERR_NOT_FOUND, "the process has ended") : hook_all(s, hooks, count);
    pthread_mutex_unlock(&s->work);
    return status;
}

int ct_script_check_hook(struct ct_script *s, uint64_t address, uint32_t flags) {
    const struct ct_script_hook want = {.address = address, .flags = flags};
    uint32_t number;
    pthread_mutex_lock(&s->work);
    int status = ct_script_is_gone(s) ? ct_script_fail(s, CT_ERR_NOT_FOUND, "the process has ended")
                 : s->guest           ? ct_script_guest_check(s, &want)
                                      : check_hook(s, &want, &number);
    pthread_mutex_unlock(&s->work);
    return status;
}

int ct_script_change(struct ct_script *s, const struct ct_script_hook *hook) {
    pthread_mutex_lock(&s->work);
    bool known = hook->id < s->hooked_room && s->hooked[hook->id].wanted;
    int status = s->guest ? ct_script_guest_change(s, hook)
                 : known  ? check_returns(s, s->hooked[hook->id].hook, hook)
                          : ct_script_fail(s, CT_ERR_NOT_FOUND, "there is no such hook");
    if (known && !s->guest && !status)
        status = write_entry(s, hook->id, hook);
    pthread_mutex_unlock(&s->work);
    return status;
}

/* ---- unhooking ---- */

static void collect_unwanted(struct ct_script *s, struct change *c, const uint32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct ct_script_hooked *h = &s->hooked[ids[i]];
        if (!h->wanted && h->in_place && !h->guests)
            add(s, c, ids[i]);
    }
}

static void collect_hosts(struct ct_script *s, struct change *c, const uint32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct ct_script_hooked *host = host_of(s, s->hooked[ids[i]].hook);
        if (host && !host->wanted && host->in_place && !host->guests)
            add(s, c, (uint32_t)(host - s->hooked));
    }
}

static int unhook_all(struct ct_script *s, const uint32_t *ids, size_t count) {
    static const struct ct_script_hook nothing;
    struct change c;
    int status = 0;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= s->hooked_room || !s->hooked[ids[i]].wanted)
            return ct_script_fail(s, CT_ERR_NOT_FOUND, "there is no such hook");
        s->hooked[ids[i]].wanted = false;
        s->hooked_count--;
        (void)write_word(s, ids[i]);
        status = write_entry(s, ids[i], &nothing);
    }
    if (begin_change(&c, count))
        status = CT_ERR_NO_MEMORY;
    else {
        collect_unwanted(s, &c, ids, count);
        status = apply(s, &c, false);
        c.count = 0;
        collect_unwanted(s, &c, ids, count); /* hosts whose guests were among them */
        if (!status && c.count < count)
            collect_hosts(s, &c, ids, count);
        if (!status)
            status = apply(s, &c, false);
        end_change(&c);
    }
    return status;
}

int ct_script_unhook(struct ct_script *s, const uint32_t *ids, size_t count) {
    pthread_mutex_lock(&s->work);
    int status = ct_script_is_gone(s) ? 0
                 : s->guest           ? ct_script_guest_unhook(s, ids, count)
                                      : unhook_all(s, ids, count);
    pthread_mutex_unlock(&s->work);
    return status;
}
