/* SPDX-License-Identifier: Apache-2.0 */
/* Where errno is in the threads of a target: its distance from the thread pointer, which is the same in all threads.
 *
 * The C library's own function __errno_location says so: its code is read, and nothing is called. */
#ifndef CT_PLAN_ERRNO_PLACE_H
#define CT_PLAN_ERRNO_PLACE_H

#include "plan/target_plan.h"

/* Fills in errno_offset, or errno_unknown. */
void ct_errno_find(struct ct_target_plan *plan, struct ct_remote *remote);

/* Reads 8 bytes of the target's data; returns false if that fails. */
typedef bool ct_errno_reader(void *arg, uint64_t address, uint64_t *word);
/* What a function at `address` returns, as the distance from the thread pointer; 0: the code is not understood
 * (errno_place_<isa>.c). */
int64_t ct_errno_follow(const uint8_t *code, size_t size, uint64_t address, ct_errno_reader *read, void *arg);

#endif
