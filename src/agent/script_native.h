/* SPDX-License-Identifier: Apache-2.0 */
/* What C of a script (CModule) has of the Stalker: transforms and sinks that it writes, and functions that it calls.
 * Freestanding; see script_stalk.c. */
#ifndef CT_AGENT_SCRIPT_NATIVE_H
#define CT_AGENT_SCRIPT_NATIVE_H

#include "abi/script_abi.h"
#include <contrail/stalker.h>

#pragma GCC visibility push(hidden)

/* One block's output, with the branches whose label has not come yet. */
struct ct_script_output {
    struct ct_stalker_writer *writer;
    uint64_t labels[CT_SCRIPT_LABELS];
    size_t at[CT_SCRIPT_LABELS]; /* 0: it has come */
    uint32_t count;
    bool full; /* a branch was left out */
};
void ct_script_output_begin(struct ct_script_output *out, struct ct_stalker_writer *writer);
void ct_script_put_label(struct ct_script_output *out, uint64_t label);
/* Only forward: a branch to a label that never comes leads to the end of the block. */
void ct_script_put_jump(struct ct_script_output *out, uint64_t label, uint32_t condition);
/* CT_ERR_NO_SPACE: there were too many branches. */
int ct_script_output_end(struct ct_script_output *out);

/* void transform(GumStalkerIterator *, GumStalkerOutput *, void *data). CT_ERR_NO_SPACE: there are too many. */
int ct_script_native_transform(uint64_t function, uint64_t data, struct ct_stalker_transformer *out);
/* void process(const GumEvent *, GumCpuContext * (always NULL), void *data), for each event. */
int ct_script_native_sink(uint64_t function, uint64_t data, struct ct_stalker_sink *out);
/* Where the functions are that C modules call. */
void ct_script_native_open(struct ct_script_shared *shared);

#pragma GCC visibility pop

#endif
