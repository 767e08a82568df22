/* SPDX-License-Identifier: Apache-2.0 */
/* Where code calls and jumps to. */
#include "symbols/branches.h"

void ct_branches_each(const struct ct_machine *machine, const uint8_t *bytes, size_t size, uint64_t address,
                      ct_branch_sink *each, void *arg) {
    (machine == &ct_machine_a64 ? ct_branches_each_a64 : ct_branches_each_x64)(bytes, size, address, each, arg);
}
