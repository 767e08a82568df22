/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at a process from outside: its threads with names and backtraces, modules, symbols, registers. The process is
 * stopped only for as long as a call needs it. A handle is used by one thread at a time. Structs begin with their size:
 * the rule is in contrail/contrail.h.
 *
 *     struct ct_process *process;
 *     struct ct_process_thread thread = {.size = sizeof thread};
 *     if (!ct_process_open(&process, pid, NULL, 0)) {
 *         for (uint64_t position = 0; ct_process_next_thread(process, 64, &position, &thread) > 0;)
 *             printf("%d %s: in %s\n", thread.tid, thread.name, thread.frame_count ? thread.frames[0]->name : "?");
 *         ct_process_close(process);
 *     } */
#ifndef CONTRAIL_PROCESS_H
#define CONTRAIL_PROCESS_H

#include <contrail/cpu.h>
#include <contrail/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct ct_process;

/* After a failure `error` (may be NULL) has one sentence with the remedy. */
int ct_process_open(struct ct_process **out, int pid, char *error, size_t error_size);
void ct_process_close(struct ct_process *process);
/* Why the last call failed, as one sentence for the user; "" when it is not known. */
const char *ct_process_error(const struct ct_process *process);

/* ---- threads ---- */

struct ct_process_frame {
    size_t size;
    uint64_t pc;
    bool inlined;       /* into the next frame: it has none of its own, and pc is that of the frame it is part of */
    const char *module; /* "" when unknown */
    const char *name;   /* "" when unknown */
    uint64_t offset;    /* in the function, or in the module when it has no name */
    const char *line;   /* "file:line"; "" when not known or not asked for */
};
struct ct_process_thread {
    size_t size;
    int tid;
    char state; /* R, S, D, T ... as the kernel reports it */
    char name[16];
    const struct ct_process_frame *const *frames; /* innermost first; valid until the next call for this process */
    size_t frame_count;                           /* 0 when none were asked for */
};
/* The first call, with *position 0, looks at all threads at one moment; the others give what it has found. `max_frames`
 * counts in the first call. 0: no backtraces, and the process is not stopped. Return addresses are the real ones, also
 * where the process is recorded. One walk over threads at a time. */
int ct_process_next_thread(struct ct_process *process, size_t max_frames, uint64_t *position,
                           struct ct_process_thread *thread);

/* From now on backtraces have source lines and the functions that were inlined, as far as there is debug information.
 * CT_ERR_UNSUPPORTED: libdw, which reads it, is not on this machine. */
int ct_process_use_lines(struct ct_process *process);

/* ---- modules and symbols ---- */

struct ct_process_module {
    size_t size;
    const char *path, *build_id;
    uint64_t bias;       /* address in the process = bias + address in the file */
    uint64_t start, end; /* what its segments span */
    size_t functions;    /* that are known, by symbols and unwind information */
};
/* By address. The first call, with *position 0, reads the list of modules again. */
int ct_process_next_module(struct ct_process *process, uint64_t *position, struct ct_process_module *module);

/* Executable memory without a file, as programs have it that generate code. In a recorded process the recorder's hooks
 * are in such memory too. */
struct ct_process_generated {
    size_t size;
    bool recorded;
    size_t mappings;
    uint64_t bytes;
};
int ct_process_generated_code(struct ct_process *process, struct ct_process_generated *out);

struct ct_process_symbol {
    size_t size;
    const char *module;
    const char *name; /* as in the symbol table; "" when it has none */
    uint64_t address, length;
    uint64_t offset; /* in its module, as addresses in the file are */
};
/* Every function of every module, or of those whose file name or path matches the glob (NULL: all). The first call,
 * with *position 0, reads the list of modules again. */
int ct_process_next_symbol(struct ct_process *process, const char *module_glob, uint64_t *position,
                           struct ct_process_symbol *symbol);

/* ---- registers ---- */

/* Stops the process, shows the registers of one thread (vector is NULL), writes changes of general registers, pc and
 * flags back, and resumes. A thread in a system call is shown as it will make the call again: pc is the instruction,
 * rax the number of the call. When `change` returns something else than 0, nothing is changed and that is returned. */
int ct_process_modify_thread(struct ct_process *process, int tid, int (*change)(void *arg, struct ct_cpu_context *cpu),
                             void *arg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
