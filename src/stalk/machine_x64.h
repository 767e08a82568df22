/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine knows of x86_64: registers, calls, the hashes of its tables. */
#ifndef CT_STALK_MACHINE_X64_H
#define CT_STALK_MACHINE_X64_H

#include "os/os.h"
#include <contrail/cpu.h>
#include <stdbool.h>
#include <stdint.h>

/* Registers in hardware numbering; at which byte of a landing slot calls return. */
enum { STALK_REGISTERS = 16, STALK_RETURN_IN_REGISTER = 0, STALK_LANDING_ENTRY = 0 };

#define STALK_NEIGHBOURS  (192ull << 20) /* how far around an address its region reaches */
#define STALK_TABLE_ALIGN 1u

/* An address in the lower six bytes of a word. Addresses of the vsyscall page are negative. */
static inline uint64_t ct_stalk_address(uint64_t word) {
    return (uint64_t)((int64_t)(word << 16) >> 16);
}

/* What the processor has; translated code depends on it. */
struct stalk_machine {
    bool has_rorx, quick_loop, has_gsbase;
    uint8_t keep_flags[(1 << 16) / 8]; /* a bit for each slot of the table of returns (flags_x64.c) */
    /* The code after the last call that was translated: does it overwrite the flags, and where has it led? It is
     * translated next, as a rule. */
    struct {
        uint64_t address, other, to;
        uint64_t turn; /* of the mappings */
        bool overwrites;
    } after_call;
};

/* A landing slot finds out by GS whether its thread is followed. */
static inline bool ct_stalk_can_land(const struct stalk_machine *m) {
    return m->has_gsbase;
}

/* ---- a function that is about to begin ---- */

/* Where its return address is; frames of callers are higher. */
static inline uint64_t ct_stalk_slot(const uint64_t *gpr) {
    return gpr[4];
}

static inline bool ct_stalk_return_read(const uint64_t *gpr, uint64_t *address) {
    return !ct_os_peek(gpr[4], address, sizeof *address);
}

static inline void ct_stalk_return_write(uint64_t *gpr, uint64_t address) {
    *(uint64_t *)gpr[4] = address;
}

/* A call with the return value of another as its argument. */
static inline void ct_stalk_pass_on(uint64_t *gpr, uint64_t return_address) {
    gpr[7] = gpr[0];
    gpr[4] -= 8;
    *(uint64_t *)gpr[4] = return_address;
}

/* ---- registers as callouts see them ---- */

struct stalk_cpu {
    struct ct_cpu_x64 x64;
};

static inline void ct_stalk_cpu_load(struct stalk_cpu *cpu, const uint64_t *gpr, uint64_t flags, uint64_t pc) {
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        cpu->x64.gpr[i] = gpr[i];
    cpu->x64.pc = pc;
    cpu->x64.flags = flags;
}

static inline struct ct_cpu_context *ct_stalk_cpu_context(struct stalk_cpu *cpu, void *vectors) {
    cpu->x64.vector = vectors;
    return (struct ct_cpu_context *)&cpu->x64;
}

/* Returns where the thread goes on. */
static inline uint64_t ct_stalk_cpu_store(const struct stalk_cpu *cpu, uint64_t *gpr, uint64_t *flags) {
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        gpr[i] = cpu->x64.gpr[i];
    *flags = cpu->x64.flags;
    return cpu->x64.pc;
}

struct stalk_area;
/* Registers of the program become those that translated code continues with. */
static inline void ct_stalk_resumable(uint64_t *gpr, const struct stalk_area *area) {
    (void)gpr, (void)area;
}

struct stalk_thread;
/* The thread leaves the engine for `to`: returns code that goes there. */
static inline uint64_t ct_stalk_way_out(struct stalk_thread *t, uint64_t to) {
    (void)t;
    return to;
}

/* ---- tables: as translated code computes them (lower_x64.c, entry_x64.S) ---- */

static inline uint16_t ct_stalk_hash_target(const struct stalk_machine *m, uint64_t address) {
    uint32_t low = (uint32_t)address;
    return m->has_rorx ? (uint16_t)((low >> 6 | low << 26) + low) : (uint16_t)low;
}

/* Return sites are hardly ever closer to each other than that: more of them share a line of the cache. */
static inline uint16_t ct_stalk_hash_return(const struct stalk_machine *m, uint64_t address) {
    return (uint16_t)(m->has_rorx ? address >> 2 : address);
}

#endif
