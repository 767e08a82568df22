/* SPDX-License-Identifier: Apache-2.0 */
/* Where the fields of structures are that cross as they are: layout.request = {size, slot, kind, ...}. */
#include "target.h"

struct field {
    const char *name;
    size_t offset;
};

static const struct field request_fields[] = {
    {"slot", offsetof(struct ct_script_request, slot)},
    {"kind", offsetof(struct ct_script_request, kind)},
    {"id", offsetof(struct ct_script_request, id)},
    {"tid", offsetof(struct ct_script_request, tid)},
    {"depth", offsetof(struct ct_script_request, depth)},
    {"parent", offsetof(struct ct_script_request, parent)},
    {"ticket", offsetof(struct ct_script_request, ticket)},
    {"call", offsetof(struct ct_script_request, call)},
    {"function", offsetof(struct ct_script_request, function)},
    {"return_address", offsetof(struct ct_script_request, return_address)},
    {"address", offsetof(struct ct_script_request, address)},
    {"fault", offsetof(struct ct_script_request, fault)},
    {"vectors", offsetof(struct ct_script_request, vectors)},
    {"vectors_size", offsetof(struct ct_script_request, vectors_size)},
    {"gpr", offsetof(struct ct_script_request, cpu.gpr)},
    {"more", offsetof(struct ct_script_request, cpu.more)},
    {"pc", offsetof(struct ct_script_request, cpu.pc)},
    {"flags", offsetof(struct ct_script_request, cpu.flags)},
};
static const struct field hook_fields[] = {
    {"address", offsetof(struct ct_script_hook, address)},
    {"flags", offsetof(struct ct_script_hook, flags)},
    {"status", offsetof(struct ct_script_hook, status)},
    {"id", offsetof(struct ct_script_hook, id)},
    {"native_enter", offsetof(struct ct_script_hook, native_enter)},
    {"native_leave", offsetof(struct ct_script_hook, native_leave)},
    {"user", offsetof(struct ct_script_hook, user)},
    {"replacement", offsetof(struct ct_script_hook, replacement)},
    {"original", offsetof(struct ct_script_hook, original)},
};
static const struct field call_fields[] = {
    {"function", offsetof(struct ct_script_call, function)},
    {"integers", offsetof(struct ct_script_call, integers)},
    {"more_integers", offsetof(struct ct_script_call, more_integers)},
    {"reals", offsetof(struct ct_script_call, reals)},
    {"real_count", offsetof(struct ct_script_call, real_count)},
    {"stack_count", offsetof(struct ct_script_call, stack_count)},
    {"stack", offsetof(struct ct_script_call, stack)},
    {"errno_function", offsetof(struct ct_script_call, errno_function)},
    {"place", offsetof(struct ct_script_call, place)},
    {"result", offsetof(struct ct_script_call, result)},
    {"result_high", offsetof(struct ct_script_call, result_high)},
    {"real", offsetof(struct ct_script_call, real)},
    {"real_high", offsetof(struct ct_script_call, real_high)},
    {"more_reals", offsetof(struct ct_script_call, more_reals)},
    {"error", offsetof(struct ct_script_call, error)},
    {"fault", offsetof(struct ct_script_call, fault)},
};
static const struct field follow_fields[] = {
    {"mask", offsetof(struct ct_script_follow, mask)},
    {"summary", offsetof(struct ct_script_follow, summary)},
    {"transform", offsetof(struct ct_script_follow, transform)},
    {"native_transform", offsetof(struct ct_script_follow, native_transform)},
    {"native_on_event", offsetof(struct ct_script_follow, native_on_event)},
    {"user", offsetof(struct ct_script_follow, user)},
};
static const struct field insn_fields[] = {
    {"address", offsetof(struct ct_script_insn, address)},
    {"length", offsetof(struct ct_script_insn, length)},
    {"flags", offsetof(struct ct_script_insn, flags)},
    {"bytes", offsetof(struct ct_script_insn, bytes)},
};
static const struct field edit_fields[] = {
    {"kind", offsetof(struct ct_script_edit, kind)},       {"insn", offsetof(struct ct_script_edit, insn)},
    {"id", offsetof(struct ct_script_edit, id)},           {"length", offsetof(struct ct_script_edit, length)},
    {"address", offsetof(struct ct_script_edit, address)}, {"user", offsetof(struct ct_script_edit, user)},
    {"bytes", offsetof(struct ct_script_edit, bytes)},
};

static void add(napi_env env, napi_value all, const char *name, size_t size, const struct field *fields, size_t count) {
    napi_value object = ct_node_object(env);
    ct_node_set(env, object, "size", ct_node_number(env, (double)size));
    for (size_t i = 0; i < count; i++)
        ct_node_set(env, object, fields[i].name, ct_node_number(env, (double)fields[i].offset));
    ct_node_set(env, all, name, object);
}

void ct_node_add_layout(napi_env env, napi_value exports) {
    napi_value all = ct_node_object(env);
    add(env, all, "request", sizeof(struct ct_script_request), request_fields, CT_NODE_COUNT(request_fields));
    add(env, all, "hook", sizeof(struct ct_script_hook), hook_fields, CT_NODE_COUNT(hook_fields));
    add(env, all, "call", sizeof(struct ct_script_call), call_fields, CT_NODE_COUNT(call_fields));
    add(env, all, "follow", sizeof(struct ct_script_follow), follow_fields, CT_NODE_COUNT(follow_fields));
    add(env, all, "insn", sizeof(struct ct_script_insn), insn_fields, CT_NODE_COUNT(insn_fields));
    add(env, all, "edit", sizeof(struct ct_script_edit), edit_fields, CT_NODE_COUNT(edit_fields));
    ct_node_set(env, exports, "layout", all);
}
