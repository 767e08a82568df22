/* SPDX-License-Identifier: Apache-2.0 */
/* Between values of JavaScript and of C. Functions that take an argument of a call throw when it is of another type;
 * after that, `failed` of the call is set and everything else does nothing, so callers ask once, before they act. */
#ifndef CT_NODE_VALUE_H
#define CT_NODE_VALUE_H

#include <node_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CT_NODE_ARGUMENTS = 12 };

/* One call of a function of the addon. */
struct ct_node_call {
    napi_env env;
    napi_value self, arguments[CT_NODE_ARGUMENTS];
    size_t count, next;
    bool failed;
};

void ct_node_begin(struct ct_node_call *call, napi_env env, napi_callback_info info);

/* The next argument. */
uint64_t ct_node_take_u64(struct ct_node_call *call); /* a BigInt, or a number that is whole */
uint32_t ct_node_take_u32(struct ct_node_call *call);
int32_t ct_node_take_i32(struct ct_node_call *call);
bool ct_node_take_bool(struct ct_node_call *call);
/* A new copy: free() it. NULL for null and undefined, or after a failure. */
char *ct_node_take_text(struct ct_node_call *call);
/* Bytes of a typed array or an ArrayBuffer; they are JavaScript's. */
void *ct_node_take_bytes(struct ct_node_call *call, size_t *size);
napi_value ct_node_take(struct ct_node_call *call);

/* The number itself, however it is given; false: it is none. */
bool ct_node_u64(napi_env env, napi_value value, uint64_t *out);

/* Values for JavaScript. NULL only when Node itself fails; then an exception is on its way. */
napi_value ct_node_undefined(napi_env env);
napi_value ct_node_number(napi_env env, double value);
napi_value ct_node_bigint(napi_env env, uint64_t value);
napi_value ct_node_bool(napi_env env, bool value);
napi_value ct_node_text(napi_env env, const char *text);
napi_value ct_node_object(napi_env env);
napi_value ct_node_array(napi_env env, size_t count);
void ct_node_set(napi_env env, napi_value object, const char *name, napi_value value);
void ct_node_set_at(napi_env env, napi_value array, size_t index, napi_value value);
/* A new Buffer with a copy of the bytes; NULL bytes: zeroes are written by the caller into *data. */
napi_value ct_node_buffer(napi_env env, const void *bytes, size_t size, void **data);

/* Throws an Error whose `code` is the name of the status: "ERR_TIMEOUT". NULL text: the status's own. */
napi_value ct_node_throw(napi_env env, int status, const char *text);

/* Functions of the addon, listed by each file for addon.c. */
struct ct_node_function {
    const char *name;
    napi_callback function;
};
void ct_node_add(napi_env env, napi_value exports, const struct ct_node_function *functions, size_t count);
#define CT_NODE_COUNT(list) (sizeof(list) / sizeof(list)[0])

#endif
