/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the stack of a stopped thread: chooses the kind of step for each frame, and decides when to end.
 *
 * All of it happens while the process is stopped, because frames may lead from one stack to another (signal stacks,
 * coroutines), which a copy of one stack would not contain. To keep the stop short, tables are made before it and names
 * are looked up after it; what is left takes a few microseconds a frame. */
#include "inspect/process.h"
#include "hook/frame.h"
#include <contrail/status.h>
#include <string.h>

/* ---- memory ---- */

static int read_part(struct ct_walk *w, uint64_t address, void *bytes, size_t size) {
    uint64_t page = address & ~(uint64_t)(CT_WALK_PAGE - 1);
    unsigned place = (unsigned)(page / CT_WALK_PAGE % CT_WALK_PAGES);
    if (w->cache->pages[place].address != page) {
        w->cache->pages[place].address = 1;
        int status = ct_remote_read(w->process->remote, page, w->cache->pages[place].bytes, CT_WALK_PAGE);
        if (status)
            return status;
        w->cache->pages[place].address = page;
    }
    memcpy(bytes, w->cache->pages[place].bytes + (address - page), size);
    return 0;
}

/* Searches in cached memory need an end as well: reads fail if there were too many for one stack, or if the time of the
 * stop is over. */
int ct_walk_read(struct ct_walk *w, uint64_t address, void *bytes, size_t size) {
    enum { LOOK_READS = 256 };
    uint8_t *to = bytes;
    if (w->reads_left && --w->reads_left % LOOK_READS == 0 && ct_remote_is_over(w->process->remote))
        w->reads_left = 0;
    if (!w->reads_left)
        return CT_ERR_TIMEOUT;
    while (size) {
        size_t room = CT_WALK_PAGE - (size_t)(address % CT_WALK_PAGE), part = size < room ? size : room;
        int status = read_part(w, address, to, part);
        if (status)
            return status;
        to += part;
        address += part;
        size -= part;
    }
    return 0;
}

bool ct_walk_word(struct ct_walk *w, uint64_t address, uint64_t *word) {
    return ct_walk_read(w, address, word, sizeof *word) == 0;
}

static int read_word(void *arg, uint64_t address, uint64_t *word) {
    return ct_walk_read(arg, address, word, sizeof *word);
}

/* ---- steps ---- */

static bool step_by_table(struct ct_walk *w, bool *outermost) {
    uint64_t pc = ct_walk_pc(w), place = pc - w->is_return;
    struct ct_process_file *file = ct_process_file_at(w->process, place);
    const struct ct_unwind *unwind = file ? ct_process_unwind(file) : NULL;
    struct ct_unwind_memory memory = {read_word, w};
    struct ct_unwind_result result;
    if (!unwind || ct_unwind_step(unwind, file->bias, place - file->bias, &w->regs, &memory, &result))
        return false;
    *outermost = result.outermost;
    w->is_return = !result.signal_frame;
    if (!result.outermost && (result.return_slot || CT_FRAME_HAS_LINK) && !result.signal_frame)
        ct_walk_set_pc(w, ct_walk_shadow_return(w, ct_frame_slot(result.return_slot, ct_walk_sp(w)), ct_walk_pc(w)));
    return true;
}

/* Goes one frame outward; false: there is none, or it cannot be found. */
static bool step_frame(struct ct_walk *w, struct ct_walk_frame *frame) {
    bool outermost = false;
    uint64_t sp = ct_walk_sp(w);
    const struct ct_process_code *code = ct_process_code_at(w->process, frame->pc);
    if (ct_walk_step_signal(w))
        return true; /* possibly to another stack */
    if (code && code->anonymous && ct_walk_step_stub(w, frame))
        return true; /* possibly off the agent's own stack */
    if (!step_by_table(w, &outermost) && !ct_walk_step_guess(w))
        return false;
    /* The caller's frame ends above the callee's; but the agent's slow paths return from a stack of their own. */
    return !outermost && (ct_walk_sp(w) > sp || w->block);
}

size_t ct_walk_stack(struct ct_process *process, const struct ct_remote_cpu *cpu, uint64_t block,
                     struct ct_walk_cache *cache, struct ct_walk_frame *frames, size_t max_frames) {
    enum { STACK_READS = 1 << 20, FRAME_READS = 256 };
    struct ct_walk w = {
        .process = process, .cache = cache, .reads_left = STACK_READS + FRAME_READS * (uint64_t)max_frames};
    for (unsigned p = 0; p < CT_WALK_PAGES; p++)
        cache->pages[p].address = 1;
    ct_walk_load(&w, cpu);
    ct_walk_shadow_open(&w, block);
    size_t count = 0;
    while (count < max_frames) {
        struct ct_walk_frame *frame = &frames[count++];
        *frame = (struct ct_walk_frame){.pc = ct_walk_pc(&w), .is_return = w.is_return};
        if (!step_frame(&w, frame) || !ct_walk_pc(&w))
            break;
    }
    return count;
}

size_t ct_walk_thread(struct ct_process *process, size_t i, const struct ct_remote_cpu *cpu,
                      struct ct_walk_cache *cache, struct ct_walk_frame *frames, size_t max_frames) {
    struct ct_registers regs;
    if (ct_remote_get_regs(process->remote, i, &regs) || !ct_registers_pc(&regs))
        return 0;
    return ct_walk_stack(process, cpu, ct_process_block(process, &regs), cache, frames, max_frames);
}
