/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled code in a target (CModule). */
#include "target.h"

#include <stdlib.h>

static const napi_type_tag object_tag = {0x8c2f0e6f5d1a4c3b, 0x91f7e2b06d4c8a55};

/* The names of {name: address}; the texts are freed by free_names. */
static struct ct_script_name *take_names(struct ct_node_call *call, size_t *count) {
    napi_value object = ct_node_take(call), keys;
    uint32_t length = 0;
    *count = 0;
    if (napi_get_property_names(call->env, object, &keys) != napi_ok ||
        napi_get_array_length(call->env, keys, &length) != napi_ok) {
        call->failed = true;
        napi_throw_type_error(call->env, "ERR_INVALID_ARGUMENT", "expected an object of names and addresses");
        return NULL;
    }
    struct ct_script_name *names = calloc((size_t)length + 1, sizeof *names);
    for (uint32_t i = 0; names && i < length && !call->failed; i++) {
        struct ct_node_call one = {.env = call->env, .count = 2};
        napi_get_element(call->env, keys, i, &one.arguments[0]);
        napi_get_property(call->env, object, one.arguments[0], &one.arguments[1]);
        names[i].name = ct_node_take_text(&one);
        names[i].address = ct_node_take_u64(&one);
        call->failed = one.failed;
        *count = i + 1;
    }
    return names;
}

static void free_names(struct ct_script_name *names, size_t count) {
    for (size_t i = 0; names && i < count; i++)
        free((void *)(uintptr_t)names[i].name);
    free(names);
}

static napi_value symbols_of(napi_env env, const struct ct_script_object *object) {
    napi_value symbols = ct_node_object(env);
    const char *name;
    uint64_t address;
    for (size_t i = 0; (name = ct_script_object_next(object, i, &address)) != NULL; i++)
        ct_node_set(env, symbols, name, ct_node_bigint(env, address));
    return symbols;
}

/* load(target, bytes of an object file, {name: address}): {object, symbols: {name: address}}. */
static napi_value load(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_object *loaded = NULL;
    napi_value external = NULL, object = NULL;
    size_t size = 0, count = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const void *bytes = ct_node_take_bytes(&call, &size);
    struct ct_script_name *names = take_names(&call, &count);
    if (!call.failed) {
        int status = ct_script_load(target->script, bytes, size, names, count, &loaded);
        if (status < 0)
            ct_node_fail(&call, target, status);
    }
    free_names(names, count);
    if (!loaded || napi_create_external(env, loaded, NULL, NULL, &external) != napi_ok ||
        napi_type_tag_object(env, external, &object_tag) != napi_ok)
        return NULL;
    object = ct_node_object(env);
    ct_node_set(env, object, "object", external);
    ct_node_set(env, object, "symbols", symbols_of(env, loaded));
    return object;
}

/* unload(target, object): once. */
static napi_value unload(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    void *object = NULL;
    bool is = false;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    napi_value value = ct_node_take(&call);
    if (call.failed)
        return NULL;
    if (napi_check_object_type_tag(env, value, &object_tag, &is) == napi_ok && is)
        napi_get_value_external(env, value, &object);
    if (!object)
        return ct_node_throw(env, CT_ERR_INVALID_ARGUMENT, NULL);
    return ct_node_done(&call, target, ct_script_unload(target->script, object));
}

void ct_node_add_objects(napi_env env, napi_value exports) {
    const struct ct_node_function functions[] = {{"load", load}, {"unload", unload}};
    ct_node_add(env, exports, functions, CT_NODE_COUNT(functions));
}
