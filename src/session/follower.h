/* SPDX-License-Identifier: Apache-2.0 */
/* The other way to record: threads are followed, functions are not hooked. This is what a session needs from it;
 * src/follow, which is above this folder, implements it (see follow/stalk.h).
 *
 * Owner: the thread that leads the recording. The functions do nothing for a recording whose functions are hooked. */
#ifndef CT_SESSION_FOLLOWER_H
#define CT_SESSION_FOLLOWER_H

#include <stdbool.h>

struct ct_drain;
struct ct_json;
struct ct_recording;
struct ct_session_statistics;
struct ct_symbols_writer;
struct ct_target_plan;

struct ct_follower {
    /* Turns a plan for hooks into one for names. */
    void (*plan)(struct ct_target_plan *plan);
    /* Starts to follow. The target is stopped, and stays so. */
    int (*install)(struct ct_recording *r);
    int (*install_forked)(struct ct_recording *r, struct ct_recording *parent);
    /* Prepares the drain, which is about to start and needs names. */
    void (*join_drain)(const struct ct_recording *r, struct ct_drain *drain);
    /* Modules are no longer mapped, and are about to be marked as gone: what belongs to them gets its names now. */
    void (*modules_leave)(struct ct_recording *r);
    /* Ends following. The target is stopped, and stays so: every thread continues in original code. */
    int (*leave)(struct ct_recording *r);
    /* Ends what a killed recorder has left. CT_ERR_BUSY: the recorder lives. */
    int (*clean_after)(struct ct_recording *r);
    void (*free)(struct ct_recording *r);
    /* Write functions without a name to the symbols file: all, or the new ones. Are there new ones? */
    void (*put_symbols)(struct ct_recording *r, struct ct_symbols_writer *writer, bool all);
    bool (*has_new_symbols)(const struct ct_recording *r);
    /* Write to the manifest; to files beside the trace when it is finished; to the statistics. */
    void (*put_manifest)(struct ct_recording *r, struct ct_json *json);
    int (*write_tables)(struct ct_recording *r);
    void (*put_statistics)(const struct ct_recording *r, struct ct_session_statistics *out);
};

extern const struct ct_follower ct_follower;

#endif
