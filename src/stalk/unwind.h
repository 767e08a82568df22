/* Functions of the process that leave frames: unwinders, and setjmp with its landings. */
#ifndef CT_STALK_UNWIND_H
#define CT_STALK_UNWIND_H

#include "abi/stalk_abi.h"
#include <stdbool.h>
#include <stdint.h>

struct ct_stalker;
struct stalk_cache;
struct stalk_region;

/* Functions of the process, by enum stalk_function; 0: there is none. */
enum stalk_function {
#define CT_STALK_FUNCTION_ENUM(name, text) STALK_##name,
    CT_STALK_FUNCTION_LIST(CT_STALK_FUNCTION_ENUM)
#undef CT_STALK_FUNCTION_ENUM
        STALK_FUNCTIONS
};
_Static_assert(STALK_FUNCTIONS == CT_STALK_FUNCTIONS, "the list is counted");
extern uint64_t ct_stalk_functions[STALK_FUNCTIONS];
/* Those that the linker has found, where nobody has given them. */
void ct_stalk_find_functions(void);
bool ct_stalk_is_setjmp(uint64_t address);

/* Unwinders find their way through the stubs of the return chunk, and following goes on when an exception leaves
 * through one. Calls a function of the process, once for a cache. */
void ct_stalk_unwind_register(struct stalk_cache *c);
/* False: the range must stay as it is. */
bool ct_stalk_unwind_deregister(struct stalk_cache *c);

/* Code for setjmp to return to instead of `address`: it follows threads that are followed when they get there. 0: no
 * room. */
uint64_t ct_stalk_landing(struct ct_stalker *s, uint64_t address);
/* The application's return address for such code, from any place in it; 0: it is none. */
uint64_t ct_stalk_landing_of(uint64_t pc);
/* The copy of the helpers that these use, if it contains pc. */
const struct stalk_region *ct_stalk_landing_region(uint64_t pc);
bool ct_stalk_landings_shared(void);
void ct_stalk_landings_in_child(void);

#endif
