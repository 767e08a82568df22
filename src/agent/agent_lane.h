/* The index lane as the agent sees it. Freestanding; see agent_lane.c. */
#ifndef CT_AGENT_AGENT_LANE_H
#define CT_AGENT_AGENT_LANE_H

#include "abi/boot_abi.h"
#include "abi/shm_abi.h"
#include "hook/runtime.h"

/* Maps the shared memory's parts; before any thread has a block. False: it is not what it should be. */
bool ct_agent_lane_open(uint64_t shm);
/* What to switch off should the controller die. It stays where it is. */
void ct_agent_lane_set_code(const struct ct_boot_code *code);
/* Is it memory of that code's stubs? */
bool ct_agent_lane_holds_stubs(uint64_t at, uint64_t size);
/* The shared code of all stubs becomes the form that does not use GS (hook/stubs_<isa>.S). */
void ct_agent_lane_switch_code(void);
struct ct_shm_control *ct_agent_lane_control(void);
/* Is anybody there to read? */
bool ct_agent_lane_is_recording(void);
/* A moment. */
void ct_agent_lane_wait(void);
/* For a thread that may not lose anything: a longer one each time, until it says that it has got what it waits for. */
void ct_agent_lane_wait_longer(struct ct_block *b);
void ct_agent_lane_wait_end(struct ct_block *b);

#endif
