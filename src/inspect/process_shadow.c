/* SPDX-License-Identifier: Apache-2.0 */
/* Shadow stacks of a recorded process, read from outside. Return addresses on its stacks lead to stubs; the real ones
 * are here (hook/runtime.h). Everything is read from another process, which may only look like a recorded one. So
 * everything is checked, and the work is limited. */
#include "inspect/process.h"
#include "hook/runtime.h"

enum { MAX_SEARCHED = 1 << 16, MAX_BLOCKS = 8192 };

static bool read_entry(struct ct_walk *w, uint64_t at, struct ct_walk_entry *out) {
    struct ct_shadow e;
    if (ct_walk_read(w, at, &e, sizeof e))
        return false;
    *out = (struct ct_walk_entry){e.slot, e.ret, e.stub};
    if (e.slot <= CT_SLOT_LAST)
        out->slot = 0;
    else if ((e.slot & 7) == (CT_SLOT_ENTERING & 7))
        out->slot = e.slot - (uint64_t)(int64_t)CT_SLOT_ENTERING;
    else if ((e.slot & 7) == (CT_SLOT_RETURNING & 7))
        out->slot = e.slot - (uint64_t)(int64_t)CT_SLOT_RETURNING;
    return true;
}

/* False: there is no shadow stack at this address. *base is its sentinel. */
static bool read_bounds(struct ct_walk *w, uint64_t block, uint64_t *base, uint64_t *top) {
    uint64_t self, limit;
    return ct_walk_word(w, block + CT_BLOCK_SELF, &self) && self == block &&
           ct_walk_word(w, block + CT_BLOCK_TOP, top) && ct_walk_word(w, block + CT_BLOCK_BASE, base) &&
           ct_walk_word(w, block + CT_BLOCK_LIMIT, &limit) && *base && *base < *top && *top <= limit &&
           (*top - *base) % CT_SHADOW_SIZE == 0;
}

void ct_walk_shadow_open(struct ct_walk *w, uint64_t block) {
    w->block = 0;
    if (block && !(block & 7) && read_bounds(w, block, &w->base, &w->cursor))
        w->block = block;
}

/* In a chain of tail calls each frame returns to the stub of the one before it. */
static uint64_t end_of_chain(struct ct_walk *w, uint64_t at, uint64_t base, struct ct_walk_entry e) {
    struct ct_walk_entry before;
    while (at - CT_SHADOW_SIZE > base && read_entry(w, at - CT_SHADOW_SIZE, &before) && before.slot == e.slot &&
           e.ret == before.stub + CT_AFTER_TO_RESUME) {
        at -= CT_SHADOW_SIZE;
        e = before;
    }
    w->cursor = at >= w->base && at < w->cursor ? at : w->cursor;
    return e.ret;
}

/* Searches from the innermost entry outward. */
static bool search_stack(struct ct_walk *w, uint64_t base, uint64_t top, uint64_t slot, uint64_t word, uint64_t *ret) {
    struct ct_walk_entry e;
    unsigned searched = 0;
    for (uint64_t at = top - CT_SHADOW_SIZE; at > base && searched < MAX_SEARCHED; at -= CT_SHADOW_SIZE, searched++) {
        if (!read_entry(w, at, &e))
            return false;
        if (e.slot == slot && e.stub + CT_AFTER_TO_RESUME == word) {
            *ret = end_of_chain(w, at, base, e);
            return true;
        }
    }
    return false;
}

/* Searches the blocks of other threads: a coroutine may have been called on one. */
static bool search_others(struct ct_walk *w, uint64_t slot, uint64_t word, uint64_t *ret) {
    uint64_t runtime, block, base, top;
    if (!ct_walk_word(w, w->block + offsetof(struct ct_block, runtime), &runtime) ||
        !ct_walk_word(w, runtime + offsetof(struct ct_runtime, blocks), &block))
        return false;
    for (unsigned i = 0; block && i < MAX_BLOCKS; i++) {
        if (!read_bounds(w, block, &base, &top))
            return false;
        if (search_stack(w, base, top, slot, word, ret))
            return true;
        if (!ct_walk_word(w, block + CT_BLOCK_NEXT, &block))
            return false;
    }
    return false;
}

/* The slow path of a return has already removed the entry and holds a copy in its frame, which lies below the slot. */
static bool search_frame(struct ct_walk *w, uint64_t slot, uint64_t word, uint64_t *ret) {
    enum { MAX_FRAME = 16 << 10 };
    struct ct_shadow e;
    for (uint64_t at = slot - sizeof e; slot - at < MAX_FRAME; at -= 8) {
        if (ct_walk_read(w, at, &e, sizeof e))
            return false;
        if (e.slot == slot && e.stub + CT_AFTER_TO_RESUME == word) {
            *ret = e.ret;
            return true;
        }
    }
    return false;
}

uint64_t ct_walk_shadow_return(struct ct_walk *w, uint64_t slot, uint64_t word) {
    const struct ct_process_code *code = ct_process_code_at(w->process, word);
    uint64_t ret;
    if (!w->block || !code || !code->anonymous)
        return word;
    if (search_stack(w, w->base, w->cursor, slot, word, &ret) || search_others(w, slot, word, &ret))
        return ret;
    /* An entry that was removed counts only if no entry continues its chain. */
    if (search_frame(w, slot, word, &ret) && !search_stack(w, w->base, w->cursor, slot, ret, &word))
        return ret;
    return word;
}

bool ct_walk_shadow_innermost(struct ct_walk *w, uint64_t sp, struct ct_walk_entry *out) {
    if (!w->block)
        return false;
    for (uint64_t at = w->cursor - CT_SHADOW_SIZE; at > w->base; at -= CT_SHADOW_SIZE)
        if (!read_entry(w, at, out))
            return false;
        else if (out->slot && out->slot >= sp)
            return true;
    return false;
}

uint64_t ct_walk_shadow_function(struct ct_walk *w, uint64_t stub) {
    uint64_t runtime, hooks, function;
    uint32_t number;
    if (!w->block || ct_walk_read(w, stub + CT_AFTER_TO_NUMBER, &number, sizeof number) ||
        !ct_walk_word(w, w->block + offsetof(struct ct_block, runtime), &runtime) ||
        !ct_walk_word(w, runtime + offsetof(struct ct_runtime, hooks), &hooks) ||
        !ct_walk_word(w, hooks + number * sizeof(struct ct_hook_entry) + offsetof(struct ct_hook_entry, function),
                      &function))
        return 0;
    return ct_process_code_at(w->process, function) ? function : 0;
}
