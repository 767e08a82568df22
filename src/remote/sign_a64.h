/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of return addresses (pointer authentication) in another process. */
#ifndef CT_REMOTE_SIGN_A64_H
#define CT_REMOTE_SIGN_A64_H

#include "remote/remote.h"

/* Signs an address as a function does that has `sp` at its entry, with the keys of the thread that makes calls. The
 * process is stopped. On processors without signatures the result is the address. */
int ct_remote_sign(struct ct_remote *remote, bool key_b, uint64_t address, uint64_t sp, uint64_t *result);
/* The same with the keys of thread `i`, which may have asked for its own (PR_PAC_RESET_KEYS). If it has, or if the
 * kernel does not show keys, it makes the call itself. */
int ct_remote_sign_by(struct ct_remote *remote, size_t i, bool key_b, uint64_t address, uint64_t sp, uint64_t *result);

#endif
