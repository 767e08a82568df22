/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a replay that wait to be shown. */
#include "report/replay_lines.h"
#include <stdlib.h>

enum { BLOCK = 256 };

/* ---- objects: their blocks stay until the end, so that a stale `parent` can still be read ---- */

static bool add_block(struct ct_replay_lines *l) {
    struct ct_replay_call **grown = realloc(l->blocks, (l->block_count + 1) * sizeof *grown);
    if (!grown)
        return false;
    l->blocks = grown;
    struct ct_replay_call *block = calloc(BLOCK, sizeof *block);
    if (!block)
        return false;
    l->blocks[l->block_count++] = block;
    for (size_t i = 0; i < BLOCK; i++) {
        block[i].next = l->free;
        l->free = &block[i];
    }
    return true;
}

struct ct_replay_call *ct_replay_new(struct ct_replay_lines *l) {
    if (!l->free && !add_block(l)) {
        l->stopped = CT_ERR_NO_MEMORY;
        return NULL;
    }
    struct ct_replay_call *call = l->free;
    l->free = call->next;
    *call = (struct ct_replay_call){.serial = ++l->serial};
    return call;
}

void ct_replay_discard(struct ct_replay_lines *l, struct ct_replay_call *call) {
    call->serial = 0;
    free(call->callers);
    call->callers = NULL;
    call->next = l->free;
    l->free = call;
}

/* ---- the list ---- */

void ct_replay_append(struct ct_replay_lines *l, struct ct_replay_call *call) {
    call->next = NULL;
    call->previous = l->last;
    if (l->last)
        l->last->next = call;
    else
        l->first = call;
    l->last = call;
    if (!l->undecided)
        l->undecided = call;
    call->waiting = true;
    l->waiting++;
}

static void take_out(struct ct_replay_lines *l, struct ct_replay_call *call) {
    if (l->undecided == call)
        l->undecided = call->next;
    if (call->previous)
        call->previous->next = call->next;
    else
        l->first = call->next;
    if (call->next)
        call->next->previous = call->previous;
    else
        l->last = call->previous;
    call->waiting = false;
    l->waiting--;
    if (!call->open)
        ct_replay_discard(l, call);
}

void ct_replay_drop(struct ct_replay_lines *l, struct ct_replay_call *call) {
    take_out(l, call);
}

void ct_replay_keep(struct ct_replay_call *call) {
    for (;;) {
        call->kept = true;
        struct ct_replay_call *parent = call->parent;
        if (!parent || parent->serial != call->parent_serial || parent->has_children)
            return;
        parent->has_children = true;
        call = parent;
    }
}

/* ---- showing ---- */

static void show_first(struct ct_replay_lines *l) {
    struct ct_replay_call *call = l->first;
    if (call->is_call)
        call->line.kind = call->ended ? CT_REPLAY_LEAF : CT_REPLAY_OPEN;
    if (!l->stopped)
        l->stopped = l->show(l->arg, &call->line);
    take_out(l, call);
}

/* Keeps calls that have lasted long enough by now. Their callers are older, so they come first. */
static void keep_long_calls(struct ct_replay_lines *l, uint64_t now_ns) {
    for (; l->undecided; l->undecided = l->undecided->next) {
        struct ct_replay_call *call = l->undecided;
        if (!call->is_call || call->kept)
            continue;
        if (now_ns - call->line.time_ns < l->options->min_ns)
            return;
        ct_replay_keep(call);
    }
}

static bool may_show(const struct ct_replay_lines *l, const struct ct_replay_call *call) {
    return !call->is_call || call->ended || call->has_children || (call->kept && l->waiting > l->window);
}

void ct_replay_advance(struct ct_replay_lines *l, uint64_t now_ns) {
    keep_long_calls(l, now_ns);
    while (l->first && may_show(l, l->first) && !l->stopped)
        show_first(l);
}

void ct_replay_flush(struct ct_replay_lines *l) {
    while (l->first && !l->stopped)
        show_first(l);
}

void ct_replay_lines_free(struct ct_replay_lines *l) {
    for (size_t i = 0; i < l->block_count; i++) {
        for (size_t k = 0; k < BLOCK; k++)
            free(l->blocks[i][k].callers);
        free(l->blocks[i]);
    }
    free(l->blocks);
}
