/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of code by how often followed threads executed them (trace/code_file.h): one row for each block, over all
 * threads of a process or for each thread. Each file is read once; memory grows with the number of different blocks. */
#ifndef CT_REPORT_BLOCKS_H
#define CT_REPORT_BLOCKS_H

#include "report/select.h"

struct ct_block_options {
    struct ct_select select; /* functions, modules: those that the block belongs to */
    uint64_t limit;          /* rows; 0: all */
    uint64_t min_count;
    bool per_thread;
    bool lines;                     /* look the source lines up */
    const char *const *directories; /* for lines: further places of binaries and debug files; NULL: none */
};

struct ct_block_row {
    size_t process;           /* index */
    size_t thread;            /* index; SIZE_MAX: all threads */
    uint32_t module;          /* id; 0: code of no file, the offset is its address */
    uint32_t size, insns;     /* bytes, instructions */
    uint64_t offset;          /* from the module's base */
    uint64_t count, executed; /* entries into the block; instructions of it that were executed */
    const char *name;         /* function that contains it, "" when not known */
    const char *module_name;  /* "": none. Both names live as long as the trace. */
    uint64_t into;            /* offset in the function */
    char *line;               /* file:line, NULL: not known */
};

struct ct_block_report {
    struct ct_block_row *rows; /* most often executed first */
    size_t row_count;
    uint64_t matched;               /* rows before the limit */
    uint64_t count, executed, lost; /* of all blocks of the threads that were read */
    uint64_t threads;               /* threads that were read: those with a file of blocks */
    size_t damaged;                 /* threads whose file could only be read in part */
    size_t lines;                   /* rows with a line */
    const char *line_problem;       /* why some rows have no line though there is a file for them; "" */
};

int ct_block_report_make(struct ct_block_report **out, struct ct_trace *trace, const struct ct_block_options *options);
void ct_block_report_free(struct ct_block_report *report);

struct ct_json;
struct ct_output;
void ct_block_report_json(const struct ct_block_report *report, const struct ct_trace *trace, struct ct_json *json);
void ct_block_report_csv(const struct ct_block_report *report, const struct ct_trace *trace, bool per_thread,
                         struct ct_output *output);

#endif
