/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the stack walk on x86_64 that no unwind table describes: signal frames, and code without tables, where the
 * return address is searched for. (Contrail's own code: process_stubs_x64.c.)
 *
 * S is the address of the slot that holds a frame's return address. */
#include "inspect/process_x64.h"
#include "isa/x64/decode.h"
#include "remote/cpu_x64.h"
#include <string.h>

/* DWARF numbers of the machine's registers. */
static const uint8_t dwarf_of[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};

uint64_t ct_walk_pc(const struct ct_walk *w) {
    return w->regs.value[DWARF_PC];
}

uint64_t ct_walk_sp(const struct ct_walk *w) {
    return w->regs.value[DWARF_RSP];
}

void ct_walk_set(struct ct_walk *w, unsigned dwarf, uint64_t value) {
    w->regs.value[dwarf] = value;
    w->regs.known |= UINT64_C(1) << dwarf;
}

void ct_walk_set_pc(struct ct_walk *w, uint64_t pc) {
    ct_walk_set(w, DWARF_PC, pc);
}

void ct_walk_load(struct ct_walk *w, const struct ct_remote_cpu *cpu) {
    for (unsigned i = 0; i < 16; i++)
        ct_walk_set(w, dwarf_of[i], ct_remote_cpu_to_x64(cpu)->gpr[i]);
    ct_walk_set(w, DWARF_PC, ct_remote_cpu_to_x64(cpu)->pc);
}

bool ct_walk_return_through(struct ct_walk *w, uint64_t slot) {
    uint64_t word;
    if (!ct_walk_word(w, slot, &word))
        return false;
    ct_walk_set(w, DWARF_PC, ct_walk_shadow_return(w, slot, word));
    ct_walk_set(w, DWARF_RSP, slot + 8);
    w->is_return = true;
    return true;
}

/* ---- signal frames ---- */

/* Offset of sigcontext in the kernel's struct rt_sigframe, from sp as it is when the handler has returned. */
enum { CONTEXT_REGISTERS = 40 };
static const uint8_t context_dwarf[17] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};

bool ct_walk_step_signal(struct ct_walk *w) {
    static const uint8_t restorer[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}; /* mov $15, %rax; syscall */
    uint8_t bytes[sizeof restorer];
    uint64_t context[17], pc = ct_walk_pc(w), sp = ct_walk_sp(w);
    if (ct_walk_read(w, pc, bytes, sizeof bytes) || memcmp(bytes, restorer, sizeof bytes) ||
        ct_walk_read(w, sp + CONTEXT_REGISTERS, context, sizeof context))
        return false;
    for (unsigned i = 0; i < 17; i++)
        ct_walk_set(w, context_dwarf[i], context[i]);
    w->is_return = false;
    return true;
}

/* ---- what a function has pushed so far ---- */

static bool is_mov_rbp_rsp(const struct ct_x64_insn *insn) {
    return insn->encoding == CT_X64_LEGACY && insn->map == 0 && insn->rex == 8 &&
           ((insn->opcode == 0x89 && insn->modrm == 0xe5) || (insn->opcode == 0x8b && insn->modrm == 0xec));
}

/* add or sub $n, %rsp: how far down it moves. */
static bool moves_stack(const struct ct_x64_insn *insn, uint64_t *by) {
    bool immediate =
        insn->encoding == CT_X64_LEGACY && insn->map == 0 && (insn->opcode == 0x83 || insn->opcode == 0x81);
    if (!immediate || insn->rex != 8 || (insn->modrm != 0xec && insn->modrm != 0xc4))
        return false;
    *by = insn->modrm == 0xec ? (uint64_t)insn->imm : -(uint64_t)insn->imm;
    return true;
}

/* Follows one instruction; false: its effect on the stack is unknown, or it jumps elsewhere. */
static bool follow_instruction(struct ct_walk_prologue *p, const struct ct_x64_insn *insn) {
    struct ct_x64_effects effects;
    uint64_t by;
    bool one_byte = insn->encoding == CT_X64_LEGACY && insn->map == 0;
    unsigned reg = (insn->opcode & 7) | (insn->rex & 1) << 3;
    if (one_byte && insn->opcode >= 0x50 && insn->opcode <= 0x57) {
        p->depth += 8;
        if (!p->saved[reg])
            p->saved[reg] = p->depth;
        return true;
    }
    if (one_byte && insn->opcode >= 0x58 && insn->opcode <= 0x5f) {
        p->depth -= 8;
        return true;
    }
    if (moves_stack(insn, &by)) {
        p->depth += by;
        return true;
    }
    if (is_mov_rbp_rsp(insn)) {
        p->frame_pointer = true;
        p->rbp_depth = p->depth;
        return true;
    }
    if (insn->kind != CT_INSN_OTHER && insn->kind != CT_INSN_NOP && insn->kind != CT_INSN_LANDING &&
        insn->kind != CT_INSN_SYSCALL)
        return false;
    ct_x64_effects(insn, &effects);
    return !(effects.regs_written & 1u << CT_X64_RSP);
}

void ct_walk_read_prologue(struct ct_walk *w, uint64_t entry, uint64_t pc, struct ct_walk_prologue *p) {
    uint8_t bytes[256];
    size_t size = pc - entry < sizeof bytes ? (size_t)(pc - entry) : sizeof bytes;
    struct ct_x64_insn insn;
    *p = (struct ct_walk_prologue){0};
    if (ct_walk_read(w, entry, bytes, size))
        return;
    size_t at = 0;
    while (at < size && !ct_x64_decode(bytes + at, size - at, &insn) && follow_instruction(p, &insn))
        at += insn.length;
    p->whole = entry + at == pc;
}

void ct_walk_restore_saved(struct ct_walk *w, const struct ct_walk_prologue *p, uint64_t slot) {
    uint64_t word;
    for (unsigned reg = 0; reg < 16; reg++)
        if (p->saved[reg] && reg != CT_X64_RSP && ct_walk_word(w, slot - p->saved[reg], &word))
            ct_walk_set(w, dwarf_of[reg], word);
}

/* ---- code without tables ---- */

/* Does a call end at this address? *target: where it goes; 0: unknown. */
static bool follows_call(struct ct_walk *w, uint64_t address, uint64_t *target) {
    uint8_t bytes[8];
    struct ct_x64_insn insn;
    if (!ct_process_code_at(w->process, address - 1) || ct_walk_read(w, address - sizeof bytes, bytes, sizeof bytes))
        return false;
    for (unsigned length = 2; length <= sizeof bytes; length++) {
        const uint8_t *start = bytes + sizeof bytes - length;
        if (ct_x64_decode(start, length, &insn) || insn.length != length ||
            (insn.kind != CT_INSN_CALL && insn.kind != CT_INSN_CALL_INDIRECT))
            continue;
        *target = insn.kind == CT_INSN_CALL ? ct_x64_target(&insn, address - length) : 0;
        return true;
    }
    return false;
}

static uint64_t function_start(struct ct_walk *w, uint64_t place) {
    struct ct_process_file *file = ct_process_file_at(w->process, place);
    const struct ct_functions *functions = file ? ct_process_functions(file) : NULL;
    const struct ct_func *func = functions ? ct_functions_find(functions, place - file->bias) : NULL;
    return func ? file->bias + func->offset : 0;
}

/* The nearest word on the stack that is a return address of a call of this function, or else of any call. */
static bool find_return(struct ct_walk *w, uint64_t function, uint64_t *slot) {
    enum { MAX_WORDS = 512, MAX_GUESS = 64 };
    uint64_t word, target, sp = ct_walk_sp(w), guess = 0;
    for (unsigned i = 0; i < MAX_WORDS && ct_walk_word(w, sp + 8 * i, &word); i++) {
        uint64_t at = sp + 8 * i;
        if (!follows_call(w, ct_walk_shadow_return(w, at, word), &target))
            continue;
        *slot = at;
        if (function && target == function)
            return true;
        if (!guess && i < MAX_GUESS)
            guess = at;
    }
    *slot = guess;
    return guess != 0;
}

static bool is_return_slot(struct ct_walk *w, uint64_t slot) {
    uint64_t word, target;
    return ct_walk_word(w, slot, &word) && follows_call(w, ct_walk_shadow_return(w, slot, word), &target);
}

/* Uses rbp as the frame pointer, which code of unknown origin (a JIT's) may keep. */
static bool step_by_frame_pointer(struct ct_walk *w) {
    enum { MAX_FRAME = 1 << 20 };
    uint64_t rbp = w->regs.value[DWARF_RBP], saved;
    if (rbp - ct_walk_sp(w) >= MAX_FRAME || rbp & 7 || !is_return_slot(w, rbp + 8) || !ct_walk_word(w, rbp, &saved) ||
        !ct_walk_return_through(w, rbp + 8))
        return false;
    ct_walk_set(w, DWARF_RBP, saved);
    return true;
}

bool ct_walk_step_guess(struct ct_walk *w) {
    uint64_t pc = ct_walk_pc(w), place = pc - w->is_return, slot;
    uint64_t entry = function_start(w, place);
    const struct ct_process_code *code = ct_process_code_at(w->process, place);
    struct ct_walk_prologue p = {0};
    if (code && code->anonymous && step_by_frame_pointer(w))
        return true;
    if (entry)
        ct_walk_read_prologue(w, entry, pc, &p);
    if (p.frame_pointer)
        slot = w->regs.value[DWARF_RBP] + p.rbp_depth;
    /* a call went to code that does not exist */
    else if ((entry && is_return_slot(w, ct_walk_sp(w) + p.depth)) || !code)
        slot = ct_walk_sp(w) + p.depth; /* most functions move sp at their start only */
    else if (!find_return(w, entry, &slot))
        return step_by_frame_pointer(w);
    if (!is_return_slot(w, slot)) /* the guess was wrong */
        return false;
    ct_walk_restore_saved(w, &p, slot);
    return ct_walk_return_through(w, slot);
}
