/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the process that leave frames: unwinders, and setjmp with its landing slots. */
#ifndef CT_STALK_UNWIND_H
#define CT_STALK_UNWIND_H

#include "abi/stalk_abi.h"
#include <stdbool.h>
#include <stdint.h>

struct ct_stalker;
struct stalk_cache;
struct stalk_region;

/* Functions of the process, by enum stalk_function; 0: the process has none. */
enum stalk_function {
#define CT_STALK_FUNCTION_ENUM(name, text) STALK_##name,
    CT_STALK_FUNCTION_LIST(CT_STALK_FUNCTION_ENUM)
#undef CT_STALK_FUNCTION_ENUM
        STALK_FUNCTIONS
};
_Static_assert(STALK_FUNCTIONS == CT_STALK_FUNCTIONS, "CT_STALK_FUNCTIONS is the length of the list");
extern uint64_t ct_stalk_functions[STALK_FUNCTIONS];
/* Fills in functions that the linker has found, where none was given. */
void ct_stalk_find_functions(void);
bool ct_stalk_is_setjmp(uint64_t address);

/* Registers the stubs of the return chunk with the unwinder. Unwinders can then pass through them, and following
 * continues when an exception leaves through one. Calls a function of the process, once for a cache. */
void ct_stalk_unwind_register(struct stalk_cache *c);
/* False: the return chunk must stay as it is. */
bool ct_stalk_unwind_deregister(struct stalk_cache *c);

/* Returns code to which setjmp returns instead of `address`: it follows threads that are followed when they arrive. 0:
 * no room. */
uint64_t ct_stalk_landing(struct ct_stalker *s, uint64_t address);
/* Returns the application's return address for such code, from any place in it; 0: pc is not in such code. */
uint64_t ct_stalk_landing_of(uint64_t pc);
/* Where the slots of such code are; 0: there are none yet. */
uint64_t ct_stalk_landings(void);
/* Returns the region of these slots, if its copy of the helpers contains pc. */
const struct stalk_region *ct_stalk_landing_region(uint64_t pc);
bool ct_stalk_landings_shared(void);
void ct_stalk_landings_in_child(void);

#endif
