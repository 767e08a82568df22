/* Looking at a process from outside: threads with names and backtraces, modules, symbols, registers. The process is stopped
 * only for as long as a call needs it. */
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

/* The last error as a sentence with the remedy is in `error` (may be NULL). */
int ct_process_open(struct ct_process **out, int pid, char *error, size_t error_size);
void ct_process_close(struct ct_process *process);
/* Why the last call failed, as one sentence for the user; "" when it is not known. */
const char *ct_process_error(const struct ct_process *process);

struct ct_process_frame {
    uint64_t pc;
    const char *module; /* "" when unknown */
    const char *name;   /* "" when unknown */
    uint64_t offset;    /* in the function, or in the module when it has no name */
    const char *line;   /* "file:line", "" when not known or not asked for */
    int inlined;        /* into the next one: it has no frame of its own; pc is that of the frame it is part of */
};
struct ct_process_thread {
    int tid;
    char name[16];
    char state; /* R, S, D, T ... as the kernel tells it */
    const struct ct_process_frame *frames;
    size_t frame_count; /* 0 when none were asked for */
};
/* `max_frames` 0: no backtraces, and the process is not stopped. Real return addresses also where the process is recorded. */
int ct_process_each_thread(struct ct_process *process, size_t max_frames,
                           int (*each)(void *arg, const struct ct_process_thread *thread), void *arg);

/* From now on backtraces have source lines, and the functions that were inlined, as far as debug information is at hand.
 * CT_ERR_UNSUPPORTED: libdw, which reads it, is not on this machine. */
int ct_process_use_lines(struct ct_process *process);

struct ct_process_module {
    const char *path, *build_id;
    uint64_t bias, start, end; /* run address = bias + address in the file; what its segments span */
    size_t functions;          /* that are known: symbols and unwind information */
};
int ct_process_each_module(struct ct_process *process, int (*each)(void *arg, const struct ct_process_module *module),
                           void *arg);

/* Executable memory without a file, as programs make it that generate code. A recorded process has the recorder's hooks there. */
struct ct_process_generated {
    size_t mappings;
    uint64_t bytes;
    bool recorded;
};
int ct_process_generated_code(struct ct_process *process, struct ct_process_generated *out);

struct ct_process_symbol {
    const char *module, *name; /* the name as in the symbol table; "": none */
    uint64_t address, size;
    uint64_t offset; /* in its module, as addresses in the file are */
};
/* Every function of every module, or of those whose file name or path matches the glob. */
int ct_process_each_symbol(struct ct_process *process, const char *module_glob,
                           int (*each)(void *arg, const struct ct_process_symbol *symbol), void *arg);

/* Stops the process, shows the registers of one thread (vector is NULL), puts changes of general registers, pc and flags back,
 * resumes. A thread in a system call is shown as it will make it again: pc is the instruction, rax the call's number. When
 * `change` returns something else than 0, nothing is changed and that is returned. */
int ct_process_modify_thread(struct ct_process *process, int tid, int (*change)(void *arg, struct ct_cpu_context *cpu),
                             void *arg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
