/* SPDX-License-Identifier: Apache-2.0 */
/* A target as JavaScript holds it: the handle of src/script, and the thread that waits for its requests.
 *
 * Structures of src/script/script.h cross as they are, in buffers; `layout` of the exports says where their fields
 * are. */
#ifndef CT_NODE_TARGET_H
#define CT_NODE_TARGET_H

#include "addon.h"
#include "script/script.h"

#include <pthread.h>

struct ct_node_request {
    struct ct_script_request request;
    struct ct_node_request *next;
};

struct ct_node_target {
    struct ct_script *script; /* NULL: closed */
    /* Requests that were taken and are not handled, oldest first; under `mutex`, `more` says that there is one. */
    struct ct_node_request *first, *last;
    pthread_mutex_t mutex;
    pthread_cond_t more;
    napi_env env;
    napi_ref handler; /* called with each request, on Node's thread */
    napi_threadsafe_function wake;
    pthread_t waiter;
    bool has_waiter;
    unsigned calls; /* of functions of src/script that are under way on Node's thread: it must not be closed */
    struct ct_node_target *next; /* of those that are open: owned by Node's thread */
};

/* The next argument; NULL after a failure: it is no target, or closed. */
struct ct_node_target *ct_node_take_target(struct ct_node_call *call);
/* The next argument, a buffer of at least `size` bytes. */
void *ct_node_take_struct(struct ct_node_call *call, size_t size);
/* The same, NULL for null and undefined. */
void *ct_node_take_struct_or_null(struct ct_node_call *call, size_t size);
/* Throws what failed last; NULL. */
napi_value ct_node_fail(struct ct_node_call *call, struct ct_node_target *target, int status);
/* undefined, or throws when the status is an error. */
napi_value ct_node_done(struct ct_node_call *call, struct ct_node_target *target, int status);
/* Calls the handler with a request. False: the script has thrown, which the handler should not let through. */
bool ct_node_handle(struct ct_node_target *target, const struct ct_script_request *request);

void ct_node_add_lists(napi_env env, napi_value exports);   /* lists.c: what is in the target */
void ct_node_add_memory(napi_env env, napi_value exports);  /* memory.c */
void ct_node_add_hooks(napi_env env, napi_value exports);   /* hooks.c: hooks, requests, work */
void ct_node_add_stalker(napi_env env, napi_value exports); /* stalker.c: following, transforms, probes */
void ct_node_add_objects(napi_env env, napi_value exports); /* objects.c: CModule */
void ct_node_add_layout(napi_env env, napi_value exports);  /* layout.c */

#endif
