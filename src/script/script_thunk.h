/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a function that a script serves. Per machine (script_thunk_<isa>.c). */
#ifndef CT_SCRIPT_SCRIPT_THUNK_H
#define CT_SCRIPT_SCRIPT_THUNK_H

#include <stdint.h>

#define CT_SCRIPT_THUNK 32u

/* Puts its number where the agent's code at `entry` expects it, and goes there. */
void ct_script_write_thunk(uint8_t bytes[CT_SCRIPT_THUNK], uint32_t number, uint64_t entry);

#endif
