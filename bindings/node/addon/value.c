/* SPDX-License-Identifier: Apache-2.0 */
/* See value.h. */
#include "value.h"

#include <contrail/status.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ct_node_begin(struct ct_node_call *call, napi_env env, napi_callback_info info) {
    *call = (struct ct_node_call){.env = env, .count = CT_NODE_ARGUMENTS};
    call->failed = napi_get_cb_info(env, info, &call->count, call->arguments, &call->self, NULL) != napi_ok;
}

napi_value ct_node_take(struct ct_node_call *call) {
    size_t at = call->next++;
    return at < call->count && at < CT_NODE_ARGUMENTS ? call->arguments[at] : ct_node_undefined(call->env);
}

static void refuse(struct ct_node_call *call, const char *wanted) {
    char text[96];
    if (call->failed)
        return;
    call->failed = true;
    snprintf(text, sizeof text, "argument %zu: expected %s", call->next, wanted);
    napi_throw_type_error(call->env, "ERR_INVALID_ARGUMENT", text);
}

bool ct_node_u64(napi_env env, napi_value value, uint64_t *out) {
    napi_valuetype type;
    bool lossless;
    double number;
    if (napi_typeof(env, value, &type) != napi_ok)
        return false;
    if (type == napi_bigint)
        return napi_get_value_bigint_uint64(env, value, out, &lossless) == napi_ok;
    if (type != napi_number || napi_get_value_double(env, value, &number) != napi_ok)
        return false;
    if (!(number >= -0x1p63 && number < 0x1p63) || number != trunc(number))
        return false;
    *out = (uint64_t)(int64_t)number;
    return true;
}

uint64_t ct_node_take_u64(struct ct_node_call *call) {
    uint64_t value = 0;
    if (!ct_node_u64(call->env, ct_node_take(call), &value))
        refuse(call, "a whole number");
    return value;
}

uint32_t ct_node_take_u32(struct ct_node_call *call) {
    uint64_t value = ct_node_take_u64(call);
    if (value > UINT32_MAX)
        refuse(call, "a whole number of at most 32 bits");
    return (uint32_t)value;
}

int32_t ct_node_take_i32(struct ct_node_call *call) {
    int64_t value = (int64_t)ct_node_take_u64(call);
    if (value != (int32_t)value)
        refuse(call, "a whole number of at most 32 bits");
    return (int32_t)value;
}

bool ct_node_take_bool(struct ct_node_call *call) {
    bool value = false;
    napi_value converted;
    if (napi_coerce_to_bool(call->env, ct_node_take(call), &converted) == napi_ok)
        napi_get_value_bool(call->env, converted, &value);
    return value;
}

char *ct_node_take_text(struct ct_node_call *call) {
    napi_value value = ct_node_take(call);
    napi_valuetype type = napi_undefined;
    size_t length = 0;
    napi_typeof(call->env, value, &type);
    if (type == napi_null || type == napi_undefined)
        return NULL;
    if (type != napi_string || napi_get_value_string_utf8(call->env, value, NULL, 0, &length) != napi_ok) {
        refuse(call, "a text");
        return NULL;
    }
    char *text = malloc(length + 1);
    if (!text || napi_get_value_string_utf8(call->env, value, text, length + 1, &length) != napi_ok)
        refuse(call, "a text that memory has room for");
    return text;
}

void *ct_node_take_bytes(struct ct_node_call *call, size_t *size) {
    napi_value value = ct_node_take(call), buffer;
    void *bytes = NULL;
    bool is = false;
    size_t offset, elements;
    napi_typedarray_type type;
    *size = 0;
    if (napi_is_buffer(call->env, value, &is) == napi_ok && is &&
        napi_get_buffer_info(call->env, value, &bytes, size) == napi_ok)
        return bytes;
    if (napi_is_arraybuffer(call->env, value, &is) == napi_ok && is &&
        napi_get_arraybuffer_info(call->env, value, &bytes, size) == napi_ok)
        return bytes;
    if (napi_is_typedarray(call->env, value, &is) == napi_ok && is &&
        napi_get_typedarray_info(call->env, value, &type, &elements, &bytes, &buffer, &offset) == napi_ok &&
        type <= napi_uint8_clamped_array) {
        *size = elements;
        return bytes;
    }
    refuse(call, "bytes");
    return NULL;
}

napi_value ct_node_undefined(napi_env env) {
    napi_value value = NULL;
    napi_get_undefined(env, &value);
    return value;
}

napi_value ct_node_number(napi_env env, double number) {
    napi_value value = NULL;
    napi_create_double(env, number, &value);
    return value;
}

napi_value ct_node_bigint(napi_env env, uint64_t number) {
    napi_value value = NULL;
    napi_create_bigint_uint64(env, number, &value);
    return value;
}

napi_value ct_node_bool(napi_env env, bool is) {
    napi_value value = NULL;
    napi_get_boolean(env, is, &value);
    return value;
}

napi_value ct_node_text(napi_env env, const char *text) {
    napi_value value = NULL;
    napi_create_string_utf8(env, text ? text : "", NAPI_AUTO_LENGTH, &value);
    return value;
}

napi_value ct_node_object(napi_env env) {
    napi_value value = NULL;
    napi_create_object(env, &value);
    return value;
}

napi_value ct_node_array(napi_env env, size_t count) {
    napi_value value = NULL;
    napi_create_array_with_length(env, count, &value);
    return value;
}

void ct_node_set(napi_env env, napi_value object, const char *name, napi_value value) {
    napi_set_named_property(env, object, name, value);
}

void ct_node_set_at(napi_env env, napi_value array, size_t index, napi_value value) {
    napi_set_element(env, array, (uint32_t)index, value);
}

napi_value ct_node_buffer(napi_env env, const void *bytes, size_t size, void **data) {
    napi_value value = NULL;
    void *own = NULL;
    if (napi_create_buffer(env, size, &own, &value) != napi_ok)
        return NULL;
    if (bytes && size)
        memcpy(own, bytes, size);
    if (data)
        *data = own;
    return value;
}

napi_value ct_node_throw(napi_env env, int status, const char *text) {
    napi_throw_error(env, ct_status_name(status), text && *text ? text : ct_status_text(status));
    return NULL;
}

void ct_node_add(napi_env env, napi_value exports, const struct ct_node_function *functions, size_t count) {
    for (size_t i = 0; i < count; i++) {
        napi_value function;
        if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].function, NULL, &function) ==
            napi_ok)
            ct_node_set(env, exports, functions[i].name, function);
    }
}
