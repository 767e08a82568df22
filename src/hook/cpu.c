/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments in a saved context, on every machine. No state. */
#include "hook/runtime.h"

uint64_t ct_cpu_argument(const struct ct_cpu_context *cpu, unsigned n) {
    return *ct_cpu_argument_place(cpu, n);
}

void ct_cpu_first_arguments(const struct ct_cpu_context *cpu, uint64_t arguments[6]) {
    for (unsigned n = 0; n < 6; n++)
        arguments[n] = *ct_cpu_argument_place(cpu, n);
}

void ct_cpu_set_argument(struct ct_cpu_context *cpu, unsigned n, uint64_t value) {
    *ct_cpu_argument_place(cpu, n) = value;
}
