/* SPDX-License-Identifier: Apache-2.0 */
/* The index lane as the agent sees it. Freestanding; see agent_lane.c. */
#ifndef CT_AGENT_AGENT_LANE_H
#define CT_AGENT_AGENT_LANE_H

#include "abi/boot_abi.h"
#include "abi/shm_abi.h"
#include "hook/runtime.h"

/* Maps the parts of the shared memory; called before any thread has a block. False: the memory is not as expected. */
bool ct_agent_lane_open(uint64_t shm);
/* The code to switch off if the controller dies. It must stay where it is. */
void ct_agent_lane_set_code(const struct ct_boot_code *code);
/* Does this memory belong to the stubs of that code? */
bool ct_agent_lane_holds_stubs(uint64_t at, uint64_t size);
/* Switches the shared code of all stubs to the form that does not use GS (hook/stubs_<isa>.S). */
void ct_agent_lane_switch_code(void);
struct ct_shm_control *ct_agent_lane_control(void);
/* Is there a controller that reads? */
bool ct_agent_lane_is_recording(void);
/* For a thread that no handler interrupts: the slots that are left in its chunk, of which it may fill some, the first
 * ones first. `*count` is 0 when there is none: then ct_event_reserve finds one. */
struct ct_event *ct_event_room(const struct ct_block *b, size_t *count);
/* It has filled `count` of them. */
void ct_event_wrote(struct ct_block *b, size_t count);
/* Waits a moment. */
void ct_agent_lane_wait(void);
/* For a thread that must not lose anything: waits longer each time, until the thread reports that it got what it waits
 * for. */
void ct_agent_lane_wait_longer(struct ct_block *b);
void ct_agent_lane_wait_end(struct ct_block *b);

#endif
