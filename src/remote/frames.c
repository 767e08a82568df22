/* SPDX-License-Identifier: Apache-2.0 */
/* See frames.h. */
#include "remote/frames.h"
#include "remote/remote_internal.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

#define STACKS    4             /* how many stacks a thread's handlers are followed over */
#define STACK_MAX (16ull << 20) /* a coroutine's stack may be a corner of a large heap */

struct stack {
    uint64_t sp, end;
    uint8_t *bytes; /* a copy of [sp, end) */
};

/* ---- mappings, read once for each stop: there may be thousands of threads ---- */

static int note_map(void *arg, const struct ct_os_map *map) {
    struct ct_remote *remote = arg;
    if (remote->range_count == remote->range_room) {
        size_t room = remote->range_room ? remote->range_room * 2 : 256;
        struct ct_remote_range *ranges = realloc(remote->ranges, room * sizeof *ranges);
        if (!ranges)
            return CT_ERR_NO_MEMORY;
        remote->ranges = ranges;
        remote->range_room = room;
    }
    if (map->prot & CT_OS_READ)
        remote->ranges[remote->range_count++] = (struct ct_remote_range){map->start, map->end};
    return 0;
}

/* The end of the readable mapping that holds the address; 0: none. */
static uint64_t mapped_until(struct ct_remote *remote, uint64_t address) {
    if (!remote->range_count)
        (void)ct_remote_each_map(remote, note_map, remote);
    size_t low = 0, high = remote->range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (remote->ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < remote->range_count && remote->ranges[low].start <= address ? remote->ranges[low].end : 0;
}

/* False: there is no readable stack at sp. */
static bool copy_stack(struct ct_remote *remote, uint64_t sp, struct stack *s) {
    *s = (struct stack){.sp = (sp + 7) & ~7ull};
    s->end = mapped_until(remote, s->sp);
    if (s->end <= s->sp)
        return false;
    if (s->end > s->sp + STACK_MAX)
        s->end = s->sp + STACK_MAX;
    s->bytes = malloc(s->end - s->sp);
    if (s->bytes && !ct_remote_read(remote, s->sp, s->bytes, s->end - s->sp))
        return true;
    free(s->bytes);
    return false;
}

static uint64_t word_at(const struct stack *s, uint64_t offset) {
    uint64_t value;
    memcpy(&value, s->bytes + offset, sizeof value);
    return value;
}

struct walk {
    struct ct_remote *remote;
    int (*each)(void *arg, struct ct_remote_frame *frame);
    void *arg;
    uint64_t next; /* stack pointer of interrupted code on another stack */
};

static int visit_frame(struct walk *w, const struct stack *s, const struct ct_remote_frame_at *at) {
    struct ct_remote_frame frame = {word_at(s, at->pc), word_at(s, at->sp), s->sp + at->sp};
    uint64_t pc = frame.pc;
    int result = w->each(w->arg, &frame);
    if (frame.pc != pc) {
        int status = ct_remote_write(w->remote, s->sp + at->pc, &frame.pc, sizeof frame.pc);
        result = status ? status : result;
    }
    if (frame.sp < s->sp || frame.sp >= s->end)
        w->next = frame.sp;
    return result;
}

static int walk_stack(struct walk *w, uint64_t sp) {
    struct stack s;
    int result = 0;
    w->next = 0;
    if (!copy_stack(w->remote, sp, &s))
        return 0;
    struct ct_remote_frame_at at = {0};
    while (!result && ct_remote_next_frame(w->remote, s.bytes, s.end - s.sp, &at))
        result = visit_frame(w, &s, &at);
    free(s.bytes);
    return result;
}

int ct_remote_each_frame(struct ct_remote *remote, uint64_t sp, int (*each)(void *arg, struct ct_remote_frame *frame),
                         void *arg) {
    struct walk w = {.remote = remote, .each = each, .arg = arg};
    int result = 0;
    for (int i = 0; i < STACKS && !result && sp; i++) {
        result = walk_stack(&w, sp);
        sp = w.next;
    }
    return !result && ct_remote_is_over(remote) ? CT_ERR_TIMEOUT : result;
}

struct places {
    bool (*is_ours)(const void *arg, uint64_t pc);
    const void *arg;
};

static int look_at_frame(void *arg, struct ct_remote_frame *frame) {
    const struct places *p = arg;
    return p->is_ours(p->arg, frame->pc);
}

bool ct_remote_comes_to(struct ct_remote *remote, bool (*is_ours)(const void *arg, uint64_t pc), const void *arg) {
    struct places p = {is_ours, arg};
    for (size_t i = 0; i < ct_remote_thread_count(remote); i++) {
        struct ct_registers regs;
        if (!ct_remote_get_regs(remote, i, &regs) &&
            (is_ours(arg, ct_registers_pc(&regs)) ||
             ct_remote_each_frame(remote, ct_registers_sp(&regs), look_at_frame, &p)))
            return true;
    }
    return ct_remote_is_over(remote);
}
