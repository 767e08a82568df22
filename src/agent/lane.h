/* The index lane as the agent sees it. Freestanding; see lane.c. */
#ifndef CT_AGENT_LANE_H
#define CT_AGENT_LANE_H

#include "abi/boot_abi.h"
#include "abi/shm_abi.h"
#include "hook/runtime.h"

/* Maps the shared memory's parts; before any thread has a block. False: it is not what it should be. */
bool ct_lane_open(uint64_t shm);
/* What to switch off should the controller die. The arrays stay where they are. */
void ct_lane_set_stubs(const struct ct_boot_stub *stubs, uint64_t count, const struct ct_boot_region *regions,
                       uint64_t region_count);
struct ct_shm_control *ct_lane_control(void);

#endif
