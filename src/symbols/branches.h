/* SPDX-License-Identifier: Apache-2.0 */
/* Where code calls and jumps to, of any machine: bytes in, addresses out. */
#ifndef CT_SYMBOLS_BRANCHES_H
#define CT_SYMBOLS_BRANCHES_H

#include "isa/machine.h"
#include <stddef.h>

typedef void ct_branch_sink(void *arg, uint64_t target);

/* Passes on the target of each direct call and jump of the bytes, which run at `address`, up to the first that are no
 * instruction. */
void ct_branches_each(const struct ct_machine *machine, const uint8_t *bytes, size_t size, uint64_t address,
                      ct_branch_sink *each, void *arg);
void ct_branches_each_x64(const uint8_t *bytes, size_t size, uint64_t address, ct_branch_sink *each, void *arg);
void ct_branches_each_a64(const uint8_t *bytes, size_t size, uint64_t address, ct_branch_sink *each, void *arg);

#endif
