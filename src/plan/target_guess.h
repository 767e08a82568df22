/* SPDX-License-Identifier: Apache-2.0 */
/* Guesses where functions begin in a module whose tables name hardly any: at the targets of direct calls.
 *
 * Only code that is reached counts: from the program's entry, the module's initializers, functions that its tables
 * name, and from there along branches and calls. What is guessed can be wrong only where code that is reached calls a
 * place that is no function, so a place that is also entered otherwise than a function is (by falling into it, by a
 * conditional branch) is no guess. Works on our copy of the code; the time and memory are limited by its size. */
#ifndef CT_PLAN_TARGET_GUESS_H
#define CT_PLAN_TARGET_GUESS_H

#include "plan/target_internal.h"

struct ct_guesses {
    struct ct_func *items; /* by offset; flags CT_FUNC_GUESSED, nameless */
    size_t count, capacity;
};

/* Guesses nothing in modules whose tables are good enough (ct_target_lacks_functions). CT_ERR_NO_MEMORY, CT_ERR_TIMEOUT
 * (cancelled), else 0. */
int ct_target_guess(const struct ct_target_source *s, const struct ct_functions *table, struct ct_guesses *out);

/* ---- per instruction set ---- */

/* What the descent must know about an instruction. */
struct ct_guess_insn {
    uint8_t length, kind; /* kind: enum ct_insn_kind */
    uint64_t target;      /* of a direct branch */
    uint64_t names;       /* an address that it loads into a register; 0: none */
};
bool ct_guess_decode(const uint8_t *bytes, size_t size, uint64_t address, struct ct_guess_insn *out);

#endif
