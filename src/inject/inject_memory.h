/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in a stopped target, for all code that puts something into it. */
#ifndef CT_INJECT_INJECT_MEMORY_H
#define CT_INJECT_INJECT_MEMORY_H

#include "inject/inject.h"

/* mmap in the target; `at` 0: anywhere. */
int ct_inject_map(struct ct_injection *in, uint64_t at, uint64_t size, int prot, int flags, int fd, uint64_t *out);
int ct_inject_unmap(struct ct_injection *in, uint64_t at, uint64_t size);
/* Creates the lane and maps it on both sides. It is the first mapping; by its name everything else is found from then
 * on. After it there is room for an agent's image, a stack for its calls and `tables` bytes. agent NULL: all that is
 * there already (in->shm). */
int ct_inject_shared(struct ct_injection *in, const uint8_t *agent, uint64_t tables,
                     const struct ct_injection_options *options);
/* Maps the image, the stack and the tables: in->image, entry, stack, tables. */
int ct_inject_image(struct ct_injection *in, const uint8_t *agent);
/* The start of a free range in the target, far from all planned places; 0: none (inject_place.c). */
uint64_t ct_inject_find_place(struct ct_injection *in, uint64_t size, uint64_t unit);
/* Converts the agent's answer to a status. */
int ct_inject_said(int32_t status);
/* Why the target did not get the memory that it needs, and what helps (inject_explain.c). Returns the status to
 * report. */
int ct_inject_explain(struct ct_injection *in, int status, struct ct_remote_error *error);
/* CT_ERR_UNSUPPORTED: a thread uses the register that we need. */
int ct_inject_check_gs(struct ct_remote *remote, struct ct_remote_error *error);

#endif
