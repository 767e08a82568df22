/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct ct_process (contrail/process.h): modules with their tables, and walks over the stacks of a
 * stopped process. One thread uses a process at a time. */
#ifndef CT_INSPECT_PROCESS_H
#define CT_INSPECT_PROCESS_H

#include "remote/remote.h"
#include "symbols/functions.h"
#include "symbols/unwind.h"
#include <contrail/process.h>

/* A file (or the vdso) whose code is mapped. */
struct ct_process_file {
    char *path;
    uint64_t inode, bias, start, end;
    void *image; /* the file's bytes, as long as the process is open */
    size_t image_size;
    int pid;
    bool copied;                    /* image is malloc'ed, not mapped */
    struct ct_functions *functions; /* NULL: not needed yet, or unreadable */
    struct ct_unwind *unwind;
    struct ct_lines *lines;
    bool functions_tried, unwind_tried, lines_tried, seen;
};

struct ct_process_names { /* of one stack; frames and texts are freed with it */
    struct ct_process_frame *frames;
    size_t count, capacity;
    char **texts;
    size_t text_count, text_capacity;
};

struct ct_process_code { /* an executable mapping */
    uint64_t start, end;
    bool anonymous, generated;
};

struct ct_process {
    struct ct_remote *remote;
    int pid;
    struct ct_remote_error why;     /* of the last call */
    struct ct_process_file **files; /* by start */
    size_t file_count, file_capacity;
    struct ct_process_code *code; /* by start */
    size_t code_count, code_capacity;
    bool use_lines;
    bool recorded; /* its maps show a recorder's memory */
    uint64_t lane; /* shared memory of a recorder that says where its tables are; 0: none */
    /* For a walk over threads: what the first call found, and the frames of the thread that was returned last. */
    struct ct_process_stack *stacks;
    size_t stack_count;
    struct ct_process_names names;
    const struct ct_process_frame **frames; /* pointers to those of `names` */
};

struct ct_walk_frame;

/* ---- modules (process_modules.c) ---- */

/* Reads the maps again: opens new files, closes files that are gone. */
int ct_process_refresh(struct ct_process *process);
void ct_process_forget(struct ct_process *process);
struct ct_process_file *ct_process_file_at(const struct ct_process *process, uint64_t address);
const struct ct_process_code *ct_process_code_at(const struct ct_process *process, uint64_t address);
/* Made at the first call; NULL: the file cannot be read, or has none. */
const struct ct_functions *ct_process_functions(struct ct_process_file *file);
const struct ct_unwind *ct_process_unwind(struct ct_process_file *file);

struct ct_lines;
/* Made at the first call; NULL: it has no debug information. */
struct ct_lines *ct_process_lines(struct ct_process_file *file);

/* ---- frames with their names (process_names.c) ---- */

int ct_process_name_frame(struct ct_process *process, const struct ct_walk_frame *from, struct ct_process_names *names);
void ct_process_names_free(struct ct_process_names *names);

/* ---- threads as the kernel lists them (process_tasks.c) ---- */

struct ct_process_task {
    int tid;
    char name[16];
    char state;
};
int ct_process_tasks(int pid, struct ct_process_task **out, size_t *count); /* release with free() */
bool ct_process_task(int pid, int tid, struct ct_process_task *out);

/* ---- one stack (process_walk.c) ---- */

/* Memory of the stopped process; some pages are cached. On all machines a page is a multiple of this size. */
enum { CT_WALK_PAGE = 4096, CT_WALK_PAGES = 16 };
struct ct_walk_cache {
    struct {
        uint64_t address; /* of a page; 1: empty */
        uint8_t bytes[CT_WALK_PAGE];
    } pages[CT_WALK_PAGES];
};

struct ct_walk_frame {
    uint64_t pc;
    uint64_t function; /* if it is a stub: the hooked function; 0: unknown, or not a stub */
    bool is_return;    /* pc is a return address: the call is before it */
    bool is_stub;
};

struct ct_walk {
    struct ct_process *process;
    struct ct_unwind_regs regs;
    uint64_t block;        /* thread block of the hooks; 0: none */
    uint64_t base, cursor; /* its shadow stack: sentinel, and the first entry that is not searched again */
    struct ct_walk_cache *cache;
    bool is_return;      /* the pc in regs is a return address */
    uint64_t reads_left; /* of memory; a walk that needs more has gone wrong */
};

/* Finds the frames of the i-th stopped thread, innermost first. Returns how many. */
size_t ct_walk_thread(struct ct_process *process, size_t i, const struct ct_remote_cpu *cpu,
                      struct ct_walk_cache *cache, struct ct_walk_frame *frames, size_t max_frames);
/* Finds the frames for the given registers; `block`: thread block of the hooks, 0: none. */
size_t ct_walk_stack(struct ct_process *process, const struct ct_remote_cpu *cpu, uint64_t block,
                     struct ct_walk_cache *cache, struct ct_walk_frame *frames, size_t max_frames);
int ct_walk_read(struct ct_walk *w, uint64_t address, void *bytes, size_t size);
bool ct_walk_word(struct ct_walk *w, uint64_t address, uint64_t *word);

/* The thread block of the thread that has these registers; 0: none (process_block.c). */
uint64_t ct_process_block(const struct ct_process *process, const struct ct_registers *regs);

/* ---- shadow stacks (process_shadow.c) ---- */

struct ct_walk_entry { /* an entry of a shadow stack for a frame */
    uint64_t slot, ret, stub;
};
/* Finds the shadow stack, if the thread has a block. */
void ct_walk_shadow_open(struct ct_walk *w, uint64_t block);
/* The real return address of the frame whose return address at `slot` is `word`; `word` itself if it is real. */
uint64_t ct_walk_shadow_return(struct ct_walk *w, uint64_t slot, uint64_t word);
/* The innermost frame of the thread's own shadow stack at or above `sp` (0: any). */
bool ct_walk_shadow_innermost(struct ct_walk *w, uint64_t sp, struct ct_walk_entry *out);
/* The function that the stub hooks; 0: unknown. `stub` is as in struct ct_shadow. */
uint64_t ct_walk_shadow_function(struct ct_walk *w, uint64_t stub);

/* ---- steps that no table describes (process_frames_<isa>.c) ---- */

void ct_walk_load(struct ct_walk *w, const struct ct_remote_cpu *cpu);
uint64_t ct_walk_pc(const struct ct_walk *w);
uint64_t ct_walk_sp(const struct ct_walk *w);
void ct_walk_set_pc(struct ct_walk *w, uint64_t pc);
/* Each returns false, and changes nothing, if the step does not apply. */
bool ct_walk_step_signal(struct ct_walk *w);
bool ct_walk_step_stub(struct ct_walk *w, struct ct_walk_frame *frame);
bool ct_walk_step_guess(struct ct_walk *w);

#endif
