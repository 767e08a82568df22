/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a target. */
#include "target.h"

#include <stdio.h>
#include <string.h>

/* Throws with the address, as scripts expect it. */
static napi_value refuse(struct ct_node_call *call, struct ct_node_target *target, int status, uint64_t address) {
    char text[96];
    if (status != CT_ERR_NOT_MAPPED)
        return ct_node_fail(call, target, status);
    snprintf(text, sizeof text, "access violation accessing 0x%llx", (unsigned long long)address);
    return ct_node_throw(call->env, status, text);
}

/* read(target, address, size): a Buffer. */
static napi_value read_bytes(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    void *bytes = NULL;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint64_t address = ct_node_take_u64(&call), size = ct_node_take_u64(&call);
    if (call.failed)
        return NULL;
    napi_value buffer = ct_node_buffer(env, NULL, size, &bytes);
    if (!buffer)
        return ct_node_throw(env, CT_ERR_NO_MEMORY, NULL);
    int status = size ? ct_script_read(target->script, address, bytes, size) : 0;
    return status < 0 ? refuse(&call, target, status, address) : buffer;
}

/* readSome(target, address, size): a Buffer of what can be read from there on; at most `size` bytes. */
static napi_value read_some(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    napi_value all = NULL, part = NULL;
    void *bytes = NULL;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint64_t address = ct_node_take_u64(&call), size = ct_node_take_u64(&call);
    if (call.failed)
        return NULL;
    if (napi_create_arraybuffer(env, size, &bytes, &all) != napi_ok)
        return ct_node_throw(env, CT_ERR_NO_MEMORY, NULL);
    int64_t got = size ? ct_script_read_some(target->script, address, bytes, size) : 0;
    if (got < 0)
        return refuse(&call, target, (int)got, address);
    napi_create_typedarray(env, napi_uint8_array, (size_t)got, all, 0, &part);
    return part;
}

/* write(target, address, bytes) */
static napi_value write_bytes(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    size_t size;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint64_t address = ct_node_take_u64(&call);
    const void *bytes = ct_node_take_bytes(&call, &size);
    if (call.failed)
        return NULL;
    int status = size ? ct_script_write(target->script, address, bytes, size) : 0;
    return status < 0 ? refuse(&call, target, status, address) : ct_node_undefined(env);
}

/* alloc(target, slot, near, size, protection): an address. */
static napi_value alloc(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    uint64_t address = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t slot = ct_node_take_u32(&call);
    uint64_t near = ct_node_take_u64(&call), size = ct_node_take_u64(&call);
    uint32_t protection = ct_node_take_u32(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_alloc(target->script, slot, near, size, protection, &address);
    return status < 0 ? ct_node_fail(&call, target, status) : ct_node_bigint(env, address);
}

/* free(target, slot, address) */
static napi_value free_it(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t slot = ct_node_take_u32(&call);
    uint64_t address = ct_node_take_u64(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_free(target->script, slot, address));
}

/* protect(target, slot, address, size, protection): what the first page had. */
static napi_value protect(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    uint32_t before = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t slot = ct_node_take_u32(&call);
    uint64_t address = ct_node_take_u64(&call), size = ct_node_take_u64(&call);
    uint32_t protection = ct_node_take_u32(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_protect(target->script, slot, address, size, protection, &before);
    return status < 0 ? ct_node_fail(&call, target, status) : ct_node_number(env, before);
}

void ct_node_add_memory(napi_env env, napi_value exports) {
    const struct ct_node_function functions[] = {
        {"read", read_bytes}, {"readSome", read_some}, {"write", write_bytes},
        {"alloc", alloc},     {"free", free_it},       {"protect", protect},
    };
    ct_node_add(env, exports, functions, CT_NODE_COUNT(functions));
}
