/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a new program to the point where its loader has finished. */
#ifndef CT_REMOTE_LOADER_H
#define CT_REMOTE_LOADER_H

#include "remote/remote_internal.h"
#include "isa/host.h"
#include CT_HOST_HEADER(loader)

/* Runs the program from the stop of its exec to a PTRACE_EVENT_STOP where everything is mapped and relocated and no
 * constructor has run. Runs in the tracer. CT_ERR_TIMEOUT (nothing of ours is left, and it is stopped anywhere),
 * CT_ERR_NOT_FOUND (it has ended) */
int ct_loader_run_traced(struct ct_remote *remote, uint64_t deadline_ms);

/* ---- loader_<isa>.c ---- */

/* Is `original` a function that only returns, with enough room? `patch` is then: a harmless system call, return. The
 * address after the call instruction is CT_LOADER_MARK further. False: these bytes are something else. */
bool ct_loader_patch(const uint8_t original[CT_LOADER_PATCH], uint8_t patch[CT_LOADER_PATCH]);
/* Writes that system call, and a jump to `to`. */
void ct_loader_jump(uint64_t to, uint8_t code[CT_LOADER_JUMP]);

#endif
