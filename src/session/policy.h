/* SPDX-License-Identifier: Apache-2.0 */
/* A policy: what marks a moment as interesting, and what else can be changed while a session records. It has versions.
 *
 * Pure logic: no thread, no shared memory, time is an argument. Threads that share a policy lock it. Invariant: a
 * function trigger keeps its bit as long as it exists; the bit of a removed trigger is free for another.
 *
 *   symbol=GLOB        a function that matches is called
 *   call=GLOB:arg2:gt:4096 and arg0:eq:1
 *                      it is called, and its arguments (arg0 to arg5) compare so (eq, ne, lt, gt; decimal, negative or
 *                      0x…), or point to a text that is like a pattern: arg0:like:*.conf
 *   return=GLOB:lt:0   it returns a value that compares so, or that is like a pattern; return=GLOB:result:lt:0 is the
 *                      same; errno:eq:ENOENT: it has set errno; conditions are joined by " and "
 *   slow=GLOB:50ms     it took longer (ns, us, ms, s)
 *   crash              the program dies of a signal that it caused itself
 *   signal=NAME        it gets the signal (SIGUSR1, USR1, 10)
 *   time=HH:MM-HH:MM   the local time of day is in this span, which may include midnight
 *   manual             `contrail ctl PID mark`
 *
 * A GLOB matches a function's name as --only does: as the binary has it, demangled, or demangled without parameters.
 * MODULE!GLOB matches only functions of modules whose file name or path matches MODULE. */
#ifndef CT_SESSION_POLICY_H
#define CT_SESSION_POLICY_H

#include "abi/trigger.h"
#include <contrail/session.h>
#include <stdbool.h>
#include <stdint.h>

struct ct_json;

/* The list exists once: kind, word, an example for messages. */
#define CT_TRIGGER_LIST(X)                                                                                             \
    X(SYMBOL, "symbol", "symbol=handle_*")                                                                             \
    X(CALL, "call", "call=write:arg2:gt:4096")                                                                         \
    X(RETURN, "return", "return=parse_*:lt:0")                                                                         \
    X(SLOW, "slow", "slow=query_*:50ms")                                                                               \
    X(CRASH, "crash", "crash")                                                                                         \
    X(SIGNAL, "signal", "signal=SIGUSR1")                                                                              \
    X(TIME, "time", "time=22:00-06:30")                                                                                \
    X(MANUAL, "manual", "manual")
enum ct_trigger_kind {
#define CT_TRIGGER_ENUM(name, word, example) CT_TRIGGER_##name,
    CT_TRIGGER_LIST(CT_TRIGGER_ENUM)
#undef CT_TRIGGER_ENUM
        CT_TRIGGER_COUNT
};

#define CT_TRIGGER_TEXT 256u /* longest text, including its 0 */
#define CT_POLICY_MAX   64u  /* most triggers at a time, and most globs of functions that are switched off */

struct ct_trigger {
    enum ct_trigger_kind kind;
    char text[CT_TRIGGER_TEXT];                                    /* as the user wrote it */
    char module[CT_TRIGGER_TEXT], glob[CT_TRIGGER_TEXT];           /* of function triggers; module "": any */
    struct ct_trigger_condition conditions[CT_TRIGGER_CONDITIONS]; /* CALL, RETURN: all must hold */
    uint32_t condition_count;
    uint64_t slow_ns; /* SLOW: longer than this */
    int signal;       /* SIGNAL */
    int from, to;     /* TIME: minutes of the day; from > to: over midnight */
    int bit;          /* of function triggers in a policy; otherwise -1 */
    uint32_t id;      /* unique in a policy: also after another trigger has got its bit */
};

/* CT_ERR_INVALID_ARGUMENT: `error` has a sentence with the remedy. */
int ct_policy_parse(const char *text, struct ct_trigger *out, char *error, size_t size);
/* Takes the conditions of a CALL or RETURN off the end of the text, which begins with a glob. Returns NULL, or what is
 * wrong, as the predicate of a sentence (policy_conditions.c). */
const char *ct_policy_parse_conditions(struct ct_trigger *trigger, char *text);
bool ct_trigger_is_of_functions(enum ct_trigger_kind kind);
/* Is this minute of the day (0 to 1439) in the time span of the trigger? */
bool ct_trigger_covers_minute(const struct ct_trigger *trigger, int minute);

struct ct_policy_version {
    uint32_t version; /* from 1 */
    uint64_t hash;    /* FNV-1a 64 of the text */
    uint64_t time_ns; /* when it began */
    char *text;       /* lines in a fixed order: equal policies have equal texts */
    char *change;     /* "trigger add crash"; "start" */
};

#define CT_POLICY_VERSIONS 1000u /* kept versions: the first, and the newest */

struct ct_policy {
    struct ct_trigger *triggers[CT_POLICY_MAX]; /* in the order they were given */
    size_t count;
    char *excluded[CT_POLICY_MAX]; /* globs of functions that were switched off while recording */
    size_t excluded_count;
    struct {
        uint32_t id;
        char text[CT_TRIGGER_TEXT];
    } removed[CT_TRIGGER_BITS]; /* a ring: marks that they made may still arrive */
    uint32_t removed_count, next_id;
    bool recording;
    unsigned budget; /* hundredths of a percent of the target's CPU time; 0: none */
    uint16_t used_bits;
    char settings[256]; /* rolls and mode, for the text of versions */
    struct ct_policy_version *versions;
    size_t version_count;
    uint32_t version; /* number of the newest version */
    uint64_t omitted; /* versions that are not kept */
};

/* Version 1 has the options' triggers, rolls and mode. */
int ct_policy_create(struct ct_policy **out, const struct ct_session_options *options, uint64_t now_ns, char *error,
                     size_t size);
void ct_policy_destroy(struct ct_policy *policy);

/* Changes. 0: there is a new version. CT_ERR_INVALID_ARGUMENT, CT_ERR_NO_SPACE (no bit or place is left),
 * CT_ERR_ALREADY_HOOKED (it is so already), CT_ERR_NOT_FOUND: nothing has changed, and `error` has a sentence. */
int ct_policy_add(struct ct_policy *policy, const char *text, uint64_t now_ns, char *error, size_t size);
int ct_policy_remove(struct ct_policy *policy, const char *text, uint64_t now_ns, char *error, size_t size);
int ct_policy_exclude(struct ct_policy *policy, const char *glob, bool add, uint64_t now_ns, char *error, size_t size);
int ct_policy_budget(struct ct_policy *policy, const char *text, uint64_t now_ns, char *error, size_t size);
int ct_policy_record(struct ct_policy *policy, bool on, uint64_t now_ns, char *error, size_t size);

/* ---- lookups ---- */

/* The function triggers that apply to this function, as bits. `module` is a path or a file name. */
uint16_t ct_policy_mask(const struct ct_policy *policy, const char *name, const char *module);
/* The function trigger with this bit; NULL: the bit is free. */
const struct ct_trigger *ct_policy_function(const struct ct_policy *policy, unsigned bit);
/* The text of a trigger, also of one that was removed recently; "": unknown. */
const char *ct_policy_text(const struct ct_policy *policy, uint32_t id);
/* The first trigger for this signal; `crash`: it kills the process. NULL: none. */
const struct ct_trigger *ct_policy_signal(const struct ct_policy *policy, int signal, bool crash);
/* The first time trigger for this minute of the day (local). NULL: none. */
const struct ct_trigger *ct_policy_time(const struct ct_policy *policy, int minute);
/* Does it have triggers for which the process must stay traced (crash, signal)? */
bool ct_policy_needs_tracing(const struct ct_policy *policy);
/* Is the function switched off? */
bool ct_policy_is_excluded(const struct ct_policy *policy, const char *name, const char *module);
uint64_t ct_policy_hash(const struct ct_policy *policy);
/* Writes the array "policies" of the manifest. */
void ct_policy_put(const struct ct_policy *policy, struct ct_json *json);

/* Does a module's path or file name match? Does a function match, in a module that does ("": any)? */
bool ct_policy_fits_module(const char *glob, const char *module);
bool ct_policy_fits(const char *module_glob, const char *glob, const char *name, const char *module);

#endif
