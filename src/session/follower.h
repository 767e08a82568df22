/* The other way to record: threads are followed, functions are not hooked. What a session asks of it; src/follow, which
 * is above this folder, has the functions (follow/stalk.h says more about each).
 *
 * Owner: the thread that leads the recording. Functions for a recording whose functions are hooked do nothing. */
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
    /* Makes a plan for hooks one for names. */
    void (*plan)(struct ct_target_plan *plan);
    /* The target is stopped, and stays so. */
    int (*install)(struct ct_recording *r);
    int (*install_forked)(struct ct_recording *r, struct ct_recording *parent);
    /* The drain, which is about to start, asks for names. */
    void (*join_drain)(const struct ct_recording *r, struct ct_drain *drain);
    /* The target is stopped, and stays so: every thread goes on in original code. */
    int (*leave)(struct ct_recording *r);
    /* So does one that was followed by a recorder which was killed. CT_ERR_BUSY: the recorder lives. */
    int (*clean_after)(struct ct_recording *r);
    void (*free)(struct ct_recording *r);
    /* Into the symbols file: functions without a name, all, or those that are new. Are there any of these? */
    void (*put_symbols)(struct ct_recording *r, struct ct_symbols_writer *writer, bool all);
    bool (*has_new_symbols)(const struct ct_recording *r);
    /* Into the manifest; beside the trace, once it is finished; into the statistics. */
    void (*put_manifest)(struct ct_recording *r, struct ct_json *json);
    int (*write_tables)(struct ct_recording *r);
    void (*put_statistics)(const struct ct_recording *r, struct ct_session_statistics *out);
};

extern const struct ct_follower ct_follower;

#endif
