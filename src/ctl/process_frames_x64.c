/* Steps of the stack walk on x86_64 that no unwind table describes: signal frames, Contrail's own stubs, and code without
 * tables, where the return address is looked for.
 *
 * S is the address of the slot that holds a frame's return address. */
#include "ctl/process_parts.h"
#include "hook/runtime.h"
#include "isa/x64/decode.h"
#include <contrail/status.h>
#include <string.h>

/* DWARF numbers of the hardware's registers. */
static const uint8_t dwarf_of[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
enum { DWARF_RBP = 6, DWARF_RSP = 7, DWARF_PC = 16 };

uint64_t ct_walk_pc(const struct ct_walk *w) {
    return w->regs.value[DWARF_PC];
}

uint64_t ct_walk_sp(const struct ct_walk *w) {
    return w->regs.value[DWARF_RSP];
}

static void set(struct ct_walk *w, unsigned dwarf, uint64_t value) {
    w->regs.value[dwarf] = value;
    w->regs.known |= UINT64_C(1) << dwarf;
}

void ct_walk_set_pc(struct ct_walk *w, uint64_t pc) {
    set(w, DWARF_PC, pc);
}

void ct_walk_load(struct ct_walk *w, const struct ct_remote_cpu *cpu) {
    for (unsigned i = 0; i < 16; i++)
        set(w, dwarf_of[i], cpu->x64.gpr[i]);
    set(w, DWARF_PC, cpu->x64.pc);
}

/* The frame's return address is at S: go there. */
static bool return_through(struct ct_walk *w, uint64_t slot) {
    uint64_t word;
    if (!ct_walk_word(w, slot, &word))
        return false;
    set(w, DWARF_PC, ct_walk_shadow_return(w, slot, word));
    set(w, DWARF_RSP, slot + 8);
    w->is_return = true;
    return true;
}

/* ---- signal frames ---- */

/* sigcontext in the kernel's struct rt_sigframe, seen from where sp is when the handler has returned. */
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
        set(w, context_dwarf[i], context[i]);
    w->is_return = false;
    return true;
}

/* ---- what a function has pushed so far ---- */

struct prologue {
    uint64_t depth;     /* bytes that sp has moved down since the entry */
    bool whole;         /* the walk reached pc, so depth is exact */
    bool frame_pointer; /* rbp was set from sp */
    uint64_t saved[16]; /* by register: depth of the place where it was pushed; 0: it was not */
    uint64_t rbp_depth; /* depth when rbp was set */
};

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

/* One instruction; false: what it does to the stack is not known, or control goes elsewhere. */
static bool follow(struct prologue *p, const struct ct_x64_insn *insn) {
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

/* From a function's entry up to pc, or to the first branch on the way. */
static void read_prologue(struct ct_walk *w, uint64_t entry, uint64_t pc, struct prologue *p) {
    uint8_t bytes[256];
    size_t size = pc - entry < sizeof bytes ? (size_t)(pc - entry) : sizeof bytes;
    struct ct_x64_insn insn;
    *p = (struct prologue){0};
    if (ct_walk_read(w, entry, bytes, size))
        return;
    size_t at = 0;
    while (at < size && !ct_x64_decode(bytes + at, size - at, &insn) && follow(p, &insn))
        at += insn.length;
    p->whole = entry + at == pc;
}

/* Registers as they were at the entry, given S. */
static void restore_saved(struct ct_walk *w, const struct prologue *p, uint64_t slot) {
    uint64_t word;
    for (unsigned reg = 0; reg < 16; reg++)
        if (p->saved[reg] && reg != CT_X64_RSP && ct_walk_word(w, slot - p->saved[reg], &word))
            set(w, dwarf_of[reg], word);
}

/* ---- stubs ---- */

/* Is this the head of a stub, as plan_x64.c writes it? */
static bool is_stub(struct ct_walk *w, uint64_t stub) {
    uint8_t b[CT_STUB_BODY];
    const struct ct_process_code *code = ct_process_code_at(w->process, stub);
    return code && code->anonymous && !(stub & 7) && !ct_walk_read(w, stub, b, sizeof b) &&
           (b[0] == 0xe8 || b[0] == 0xe9) && !memcmp(b + 5, "\x0f\x1f\0", 3) &&
           (b[CT_STUB_CALL_BODY] == 0xe8 || b[CT_STUB_CALL_BODY] == 0xe9) &&
           !memcmp(b + CT_STUB_CALL_BODY + 1, "\x0b\0\0", 4) && b[CT_STUB_RESUME] == 0xe9 &&
           !memcmp(b + CT_STUB_RESUME + 5, "\x66\x90", 2);
}

/* Does pc stand in the code that this stub and its neighbours share? */
static bool in_shared_code(struct ct_walk *w, uint64_t stub, uint64_t pc) {
    const size_t size = (size_t)(ct_hook_code_end - ct_hook_code);
    const uint8_t *const leaves[] = {ct_hook_leave_record, ct_hook_leave_listen};
    uint8_t bytes[64];
    int32_t distance;
    if (ct_walk_read(w, stub + CT_STUB_RESUME + 1, &distance, sizeof distance))
        return false;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t leave = stub + CT_STUB_RESUME + 5 + (uint64_t)(int64_t)distance;
        uint64_t start = leave - (uint64_t)(leaves[i] - ct_hook_code);
        if (pc - start < size && !ct_walk_read(w, start, bytes, sizeof bytes) &&
            !memcmp(bytes, ct_hook_code, sizeof bytes))
            return true;
    }
    return false;
}

/* The stub that pc stands in, or 0. */
static uint64_t stub_around(struct ct_walk *w, uint64_t pc) {
    enum { MAX_STUB = 1024 };
    for (uint64_t at = pc & ~UINT64_C(7); pc - at < MAX_STUB; at -= 8)
        if (is_stub(w, at))
            return in_shared_code(w, at, pc) ? 0 : at;
    return 0;
}

/* pc is in the stub itself: before the call is recorded, between there and the body, in the moved body, or behind it. */
static bool step_in_stub(struct ct_walk *w, uint64_t stub) {
    uint64_t pc = ct_walk_pc(w), sp = ct_walk_sp(w), place = pc - stub, slot = sp;
    struct prologue p = {0};
    struct ct_walk_entry e;
    if (place >= CT_STUB_AFTER_ENTER && place < CT_STUB_BODY) /* the slot was dropped, and still holds what it held */
        slot = sp - 8;
    if (place >= CT_STUB_BODY) {
        read_prologue(w, stub + CT_STUB_BODY, pc, &p);
        slot = sp + p.depth;
        if (!p.whole && ct_walk_shadow_innermost(w, sp, &e) && e.stub == stub + CT_STUB_AFTER_ENTER)
            slot = e.slot;
    }
    if (place >= CT_STUB_AFTER_ENTER && ct_walk_shadow_innermost(w, slot, &e) && e.slot == slot &&
        e.stub == stub + CT_STUB_AFTER_ENTER && place < CT_STUB_BODY) {
        set(w, DWARF_PC, ct_walk_shadow_return(w, slot, e.stub + CT_AFTER_TO_RESUME));
        set(w, DWARF_RSP, slot + 8);
        w->is_return = true;
        return true;
    }
    restore_saved(w, &p, slot);
    return return_through(w, slot);
}

static bool follows_call(struct ct_walk *w, uint64_t address, uint64_t *target);

/* The agent's code has pushed registers, then called; what it will return to is among them: on the way in the stub's own
 * address and behind it S, on the way out S itself. */
static bool find_stub_word(struct ct_walk *w, uint64_t *stub, uint64_t *slot) {
    enum { MAX_WORDS = 640 }; /* the vector state of a listener is in between */
    uint64_t word, sp = ct_walk_sp(w);
    struct ct_walk_entry e = {0};
    bool any = ct_walk_shadow_innermost(w, sp, &e);
    for (unsigned i = 0; i < MAX_WORDS && ct_walk_word(w, sp + 8 * i, &word); i++) {
        uint64_t at = sp + 8 * i;
        if (any && at == e.slot) {
            *stub = e.stub - CT_STUB_AFTER_ENTER;
            *slot = at;
            return true;
        }
        if (is_stub(w, word - CT_STUB_AFTER_ENTER)) {
            *stub = word - CT_STUB_AFTER_ENTER;
            *slot = at + 8;
            return true;
        }
    }
    return false;
}

/* Right after a return was recorded nothing tells the stub any more; S is what the shared code pushed registers onto. */
static bool find_released(struct ct_walk *w, uint64_t *slot) {
    enum { MAX_WORDS = 6 };
    uint64_t word, target, sp = ct_walk_sp(w);
    for (unsigned i = 0; i < MAX_WORDS && ct_walk_word(w, sp + 8 * i, &word); i++) {
        *slot = sp + 8 * i;
        if (follows_call(w, word, &target))
            return true;
    }
    return false;
}

/* Whether stubs live here: the innermost frame's is in the same mapping, or one is near. Else it is a JIT's code. */
static bool is_our_code(struct ct_walk *w, uint64_t pc) {
    const struct ct_process_code *code = ct_process_code_at(w->process, pc);
    enum { LOOKED_AT = 64 << 10 };
    for (uint64_t at = (pc + 7) & ~UINT64_C(7); at < code->end && at - pc < LOOKED_AT; at += 8)
        if (is_stub(w, at))
            return true;
    return false;
}

bool ct_walk_step_stub(struct ct_walk *w, struct ct_walk_frame *frame) {
    uint64_t pc = ct_walk_pc(w), sp = ct_walk_sp(w), slot, rbp, stub;
    struct ct_walk_entry e;
    if (!w->block)
        return false;
    stub = stub_around(w, pc);
    if (stub && !w->is_return) {
        frame->is_stub = true;
        frame->function = ct_walk_shadow_function(w, stub + CT_STUB_AFTER_ENTER);
        return step_in_stub(w, stub);
    }
    if (find_stub_word(w, &stub, &slot)) {
        frame->function = ct_walk_shadow_function(w, stub + CT_STUB_AFTER_ENTER);
    } else if (!is_our_code(w, pc)) {
        return false;
    } else if (!find_released(w, &slot)) {
        /* On a stack of the agent's own: the program goes on at its innermost frame. */
        if (!ct_walk_shadow_innermost(w, 0, &e))
            return false;
        slot = e.slot;
    }
    frame->is_stub = true;
    rbp = w->regs.value[DWARF_RBP];
    if (rbp >= sp && rbp < slot && ct_walk_word(w, rbp, &rbp))
        set(w, DWARF_RBP, rbp);
    return return_through(w, slot);
}

/* ---- code without tables ---- */

/* Does a call end at this address? *target: where it goes, 0 when it cannot be told. */
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

/* The nearest word on the stack that is a return address of a call of this function, else of any call. */
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

/* rbp as the frame pointer that code of unknown origin (a JIT's) may keep. */
static bool step_by_frame_pointer(struct ct_walk *w) {
    enum { MAX_FRAME = 1 << 20 };
    uint64_t rbp = w->regs.value[DWARF_RBP], saved;
    if (rbp - ct_walk_sp(w) >= MAX_FRAME || rbp & 7 || !is_return_slot(w, rbp + 8) || !ct_walk_word(w, rbp, &saved) ||
        !return_through(w, rbp + 8))
        return false;
    set(w, DWARF_RBP, saved);
    return true;
}

bool ct_walk_step_guess(struct ct_walk *w) {
    uint64_t pc = ct_walk_pc(w), place = pc - w->is_return, slot;
    uint64_t entry = function_start(w, place);
    const struct ct_process_code *code = ct_process_code_at(w->process, place);
    struct prologue p = {0};
    if (code && code->anonymous && step_by_frame_pointer(w))
        return true;
    if (entry)
        read_prologue(w, entry, pc, &p);
    if (p.frame_pointer)
        slot = w->regs.value[DWARF_RBP] + p.rbp_depth;
    else if ((entry && p.whole) || !code) /* code that is not there was called */
        slot = ct_walk_sp(w) + p.depth;
    else if (!find_return(w, entry, &slot))
        return step_by_frame_pointer(w);
    if (!is_return_slot(w, slot)) /* a wrong guess shows */
        return false;
    restore_saved(w, &p, slot);
    return return_through(w, slot);
}
