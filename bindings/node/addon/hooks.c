/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks, requests and work. */
#include "target.h"

/* hook(target, structures): the number that were installed; results are in the structures. */
static napi_value hook(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    size_t size;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    struct ct_script_hook *hooks = ct_node_take_bytes(&call, &size);
    if (call.failed)
        return NULL;
    int count = ct_script_hook(target->script, hooks, size / sizeof *hooks);
    return count < 0 ? ct_node_fail(&call, target, count) : ct_node_number(env, count);
}

/* checkHook(target, address, flags): the status. */
static napi_value check_hook(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint64_t address = ct_node_take_u64(&call);
    uint32_t flags = ct_node_take_u32(&call);
    return call.failed ? NULL : ct_node_number(env, ct_script_check_hook(target->script, address, flags));
}

/* change(target, structure) */
static napi_value change(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_hook *one = ct_node_take_struct(&call, sizeof *one);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_change(target->script, one));
}

/* unhook(target, Buffer of 32-bit ids) */
static napi_value unhook(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    size_t size;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const uint32_t *ids = ct_node_take_bytes(&call, &size);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_unhook(target->script, ids, size / sizeof *ids));
}

/* callback(target, slot): {address, id}. */
static napi_value callback(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    uint64_t address = 0;
    uint32_t id = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t slot = ct_node_take_u32(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_callback(target->script, slot, &address, &id);
    if (status < 0)
        return ct_node_fail(&call, target, status);
    napi_value object = ct_node_object(env);
    ct_node_set(env, object, "address", ct_node_bigint(env, address));
    ct_node_set(env, object, "id", ct_node_number(env, id));
    return object;
}

/* answer(target, request, changed): the status; a request that is over is no exception. */
static napi_value answer(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct(&call, sizeof *request);
    bool changed = ct_node_take_bool(&call);
    return call.failed ? NULL : ct_node_number(env, ct_script_answer(target->script, request, changed));
}

static napi_value extend(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct(&call, sizeof *request);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_extend(target->script, request));
}

enum { VECTOR_SIZE = 16 };

/* readVector(target, request, n): a Buffer of 16 bytes. */
static napi_value read_vector(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    void *bytes = NULL;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct(&call, sizeof *request);
    uint32_t n = ct_node_take_u32(&call);
    if (call.failed)
        return NULL;
    napi_value buffer = ct_node_buffer(env, NULL, VECTOR_SIZE, &bytes);
    int status = buffer ? ct_script_read_vector(target->script, request, n, bytes) : CT_ERR_NO_MEMORY;
    return status < 0 ? ct_node_fail(&call, target, status) : buffer;
}

/* writeVector(target, request, n, bytes) */
static napi_value write_vector(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct(&call, sizeof *request);
    uint32_t n = ct_node_take_u32(&call);
    const void *bytes = ct_node_take_struct(&call, VECTOR_SIZE);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_write_vector(target->script, request, n, bytes));
}

static void serve(void *arg, const struct ct_script_request *request) {
    struct ct_node_target *target = arg;
    if (!ct_node_handle(target, request))
        ct_script_answer(target->script, request, false);
}

/* run(target, request or null, call): waits for the end of the call; its results are in the structure. Callbacks that
 * it leads to are served meanwhile. */
static napi_value run(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct_or_null(&call, sizeof *request);
    struct ct_script_call *work = ct_node_take_struct(&call, sizeof *work);
    if (call.failed)
        return NULL;
    target->calls++;
    int status = ct_script_run(target->script, request, work, serve, target);
    target->calls--;
    return ct_node_done(&call, target, status);
}

void ct_node_add_hooks(napi_env env, napi_value exports) {
    const struct ct_node_function functions[] = {
        {"hook", hook},     {"checkHook", check_hook},   {"change", change},
        {"unhook", unhook}, {"callback", callback},      {"answer", answer},
        {"extend", extend}, {"readVector", read_vector}, {"writeVector", write_vector},
        {"run", run},
    };
    ct_node_add(env, exports, functions, CT_NODE_COUNT(functions));
}
