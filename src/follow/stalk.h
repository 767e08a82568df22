/* SPDX-License-Identifier: Apache-2.0 */
/* Following a process through translated code: the agent with the Stalker is injected, threads continue in translated
 * code, and their calls arrive in the index lane as hooked calls do (agent/stalk_agent.c). Recording, drain, trace
 * files and their readers are the same as with hooks.
 *
 * Owner: the thread that leads the recording; the drain thread finds names. */
#ifndef CT_FOLLOW_STALK_H
#define CT_FOLLOW_STALK_H

#include "abi/stalk_abi.h"
#include <stdbool.h>
#include <stdint.h>

struct ct_json;
struct ct_recording;
struct ct_session_statistics;
struct ct_stalk;
struct ct_symbols_writer;
struct ct_target_plan;

/* Turns a plan for hooks into one for following: only the names are used. No function is skipped because it cannot be
 * hooked, and every call returns. */
void ct_stalk_plan(struct ct_target_plan *plan);

/* The target is stopped. Afterwards its threads are where they will be followed. On failure nothing has changed in
 * it. */
int ct_stalk_install(struct ct_recording *r);
/* A followed process has forked this child, which waits in its agent: it gets a lane of its own. The target is
 * stopped. */
int ct_stalk_install_forked(struct ct_recording *r, struct ct_recording *parent);
/* For ct_drain.resolve: the function of a call's target. */
uint64_t ct_stalk_resolve(void *recording, uint32_t number);
/* For ct_drain.explain: writes the names of all targets that are known by now to the symbols file. */
int ct_stalk_explain(void *recording);
/* For ct_drain.code: a block that was executed or translated. */
struct ct_drain_thread;
struct ct_event;
void ct_stalk_code_event(void *recording, struct ct_drain_thread *thread, const struct ct_event *event,
                         uint64_t position);
/* For ct_drain.every_pass: gives names to libraries that were loaded since the last pass. */
bool ct_stalk_every_pass(void *recording);
/* Gives names to what was called so far: modules are about to change. */
void ct_stalk_settle_all(struct ct_recording *r);
/* Targets without a name, as functions of module 0: all of them, or those that the symbols file does not have. The
 * second function says whether there are any of the latter. */
void ct_stalk_put_symbols(struct ct_recording *r, struct ct_symbols_writer *writer, bool all);
bool ct_stalk_has_new_symbols(const struct ct_recording *r);
/* The object "stalk" of the manifest; nothing when functions are hooked. */
void ct_stalk_put(struct ct_recording *r, struct ct_json *json);
void ct_stalk_statistics(const struct ct_recording *r, struct ct_session_statistics *out);
/* Every thread continues in original code. The target is stopped, before and afterwards. */
int ct_stalk_leave(struct ct_recording *r);
/* Does what ct_stalk_leave does after a recorder that was killed, for one that wants to attach. The target is stopped.
 * CT_ERR_BUSY: that recorder is alive. */
int ct_stalk_clean_after(struct ct_recording *r);
/* The trace is finished: writes counted blocks and calls beside it (files blocks and calls) while the tables still
 * exist. */
int ct_stalk_write_tables(struct ct_recording *r);
void ct_stalk_free(struct ct_recording *r);

#endif
