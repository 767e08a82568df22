/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine knows of arm64: see machine_x64.h for what each function is for. Following is not written yet;
 * nothing here runs. */
#ifndef CT_STALK_MACHINE_A64_H
#define CT_STALK_MACHINE_A64_H

#include <contrail/cpu.h>
#include <stdbool.h>
#include <stdint.h>

enum { STALK_REGISTERS = 16 }; /* what area.h has room for: the others need a place */

struct stalk_machine {
    bool unused;
};

static inline uint64_t ct_stalk_slot(const uint64_t *gpr) {
    (void)gpr;
    return 0;
}

static inline bool ct_stalk_return_read(const uint64_t *gpr, uint64_t *address) {
    (void)gpr, (void)address;
    return false;
}

static inline void ct_stalk_return_write(uint64_t *gpr, uint64_t address) {
    (void)gpr, (void)address;
}

static inline void ct_stalk_pass_on(uint64_t *gpr, uint64_t return_address) {
    (void)gpr, (void)return_address;
}

struct stalk_cpu {
    uint64_t pc;
};

static inline void ct_stalk_cpu_load(struct stalk_cpu *cpu, const uint64_t *gpr, uint64_t flags, uint64_t pc) {
    (void)gpr, (void)flags;
    cpu->pc = pc;
}

static inline struct ct_cpu_context *ct_stalk_cpu_context(struct stalk_cpu *cpu, void *vectors) {
    (void)vectors;
    return (struct ct_cpu_context *)cpu;
}

static inline uint64_t ct_stalk_cpu_store(const struct stalk_cpu *cpu, uint64_t *gpr, uint64_t *flags) {
    (void)gpr, (void)flags;
    return cpu->pc;
}

static inline uint16_t ct_stalk_hash_target(const struct stalk_machine *m, uint64_t address) {
    (void)m;
    return (uint16_t)(address >> 2);
}

static inline uint16_t ct_stalk_hash_return(const struct stalk_machine *m, uint64_t address) {
    (void)m;
    return (uint16_t)(address >> 2);
}

#endif
