/* SPDX-License-Identifier: Apache-2.0 */
/* See rehook.h. */
#include "inject/rehook.h"
#include "drain/clock.h"
#include "inject/stopped.h"

bool ct_rehook_is_possible(const struct ct_target_hook *h) {
    for (unsigned i = 0; i < h->plan.patch_count; i++) {
        const struct ct_patch *p = &h->plan.patches[i];
        if (p->at / CT_PAGE != (p->at + p->size - 1) / CT_PAGE)
            return false;
    }
    return h->plan.patch_count && !h->service && !h->special;
}

/* ---- threads that are in bytes which change ---- */

/* A thread on a springboard, or on the second of two jumps, goes where the jump would have led. */
static uint64_t leaves_patch(const struct ct_target_hook *h, uint64_t pc) {
    for (unsigned i = 0; i < h->plan.patch_count; i++) {
        const struct ct_patch *p = &h->plan.patches[i];
        if (p->forward && pc == p->at)
            return p->forward;
        if (p->size == CT_TWO_JUMPS && p->at == h->plan.place && pc == p->at + CT_TWO_JUMPS / 2)
            return h->plan.body;
    }
    return 0;
}

static uint64_t forwarded(const void *arg, uint64_t pc, bool in_call) {
    const struct ct_rehook *c = arg;
    uint64_t to = 0;
    (void)in_call;
    for (size_t i = 0; i < c->count && !to; i++)
        to = c->done[i] ? leaves_patch(c->hooks[i], pc) : 0;
    return to;
}

static uint64_t moved(const void *arg, uint64_t pc, bool in_call) {
    const struct ct_rehook *c = arg;
    uint64_t to = 0;
    for (size_t i = 0; i < c->count && !to; i++)
        to = c->done[i] ? ct_plan_moved(&c->hooks[i]->plan, pc, in_call) : 0;
    return to;
}

/* ---- bytes ---- */

static bool holds(struct ct_page_writer *w, const struct ct_plan *plan, bool ours) {
    for (unsigned i = 0; i < plan->patch_count; i++) {
        const struct ct_patch *p = &plan->patches[i];
        if (!ct_page_writer_holds(w, p->at, ours ? p->bytes : p->original, p->size))
            return false;
    }
    return true;
}

/* From the last to the first when they are taken out: each goes before what it leads to. */
static int write_hook(struct ct_page_writer *w, const struct ct_plan *plan, bool back) {
    int status = 0;
    for (unsigned i = 0; i < plan->patch_count && !status; i++) {
        const struct ct_patch *p = &plan->patches[back ? i : plan->patch_count - 1 - i];
        status = ct_page_writer_put(w, p->at, back ? p->bytes : p->original, p->size);
    }
    return status;
}

/* Is the host of its springboard patched? If it is not, the springboard would be in code that runs. */
static bool has_host(struct ct_page_writer *w, const struct ct_rehook *c, size_t i) {
    const struct ct_target_hook *host = c->hosts[i];
    return !host || holds(w, &host->plan, true);
}

/* Guests of the recording listen to this function: its stub begins with neither of the words that we know
 * (script/script_guest_hooks.c). */
static bool is_listened_to(const struct ct_rehook *c, const struct ct_plan *plan) {
    uint64_t word;
    return !ct_remote_read(c->remote, plan->stub, &word, sizeof word) && word != plan->word_on &&
           word != plan->word_off;
}

/* done[i]: its bytes are as before the change. If they are not, another module may be there, whose code is not ours to
 * move threads in. */
static void find_ready(const struct ct_rehook *c, bool back) {
    struct ct_page_writer w = ct_stopped_writer(c->remote);
    for (size_t i = 0; i < c->count; i++)
        c->done[i] = ct_clock_now() < c->until_ns && ct_rehook_is_possible(c->hooks[i]) &&
                     holds(&w, &c->hooks[i]->plan, !back) && (back || !is_listened_to(c, &c->hooks[i]->plan));
}

static int change(const struct ct_rehook *c, bool back) {
    struct ct_page_writer w = ct_stopped_writer(c->remote);
    int status = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct ct_plan *plan = &c->hooks[i]->plan;
        bool ready = c->done[i];
        c->done[i] = false;
        if (status || ct_clock_now() >= c->until_ns)
            continue;
        if (!ready) { /* an earlier change that was cut short, perhaps */
            c->done[i] = ct_rehook_is_possible(c->hooks[i]) && holds(&w, plan, back);
            continue;
        }
        if (back && !has_host(&w, c, i))
            continue;
        status = write_hook(&w, plan, back);
        c->done[i] = !status;
    }
    int last = ct_page_writer_flush(&w);
    return status ? status : last;
}

int ct_rehook_take_out(const struct ct_rehook *c) {
    find_ready(c, false);
    int status = ct_stopped_move_threads(c->remote, forwarded, c);
    return status ? status : change(c, false);
}

int ct_rehook_put_back(const struct ct_rehook *c) {
    find_ready(c, true);
    int status = ct_stopped_move_threads(c->remote, moved, c);
    return status ? status : change(c, true);
}
