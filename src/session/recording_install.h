/* SPDX-License-Identifier: Apache-2.0 */
/* How a recording gets into its target: plan, stop, inject, hook. recording_leave.h has the way back.
 *
 * Runs on the thread that leads the recording. */
#ifndef CT_SESSION_RECORDING_INSTALL_H
#define CT_SESSION_RECORDING_INSTALL_H

#include "plan/target_plan.h"

struct ct_recording;
struct ct_shared_plan;

int ct_recording_install(struct ct_recording *r);
/* The files of a trace begin with the names of functions, which must be there before anything is recorded. For
 * processes that are stopped already, a follower begins and ends that around what it does first. */
void ct_recording_begin_names(struct ct_recording *r);
int ct_recording_end_names(struct ct_recording *r);
/* Writes down what was found, after ct_recording_install: a process that was attached to runs by then. */
void ct_recording_note_install(struct ct_recording *r);
/* Installs a forked child of a recorded process: it has agent, stubs and patches already, and gets its own lane. */
int ct_recording_install_forked(struct ct_recording *r, struct ct_recording *parent);
/* Filter and cache are the session's. */
int ct_recording_make_plan(struct ct_recording *r, struct ct_target_plan_options options, struct ct_shared_plan **out);

#endif
