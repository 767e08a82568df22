/* The way out, second part: with all hooks removed, threads may still be inside stubs, or have a stub's address where a return
 * address belongs. The latter are put right here, from the shadow stacks; the former need to run on for a moment. */
#include "ctl/agent_image.h"
#include "ctl/inject.h"
#include "remote/frames.h"
#include <stdlib.h>
#include <string.h>

/* ---- return addresses ---- */

/* What the shadow stacks know: a return through `slot` to the stub's `resume` is really one to `ret`. */
struct known_return {
    uint64_t slot, resume, ret;
};

struct known_returns {
    struct known_return *at;
    size_t count, capacity;
    bool failed; /* not everything is known, or somebody is in the middle of something: our code must stay */
};

static void add_entries(struct known_returns *known, const struct ct_shadow *e, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (e[i].slot <= CT_SLOT_LAST || e[i].slot == UINT64_MAX)
            continue;
        if (known->count == known->capacity) {
            size_t capacity = known->capacity ? known->capacity * 2 : 256;
            struct known_return *at = realloc(known->at, capacity * sizeof *at);
            if (!at) {
                known->failed = true;
                return;
            }
            known->at = at;
            known->capacity = capacity;
        }
        known->at[known->count++] =
            (struct known_return){(e[i].slot + 7) & ~7ull, e[i].stub + CT_AFTER_TO_RESUME, e[i].ret};
    }
}

static void add_remote(struct known_returns *known, struct ct_remote *remote, uint64_t from, size_t count) {
    struct ct_shadow *entries = malloc(count * sizeof *entries + 1);
    if (!entries || ct_remote_read(remote, from, entries, count * sizeof *entries))
        known->failed = true;
    else
        add_entries(known, entries, count);
    free(entries);
}

static void collect(struct known_returns *known, struct ct_remote *remote, const struct ct_runtime *rt) {
    static struct ct_block block; /* large */
    uint64_t at = (uint64_t)rt->blocks;
    while (at && !known->failed) {
        if (ct_remote_read(remote, at, &block, sizeof block)) {
            known->failed = true;
            return;
        }
        known->failed |= block.in_use && (block.attention & (CT_ATTENTION_GUARD | CT_ATTENTION_SHARED));
        if (block.in_use && block.top > block.base)
            add_remote(known, remote, (uint64_t)block.base, (size_t)(block.top - block.base));
        at = (uint64_t)block.next;
    }
    if (rt->parked_count)
        add_remote(known, remote, (uint64_t)rt->parked, CT_PARKED_CAPACITY);
    known->failed |= rt->parked_count > CT_PARKED_CAPACITY / 4 * 3; /* some may have been evicted */
}

static int by_slot(const void *a, const void *b) {
    const struct known_return *x = a, *y = b;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* A chain of tail calls has one slot and several stubs, each leading to the next. */
static uint64_t real_return(const struct known_return *group, size_t count, uint64_t value) {
    for (size_t steps = 0; steps <= count; steps++) {
        size_t i = 0;
        while (i < count && group[i].resume != value)
            i++;
        if (i == count)
            break;
        value = group[i].ret;
    }
    return value;
}

static void put_right(struct ct_remote *remote, const struct known_returns *known) {
    for (size_t i = 0, n; i < known->count; i += n) {
        uint64_t value, real;
        for (n = 1; i + n < known->count && known->at[i + n].slot == known->at[i].slot;)
            n++;
        if (ct_remote_read(remote, known->at[i].slot, &value, sizeof value))
            continue; /* a coroutine's stack that is no more */
        real = real_return(&known->at[i], n, value);
        if (real != value)
            (void)ct_remote_write(remote, known->at[i].slot, &real, sizeof real);
    }
}

static bool bare_stacks(struct ct_injection *in) {
    struct ct_runtime runtime;
    struct known_returns known = {0};
    if (ct_remote_read(in->remote, in->runtime, &runtime, sizeof runtime))
        return false;
    collect(&known, in->remote, &runtime);
    if (!known.failed && known.count) {
        qsort(known.at, known.count, sizeof *known.at, by_slot);
        put_right(in->remote, &known);
    }
    free(known.at);
    return !known.failed;
}

/* ---- who is inside ---- */

struct inside {
    const struct ct_injection *injection;
    bool found;
};

static bool is_ours(const struct ct_injection *in, uint64_t pc) {
    if (pc >= in->image && pc < in->image + ct_agent_text_size())
        return true;
    for (size_t i = 0; i < in->plan->region_count; i++)
        if (pc >= in->plan->regions[i].address && pc < in->plan->regions[i].address + in->plan->regions[i].size)
            return true;
    return false;
}

static int check_frame(void *arg, struct ct_remote_frame *frame) {
    struct inside *inside = arg;
    inside->found |= is_ours(inside->injection, frame->pc);
    return inside->found;
}

static bool somebody_inside(struct ct_injection *in) {
    struct inside inside = {.injection = in};
    for (size_t i = 0; !inside.found && i < ct_remote_thread_count(in->remote); i++) {
        struct ct_os_regs regs;
        if (ct_remote_get_regs(in->remote, i, &regs))
            continue;
        inside.found = is_ours(in, regs.pc);
        if (!inside.found)
            (void)ct_remote_each_frame(in->remote, regs.sp, check_frame, &inside);
    }
    return inside.found;
}

/* Return addresses are put right only when nobody is inside a stub: who is has yet to read, or to write, one. Afterwards nobody
 * comes back: whoever would has an entry on a shadow stack. */
bool ct_eject_settle(struct ct_injection *in) {
    return !somebody_inside(in) && bare_stacks(in);
}
