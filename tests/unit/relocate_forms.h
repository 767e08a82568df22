/* SPDX-License-Identifier: Apache-2.0 */
/* Generated snippets for the relocator's execution test: each is code at its original place, the registers to start
 * from, and what may differ. See relocate_exec_test.c. */
#ifndef CT_TESTS_RELOCATE_FORMS_H
#define CT_TESTS_RELOCATE_FORMS_H

#include <stdbool.h>

#include "exec_run.h"

#define REGION_SIZE 0x10000ull
#define DATA_SIZE   0x4000ull /* RIP-relative operands lie in its middle */
#define STACK_SIZE  0x2000ull
#define GS_BASE     0x40ull

/* One original place: everything in it is within 2 GiB. Addresses are this process's own. */
struct place {
    uint64_t code;
    uint64_t data;
    uint64_t near; /* for copies; code and data are in reach */
};

struct snippet {
    const char *name;
    const struct place *place;
    uint64_t address;
    uint8_t code[192];
    size_t size;
    size_t minimum;  /* bytes to move */
    bool calls;      /* the bytes below the return address are free */
    bool no_step;    /* sees that it is single-stepped */
    bool discard;    /* uninteresting when the original faults with SIGILL */
    unsigned opcode; /* of a data operand: something that distinguishes instructions, else 0 */
    struct exec_state in;
};

/* What memory holds before each run. */
extern uint8_t initial_data[DATA_SIZE], initial_stack[STACK_SIZE];
extern uint64_t stack_base, far_base;

uint64_t random_next(void);
uint64_t random_below(uint64_t n);
void random_seed(uint64_t seed);

/* Makes a random snippet at s->place, of any form; the caller has filled in->gpr and memory with random values. */
void make_snippet(struct snippet *s);

/* Keeps account of what has run, for the end of the test. */
void note_run(const struct snippet *s, uint64_t signal);
const char *never_ran(void);      /* a form that never ran to its end though the CPU knows it, or NULL */
unsigned count_opcodes_run(void); /* different instructions with a RIP-relative operand that ran to their end */

/* Places that tested code may go to: exit n of the harness, in or near the code region, and a plain ret. */
#define EXIT_STUBS 0xf000ull
#define RET_STUB   0xf800ull
static inline uint64_t exit_stub(uint64_t region, unsigned n) {
    return region + EXIT_STUBS + 16 * (uint64_t)n;
}

#endif
