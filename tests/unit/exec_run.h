/* SPDX-License-Identifier: Apache-2.0 */
/* Runs machine code from a given processor state and reports the state it ended in: the harness of tests that execute
 * generated code. One thread only.
 *
 * The code ends by jumping to one of exec_exit_address(0..EXEC_EXITS-1), or by a fault. */
#ifndef CT_TESTS_EXEC_RUN_H
#define CT_TESTS_EXEC_RUN_H

#include <stddef.h>
#include <stdint.h>

#define EXEC_EXITS      8
#define EXEC_XSAVE_SIZE 4096 /* room for x87, SSE, AVX and AVX-512 state in standard form */

struct exec_state {
    uint64_t gpr[16]; /* hardware numbering */
    uint64_t flags;
    uint64_t exit;   /* out: which exit was reached */
    uint64_t signal; /* out: 0, or the signal that ended it */
    uint64_t pc;     /* out: of the fault */
    _Alignas(64) uint8_t xsave[EXEC_XSAVE_SIZE];
};

/* Called before each instruction while single-stepping, with the program counter and rsp; may move the program counter.
 * Returns 0 to stop stepping. */
typedef int exec_step(void *arg, uint64_t *pc, uint64_t rsp);

void exec_init(void); /* signal handlers, alternate stack, CPU state to save */
uint64_t exec_exit_address(unsigned n);

/* Runs from `in` at `entry`; the result is in *out. `step` NULL: at full speed. */
void exec_run(const struct exec_state *in, uint64_t entry, struct exec_state *out, exec_step *step, void *arg);

/* Fills vector and x87 state with random values that fault nowhere. */
void exec_random_vectors(struct exec_state *state, uint64_t (*next)(void));

/* 0 when the two vector states are the same, the x87 instruction and data pointers apart. */
int exec_compare_vectors(const struct exec_state *a, const struct exec_state *b);

#endif
