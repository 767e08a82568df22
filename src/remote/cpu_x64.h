/* SPDX-License-Identifier: Apache-2.0 */
/* What struct ct_remote_cpu holds on x86_64. Only for files of this machine. */
#ifndef CT_REMOTE_CPU_X64_H
#define CT_REMOTE_CPU_X64_H

#include "remote/remote.h"

_Static_assert(sizeof(struct ct_cpu_x64) <= sizeof(struct ct_remote_cpu), "the registers fit");

static inline struct ct_cpu_x64 *ct_remote_cpu_as_x64(struct ct_remote_cpu *cpu) {
    return (struct ct_cpu_x64 *)cpu;
}

static inline const struct ct_cpu_x64 *ct_remote_cpu_to_x64(const struct ct_remote_cpu *cpu) {
    return (const struct ct_cpu_x64 *)cpu;
}

#endif
