/* contrail replay --blocks: what followed threads have executed, block by block (trace/code_file.h). */
#ifndef CT_CLI_REPLAY_CODE_H
#define CT_CLI_REPLAY_CODE_H

#include "cli/printer.h"
#include "report/select.h"
#include "trace/reader.h"

struct ct_replay_code {
    struct ct_printer *printer;
    struct ct_trace *trace;
    const struct ct_select *select;
    uint64_t start_ns, from_ns, to_ns, limit; /* to_ns, limit 0: none */
    bool insns;                               /* each instruction, not each block */
    /* private */
    uint64_t lines;
    size_t files;
};
/* The exit code. */
int ct_replay_code_show(struct ct_replay_code *v);

#endif
