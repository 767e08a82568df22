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

/* Is `original`, which is at `notify`, a function that only returns, with enough room? `patch` is then: a harmless
 * system call, return. The address after the call instruction is CT_LOADER_MARK further. Where the room is too small
 * (CT_LOADER_FAR is not 0), `patch` leads to `far`, and ct_loader_far is written there. False: these bytes are
 * something else, or `far` is too far away. */
bool ct_loader_patch(const uint8_t original[CT_LOADER_PATCH], uint64_t notify, uint64_t far,
                     uint8_t patch[CT_LOADER_PATCH]);
void ct_loader_far(uint8_t code[CT_LOADER_JUMP]);
/* Writes that system call, and a jump to `to`. */
void ct_loader_jump(uint64_t to, uint8_t code[CT_LOADER_JUMP]);
/* The thread is in one of these, which begins at `code`: gives it the registers that it had before. */
void ct_loader_restore(uint64_t code, struct ct_registers *regs);

#endif
