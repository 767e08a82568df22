/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions: what the project's own decoders know of some bytes. */
#include "addon.h"
#include "isa/a64/decode.h"
#include "isa/a64/text.h"
#include "isa/x64/decode.h"
#include "isa/x64/relocate.h"

#include <contrail/status.h>

static const char *const kinds[] = {
    [CT_INSN_OTHER] = "other",     [CT_INSN_NOP] = "nop",
    [CT_INSN_LANDING] = "landing", [CT_INSN_JMP] = "jump",
    [CT_INSN_JCC] = "branch",      [CT_INSN_LOOP] = "loop",
    [CT_INSN_CALL] = "call",       [CT_INSN_JMP_INDIRECT] = "jump indirect",
    [CT_INSN_RET] = "return",      [CT_INSN_CALL_INDIRECT] = "call indirect",
    [CT_INSN_FAR] = "far",         [CT_INSN_SYSCALL] = "syscall",
    [CT_INSN_INT] = "interrupt",   [CT_INSN_INT3] = "breakpoint",
    [CT_INSN_TRAP] = "trap",       [CT_INSN_HALT] = "halt",
    [CT_INSN_XBEGIN] = "xbegin",
};

static void set_number(napi_env env, napi_value object, const char *name, double value) {
    ct_node_set(env, object, name, ct_node_number(env, value));
}

static void set_signed(napi_env env, napi_value object, const char *name, int64_t value) {
    napi_value big = NULL;
    napi_create_bigint_int64(env, value, &big);
    ct_node_set(env, object, name, big);
}

static void add_memory(napi_env env, napi_value object, const struct ct_x64_insn *insn) {
    struct ct_x64_mem mem;
    if (!ct_x64_memory(insn, &mem))
        return;
    napi_value memory = ct_node_object(env);
    set_number(env, memory, "base", mem.base);
    set_number(env, memory, "index", mem.index);
    set_number(env, memory, "scale", mem.scale);
    set_signed(env, memory, "disp", mem.disp);
    ct_node_set(env, memory, "vsib", ct_node_bool(env, mem.vsib));
    ct_node_set(env, object, "memory", memory);
}

static void add_effects(napi_env env, napi_value object, const struct ct_x64_insn *insn) {
    struct ct_x64_effects effects;
    ct_x64_effects(insn, &effects);
    set_number(env, object, "registersRead", effects.regs_read);
    set_number(env, object, "registersWritten", effects.regs_written);
    set_number(env, object, "flagsRead", effects.flags_read);
    set_number(env, object, "flagsWritten", effects.flags_written);
    ct_node_set(env, object, "memoryRead", ct_node_bool(env, effects.mem_read));
    ct_node_set(env, object, "memoryWritten", ct_node_bool(env, effects.mem_written));
}

/* What lib/x64/text.js makes text of. */
static napi_value decode_x64(napi_env env, const uint8_t *bytes, size_t size, uint64_t address) {
    struct ct_x64_insn insn;
    int status = ct_x64_decode(bytes, size, &insn);
    if (status)
        return ct_node_throw(env, status, NULL);
    napi_value object = ct_node_object(env);
    set_number(env, object, "length", insn.length);
    ct_node_set(env, object, "kind", ct_node_text(env, kinds[insn.kind]));
    const struct {
        const char *name;
        unsigned value;
    } fields[] = {
        {"encoding", insn.encoding},  {"map", insn.map},     {"opcode", insn.opcode},
        {"prefixes", insn.prefixes},  {"rex", insn.rex},     {"vector", insn.vector},
        {"vvvv", insn.vvvv},          {"modrm", insn.modrm}, {"immSize", insn.imm_size},
        {"dispSize", insn.disp_size},
    };
    for (size_t i = 0; i < CT_NODE_COUNT(fields); i++)
        set_number(env, object, fields[i].name, fields[i].value);
    ct_node_set(env, object, "hasModrm", ct_node_bool(env, insn.modrm_offset != 0));
    ct_node_set(env, object, "hasRex", ct_node_bool(env, insn.has_rex));
    set_signed(env, object, "imm", insn.imm);
    if (insn.rip_relative)
        ct_node_set(env, object, "ripAddress", ct_node_bigint(env, ct_x64_rip_address(&insn, address)));
    if (insn.kind == CT_INSN_JMP || insn.kind == CT_INSN_JCC || insn.kind == CT_INSN_LOOP ||
        insn.kind == CT_INSN_CALL || insn.kind == CT_INSN_XBEGIN)
        ct_node_set(env, object, "target", ct_node_bigint(env, ct_x64_target(&insn, address)));
    add_memory(env, object, &insn);
    add_effects(env, object, &insn);
    return object;
}

static napi_value decode_a64(napi_env env, const uint8_t *bytes, size_t size, uint64_t address) {
    struct ct_a64_insn insn;
    struct ct_a64_effects effects;
    char text[CT_A64_TEXT_MAX];
    if (size < CT_A64_LENGTH)
        return ct_node_throw(env, CT_ERR_TRUNCATED, NULL);
    int status = ct_a64_decode(ct_a64_word(bytes), &insn);
    if (status)
        return ct_node_throw(env, status, NULL);
    ct_a64_text(&insn, address, text, sizeof text);
    ct_a64_effects(&insn, &effects);
    napi_value object = ct_node_object(env);
    set_number(env, object, "length", CT_A64_LENGTH);
    ct_node_set(env, object, "kind", ct_node_text(env, kinds[insn.kind]));
    ct_node_set(env, object, "text", ct_node_text(env, text));
    set_number(env, object, "registersRead", effects.regs_read);
    set_number(env, object, "registersWritten", effects.regs_written);
    ct_node_set(env, object, "flagsReadAny", ct_node_bool(env, effects.flags_read));
    ct_node_set(env, object, "flagsWrittenAny", ct_node_bool(env, effects.flags_written));
    ct_node_set(env, object, "memoryRead", ct_node_bool(env, effects.mem_read));
    ct_node_set(env, object, "memoryWritten", ct_node_bool(env, effects.mem_written));
    if (ct_a64_is_direct(&insn))
        ct_node_set(env, object, "target", ct_node_bigint(env, ct_a64_target(&insn, address)));
    return object;
}

/* decode(isArm64, bytes, address): an object of the fields above. Throws when the bytes are no instruction. */
static napi_value decode(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    size_t size;
    ct_node_begin(&call, env, info);
    bool arm64 = ct_node_take_bool(&call);
    const uint8_t *bytes = ct_node_take_bytes(&call, &size);
    uint64_t address = ct_node_take_u64(&call);
    if (call.failed)
        return NULL;
    return arm64 ? decode_a64(env, bytes, size, address) : decode_x64(env, bytes, size, address);
}

void ct_node_add_code(napi_env env, napi_value exports) {
    const struct ct_node_function functions[] = {{"decode", decode}};
    ct_node_add(env, exports, functions, CT_NODE_COUNT(functions));
}
