/* SPDX-License-Identifier: Apache-2.0 */
/* The pass over a module's code, arm64: see scan.h.
 *
 * It is linear, and starts afresh at every function. Jump tables are not followed: a patch covers one instruction, the
 * first one, which no table leads to; longer patches avoid functions that jump through registers. Whether x30 holds the
 * function's own return address is followed as far as straight code allows: compilers use the register for other things
 * once it is saved. */
#include "base/grow.h"
#include "hook/pad_a64.h"
#include "hook/scan.h"
#include "hook/scan_reals.h"
#include <contrail/status.h>
#include <stdlib.h>

#define WORD 4u
#define LR   (1u << CT_A64_LR)

enum { SYS_RT_SIGRETURN = 139, SYS_CLONE = 220, SYS_EXECVE = 221, SYS_EXECVEAT = 281, SYS_CLONE3 = 435, RESTORER = 16 };
enum { SVC_0 = 0xd4000001u, XPACLRI = 0xd50320ffu, RET = 0xd65f0000u, MOVI_D0_0 = 0x2f00e400u, NUMBER_REGISTER = 8 };

/* State of the pass through one function. */
struct walk {
    struct ct_scan *scan;
    struct ct_scan_func *func; /* NULL between functions */
    bool lr_own;               /* x30 holds the return address, as the caller has set it */
    bool lr_saved;             /* it has been stored on the stack */
    bool frame;                /* x29 points to the pair of frame pointer and return address */
    bool sets_stack;           /* sp gets the value of a register: a sign of a longjmp */
    int64_t number;            /* the last constant in x8, or -1 */
    uint64_t pages[32];        /* by register: what adrp has put there; 0: nothing */
    uint64_t work_left;        /* bytes that may still be looked at */
    struct ct_scan_calls calls;
    uint64_t cleared; /* right after an instruction that makes 0 the result, a floating-point number */
};

/* ---- branches ---- */

static void note_foreign(struct ct_scan *s, uint64_t target) {
    ct_scan_set(s, s->landing, target);
    ct_scan_set(s, s->foreign, target);
}

static int add_loop(struct ct_scan *s, uint64_t at, size_t function) {
    if (!ct_grow(&s->loops, &s->loop_capacity, s->loop_count, sizeof *s->loops, 64))
        return CT_ERR_NO_MEMORY;
    s->loops[s->loop_count++] =
        (struct ct_scan_loop){.branch = at, .function = (uint32_t)function, .length = WORD, .disp_size = WORD};
    return 0;
}

bool ct_scan_loop_valid(const struct ct_scan_loop *loop) {
    return loop->length == WORD && loop->disp_size == WORD;
}

static int add_tail(struct ct_scan *s, uint64_t target, size_t function) {
    if (!ct_grow(&s->tails, &s->tail_capacity, s->tail_count, sizeof *s->tails, 64))
        return CT_ERR_NO_MEMORY;
    s->tails[s->tail_count++] = (struct ct_scan_tail){target, (uint32_t)function};
    return 0;
}

/* A branch out of the function, which is no call. */
static int note_way_out(struct walk *w, const struct ct_a64_insn *insn, uint64_t target) {
    struct ct_scan *s = w->scan;
    if (insn->kind == CT_INSN_JMP) {
        ct_scan_set(s, s->referenced, target);
    } else {
        long i = ct_scan_find(s, target);
        if (i >= 0)
            s->funcs[i].flags |= CT_SCAN_CONDITIONAL;
    }
    return w->func && w->lr_own ? add_tail(s, target, (size_t)(w->func - s->funcs)) : 0;
}

static int note_branch(struct walk *w, const struct ct_a64_insn *insn, uint64_t at) {
    struct ct_scan *s = w->scan;
    uint64_t target = ct_a64_target(insn, at);
    bool own = w->func && target >= w->func->start && target < w->func->end;
    if (!own || insn->kind == CT_INSN_CALL)
        ct_scan_note_call(&w->calls, target);
    if (!ct_scan_covers(s, target))
        return 0;
    if (own && insn->kind != CT_INSN_CALL)
        ct_scan_set(s, s->landing, target);
    else
        note_foreign(s, target);
    if (insn->kind == CT_INSN_CALL) {
        ct_scan_set(s, s->referenced, target);
        return 0;
    }
    if (!own)
        return note_way_out(w, insn, target);
    if (target != w->func->start && target != ct_pad_place(s, w->func->start, w->func->end))
        return 0;
    w->func->flags |= CT_SCAN_LOOPED;
    return add_loop(s, at, (size_t)(w->func - s->funcs));
}

/* ---- the return address ---- */

static bool is_memory(uint32_t word) {
    return (word & 0x0a000000u) == 0x08000000u; /* loads and stores */
}

static bool is_store_to_stack(uint32_t word, const struct ct_a64_effects *e) {
    return is_memory(word) && e->mem_written && !e->mem_read && ct_a64_rn(word) == CT_A64_SP;
}

static bool is_load_from_stack(uint32_t word, const struct ct_a64_effects *e) {
    return is_memory(word) && e->mem_read && !e->mem_written &&
           (ct_a64_rn(word) == CT_A64_SP || ct_a64_rn(word) == CT_A64_FP);
}

/* ldr xn, [x29, #8] with n other than 30: __builtin_return_address(0) after the prologue */
static bool loads_saved(const struct walk *w, uint32_t word) {
    return w->frame && (word & 0xffffffe0u) == 0xf94007a0u && ct_a64_rt(word) != CT_A64_LR;
}

/* mov x29, sp; add x29, sp, #n */
static bool sets_frame(uint32_t word) {
    return (word & 0xff8003ffu) == 0x910003fdu;
}

/* Returns true if the return address is read other than to save, sign or return to it. */
static bool follow_lr(struct walk *w, const struct ct_a64_insn *insn, const struct ct_a64_effects *e) {
    bool plain = insn->what != CT_A64_SIGN && insn->what != CT_A64_AUTH && insn->kind != CT_INSN_RET;
    bool saves = (e->regs_read & LR) && is_store_to_stack(insn->word, e);
    bool reads = w->lr_own && (e->regs_read & LR) && plain && !saves && insn->kind != CT_INSN_JMP_INDIRECT;
    reads |= insn->word == XPACLRI || loads_saved(w, insn->word);
    w->lr_saved |= saves && w->lr_own;
    if (plain && (e->regs_written & LR))
        w->lr_own = is_load_from_stack(insn->word, e);
    if (w->lr_saved && sets_frame(insn->word))
        w->frame = true;
    else if (e->regs_written & 1u << CT_A64_FP)
        w->frame = false;
    return reads;
}

/* After an instruction that does not fall through: what a branch to here has. */
static void restart(struct walk *w) {
    w->lr_own = !w->lr_saved;
    w->number = -1;
    for (unsigned i = 0; i < 32; i++)
        w->pages[i] = 0;
}

/* ---- addresses and constants ---- */

static void note_address(struct walk *w, uint64_t address) {
    ct_scan_set(w->scan, w->scan->referenced, address);
    if (ct_scan_covers(w->scan, address))
        note_foreign(w->scan, address);
}

/* adrp and add; adr */
static void follow_addresses(struct walk *w, const struct ct_a64_insn *insn, uint64_t at,
                             const struct ct_a64_effects *e) {
    uint32_t word = insn->word;
    uint64_t page = w->pages[ct_a64_rn(word)];
    bool add = (word & 0xffc00000u) == 0x91000000u;
    if (add && page)
        note_address(w, page + (word >> 10 & 0xfff));
    if (insn->what == CT_A64_ADR || insn->what == CT_A64_LITERAL)
        note_address(w, ct_a64_target(insn, at));
    for (unsigned i = 0; i < 31; i++)
        if (e->regs_written >> i & 1)
            w->pages[i] = 0;
    if (insn->what == CT_A64_ADRP && ct_a64_rt(word) != CT_A64_ZR)
        w->pages[ct_a64_rt(word)] = ct_a64_target(insn, at);
}

/* mov x8, #n; mov w8, #n */
static void follow_number(struct walk *w, uint32_t word, const struct ct_a64_effects *e) {
    if ((word & 0x7fe0001fu) == (0x52800000u | NUMBER_REGISTER))
        w->number = word >> 5 & 0xffff;
    else if (e->regs_written & 1u << NUMBER_REGISTER)
        w->number = -1;
}

static bool is_clone_number(int64_t number) {
    return number == SYS_CLONE || number == SYS_CLONE3;
}

static uint32_t flags_of_call(const struct walk *w, uint64_t at) {
    uint32_t flags = CT_SCAN_SYSCALLS;
    if (is_clone_number(w->number))
        flags |= CT_SCAN_CLONES;
    if (w->number == SYS_EXECVE || w->number == SYS_EXECVEAT)
        flags |= CT_SCAN_EXECS;
    if (w->number == SYS_RT_SIGRETURN && at - w->func->start < RESTORER)
        flags |= CT_SCAN_SETS_STACK; /* handlers return to it */
    return flags;
}

/* mov sp, xn with n other than 29 */
static bool sets_stack(uint32_t word) {
    return (word & 0xfffffc1fu) == 0x9100001fu && ct_a64_rn(word) != CT_A64_FP && ct_a64_rn(word) != CT_A64_SP;
}

/* Functions of descriptors for thread-local storage keep all registers but x0, and save the few that they use: no
 * function of the usual convention begins by saving x1. str x1, [sp, #-n]!; stp x1, xn, [sp, #-n]! */
static bool saves_first_argument(uint32_t word) {
    return (word & 0xfff00fffu) == 0xf8100fe1u || (word & 0xffe083ffu) == 0xa9a003e1u;
}

/* Floating-point arithmetic, comparisons, conversions and moves between registers. */
static bool is_real(uint32_t word) {
    return (word & 0x7e000000u) == 0x1e000000u;
}

/* ---- the pass ---- */

static void begin_function(struct walk *w, struct ct_scan_func *func) {
    w->func = func;
    w->lr_saved = w->frame = w->sets_stack = false;
    w->calls = (struct ct_scan_calls){0};
    w->cleared = 0;
    restart(w);
}

static void note_word(struct walk *w, uint32_t word, uint64_t at) {
    if (word == CT_PACIASP)
        w->func->flags |= CT_SCAN_SIGNS_A;
    if (word == CT_PACIBSP)
        w->func->flags |= CT_SCAN_SIGNS_B;
    if (is_real(word) || (w->cleared == at && (word & 0xfffffc1fu) == RET))
        w->func->flags |= CT_SCAN_REALS;
    if (word == MOVI_D0_0)
        w->cleared = at + WORD;
    if (at == ct_pad_place(w->scan, w->func->start, w->func->end) && (sets_stack(word) || saves_first_argument(word)))
        w->func->flags |= CT_SCAN_SETS_STACK;
    w->sets_stack |= sets_stack(word);
}

static int visit_insn(struct walk *w, const struct ct_a64_insn *insn, uint64_t at) {
    struct ct_a64_effects effects;
    ct_a64_effects(insn, &effects);
    if (w->func) {
        note_word(w, insn->word, at);
        if (follow_lr(w, insn, &effects))
            w->func->flags |= CT_SCAN_USES_RETURN;
    }
    follow_addresses(w, insn, at, &effects);
    follow_number(w, insn->word, &effects);
    switch (insn->kind) {
    case CT_INSN_CALL:
    case CT_INSN_CALL_INDIRECT:
        note_foreign(w->scan, at + WORD); /* where the callee returns to */
        w->lr_own = false;
        if (insn->kind == CT_INSN_CALL)
            return note_branch(w, insn, at);
        ct_scan_note_call(&w->calls, 0);
        return 0;
    case CT_INSN_JMP:
    case CT_INSN_JCC:
    case CT_INSN_LOOP: {
        int status = note_branch(w, insn, at);
        if (insn->kind == CT_INSN_JMP)
            restart(w);
        return status;
    }
    case CT_INSN_JMP_INDIRECT:
        if (w->func)
            w->func->flags |= CT_SCAN_INDIRECT;
        if (w->func && w->sets_stack && ct_a64_rn(insn->word) == CT_A64_LR)
            w->func->flags |= CT_SCAN_LONGJMP;
        restart(w);
        return 0;
    case CT_INSN_RET:
        restart(w);
        return 0;
    case CT_INSN_SYSCALL:
        if (w->func)
            w->func->flags |= flags_of_call(w, at);
        return 0;
    default:
        return 0;
    }
}

static bool falls_through(const struct ct_a64_insn *insn) {
    switch (insn->kind) {
    case CT_INSN_JMP:
    case CT_INSN_JMP_INDIRECT:
    case CT_INSN_CALL:
    case CT_INSN_CALL_INDIRECT:
    case CT_INSN_RET:
    case CT_INSN_FAR:
    case CT_INSN_INT3:
    case CT_INSN_TRAP:
        return false;
    default:
        return true;
    }
}

/* Decodes [from, to): a function, or the bytes between two. */
static int walk_range(struct walk *w, uint64_t from, uint64_t to) {
    struct ct_scan *s = w->scan;
    bool falls = false;
    if (to > from && to - from > w->work_left)
        return CT_ERR_UNSUPPORTED;
    w->work_left -= to > from ? to - from : 0;
    for (uint64_t at = (from + WORD - 1) & ~(uint64_t)(WORD - 1); at + WORD <= to; at += WORD) {
        struct ct_a64_insn insn;
        if (ct_a64_decode(ct_pad_word(s, at), &insn))
            continue;
        int status = visit_insn(w, &insn, at);
        if (status)
            return status;
        if (insn.kind != CT_INSN_NOP)
            falls = falls_through(&insn);
    }
    if (falls) /* what is after it is not padding */
        note_foreign(s, to);
    return 0;
}

/* Unwind information of clone functions ends before their system call: nothing may be unwound in the child. */
static void note_clone_after(struct walk *w, uint64_t end) {
    if (is_clone_number(w->number) && w->scan->end - end >= WORD && ct_pad_word(w->scan, end) == SVC_0)
        w->func->flags |= CT_SCAN_CLONES;
}

static int walk_function(struct walk *w, struct ct_scan_func *func, uint64_t end) {
    note_foreign(w->scan, func->start);
    begin_function(w, func);
    int status = walk_range(w, func->start, end);
    note_clone_after(w, end);
    if (!status)
        status = ct_scan_add_calls(w->scan, &w->calls, (size_t)(func - w->scan->funcs));
    return status || w->work_left ? status : CT_ERR_UNSUPPORTED;
}

int ct_scan_walk(struct ct_scan *s, size_t first, size_t end_index) {
    struct walk w = {.scan = s, .work_left = ct_scan_work(s)};
    uint64_t at = s->start;
    int status = 0;
    for (size_t i = 0; i < first; i++)
        at = s->funcs[i].end > at ? s->funcs[i].end : at;
    size_t last = end_index == s->func_count ? end_index + 1 : end_index;
    for (size_t i = first; i < last && !status; i++) {
        struct ct_scan_func *func = i < s->func_count ? &s->funcs[i] : NULL;
        if (s->cancelled && __atomic_load_n(s->cancelled, __ATOMIC_RELAXED))
            return CT_ERR_TIMEOUT;
        uint64_t start = func ? func->start : s->end;
        if (at < start) {
            begin_function(&w, NULL);
            status = walk_range(&w, at, start);
        }
        if (!func || status)
            break;
        uint64_t end = func->end < s->end ? func->end : s->end;
        status = walk_function(&w, func, end);
        at = end > at ? end : at;
    }
    return status;
}

int ct_scan_follow_tables(struct ct_scan *scan) {
    (void)scan;
    return 0;
}
