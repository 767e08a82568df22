/* SPDX-License-Identifier: Apache-2.0 */
/* The pass over a module's code, x86_64: see scan.h.
 *
 * It is linear, and starts afresh at every function. Marking too much is harmless (a patch avoids the place); missing a
 * landing place is not, so jump tables are followed (scan_tables_x64.c) and the bytes between functions are decoded
 * too. The stack depth is followed as far as straight code and forward branches allow, to notice functions that read
 * their own return address. */
#include "base/grow.h"
#include "hook/scan.h"
#include "hook/scan_reals.h"
#include "hook/scan_reals_x64.h"
#include "hook/scan_tables_x64.h"
#include <contrail/status.h>
#include "isa/x64/decode.h"
#include <stdlib.h>
#include <string.h>

#define MAX_PENDING 32
#define LOW_MODULE  0x80000000ull /* below: addresses fit into displacements and immediates */

enum {
    SYS_RT_SIGRETURN = 15,
    SYS_CLONE = 56,
    SYS_VFORK = 58,
    SYS_EXECVE = 59,
    SYS_ARCH_PRCTL = 158,
    SYS_EXECVEAT = 322,
    SYS_CLONE3 = 435
};
enum { ARCH_SET_GS = 0x1001, RESTORER = 16, BEGINNING = 8 };

/* State of the pass through one function. */
struct walk {
    struct ct_scan *scan;
    struct ct_scan_func *func; /* NULL between functions */
    /* Stack depth: rsp = S - depth, where S is the slot of the return address. */
    bool depth_known, frame_known;
    int64_t depth, frame; /* frame: rbp = S - frame */
    struct pending {
        uint64_t target;
        int64_t depth, frame;
        bool frame_known;
    } pending[MAX_PENDING]; /* forward branches and the state they had */
    unsigned pending_next;
    uint64_t *tables; /* what may be jump tables */
    size_t table_count, table_capacity;
    bool indirect_jump;
    bool switch_jump;                /* an indirect jump that is no tail call: there must be a table */
    bool unscrambles, sets_stack;    /* signs of a longjmp */
    int64_t last_eax;                /* the last constant put into eax, or -1 */
    int64_t last_edi;                /* the last constant put into edi, or -1 */
    uint64_t work_left;              /* bytes that may still be looked at */
    uint64_t recent[CT_SCAN_RECENT]; /* the last instructions of straight code, the newest at recent_next - 1 */
    unsigned recent_next;            /* how many there were */
    /* Signs of a stack trace that begins, in the present run of straight code: see note_trace. By base register. */
    uint16_t trace_first, trace_size;
    bool trace_top;
    struct ct_scan_calls calls;
    uint64_t cleared; /* right after an instruction that makes 0 the result, a floating-point number */
};

/* ---- branches ---- */

static int add_loop(struct ct_scan *s, const struct ct_x64_insn *insn, uint64_t at, size_t function) {
    if (!ct_grow(&s->loops, &s->loop_capacity, s->loop_count, sizeof *s->loops, 64))
        return CT_ERR_NO_MEMORY;
    s->loops[s->loop_count++] = (struct ct_scan_loop){
        .branch = at, .function = (uint32_t)function, .length = insn->length, .disp_size = insn->imm_size};
    return 0;
}

bool ct_scan_loop_valid(const struct ct_scan_loop *loop) {
    return (loop->disp_size == 1 || loop->disp_size == 4) && loop->length > loop->disp_size &&
           loop->length <= CT_X64_MAX_LENGTH;
}

static bool starts_with_landing_pad(const struct ct_scan *s, uint64_t address) {
    static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    return s->end - address >= 4 && !memcmp(ct_scan_bytes(s, address), endbr64, 4);
}

static bool is_entry_of(const struct walk *w, uint64_t target) {
    return target == w->func->start ||
           (target == w->func->start + 4 && starts_with_landing_pad(w->scan, w->func->start));
}

static void note_foreign(struct ct_scan *s, uint64_t target) {
    ct_scan_set(s, s->landing, target);
    ct_scan_set(s, s->foreign, target);
}

static int add_tail(struct ct_scan *s, uint64_t target, size_t function) {
    if (!ct_grow(&s->tails, &s->tail_capacity, s->tail_count, sizeof *s->tails, 64))
        return CT_ERR_NO_MEMORY;
    s->tails[s->tail_count++] = (struct ct_scan_tail){target, (uint32_t)function};
    return 0;
}

static int note_branch(struct walk *w, const struct ct_x64_insn *insn, uint64_t at) {
    struct ct_scan *s = w->scan;
    uint64_t target = ct_x64_target(insn, at);
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
    if (!own) {
        int status = w->func && w->depth_known && w->depth == 0 ? add_tail(s, target, (size_t)(w->func - s->funcs)) : 0;
        if (status)
            return status;
        if (insn->kind == CT_INSN_JMP) {
            ct_scan_set(s, s->referenced, target);
        } else {
            long i = ct_scan_find(s, target);
            if (i >= 0)
                s->funcs[i].flags |= CT_SCAN_CONDITIONAL;
        }
        return 0;
    }
    if (is_entry_of(w, target)) {
        w->func->flags |= CT_SCAN_LOOPED;
        return add_loop(s, insn, at, (size_t)(w->func - s->funcs));
    }
    if (target > at && w->depth_known) {
        w->pending[w->pending_next++ % MAX_PENDING] = (struct pending){target, w->depth, w->frame, w->frame_known};
    }
    return 0;
}

/* ---- stack depth and the return address ---- */

/* Is it an access of 8 bytes? It may read the return address, take the address of its slot, or change it. */
static bool handles_address(const struct ct_x64_insn *insn) {
    if (insn->encoding != CT_X64_LEGACY)
        return false;
    if (insn->map == 1)
        return insn->opcode == 0x6f || insn->opcode == 0x7e || insn->opcode == 0x10 || insn->opcode == 0x28;
    if (insn->map)
        return false;
    if (insn->opcode == 0xff) {
        unsigned form = insn->modrm >> 3 & 7;
        return form == 2 || form == 4 || form == 6; /* call, jmp, push */
    }
    return insn->rex & 8;
}

static bool touches_return_slot(const struct walk *w, const struct ct_x64_insn *insn) {
    unsigned mod = insn->modrm >> 6, rm = insn->modrm & 7;
    if (!insn->modrm_offset || mod == 3 || (insn->prefixes & (CT_X64_SEG_FS | CT_X64_SEG_GS)) || !handles_address(insn))
        return false;
    if (rm == 4 && insn->sib == 0x24 && !(insn->rex & 1))
        return w->depth_known && insn->disp == w->depth;
    if (rm == 5 && mod && !(insn->rex & 1))
        return w->frame_known && insn->disp == w->frame;
    return false;
}

static bool names_rsp_register(const struct ct_x64_insn *insn) {
    return (insn->modrm & 0xc7) == 0xc4 && !(insn->rex & 1);
}

static bool swaps_rsp(const struct ct_x64_insn *insn) {
    return names_rsp_register(insn) || ((insn->modrm >> 3 & 7) == 4 && !(insn->rex & 4));
}

/* Group 1 with an immediate: sub, add, and on rsp. */
static void follow_arithmetic(struct walk *w, const struct ct_x64_insn *insn) {
    if (!names_rsp_register(insn))
        return;
    unsigned form = insn->modrm >> 3 & 7;
    if (form == 5)
        w->depth += insn->imm;
    else if (form == 0)
        w->depth -= insn->imm;
    else if (form != 7)
        w->depth_known = false;
}

static void follow_move(struct walk *w, const struct ct_x64_insn *insn) {
    bool store = insn->opcode == 0x89;
    unsigned reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1, rm = (insn->modrm & 7) | (insn->rex & 1) << 3;
    if (insn->modrm >> 6 != 3) {
        if (!store && reg == CT_X64_RSP)
            w->depth_known = false;
        return;
    }
    unsigned from = store ? reg : rm, to = store ? rm : reg;
    if (from == CT_X64_RSP && to == CT_X64_RBP && w->depth_known) {
        w->frame_known = true;
        w->frame = w->depth;
    } else if (to == CT_X64_RSP) {
        w->depth_known = from == CT_X64_RBP && w->frame_known;
        w->depth = w->frame;
        w->sets_stack |= from != CT_X64_RBP;
    } else if (to == CT_X64_RBP) {
        w->frame_known = false;
    }
}

static void follow_lea(struct walk *w, const struct ct_x64_insn *insn) {
    unsigned reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1;
    if (reg == CT_X64_RBP)
        w->frame_known = false;
    if (reg != CT_X64_RSP)
        return;
    if ((insn->modrm & 7) == 4 && insn->sib == 0x24 && !(insn->rex & 1)) {
        w->depth -= insn->disp;
    } else if ((insn->modrm & 7) == 5 && insn->modrm >> 6 && !(insn->rex & 1) && w->frame_known) {
        w->depth_known = true;
        w->depth = w->frame - insn->disp;
    } else {
        w->depth_known = false;
    }
}

/* Follows what the one-byte opcodes do to rsp and rbp. Returns true when the return address itself is popped. */
static bool follow_stack(struct walk *w, const struct ct_x64_insn *insn) {
    if (insn->encoding != CT_X64_LEGACY || insn->map)
        return false;
    uint8_t op = insn->opcode;
    if ((op >= 0x50 && op <= 0x57) || op == 0x68 || op == 0x6a || op == 0x9c ||
        (op == 0xff && (insn->modrm >> 3 & 7) == 6)) {
        w->depth += 8;
    } else if ((op >= 0x58 && op <= 0x5f) || op == 0x9d || op == 0x8f) {
        bool pops_return = w->depth_known && w->depth == 0;
        if (op == 0x5d && !(insn->rex & 1))
            w->frame_known = false;
        w->depth -= 8;
        return pops_return;
    } else if (op == 0x83 || op == 0x81) {
        follow_arithmetic(w, insn);
    } else if (op == 0x89 || op == 0x8b) {
        follow_move(w, insn);
    } else if (op == 0x8d) {
        follow_lea(w, insn);
    } else if (op == 0xc9) {
        w->depth_known = w->frame_known;
        w->depth = w->frame - 8;
        w->frame_known = false;
    } else if ((op == 0x29 || op == 0x01 || op == 0x21) && names_rsp_register(insn)) {
        w->depth_known = false; /* alloca: rbp stays */
    } else if (op == 0xc8 || op == 0x94 || (op == 0x87 && swaps_rsp(insn))) {
        w->depth_known = w->frame_known = false; /* enter, xchg */
    }
    return false;
}

/* After an instruction that does not fall through, the state is what a branch to here had. */
static void restart_depth(struct walk *w, uint64_t at) {
    w->depth_known = w->frame_known = false;
    for (unsigned i = 0; i < MAX_PENDING; i++) {
        const struct pending *p = &w->pending[i];
        if (p->target != at)
            continue;
        w->depth_known = true;
        w->depth = p->depth;
        w->frame_known = p->frame_known;
        w->frame = p->frame;
        return;
    }
}

/* ---- jump tables ---- */

static int note_table(struct walk *w, uint64_t address) {
    if (!ct_grow(&w->tables, &w->table_capacity, w->table_count, sizeof *w->tables, 256))
        return CT_ERR_NO_MEMORY;
    w->tables[w->table_count++] = address;
    return 0;
}

static int compare_addresses(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Removes duplicates: the loop of an interpreter names its one table hundreds of times. */
static void sort_tables(struct walk *w) {
    size_t kept = 0;
    if (w->table_count > 1)
        qsort(w->tables, w->table_count, sizeof *w->tables, compare_addresses);
    for (size_t i = 0; i < w->table_count; i++)
        if (!i || w->tables[i] != w->tables[i - 1])
            w->tables[kept++] = w->tables[i];
    w->table_count = kept;
}

/* Only a function that jumps through a register or memory has tables. */
static int end_function(struct walk *w) {
    if (!w->func)
        return 0;
    size_t function = (size_t)(w->func - w->scan->funcs);
    int status = ct_scan_add_calls(w->scan, &w->calls, function);
    if (status || !w->indirect_jump || !w->scan->read)
        return status;
    sort_tables(w);
    for (size_t i = 0; i < w->table_count && !status; i++)
        status = ct_scan_add_table(w->scan, function, w->tables[i], CT_SCAN_TABLE_NAMED);
    if (w->switch_jump && !status)
        status = ct_scan_add_table(w->scan, function, 0, CT_SCAN_TABLE_NEEDED);
    return status;
}

/* A jump through a register whose table can be seen: where one table begins, the one before it ends. */
static int note_dispatch(struct walk *w, uint64_t at) {
    uint64_t address;
    if (!w->func || !ct_scan_dispatch(w->scan, w->recent, w->recent_next, at, &address))
        return 0;
    return ct_scan_add_table(w->scan, (size_t)(w->func - w->scan->funcs), address, CT_SCAN_TABLE_USED);
}

/* jmp [table + reg*8], in position-dependent code */
static int note_jump(struct walk *w, const struct ct_x64_insn *insn) {
    struct ct_x64_mem mem;
    bool array = w->func && w->scan->start < LOW_MODULE && w->scan->read && insn->disp_size == 4 &&
                 ct_x64_memory(insn, &mem) && mem.base == CT_X64_NO_REG && mem.index != CT_X64_NO_REG && mem.scale == 8;
    return array ? ct_scan_add_table(w->scan, (size_t)(w->func - w->scan->funcs), (uint64_t)insn->disp,
                                     CT_SCAN_TABLE_JUMP)
                 : 0;
}

/* ---- the pass ---- */

static void begin_function(struct walk *w, struct ct_scan_func *func) {
    w->func = func;
    w->depth_known = func != NULL;
    w->frame_known = false;
    w->depth = 0;
    w->table_count = 0;
    w->indirect_jump = w->switch_jump = w->unscrambles = w->sets_stack = false;
    w->last_eax = w->last_edi = -1;
    w->calls = (struct ct_scan_calls){0};
    w->cleared = 0;
    w->trace_first = w->trace_size = 0;
    w->trace_top = false;
    for (unsigned i = 0; i < MAX_PENDING; i++)
        w->pending[i].target = 0;
    w->pending_next = w->recent_next = 0;
}

/* What an instruction refers to may be a table of jump targets, or code that is jumped to later. */
static int note_address(struct walk *w, uint64_t address, bool loaded) {
    ct_scan_set(w->scan, w->scan->referenced, address);
    if (loaded && ct_scan_covers(w->scan, address))
        note_foreign(w->scan, address);
    return loaded ? note_table(w, address) : 0;
}

static int note_references(struct walk *w, const struct ct_x64_insn *insn, uint64_t at) {
    bool lea = insn->opcode == 0x8d && insn->map == 0 && insn->encoding == CT_X64_LEGACY;
    if (insn->rip_relative)
        return note_address(w, ct_x64_rip_address(insn, at), lea);
    int status = 0;
    if (insn->disp_size == 4 && w->scan->start < LOW_MODULE)
        status = note_address(w, (uint64_t)insn->disp, true); /* table(,reg,8) in position-dependent code */
    if (!status && insn->imm_size == 8)
        status = note_address(w, (uint64_t)insn->imm, true);
    if (!status && insn->imm_size == 4 && w->scan->start < LOW_MODULE)
        status = note_address(w, (uint64_t)insn->imm, true);
    return status;
}

static bool is_clone_number(int64_t number) {
    return number == SYS_CLONE || number == SYS_VFORK || number == SYS_CLONE3;
}

/* mov reg, %rsp */
static bool sets_stack(const struct ct_x64_insn *insn) {
    if (insn->encoding != CT_X64_LEGACY || insn->map || (insn->opcode != 0x89 && insn->opcode != 0x8b) ||
        insn->modrm >> 6 != 3)
        return false;
    unsigned reg = (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1, rm = (insn->modrm & 7) | (insn->rex & 1) << 3;
    return (insn->opcode == 0x89 ? rm : reg) == CT_X64_RSP;
}

/* The base register of a memory operand base + disp8, as a bit; 0: another operand. */
static uint16_t base_bit(const struct ct_x64_insn *insn, int64_t disp) {
    bool plain = insn->modrm_offset && insn->modrm >> 6 == 1 && !insn->has_sib && insn->disp == disp;
    return plain ? (uint16_t)(1u << ((insn->modrm & 7) | (insn->rex & 1) << 3)) : 0;
}

/* Recognizes BufferedStackTrace::UnwindFast of the sanitizers, which are usually stripped. All versions begin alike,
 * because their structure is old: trace_buffer[0] = pc; size = 1; if (stack_top < 4096) return. */
static void note_trace(struct walk *w, const struct ct_x64_insn *insn) {
    enum { FIRST = 16, SIZE = 8, PAGE = 4096 };
    if (insn->kind != CT_INSN_OTHER && insn->kind != CT_INSN_NOP) {
        w->trace_first = w->trace_size = 0;
        w->trace_top = false;
        return;
    }
    if (insn->map || insn->encoding != CT_X64_LEGACY)
        return;
    bool wide = insn->rex & 8;
    if (insn->opcode == 0x89 && wide) /* mov reg, 16(base) */
        w->trace_first |= base_bit(insn, FIRST);
    if (insn->opcode == 0xc7 && !wide && insn->imm == 1) /* movl $1, 8(base) */
        w->trace_size |= base_bit(insn, SIZE);
    if (insn->opcode == 0x81 && wide && insn->modrm >> 3 == 0x1f) /* cmp $imm, reg */
        w->trace_top |= insn->imm == PAGE || insn->imm == PAGE - 1;
    if (w->func && w->trace_top && (w->trace_first & w->trace_size))
        w->func->flags |= CT_SCAN_TRACES;
}

/* wrgsbase; mov to gs */
static bool sets_gs(const struct ct_x64_insn *insn) {
    unsigned extension = insn->modrm >> 3 & 7;
    if (insn->encoding != CT_X64_LEGACY)
        return false;
    if (insn->map == 1)
        return insn->opcode == 0xae && extension == 3 && insn->modrm >> 6 == 3 && (insn->prefixes & CT_X64_REP);
    return insn->map == 0 && insn->opcode == 0x8e && extension == 5;
}

static int visit_insn(struct walk *w, const struct ct_x64_insn *insn, uint64_t at) {
    note_trace(w, insn);
    if (w->func && at == w->func->start && sets_stack(insn))
        w->func->flags |= CT_SCAN_SETS_STACK;
    if (w->func && touches_return_slot(w, insn))
        w->func->flags |= CT_SCAN_USES_RETURN;
    switch (insn->kind) {
    case CT_INSN_OTHER:
        if (follow_stack(w, insn) && w->func)
            w->func->flags |= CT_SCAN_USES_RETURN;
        if (insn->opcode == 0x33 && (insn->prefixes & CT_X64_SEG_FS) && insn->disp == 0x30)
            w->unscrambles = true; /* xor reg, fs:0x30 */
        if (insn->map == 0 && insn->opcode == 0xb8 && insn->encoding == CT_X64_LEGACY)
            w->last_eax = insn->imm;
        if (insn->map == 0 && insn->opcode == 0xc7 && insn->modrm == 0xc0 && !(insn->rex & 1))
            w->last_eax = insn->imm;
        if (w->func && insn->map == 0 && insn->opcode == 0xb0 && insn->encoding == CT_X64_LEGACY && !(insn->rex & 1))
            /* al: a character, except in functions that begin like this */
            w->last_eax = at - w->func->start < BEGINNING ? insn->imm & 0xff : -1;
        if (insn->map == 0 && insn->opcode == 0xbf && insn->encoding == CT_X64_LEGACY && !(insn->rex & 1))
            w->last_edi = insn->imm;
        if (w->func && sets_gs(insn))
            w->func->flags |= CT_SCAN_TAKES_GS;
        if (w->func && insn->map && ct_scan_is_real(insn))
            w->func->flags |= CT_SCAN_REALS;
        if (insn->map && ct_scan_clears_result(insn))
            w->cleared = at + insn->length;
        return insn->rip_relative || insn->disp_size == 4 || insn->imm_size >= 4 ? note_references(w, insn, at) : 0;
    case CT_INSN_CALL:
    case CT_INSN_CALL_INDIRECT:
        note_foreign(w->scan, at + insn->length); /* where the callee returns to */
        if (insn->kind == CT_INSN_CALL)
            return note_branch(w, insn, at);
        ct_scan_note_call(&w->calls, 0);
        return 0;
    case CT_INSN_JMP:
    case CT_INSN_JCC:
    case CT_INSN_LOOP:
    case CT_INSN_XBEGIN: {
        int status = note_branch(w, insn, at);
        if (insn->kind == CT_INSN_JMP)
            restart_depth(w, at + insn->length);
        return status;
    }
    case CT_INSN_JMP_INDIRECT: {
        w->indirect_jump = true;
        if (w->func && w->unscrambles && w->sets_stack)
            w->func->flags |= CT_SCAN_LONGJMP;
        w->switch_jump |= !insn->rip_relative && w->depth_known && w->depth > 0;
        if (w->func && !insn->rip_relative)
            w->func->flags |= CT_SCAN_INDIRECT;
        restart_depth(w, at + insn->length);
        if (insn->modrm >> 6 == 3)
            return note_dispatch(w, at);
        int status = note_jump(w, insn);
        return status ? status : note_references(w, insn, at);
    }
    case CT_INSN_RET:
        if (w->func && insn->imm > 0)
            w->func->flags |= CT_SCAN_POPS_ARGUMENTS;
        if (w->func && w->cleared == at)
            w->func->flags |= CT_SCAN_REALS;
        restart_depth(w, at + insn->length);
        return 0;
    case CT_INSN_SYSCALL:
        if (w->func)
            w->func->flags |= CT_SCAN_SYSCALLS;
        if (w->func && is_clone_number(w->last_eax))
            w->func->flags |= CT_SCAN_CLONES;
        if (w->func && (w->last_eax == SYS_EXECVE || w->last_eax == SYS_EXECVEAT))
            w->func->flags |= CT_SCAN_EXECS;
        if (w->func && w->last_eax == SYS_RT_SIGRETURN && at - w->func->start < RESTORER)
            w->func->flags |= CT_SCAN_SETS_STACK; /* handlers return to it; musl has no table that says so */
        if (w->func && w->last_eax == SYS_ARCH_PRCTL && w->last_edi == ARCH_SET_GS)
            w->func->flags |= CT_SCAN_TAKES_GS;
        return 0;
    default:
        return 0;
    }
}

/* Does control go on after it? Calls come back to a place that is marked already. */
static bool falls_through(const struct ct_x64_insn *insn) {
    switch (insn->kind) {
    case CT_INSN_OTHER:
    case CT_INSN_LANDING:
    case CT_INSN_JCC:
    case CT_INSN_LOOP:
    case CT_INSN_SYSCALL:
    case CT_INSN_INT:
    case CT_INSN_XBEGIN:
        return true;
    default:
        return false;
    }
}

/* Decodes [from, to): a function, or the bytes between two. */
static int walk_range(struct walk *w, uint64_t from, uint64_t to) {
    struct ct_scan *s = w->scan;
    uint64_t at = from;
    bool falls = false;
    if (to > from && to - from > w->work_left)
        return CT_ERR_UNSUPPORTED;
    w->work_left -= to > from ? to - from : 0;
    while (at < to) {
        struct ct_x64_insn insn;
        if (ct_x64_decode(ct_scan_bytes(s, at), (size_t)(to - at), &insn)) {
            at++;
            continue;
        }
        int status = visit_insn(w, &insn, at);
        if (status)
            return status;
        if (insn.kind != CT_INSN_NOP)
            falls = falls_through(&insn);
        w->recent[w->recent_next++ % CT_SCAN_RECENT] = at;
        at += insn.length;
    }
    if (falls) /* what is after it is not padding */
        note_foreign(s, to);
    return 0;
}

/* Unwind information of clone functions ends before their system call: nothing may be unwound in the child. */
static void note_clone_behind(struct walk *w, uint64_t end) {
    static const uint8_t syscall[2] = {0x0f, 0x05};
    if (is_clone_number(w->last_eax) && w->scan->end - end >= 2 && !memcmp(ct_scan_bytes(w->scan, end), syscall, 2))
        w->func->flags |= CT_SCAN_CLONES;
}

int ct_scan_walk(struct ct_scan *s, size_t first, size_t end_index) {
    struct walk *w = calloc(1, sizeof *w);
    if (!w)
        return CT_ERR_NO_MEMORY;
    w->scan = s;
    w->work_left = ct_scan_work(s);
    uint64_t at = s->start;
    int status = 0;
    for (size_t i = 0; i < first; i++)
        at = s->funcs[i].end > at ? s->funcs[i].end : at;
    size_t last = end_index == s->func_count ? end_index + 1 : end_index;
    for (size_t i = first; i < last && !status; i++) {
        struct ct_scan_func *func = i < s->func_count ? &s->funcs[i] : NULL;
        if (s->cancelled && __atomic_load_n(s->cancelled, __ATOMIC_RELAXED)) {
            status = CT_ERR_TIMEOUT;
            break;
        }
        uint64_t start = func ? func->start : s->end;
        if (at < start) {
            begin_function(w, NULL);
            status = walk_range(w, at, start);
        }
        if (!func || status)
            break;
        uint64_t end = func->end < s->end ? func->end : s->end;
        note_foreign(s, start);
        begin_function(w, func);
        status = walk_range(w, start, end);
        note_clone_behind(w, end);
        if (!status)
            status = end_function(w);
        if (!w->work_left)
            status = CT_ERR_UNSUPPORTED;
        at = end > at ? end : at;
    }
    free(w->tables);
    free(w);
    return status;
}
