/* SPDX-License-Identifier: Apache-2.0 */
/* Where the return address is at each instruction of the code that all stubs share (hook/stubs_x64.S), in both forms.
 *
 * We follow that code from its entries and note what each instruction does to rsp, and to rbx and rbp, which replace
 * rsp where it is aligned. So this file needs no change when the assembly changes. Computed once, then only read. */
#include "inspect/process_x64.h"
#include "hook/runtime.h"
#include "isa/x64/decode.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct form {
    const uint8_t *code, *end;
    const uint8_t *enters[15], *leaves[5];
    struct ct_shared_state *states; /* by byte; NULL: not known yet, or no memory */
};

static struct form forms[CT_SHARED_FORMS] = {
    {.code = ct_hook_code,
     .end = ct_hook_code_end,
     .enters = {ct_hook_enter_record, ct_hook_enter_entry, ct_hook_enter_special, ct_hook_enter_detail,
                ct_hook_enter_entry_detail, ct_hook_enter_special_detail, ct_hook_enter_listen,
                ct_hook_enter_record_fast, ct_hook_enter_entry_fast, ct_hook_enter_detail_fast,
                ct_hook_enter_entry_detail_fast, ct_hook_sample_record, ct_hook_sample_detail, ct_hook_sample_entry,
                ct_hook_sample_entry_detail},
     .leaves = {ct_hook_leave_record, ct_hook_leave_detail, ct_hook_leave_listen, ct_hook_leave_record_fast,
                ct_hook_leave_detail_fast}},
    {.code = ct_table_code,
     .end = ct_table_code_end,
     .enters = {ct_table_enter_record, ct_table_enter_entry, ct_table_enter_special, ct_table_enter_detail,
                ct_table_enter_entry_detail, ct_table_enter_special_detail, ct_table_enter_listen,
                ct_table_enter_record_fast, ct_table_enter_entry_fast, ct_table_enter_detail_fast,
                ct_table_enter_entry_detail_fast, ct_table_sample_record, ct_table_sample_detail, ct_table_sample_entry,
                ct_table_sample_entry_detail},
     .leaves = {ct_table_leave_record, ct_table_leave_detail, ct_table_leave_listen, ct_table_leave_record_fast,
                ct_table_leave_detail_fast}},
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static size_t code_size(const struct form *f) {
    return (size_t)(f->end - f->code);
}

static void learn(struct ct_shared_state *s, uint8_t what, int32_t *place, int32_t value) {
    s->known |= what;
    *place = value;
}

/* mov between registers; false: something else. */
static bool move_register(struct ct_shared_state *s, unsigned from, unsigned to) {
    if (from == CT_X64_RSP && to == CT_X64_RBX && (s->known & CT_SHARED_RSP))
        learn(s, CT_SHARED_RBX, &s->rbx, s->rsp);
    else if (from == CT_X64_RSP && to == CT_X64_RBP && (s->known & CT_SHARED_RSP))
        learn(s, CT_SHARED_RBP, &s->rbp, s->rsp);
    else if (from == CT_X64_RBX && to == CT_X64_RSP && (s->known & CT_SHARED_RBX))
        learn(s, CT_SHARED_RSP, &s->rsp, s->rbx);
    else if (from == CT_X64_RBP && to == CT_X64_RSP && (s->known & CT_SHARED_RBP))
        learn(s, CT_SHARED_RSP, &s->rsp, s->rbp);
    else
        return false;
    return true;
}

/* A store of the caller's rbx or rbp: `place` is S minus its address. */
static void keep_register(struct ct_shared_state *s, unsigned reg, int32_t place) {
    if (reg == CT_X64_RBX && !(s->known & CT_SHARED_RBX))
        learn(s, CT_SHARED_SAVED_RBX, &s->saved_rbx, place);
    if (reg == CT_X64_RBP && !(s->known & CT_SHARED_RBP))
        learn(s, CT_SHARED_SAVED_RBP, &s->saved_rbp, place);
}

/* Any other write to these registers: rsp is lost; rbx and rbp are the caller's again. */
static void forget_registers(struct ct_shared_state *s, uint16_t written) {
    if (written & 1u << CT_X64_RSP)
        s->known &= (uint8_t)~CT_SHARED_RSP;
    if (written & 1u << CT_X64_RBX)
        s->known &= (uint8_t) ~(CT_SHARED_RBX | CT_SHARED_SAVED_RBX);
    if (written & 1u << CT_X64_RBP)
        s->known &= (uint8_t) ~(CT_SHARED_RBP | CT_SHARED_SAVED_RBP);
}

/* By how much an instruction that pushes or pops changes S - rsp; 0: another instruction. */
static int32_t pushed_bytes(const struct ct_x64_insn *insn) {
    unsigned op = insn->opcode, extension = insn->modrm >> 3 & 7;
    if (insn->encoding != CT_X64_LEGACY || insn->map != 0)
        return 0;
    if ((op >= 0x50 && op <= 0x57) || op == 0x68 || op == 0x6a || op == 0x9c || (op == 0xff && extension == 6))
        return 8;
    if ((op >= 0x58 && op <= 0x5f) || op == 0x8f || op == 0x9d)
        return -8;
    return 0;
}

static void push_or_pop(struct ct_shared_state *s, const struct ct_x64_insn *insn, int32_t by) {
    unsigned reg = (insn->opcode & 7) | (insn->rex & 1) << 3;
    s->rsp += by;
    if (insn->opcode >= 0x50 && insn->opcode <= 0x57 && (s->known & CT_SHARED_RSP))
        keep_register(s, reg, s->rsp);
    if (insn->opcode >= 0x58 && insn->opcode <= 0x5f)
        forget_registers(s, (uint16_t)(1u << reg & ~(1u << CT_X64_RSP)));
}

static void run_instruction(struct ct_shared_state *s, const struct ct_x64_insn *insn) {
    struct ct_x64_effects effects;
    struct ct_x64_mem mem;
    bool one_byte = insn->encoding == CT_X64_LEGACY && insn->map == 0 && insn->rex & 8;
    bool memory = ct_x64_memory(insn, &mem);
    unsigned reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1, rm = (insn->modrm & 7) | (insn->rex & 1) << 3;
    int32_t by = pushed_bytes(insn);
    if (by) {
        push_or_pop(s, insn, by);
        return;
    }
    if (insn->kind == CT_INSN_CALL || insn->kind == CT_INSN_CALL_INDIRECT)
        return; /* rsp is the same when it returns */
    if (one_byte && insn->opcode == 0x8d && memory && reg == CT_X64_RSP && mem.base == CT_X64_RSP &&
        mem.index == CT_X64_NO_REG) {
        s->rsp -= (int32_t)mem.disp;
        return;
    }
    if (one_byte && insn->opcode == 0x89 && !memory && move_register(s, reg, rm))
        return;
    if (one_byte && insn->opcode == 0x89 && memory && mem.base == CT_X64_RSP && (s->known & CT_SHARED_RSP))
        keep_register(s, reg, s->rsp - (int32_t)mem.disp);
    ct_x64_effects(insn, &effects);
    forget_registers(s, effects.regs_written);
}

/* Follows the code until it ends or is known already; also follows branches that stay inside. */
static void follow_code(struct form *f, size_t at, struct ct_shared_state s) {
    struct ct_x64_insn insn;
    s.known |= CT_SHARED_REACHED;
    while (at < code_size(f) && !f->states[at].known && !ct_x64_decode(f->code + at, code_size(f) - at, &insn)) {
        f->states[at] = s;
        uint64_t target = ct_x64_target(&insn, at);
        switch (insn.kind) {
        case CT_INSN_JMP:
            at = target;
            continue;
        case CT_INSN_JCC:
            follow_code(f, target, s);
            break;
        case CT_INSN_RET:
        case CT_INSN_JMP_INDIRECT:
        case CT_INSN_TRAP:
            return;
        default:
            run_instruction(&s, &insn);
        }
        at += insn.length;
    }
}

static void compute_states(void) {
    for (struct form *f = forms; f < forms + CT_SHARED_FORMS; f++) {
        f->states = calloc(code_size(f), sizeof *f->states);
        if (!f->states)
            continue;
        for (size_t i = 0; i < sizeof f->enters / sizeof f->enters[0]; i++)
            follow_code(f, (size_t)(f->enters[i] - f->code),
                        (struct ct_shared_state){.known = CT_SHARED_RSP, .entering = true, .rsp = 8});
        for (size_t i = 0; i < sizeof f->leaves / sizeof f->leaves[0]; i++)
            follow_code(f, (size_t)(f->leaves[i] - f->code),
                        (struct ct_shared_state){.known = CT_SHARED_RSP, .rsp = -8});
    }
}

size_t ct_shared_code(unsigned form, const uint8_t **code) {
    *code = forms[form].code;
    return code_size(&forms[form]);
}

const struct ct_shared_state *ct_shared_state_at(unsigned form, size_t offset) {
    const struct form *f = &forms[form];
    pthread_once(&once, compute_states);
    return offset < code_size(f) && f->states && f->states[offset].known ? &f->states[offset] : NULL;
}
