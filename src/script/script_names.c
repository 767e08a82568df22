/* SPDX-License-Identifier: Apache-2.0 */
/* Names and addresses of functions, both ways, and stacks. Owner of the open debug files: the holder of `work`. */
#include "inspect/process.h"
#include "isa/machine.h"
#include "script/script_internal.h"
#include "symbols/demangle.h"
#include "symbols/lines.h"
#include "symbols/name_match.h"
#include <contrail/status.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

/* Debug files are found as the process sees them (inspect/process.h). */
/* While a spawned process has not begun, our tracer has it, and nobody else could: not even we. */
static struct ct_process *process_of(struct ct_script *s) {
    bool begun = !s->spawned || s->resumed;
    if (!s->process && begun && ct_process_open(&s->process, s->pid, NULL, 0))
        s->process = NULL;
    return s->process;
}

void ct_script_free_lists(struct ct_script *s) {
    if (s->process)
        ct_process_close(s->process);
    s->process = NULL;
}

static void describe_line(struct ct_script *s, uint64_t address, struct ct_script_place *out) {
    struct ct_process *process = process_of(s);
    char text[sizeof out->file];
    if (!process || ct_process_refresh(process))
        return;
    struct ct_process_file *file = ct_process_file_at(process, address);
    struct ct_lines *lines = file ? ct_process_lines(file) : NULL;
    if (!lines || !ct_lines_at(lines, address - file->bias, text, sizeof text))
        return;
    char *colon = strrchr(text, ':');
    if (!colon)
        return;
    *colon = 0;
    out->line = (uint32_t)strtoul(colon + 1, NULL, 10);
    snprintf(out->file, sizeof out->file, "%s", text);
}

/* ---- from an address ---- */

static const struct ct_target_module *module_of(const struct ct_script *s, uint64_t address) {
    for (size_t p = s->plan_count; p-- > 0;)
        for (size_t i = 0; i < s->plans[p].plan->module_count; i++) {
            const struct ct_target_module *m = &s->plans[p].plan->modules[i];
            if (address >= m->start && address < m->end)
                return m;
        }
    return NULL;
}

/* The last function that begins at the address or before it, and reaches it. */
static const struct ct_target_function *function_at(const struct ct_target_module *m, uint64_t offset) {
    size_t low = 0, high = m->function_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->functions[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    const struct ct_target_function *f = low ? &m->functions[low - 1] : NULL;
    return f && (offset - f->offset < f->size || offset == f->offset) ? f : NULL;
}

static int describe(struct ct_script *s, uint64_t address, struct ct_script_place *out) {
    const struct ct_target_module *m = module_of(s, address);
    *out = (struct ct_script_place){0};
    if (!m && !ct_script_update(s))
        m = module_of(s, address);
    if (!m)
        return ct_script_fail(s, CT_ERR_NOT_FOUND, "no module is at 0x%llx", (unsigned long long)address);
    const char *slash = strrchr(m->path, '/');
    const struct ct_target_function *f = function_at(m, address - m->bias);
    out->module_base = m->start;
    snprintf(out->module, sizeof out->module, "%s", slash ? slash + 1 : m->path);
    if (f) {
        char *readable = ct_demangle(f->name);
        out->function = m->bias + f->offset;
        snprintf(out->name, sizeof out->name, "%s", readable ? readable : f->name);
        free(readable);
    }
    describe_line(s, address, out);
    return 0;
}

static bool is_of_go(const struct ct_target_module *m) {
    static const char name[] = "runtime.morestack";
    for (size_t i = 0; i < m->function_count; i++)
        if (!strncmp(m->functions[i].name, name, sizeof name - 1))
            return true;
    return false;
}

/* Go's functions run on stacks of some kilobytes, which know how much each function needs. */
bool ct_script_has_small_stacks(struct ct_script *s, uint64_t address) {
    const struct ct_target_module *m = module_of(s, address);
    if (!m && !ct_script_update(s)) /* beside a recording nothing was planned yet */
        m = module_of(s, address);
    if (m && m != s->looked_at) { /* hooks of one module come one after the other */
        s->looked_at = m;
        s->small_stacks = is_of_go(m);
    }
    return m && s->small_stacks;
}

int ct_script_describe(struct ct_script *s, uint64_t address, struct ct_script_place *out) {
    pthread_mutex_lock(&s->work);
    int status = describe(s, address, out);
    pthread_mutex_unlock(&s->work);
    return status;
}

/* ---- from a name ---- */

static int64_t find_in(const struct ct_target_module *m, const char *const *globs, uint64_t *addresses, size_t room,
                       int64_t count) {
    for (size_t k = 0; k < m->function_count; k++) {
        const struct ct_target_function *f = &m->functions[k];
        if (!f->name[0] || (f->flags & CT_FUNC_PLT) || !ct_name_fits(globs, f->name))
            continue;
        if ((size_t)count < room)
            addresses[count] = m->bias + f->offset;
        count++;
    }
    return count;
}

int64_t ct_script_find_functions(struct ct_script *s, const char *name_or_glob, uint64_t *addresses, size_t room) {
    const char *const globs[] = {name_or_glob, NULL};
    int64_t count = 0;
    pthread_mutex_lock(&s->work);
    int status = ct_script_is_gone(s) ? 0 : ct_script_update(s);
    for (size_t p = 0; !status && p < s->plan_count; p++)
        for (size_t i = 0; i < s->plans[p].plan->module_count; i++)
            count = find_in(&s->plans[p].plan->modules[i], globs, addresses, room, count);
    pthread_mutex_unlock(&s->work);
    return status ? status : count;
}

/* ---- stacks ---- */

#define FUZZY_WORDS 2048u

static bool is_code(const struct ct_script *s, uint64_t address) {
    const struct ct_target_module *m = module_of(s, address);
    return m && function_at(m, address - m->bias);
}

/* Every word of the stack that leads into a function. */
static int walk_fuzzy(struct ct_script *s, uint64_t pc, uint64_t sp, uint64_t *frames, size_t room) {
    uint64_t words[FUZZY_WORDS];
    size_t count = 0;
    int64_t got = ct_script_read_some(s, sp, words, sizeof words);
    if (room)
        frames[count++] = pc;
    for (size_t i = 0; got > 0 && i < (size_t)got / 8 && count < room; i++)
        if (is_code(s, words[i]))
            frames[count++] = words[i];
    return (int)count;
}

static int copy_frames(const struct ct_walk_frame *from, size_t count, uint64_t *frames) {
    for (size_t i = 0; i < count; i++)
        frames[i] = from[i].is_stub && from[i].function ? from[i].function : from[i].pc;
    return (int)count;
}

static int walk_waiting(struct ct_script *s, uint32_t i, bool fuzzy, uint64_t *frames, size_t room) {
    const struct ct_script_slot *slot = &s->shared->slots[i];
    const struct ct_machine *m = ct_machine_host();
    struct ct_remote_cpu cpu = {{0}};
    if (fuzzy)
        return walk_fuzzy(s, slot->cpu[m->pc], slot->cpu[m->sp], frames, room);
    struct ct_process *process = process_of(s);
    struct ct_walk_cache *cache = malloc(sizeof *cache);
    struct ct_walk_frame *walked = calloc(room + 1, sizeof *walked);
    int count = CT_ERR_NO_MEMORY;
    if (process && cache && walked && !ct_process_refresh(process)) {
        memcpy(ct_remote_cpu_context(&cpu), slot->cpu, sizeof slot->cpu);
        count = copy_frames(walked, ct_walk_stack(process, &cpu, slot->block, cache, walked, room), frames);
    }
    free(cache);
    free(walked);
    return count;
}

static int walk_stopped(struct ct_script *s, int32_t tid, bool fuzzy, uint64_t *frames, size_t room) {
    struct ct_process *process = process_of(s);
    struct ct_process_thread thread = {.size = sizeof thread};
    int count = CT_ERR_NOT_FOUND;
    if (!process)
        return ct_script_fail(s, CT_ERR_BUSY, "the stack cannot be read now");
    for (uint64_t position = 0; ct_process_next_thread(process, room, &position, &thread) > 0;) {
        if (thread.tid != tid)
            continue;
        count = 0;
        for (size_t i = 0; i < thread.frame_count && (size_t)count < room; i++)
            if (!thread.frames[i]->inlined)
                frames[count++] = thread.frames[i]->pc;
    }
    (void)fuzzy;
    return count < 0 ? ct_script_fail(s, count, "there is no thread %d", tid) : count;
}

int ct_script_backtrace(struct ct_script *s, uint32_t slot, int32_t tid, bool fuzzy, uint64_t *frames, size_t room) {
    pthread_mutex_lock(&s->work);
    int count =
        slot < CT_SCRIPT_SLOTS ? walk_waiting(s, slot, fuzzy, frames, room) : walk_stopped(s, tid, fuzzy, frames, room);
    pthread_mutex_unlock(&s->work);
    return count;
}

/* ---- registers ---- */

static int registers_of(struct ct_script *s, int32_t tid, struct ct_script_request *out) {
    uint64_t words[CT_REMOTE_CPU_WORDS] = {0};
    struct ct_remote_cpu cpu;
    int status = CT_ERR_NOT_FOUND;
    for (size_t i = 0; i < ct_remote_thread_count(s->remote); i++)
        if (ct_remote_thread_tid(s->remote, i) == tid)
            status = ct_remote_get_cpus(s->remote, i, 1, &cpu);
    if (status)
        return ct_script_fail(s, status, "there is no thread %d", tid);
    size_t general = ct_remote_cpu_list(&cpu, words) - 2;
    for (size_t i = 0; i < general; i++)
        *(i < 16 ? &out->cpu.gpr[i] : &out->cpu.more[i - 16]) = words[i];
    out->cpu.pc = words[general];
    out->cpu.flags = words[general + 1];
    return 0;
}

int ct_script_registers(struct ct_script *s, int32_t tid, struct ct_script_request *out) {
    bool was;
    *out = (struct ct_script_request){.slot = CT_SCRIPT_NO_SLOT, .parent = CT_SCRIPT_NO_SLOT, .tid = tid};
    pthread_mutex_lock(&s->work);
    int status = ct_script_stop(s, &was);
    if (!status) {
        status = registers_of(s, tid, out);
        ct_script_go_on(s, was);
    }
    pthread_mutex_unlock(&s->work);
    return status;
}
