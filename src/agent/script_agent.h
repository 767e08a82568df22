/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the agent that serves scripts. Freestanding; see script_agent.c. */
#ifndef CT_AGENT_SCRIPT_AGENT_H
#define CT_AGENT_SCRIPT_AGENT_H

#include "abi/boot_abi.h"
#include "abi/script_abi.h"
#include "hook/runtime.h"

/* The agent for hooks alone (agent.c), which this one contains. */
uint64_t ct_agent_run(struct ct_boot *boot);

#pragma GCC visibility push(hidden)

/* The controller hears that there is something new. */
void ct_script_ring_bell(struct ct_script_shared *shared);
/* Asks the controller, from the engine of the Stalker. True: it has answered. */
bool ct_script_ask(struct ct_cpu_context *cpu, uint32_t kind, uint32_t id, uint64_t address);

/* Beside a recording (script_guest.c): becomes its guest. */
int ct_script_guest_join(const struct ct_script_join *join);
/* False: the recorder has gone, or is about to; or this is a child of the process that is scripted. */
bool ct_script_guest_is_open(void);

/* Per machine (script_cpu_<isa>.c, script_call_<isa>.S). */

/* How many words of a saved context are registers; the rest is not copied. */
extern const uint32_t ct_script_cpu_words;
/* Address of the saved vector registers; 0: they were not saved. */
uint64_t ct_script_cpu_vectors(const struct ct_cpu_context *cpu);
void ct_script_cpu_set_vectors(struct ct_cpu_context *cpu, uint64_t vectors);
/* Where a callback returns to: on entry, as the caller left it. */
uint64_t ct_script_callback_return(const struct ct_cpu_context *cpu);
/* What thunks of callbacks jump to, with the callback's number on the stack (arm64: in x17); it calls the second. */
void ct_script_callback_entry(void);
void ct_script_on_callback(struct ct_cpu_context *cpu, uint64_t id);
extern struct ct_vectors ct_script_vectors;
/* Makes the call, or system call, that is described. Uses all registers as a function may. */
void ct_script_call(struct ct_script_work *work);

#pragma GCC visibility pop

#endif
