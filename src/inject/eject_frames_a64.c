/* SPDX-License-Identifier: Apache-2.0 */
/* Restores real return addresses on stacks, on arm64. See eject_internal.h.
 *
 * A function that has begun has its return address in a register, or where its prologue has put it, perhaps signed. So
 * registers are looked at, and stacks are searched: for each frame from the next deeper one, or from where a thread's
 * stack pointer is, up to the frame's slot. An address belongs to the nearest frame above it that may return to it. In
 * memory that is dead a real address does no harm, so whether it is still needed is not asked. */
#include "inject/eject_internal.h"
#include "base/grow.h"
#include "hook/runtime.h"
#include "remote/frames.h"
#include "remote/sign_a64.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

#define PIECE     (64u << 10)  /* what is read at once */
#define OWN_STACK (64u << 20)  /* a frame may be this large */
#define NO_DEEPER (256u << 10) /* of a stack on which no thread runs the stack pointer is not known */

enum { GENERAL = 31, SP = 31 };
#define NO_THREAD SIZE_MAX

struct range {
    uint64_t start, end;
};

struct stack { /* of a thread */
    uint64_t sp;
    size_t thread;
};

struct search {
    struct ct_remote *remote;
    const struct ct_eject_return *at; /* by slot */
    size_t count;
    const struct ct_eject_return **by_resume; /* then by slot */
    uint64_t hooks;
    struct range *maps; /* that can be written to, by address */
    size_t map_count, map_room;
    struct stack *stacks; /* by address */
    size_t stack_count;
    size_t thread; /* whose stack or registers are looked at; NO_THREAD: not known */
    uint64_t *piece;
};

/* ---- one address ---- */

/* The nearest frame at or above `from` that returns to `resume`. NULL: none. */
static const struct ct_eject_return *find_frame(const struct search *s, uint64_t resume, uint64_t from) {
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ct_eject_return *r = s->by_resume[middle];
        if (r->resume < resume || (r->resume == resume && r->slot < from))
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->count && s->by_resume[low]->resume == resume ? s->by_resume[low] : NULL;
}

static struct ct_eject_group group_of(const struct search *s, uint64_t slot) {
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->at[middle].slot < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return ct_eject_group_at(s->at, s->count, low);
}

static enum ct_signs signs_of(const struct search *s, uint64_t resume) {
    struct ct_hook_entry hook;
    uint32_t number;
    if (ct_remote_read(s->remote, resume - CT_STUB_RESUME + CT_STUB_NUMBER, &number, sizeof number) ||
        number == CT_HOOK_NONE || ct_remote_read(s->remote, s->hooks + number * sizeof hook, &hook, sizeof hook))
        return CT_SIGNS_NONE;
    return hook.signs == CT_SIGNS_A || hook.signs == CT_SIGNS_B ? hook.signs : CT_SIGNS_NONE;
}

/* Signs as the thread does whose stack or registers these are. */
static int sign_there(const struct search *s, enum ct_signs signs, uint64_t address, uint64_t sp, uint64_t *result) {
    return s->thread == NO_THREAD ? ct_remote_sign(s->remote, signs == CT_SIGNS_B, address, sp, result)
                                  : ct_remote_sign_by(s->remote, s->thread, signs == CT_SIGNS_B, address, sp, result);
}

/* What the frame's function would have in the place of `value`: signed if that is. */
static int sign_alike(const struct search *s, const struct ct_eject_return *frame, uint64_t real, uint64_t *value) {
    enum ct_signs signs = signs_of(s, frame->resume);
    uint64_t ours = frame->resume, sp = frame->slot + 8;
    int status = 0;
    if (signs)
        status = sign_there(s, signs, frame->resume, sp, &ours);
    if (!status && signs && *value == ours)
        return sign_there(s, signs, real, sp, value);
    if (!status && *value == frame->resume)
        *value = real;
    return status;
}

/* Replaces an address of a stub; leaves everything else. `from`: where it was found. */
static int make_real(const struct search *s, uint64_t from, uint64_t *value) {
    uint64_t real, resume = ct_frame_plain(*value);
    if (resume < s->by_resume[0]->resume || resume > s->by_resume[s->count - 1]->resume)
        return 0;
    const struct ct_eject_return *frame = find_frame(s, resume, from);
    if (!frame)
        return ct_remote_is_over(s->remote) ? CT_ERR_TIMEOUT : 0;
    struct ct_eject_group group = group_of(s, frame->slot);
    int status = ct_eject_real_return(s->remote, &group, resume, &real);
    return status ? status : sign_alike(s, frame, real, value);
}

/* ---- stacks ---- */

static int search_piece(const struct search *s, uint64_t at, size_t words) {
    int status = 0;
    if (ct_remote_read(s->remote, at, s->piece, words * 8)) /* it is gone, or nothing may be read there */
        return ct_remote_is_over(s->remote) ? CT_ERR_TIMEOUT : 0;
    for (size_t i = 0; !status && i < words; i++) {
        uint64_t value = s->piece[i];
        status = make_real(s, at + i * 8, &value);
        if (!status && value != s->piece[i])
            (void)ct_remote_write(s->remote, at + i * 8, &value, sizeof value);
    }
    return status;
}

static int search_range(const struct search *s, uint64_t from, uint64_t to) {
    int status = 0;
    for (uint64_t at = (from + 7) & ~7ull, size; !status && at + 8 <= to; at += size) {
        uint64_t end = (at / PIECE + 1) * PIECE;
        size = (end < to ? end : to) - at;
        status = search_piece(s, at, size / 8);
        size = (size + 7) & ~7ull;
    }
    return status;
}

static const struct range *map_of(const struct search *s, uint64_t address) {
    for (size_t low = 0, high = s->map_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (address < s->maps[middle].start)
            high = middle;
        else if (address >= s->maps[middle].end)
            low = middle + 1;
        else
            return &s->maps[middle];
    }
    return NULL;
}

/* The thread with the highest stack pointer up to `slot`. */
static struct stack stack_below(const struct search *s, uint64_t slot) {
    size_t low = 0, high = s->stack_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->stacks[middle].sp <= slot + 8)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? s->stacks[low - 1] : (struct stack){0, NO_THREAD};
}

/* `before`: where the next lower frame, of whichever stack, ends. */
static int search_frame(struct search *s, uint64_t slot, uint64_t before) {
    const struct range *map = map_of(s, slot);
    struct stack stack = stack_below(s, slot);
    uint64_t low = before > stack.sp ? before : stack.sp, reach = OWN_STACK;
    if (!map)
        return 0; /* a coroutine's stack that is gone */
    s->thread = stack.sp < map->start ? NO_THREAD : stack.thread;
    if (low < map->start) {
        low = map->start;
        reach = NO_DEEPER;
    }
    return search_range(s, slot + 8 - low > reach ? slot + 8 - reach : low, slot + 8);
}

static int search_stacks(struct search *s) {
    uint64_t before = 0;
    int status = 0;
    for (size_t i = 0; !status && i < s->count;
         before = s->at[i].slot + 8, i += ct_eject_group_at(s->at, s->count, i).count)
        status = search_frame(s, s->at[i].slot, before);
    return status;
}

/* ---- registers ---- */

/* General registers and the stack pointer. */
static int make_all_real(const struct search *s, uint64_t words[GENERAL + 1]) {
    int status = 0;
    for (unsigned n = 0; !status && n < GENERAL; n++)
        status = make_real(s, words[SP] - 8, &words[n]);
    return status;
}

/* What a signal handler has interrupted. The frame may be one that is over: its stack pointer limits no search. */
static int look_at_frame(void *arg, struct ct_remote_frame *frame) {
    const struct search *s = arg;
    uint64_t at = frame->sp_at - GENERAL * 8, was[GENERAL + 1], words[GENERAL + 1];
    if (ct_remote_read(s->remote, at, was, sizeof was))
        return ct_remote_is_over(s->remote) ? CT_ERR_TIMEOUT : 0;
    memcpy(words, was, sizeof words);
    int status = make_all_real(s, words);
    if (!status && memcmp(was, words, sizeof was) != 0)
        status = ct_remote_write(s->remote, at, words, sizeof words);
    return status;
}

static int search_thread(struct search *s, size_t i) {
    struct ct_remote_cpu before, now;
    uint64_t words[GENERAL + 1];
    int status = ct_remote_get_cpus(s->remote, i, 1, &before);
    if (status)
        return status;
    memcpy(words, before.bytes, sizeof words);
    s->stacks[s->stack_count++] = (struct stack){words[SP], i};
    s->thread = i;
    status = make_all_real(s, words);
    now = before;
    memcpy(now.bytes, words, sizeof words);
    if (!status)
        status = ct_remote_set_cpu(s->remote, i, &before, &now);
    return status ? status : ct_remote_each_frame(s->remote, words[SP], look_at_frame, s);
}

static int search_threads(struct search *s) {
    int status = 0;
    for (size_t i = 0; !status && i < ct_remote_thread_count(s->remote); i++)
        status = search_thread(s, i);
    return status;
}

/* ---- all ---- */

static int by_resume(const void *a, const void *b) {
    const struct ct_eject_return *x = *(const struct ct_eject_return *const *)a;
    const struct ct_eject_return *y = *(const struct ct_eject_return *const *)b;
    if (x->resume != y->resume)
        return x->resume < y->resume ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static int by_address(const void *a, const void *b) {
    uint64_t x = ((const struct stack *)a)->sp, y = ((const struct stack *)b)->sp;
    return x < y ? -1 : x > y;
}

/* Parts of one stack may be protected in different ways. */
static int note_map(void *arg, const struct ct_os_map *map) {
    struct search *s = arg;
    if (!(map->prot & CT_OS_WRITE))
        return 0;
    if (s->map_count && s->maps[s->map_count - 1].end == map->start) {
        s->maps[s->map_count - 1].end = map->end;
        return 0;
    }
    if (!ct_grow(&s->maps, &s->map_room, s->map_count, sizeof *s->maps, 256))
        return CT_ERR_NO_MEMORY;
    s->maps[s->map_count++] = (struct range){map->start, map->end};
    return 0;
}

static int prepare(struct search *s) {
    s->by_resume = malloc(s->count * sizeof(void *));
    s->stacks = malloc((ct_remote_thread_count(s->remote) + 1) * sizeof *s->stacks);
    s->piece = malloc(PIECE);
    if (!s->by_resume || !s->stacks || !s->piece)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < s->count; i++)
        s->by_resume[i] = &s->at[i];
    qsort(s->by_resume, s->count, sizeof(void *), by_resume);
    return ct_remote_each_map(s->remote, note_map, s);
}

int ct_eject_put_right(struct ct_ejection *e, const struct ct_eject_return *at, size_t count, uint64_t hooks) {
    struct search s = {.remote = e->remote, .at = at, .count = count, .hooks = hooks};
    int status = prepare(&s);
    if (!status)
        status = search_threads(&s);
    if (!status && s.stack_count)
        qsort(s.stacks, s.stack_count, sizeof *s.stacks, by_address);
    if (!status)
        status = search_stacks(&s);
    free(s.by_resume);
    free(s.maps);
    free(s.stacks);
    free(s.piece);
    return status;
}
