/* SPDX-License-Identifier: Apache-2.0 */
/* Makes lanes fit into what limits leave to a target. */
#ifndef CT_SESSION_RECORDING_ROOM_H
#define CT_SESSION_RECORDING_ROOM_H

struct ct_lane_options;
struct ct_recording;

/* Makes lanes small enough for what limits leave to the process. CT_ERR_NO_MEMORY: not even small ones fit. */
int ct_recording_fit(struct ct_recording *r, struct ct_lane_options *lane);

#endif
