/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine knows of arm64: registers, calls, the hashes of its tables. See machine_x64.h for what each function
 * is for. */
#ifndef CT_STALK_MACHINE_A64_H
#define CT_STALK_MACHINE_A64_H

#include <contrail/cpu.h>
#include <stdbool.h>
#include <stdint.h>

/* x0 to x30, sp */
enum { STALK_REGISTERS = 32, STALK_X18 = 18, STALK_LR = 30, STALK_SP = 31, STALK_RETURN_IN_REGISTER = 1 };

#define STALK_NEIGHBOURS  (32ull << 20) /* how far around an address its region reaches */
#define STALK_TABLE_ALIGN (1u << 19)    /* lowered code inserts an index into the address of its table */

/* An address in the lower six bytes of a word. */
static inline uint64_t ct_stalk_address(uint64_t word) {
    return word & 0xffffffffffff;
}

enum {
    STALK_SVC = 0xd4000001,
    STALK_LANDING_ENTRY = 4,
    STALK_LANDING_WORD = 52, /* where a landing slot keeps its address, and its size, from where calls return to */
    STALK_LANDING_SIZE = 64,
};

/* What the processor has. */
struct stalk_machine {
    bool unused;
};

static inline bool ct_stalk_can_land(const struct stalk_machine *m) {
    (void)m;
    return true;
}

/* Frames are known by the word below the stack pointer that their function was entered with. */
static inline uint64_t ct_stalk_slot(const uint64_t *gpr) {
    return gpr[STALK_SP] - 8;
}

static inline bool ct_stalk_return_read(const uint64_t *gpr, uint64_t *address) {
    *address = gpr[STALK_LR];
    return true;
}

static inline void ct_stalk_return_write(uint64_t *gpr, uint64_t address) {
    gpr[STALK_LR] = address;
}

static inline void ct_stalk_pass_on(uint64_t *gpr, uint64_t return_address) {
    gpr[STALK_LR] = return_address; /* x0 is result and argument */
}

struct stalk_cpu {
    struct ct_cpu_a64 a64;
};

static inline void ct_stalk_cpu_load(struct stalk_cpu *cpu, const uint64_t *gpr, uint64_t flags, uint64_t pc) {
    uint64_t *words = (uint64_t *)&cpu->a64;
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        words[i] = gpr[i];
    cpu->a64.pc = pc;
    cpu->a64.nzcv = flags;
}

static inline struct ct_cpu_context *ct_stalk_cpu_context(struct stalk_cpu *cpu, void *vectors) {
    cpu->a64.vector = vectors;
    return (struct ct_cpu_context *)&cpu->a64;
}

static inline uint64_t ct_stalk_cpu_store(const struct stalk_cpu *cpu, uint64_t *gpr, uint64_t *flags) {
    const uint64_t *words = (const uint64_t *)&cpu->a64;
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        gpr[i] = words[i];
    *flags = cpu->a64.nzcv;
    return cpu->a64.pc;
}

struct stalk_area;
static inline void ct_stalk_resumable(uint64_t *gpr, const struct stalk_area *area) {
    gpr[STALK_X18] = (uint64_t)area;
}

struct stalk_thread;
/* The thread leaves the engine for `to`: returns code that goes there with all registers, or translated code as it
 * is. */
uint64_t ct_stalk_way_out(struct stalk_thread *t, uint64_t to);

/* As translated code computes them (lower_a64.c). */
static inline uint16_t ct_stalk_hash_target(const struct stalk_machine *m, uint64_t address) {
    (void)m;
    return (uint16_t)(address >> 2);
}

static inline uint16_t ct_stalk_hash_return(const struct stalk_machine *m, uint64_t address) {
    (void)m;
    return (uint16_t)(address >> 2);
}

#endif
