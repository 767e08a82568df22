/* SPDX-License-Identifier: Apache-2.0 */
/* Following threads, events, probes and transforms. */
#include "target.h"

#include <string.h>

/* follow(target, request or null, tid, structure) */
static napi_value follow(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct_or_null(&call, sizeof *request);
    int32_t tid = ct_node_take_i32(&call);
    const struct ct_script_follow *what = ct_node_take_struct(&call, sizeof *what);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_follow(target->script, request, tid, what));
}

/* unfollow(target, request or null, tid) */
static napi_value unfollow(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct_or_null(&call, sizeof *request);
    int32_t tid = ct_node_take_i32(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_unfollow(target->script, request, tid));
}

static napi_value exclude(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint64_t start = ct_node_take_u64(&call), size = ct_node_take_u64(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_exclude(target->script, start, size));
}

static napi_value set_trust(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    int32_t threshold = ct_node_take_i32(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_set_trust(target->script, threshold));
}

/* setQueue(target, capacity, intervalMs) */
static napi_value set_queue(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t capacity = ct_node_take_u32(&call), interval = ct_node_take_u32(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_set_queue(target->script, capacity, interval));
}

/* invalidate(target, tid, address) */
static napi_value invalidate(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    int32_t tid = ct_node_take_i32(&call);
    uint64_t address = ct_node_take_u64(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_invalidate(target->script, tid, address));
}

static napi_value flush(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_flush(target->script));
}

static napi_value collect(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    if (call.failed)
        return NULL;
    int64_t bytes = ct_script_collect(target->script);
    return ct_node_done(&call, target, bytes < 0 ? (int)bytes : 0);
}

/* addProbe(target, address, native function or 0, user): its id. */
static napi_value add_probe(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    uint32_t id = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint64_t address = ct_node_take_u64(&call), native = ct_node_take_u64(&call), user = ct_node_take_u64(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_add_probe(target->script, address, native, user, &id);
    return status < 0 ? ct_node_fail(&call, target, status) : ct_node_number(env, id);
}

static napi_value remove_probe(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t id = ct_node_take_u32(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_remove_probe(target->script, id));
}

/* events(target): {tid, summary, count, lost, data: ArrayBuffer}, a copy of the oldest batch; null: there is none. */
static napi_value events(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_events batch = {0};
    napi_value object = NULL, data = NULL;
    void *bytes = NULL;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_events(target->script, &batch);
    if (status == CT_ERR_NOT_FOUND) {
        napi_get_null(env, &object);
        return object;
    }
    if (status < 0)
        return ct_node_fail(&call, target, status);
    if (napi_create_arraybuffer(env, batch.bytes, &bytes, &data) == napi_ok && batch.bytes)
        memcpy(bytes, batch.data, batch.bytes);
    ct_script_events_done(target->script, &batch);
    object = ct_node_object(env);
    ct_node_set(env, object, "tid", ct_node_number(env, batch.tid));
    ct_node_set(env, object, "summary", ct_node_bool(env, batch.summary));
    ct_node_set(env, object, "count", ct_node_number(env, (double)batch.count));
    ct_node_set(env, object, "lost", ct_node_number(env, (double)batch.lost));
    ct_node_set(env, object, "data", data);
    return object;
}

enum { BLOCK_ROOM = 1024 };

/* block(target, request): a Buffer of struct ct_script_insn. */
static napi_value block(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_insn insns[BLOCK_ROOM];
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct(&call, sizeof *request);
    if (call.failed)
        return NULL;
    int count = ct_script_block(target->script, request, insns, BLOCK_ROOM);
    if (count < 0)
        return ct_node_fail(&call, target, count);
    size_t known = count < BLOCK_ROOM ? (size_t)count : BLOCK_ROOM;
    return ct_node_buffer(env, insns, known * sizeof *insns, NULL);
}

/* transform(target, request, Buffer of struct ct_script_edit or null): the status. */
static napi_value transform(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    size_t size = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct(&call, sizeof *request);
    napi_valuetype type = napi_undefined;
    if (call.next < call.count)
        napi_typeof(env, call.arguments[call.next], &type);
    const struct ct_script_edit *edits = type == napi_object ? ct_node_take_bytes(&call, &size) : NULL;
    if (call.failed)
        return NULL;
    int status = ct_script_transform(target->script, request, edits, size / sizeof *edits);
    return status < 0 && status != CT_ERR_TIMEOUT ? ct_node_fail(&call, target, status) : ct_node_number(env, status);
}

void ct_node_add_stalker(napi_env env, napi_value exports) {
    const struct ct_node_function functions[] = {
        {"follow", follow},       {"unfollow", unfollow},        {"exclude", exclude}, {"setTrust", set_trust},
        {"setQueue", set_queue},  {"invalidate", invalidate},    {"flush", flush},     {"collect", collect},
        {"addProbe", add_probe},  {"removeProbe", remove_probe}, {"events", events},   {"block", block},
        {"transform", transform},
    };
    ct_node_add(env, exports, functions, CT_NODE_COUNT(functions));
}
