/* SPDX-License-Identifier: Apache-2.0 */
/* A saved arm64 context, for script_agent.c. */
#include "agent/script_agent.h"

const uint32_t ct_script_cpu_words = __builtin_offsetof(struct ct_cpu_a64, vector) / 8;

uint64_t ct_script_cpu_vectors(const struct ct_cpu_context *cpu) {
    return (uint64_t)((const struct ct_cpu_a64 *)cpu)->vector;
}

void ct_script_cpu_set_vectors(struct ct_cpu_context *cpu, uint64_t vectors) {
    ((struct ct_cpu_a64 *)cpu)->vector = (struct ct_vectors_a64 *)vectors;
}

uint64_t ct_script_callback_return(const struct ct_cpu_context *cpu) {
    return ((const struct ct_cpu_a64 *)cpu)->lr;
}
