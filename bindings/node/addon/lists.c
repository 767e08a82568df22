/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a target: threads, modules, symbols, mappings, and what is at an address. */
#include "target.h"

#include <stdlib.h>
#include <string.h>

/* threads(target): [{id, state, name}]. */
static napi_value threads(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_thread *list = NULL;
    size_t count = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_threads(target->script, &list, &count);
    if (status < 0)
        return ct_node_fail(&call, target, status);
    napi_value array = ct_node_array(env, count);
    for (size_t i = 0; i < count; i++) {
        char name[sizeof list[i].name + 1] = "";
        memcpy(name, list[i].name, sizeof list[i].name);
        napi_value object = ct_node_object(env);
        ct_node_set(env, object, "id", ct_node_number(env, list[i].tid));
        ct_node_set(env, object, "state", ct_node_text(env, (char[]){list[i].state, 0}));
        ct_node_set(env, object, "name", ct_node_text(env, name));
        ct_node_set_at(env, array, i, object);
    }
    free(list);
    return array;
}

/* modules(target): [{base, size, bias, path}]. */
static napi_value modules(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_module *list = NULL;
    size_t count = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_modules(target->script, &list, &count);
    if (status < 0)
        return ct_node_fail(&call, target, status);
    napi_value array = ct_node_array(env, count);
    for (size_t i = 0; i < count; i++) {
        napi_value object = ct_node_object(env);
        ct_node_set(env, object, "base", ct_node_bigint(env, list[i].base));
        ct_node_set(env, object, "size", ct_node_number(env, (double)list[i].size));
        ct_node_set(env, object, "bias", ct_node_bigint(env, list[i].bias));
        ct_node_set(env, object, "path", ct_node_text(env, list[i].path));
        ct_node_set_at(env, array, i, object);
    }
    ct_script_free_modules(list, count);
    return array;
}

/* An array of 64-bit words, whose memory the caller fills. */
static napi_value words_of(napi_env env, size_t count, uint64_t **words) {
    napi_value buffer = NULL, array = NULL;
    void *data = NULL;
    if (napi_create_arraybuffer(env, count * sizeof **words, &data, &buffer) == napi_ok)
        napi_create_typedarray(env, napi_biguint64_array, count, buffer, 0, &array);
    *words = data;
    return array;
}

/* Names, each ended by a zero, which no name has. */
static napi_value names_of(napi_env env, const struct ct_script_symbol *list, size_t count, bool versions) {
    size_t size = 0, at = 0;
    napi_value text = NULL;
    for (size_t i = 0; i < count; i++)
        size += strlen(versions ? list[i].version : list[i].name) + 1;
    char *all = malloc(size + 1);
    for (size_t i = 0; all && i < count; i++) {
        const char *name = versions ? list[i].version : list[i].name;
        size_t length = strlen(name);
        memcpy(all + at, name, length);
        all[at + length] = 0;
        at += length + 1;
    }
    napi_create_string_utf8(env, all ? all : "", all ? at : 0, &text);
    free(all);
    return text;
}

enum { SYMBOL_WORDS = 5 };

/* symbols(target, base, list): {words: five for each (address, size, slot, flags, section), names, versions}; there may
 * be very many, so they are not objects. */
static napi_value symbols(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_symbol *list = NULL;
    size_t count = 0;
    uint64_t *words = NULL;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint64_t base = ct_node_take_u64(&call);
    uint32_t which = ct_node_take_u32(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_symbols(target->script, base, (enum ct_script_list)which, &list, &count);
    if (status < 0)
        return ct_node_fail(&call, target, status);
    napi_value object = ct_node_object(env);
    ct_node_set(env, object, "words", words_of(env, count * SYMBOL_WORDS, &words));
    for (size_t i = 0; words && i < count; i++) {
        const uint64_t fields[SYMBOL_WORDS] = {list[i].address, list[i].size, list[i].slot, list[i].flags,
                                               list[i].section};
        memcpy(words + i * SYMBOL_WORDS, fields, sizeof fields);
    }
    ct_node_set(env, object, "names", names_of(env, list, count, false));
    ct_node_set(env, object, "versions", names_of(env, list, count, true));
    free(list);
    return object;
}

/* ranges(target): [{start, end, offset, protection, shared, path}]. */
static napi_value ranges(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_range *list = NULL;
    size_t count = 0;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_ranges(target->script, &list, &count);
    if (status < 0)
        return ct_node_fail(&call, target, status);
    napi_value array = ct_node_array(env, count);
    for (size_t i = 0; i < count; i++) {
        napi_value object = ct_node_object(env);
        ct_node_set(env, object, "start", ct_node_bigint(env, list[i].start));
        ct_node_set(env, object, "end", ct_node_bigint(env, list[i].end));
        ct_node_set(env, object, "offset", ct_node_number(env, (double)list[i].offset));
        ct_node_set(env, object, "protection", ct_node_number(env, list[i].protection));
        ct_node_set(env, object, "shared", ct_node_bool(env, list[i].shared));
        ct_node_set(env, object, "path", ct_node_text(env, list[i].path));
        ct_node_set_at(env, array, i, object);
    }
    free(list);
    return array;
}

/* describe(target, address): {function, moduleBase, line, column, name, module, file}, or null. */
static napi_value describe(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_place place = {0};
    napi_value object = NULL;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint64_t address = ct_node_take_u64(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_describe(target->script, address, &place);
    if (status == CT_ERR_NOT_FOUND) {
        napi_get_null(env, &object);
        return object;
    }
    if (status < 0)
        return ct_node_fail(&call, target, status);
    object = ct_node_object(env);
    ct_node_set(env, object, "function", ct_node_bigint(env, place.function));
    ct_node_set(env, object, "moduleBase", ct_node_bigint(env, place.module_base));
    ct_node_set(env, object, "line", ct_node_number(env, place.line));
    ct_node_set(env, object, "column", ct_node_number(env, place.column));
    ct_node_set(env, object, "name", ct_node_text(env, place.name));
    ct_node_set(env, object, "module", ct_node_text(env, place.module));
    ct_node_set(env, object, "file", ct_node_text(env, place.file));
    return object;
}

/* findFunctions(target, nameOrGlob): a BigUint64Array of addresses. */
static napi_value find_functions(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    uint64_t *words = NULL;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    char *name = ct_node_take_text(&call);
    if (call.failed)
        return NULL;
    int64_t count = ct_script_find_functions(target->script, name ? name : "", NULL, 0);
    napi_value array = count < 0 ? NULL : words_of(env, (size_t)count, &words);
    if (words && count > 0)
        count = ct_script_find_functions(target->script, name ? name : "", words, (size_t)count);
    free(name);
    return count < 0 ? ct_node_fail(&call, target, (int)count) : array;
}

enum { FRAMES = 512 };

/* backtrace(target, slot, tid, fuzzy): a BigUint64Array. */
static napi_value backtrace(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    uint64_t frames[FRAMES], *words = NULL;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t slot = ct_node_take_u32(&call);
    int32_t tid = ct_node_take_i32(&call);
    bool fuzzy = ct_node_take_bool(&call);
    if (call.failed)
        return NULL;
    int count = ct_script_backtrace(target->script, slot, tid, fuzzy, frames, FRAMES);
    if (count < 0)
        return ct_node_fail(&call, target, count);
    napi_value array = words_of(env, (size_t)count, &words);
    if (words && count)
        memcpy(words, frames, (size_t)count * sizeof *words);
    return array;
}

/* registers(target, tid): a request with the registers of a thread that does not wait. */
static napi_value registers(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_request request = {.slot = CT_SCRIPT_NO_SLOT};
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    int32_t tid = ct_node_take_i32(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_registers(target->script, tid, &request);
    return status < 0 ? ct_node_fail(&call, target, status) : ct_node_buffer(env, &request, sizeof request, NULL);
}

void ct_node_add_lists(napi_env env, napi_value exports) {
    const struct ct_node_function functions[] = {
        {"threads", threads},     {"modules", modules},     {"symbols", symbols},
        {"ranges", ranges},       {"describe", describe},   {"findFunctions", find_functions},
        {"backtrace", backtrace}, {"registers", registers},
    };
    ct_node_add(env, exports, functions, CT_NODE_COUNT(functions));
}
