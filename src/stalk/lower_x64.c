/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of blocks to x86_64.
 *
 * Rules for all code that is not the program's own:
 *   1  Flags are not changed, unless the program overwrites them next (flags_x64.c); the stack below rsp is never used.
 *   2  A register is used only after it was stored in the thread's area, and is restored from there.
 *   3  Only forms that recover_x64.c knows are used: a signal that arrives in our code is put off by simulating that
 *      code to its end.
 * An indirect branch saves the flags, puts its target in rcx and a hash of it in r11, and jumps through the table. The
 * way into the entry (ways_x64.c) compares rcx with the entry's address and restores both registers. A return leaves
 * its target on the stack for the way in to compare, and so needs only rcx. */
#include "isa/x64/relocate.h"
#include "os/os.h"
#include "stalk/build.h"
#include "stalk/cache.h"
#include "stalk/emit_x64.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/flags_x64.h"
#include "stalk/memory.h"
#include "stalk/translate.h"

static void jump_helper(struct stalk_build *b, const uint8_t *routine) {
    ct_x64_emit_jmp(&b->out, ct_stalk_helper(b->region, routine));
}

/* ---- exits ---- */

/* Aligns the rel32 that follows `opcode_size` bytes, so that one store can change it. */
static void align_rel32(struct stalk_build *b, size_t opcode_size) {
    uint64_t unit = ct_arena_mode(b->region->arena) == CT_WX_PROTECT ? 8 : 64;
    uint64_t at = (ct_code_here(&b->out) + opcode_size) % unit;
    if (at > unit - 4)
        ct_x64_emit_nop(&b->out, unit - at);
}

void ct_lower_jump(struct stalk_build *b, uint64_t target, uint8_t kind) {
    align_rel32(b, 1);
    ct_code_byte(&b->out, 0xe9);
    ct_build_exit(b, target, b->out.length, kind);
    ct_code_u32(&b->out, 0);
}

static void emit_jcc(struct stalk_build *b, uint8_t condition, uint64_t target) {
    align_rel32(b, 2);
    ct_build_piece(b, 0);
    CT_X64_BYTES(&b->out, 0x0f, (uint8_t)(0x80 | condition));
    ct_build_exit(b, target, b->out.length, CT_STALKER_END_BRANCH);
    ct_code_u32(&b->out, 0);
}

/* loop, jrcxz, xbegin: they jump over a short jump, to the exit. */
static void emit_island(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    ct_code_copy(out, insn->bytes, insn->x64.imm_offset);
    ct_code_byte(out, 2);
    for (unsigned i = 1; i < insn->x64.imm_size; i++)
        ct_code_byte(out, 0);
    CT_X64_BYTES(out, 0xeb, 0);
    size_t from = out->length;
    ct_lower_jump(b, ct_x64_target(&insn->x64, insn->address), CT_STALKER_END_BRANCH);
    if (!out->overflow)
        out->bytes[from - 1] = (uint8_t)(out->length - from);
}

/* ---- indirect branches ---- */

/* Code that compares the target of an indirect branch may change the flags: they are saved, with r11, first. rax is
 * back at once; a value reloaded from the area would be late. */
static void save_flags(struct ct_code_buf *out) {
    gs_store(out, CT_X64_R11, CT_AREA_R11);
    CT_X64_BYTES(out, 0x49, 0x89, 0xc3,   /* mov r11, rax */
                 0x9f,                    /* lahf */
                 0x0f, 0x90, 0xc0,        /* seto al */
                 0x65, 0x89, 0x04, 0x25); /* mov gs:[BRANCHED], eax */
    ct_code_u32(out, CT_AREA_BRANCHED);
    CT_X64_BYTES(out, 0x4c, 0x89, 0xd8); /* mov rax, r11 */
}

/* rcx holds the target; the program's rcx and r11 are in the area. */
static void emit_table_jump(struct stalk_build *b) {
    struct ct_code_buf *out = &b->out;
    if (b->cache->stalker->machine.has_rorx)
        CT_X64_BYTES(out, 0xc4, 0x63, 0x7b, 0xf0, 0xd9, 0x06, /* rorx r11d, ecx, 6 */
                     0x45, 0x8d, 0x1c, 0x0b,                  /* lea r11d, [r11 + rcx] */
                     0x45, 0x0f, 0xb7, 0xdb);                 /* movzx r11d, r11w */
    else
        CT_X64_BYTES(out, 0x44, 0x0f, 0xb7, 0xd9); /* movzx r11d, cx */
    CT_X64_BYTES(out, 0x42, 0xff, 0x24, 0xdd);     /* jmp [r11 * 8 + table] */
    ct_code_u32(out, (uint32_t)(uint64_t)b->cache->table);
}

void ct_lower_begin(struct stalk_build *b) {
    if (b->way == WAY_IN_INDIRECT)
        b->way_in = ct_stalk_emit_indirect(&b->out, b->region, b->start, ct_flags_unused_here(b));
    b->spoils_flags = b->way == WAY_IN_RETURN && !ct_flags_kept(b->cache->stalker, b->start) && ct_flags_unused_here(b);
    if (b->way == WAY_IN_RETURN)
        b->way_in = ct_stalk_emit_return(&b->out, b->region, b->start, b->spoils_flags);
    b->body = b->piece_from = b->out.length;
}

/* mov rcx, <operand of the branch> */
static void load_target(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    const struct ct_x64_insn *x = &insn->x64;
    uint64_t address = ct_x64_rip_address(x, insn->address);
    if (x->prefixes & CT_X64_SEG_FS)
        ct_code_byte(out, 0x64);
    if (x->prefixes & CT_X64_SEG_GS)
        ct_code_byte(out, 0x65);
    if (x->prefixes & CT_X64_ADDRSIZE)
        ct_code_byte(out, 0x67);
    if (x->rip_relative && !(x->prefixes & CT_X64_ADDRSIZE) && !ct_x64_reaches(ct_code_here(out) + 8, address)) {
        bool fs = x->prefixes & CT_X64_SEG_FS;
        if (fs)
            out->length--;
        ct_x64_emit_mov_imm(out, CT_X64_RCX, address);
        if (fs)
            ct_code_byte(out, 0x64);
        CT_X64_BYTES(out, 0x48, 0x8b, 0x09);
        return;
    }
    CT_X64_BYTES(out, (uint8_t)(0x48 | (x->rex & 3)), 0x8b, (uint8_t)((x->modrm & 0xc7) | CT_X64_RCX << 3));
    ct_code_copy(out, insn->bytes + x->modrm_offset + 1, x->length - x->modrm_offset - 1u);
    if (x->rip_relative)
        ct_x64_patch_u32(out, out->length - 4, (uint32_t)(address - ct_code_here(out)));
}

/* Pushes the return address with one 8-byte store. */
static void push_return(struct stalk_build *b, uint64_t address) {
    if ((uint64_t)(int64_t)(int32_t)address == address) {
        ct_code_byte(&b->out, 0x68);
        ct_code_u32(&b->out, (uint32_t)address);
        return;
    }
    size_t at = ct_x64_emit_push_literal(&b->out);
    ct_build_literal(b, at, address);
}

/* ---- events ---- */

/* Begins a record. rcx becomes its address; the program's rcx goes to the area. */
static void begin_record(struct stalk_build *b) {
    struct ct_code_buf *out = &b->out;
    gs_store(out, CT_X64_RCX, CT_AREA_RCX);
    gs_load(out, CT_X64_RCX, CT_AREA_EVENTS);
    /* lea rcx, [rcx - size] */
    CT_X64_BYTES(out, 0x48, 0x8d, 0x49, (uint8_t)(0 - ct_stalk_record_size(b->cache->mask)));
}

static void write_site(struct stalk_build *b, uint32_t site) {
    unsigned offset = ct_stalk_site_offset(ct_stalk_record_size(b->cache->mask));
    CT_X64_BYTES(&b->out, 0xc7, 0x41, (uint8_t)offset); /* mov dword [rcx + offset], site */
    ct_code_u32(&b->out, site);
}

/* Publishes the record. Afterwards the program's rcx is in the area only. The branch is taken when the buffer is full;
 * with the fast clock, after each 16th record. */
static void close_record(struct stalk_build *b) {
    uint8_t opcode = b->cache->mask & CT_STALKER_FAST_CLOCK ? 0xb6 : 0xb7;
    gs_store(&b->out, CT_X64_RCX, CT_AREA_EVENTS);
    CT_X64_BYTES(&b->out, 0x0f, opcode, 0xc9, 0xe3, 0x00); /* movzx ecx, cx or cl; jrcxz */
    b->full_branch = b->full_resume = b->out.length;
}

/* Writes the record of a call or return: rsp, and rax if `with_rax` (then the program's rax is in the area already).
 * Each store ends under the next one: the bits above 47 are overwritten. */
static void emit_record(struct stalk_build *b, uint32_t site, bool with_rax) {
    struct ct_code_buf *out = &b->out;
    begin_record(b);
    if (with_rax)
        CT_X64_BYTES(out, 0x48, 0x89, 0x41, CT_RECORD_TARGET); /* mov [rcx + TARGET], rax */
    CT_X64_BYTES(out, 0x48, 0x89, 0x61, CT_RECORD_SP);         /* mov [rcx + SP], rsp */
    write_site(b, site);
    if (b->cache->mask & CT_STALKER_TIMESTAMPS) {
        if (!with_rax)
            gs_store(out, CT_X64_RAX, CT_AREA_RAX);
        else
            CT_X64_BYTES(out, 0x48, 0x89, 0x41, CT_RECORD_SPARE); /* mov [rcx + SPARE], rax */
        gs_store(out, CT_X64_RDX, CT_AREA_RDX);
        CT_X64_BYTES(out, 0x0f, 0x31,                 /* rdtsc */
                     0x89, 0x41, CT_RECORD_TIME,      /* mov [rcx + TIME], eax */
                     0x89, 0x51, CT_RECORD_TIME + 4); /* mov [rcx + TIME + 4], edx */
        gs_load(out, CT_X64_RDX, CT_AREA_RDX);
        if (with_rax)
            CT_X64_BYTES(out, 0x48, 0x8b, 0x41, CT_RECORD_SPARE); /* mov rax, [rcx + SPARE] */
        else
            gs_load(out, CT_X64_RAX, CT_AREA_RAX);
    }
    close_record(b);
}

/* Restores rcx after a record. */
static void end_record(struct stalk_build *b) {
    gs_load(&b->out, CT_X64_RCX, CT_AREA_RCX);
    b->full_resume = b->out.length;
}

/* Writes the code that the branch of an open record jumps to. It must be within reach of that short branch. */
static void emit_full(struct stalk_build *b) {
    struct ct_code_buf *out = &b->out;
    if (!b->full_branch)
        return;
    if (!out->overflow)
        out->bytes[b->full_branch - 1] = (uint8_t)(out->length - b->full_branch);
    CT_X64_BYTES(out, 0x48, 0x8d, 0x0d); /* lea rcx, [rip + resume] */
    ct_code_u32(out, (uint32_t)(b->full_resume - (out->length + 4)));
    gs_store(out, CT_X64_RCX, CT_AREA_TARGET);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    jump_helper(b, b->cache->mask & CT_STALKER_FAST_CLOCK ? ct_stalk_clock : ct_stalk_full);
    b->full_branch = 0;
}

void ct_lower_block_event(struct stalk_build *b, uint32_t site) {
    begin_record(b);
    write_site(b, site);
    close_record(b);
    end_record(b);
    CT_X64_BYTES(&b->out, 0xeb, 0);
    size_t from = b->out.length;
    emit_full(b);
    if (!b->out.overflow)
        b->out.bytes[from - 1] = (uint8_t)(b->out.length - from);
    ct_build_piece(b, 0);
}

/* Adds one to [rcx + offset], with lea because inc would change flags. Both registers are restored from the area. */
static void emit_increment(struct ct_code_buf *out, uint32_t offset) {
    gs_store(out, CT_X64_RAX, CT_AREA_RAX);
    CT_X64_BYTES(out, 0x48, 0x8b, 0x81); /* mov rax, [rcx + offset] */
    ct_code_u32(out, offset);
    CT_X64_BYTES(out, 0x48, 0x8d, 0x40, 0x01, /* lea rax, [rax + 1] */
                 0x48, 0x89, 0x81);           /* mov [rcx + offset], rax */
    ct_code_u32(out, offset);
    gs_load(out, CT_X64_RAX, CT_AREA_RAX);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
}

/* Writes code that counts a call. */
static void emit_count(struct stalk_build *b, uint32_t counter) {
    gs_store(&b->out, CT_X64_RCX, CT_AREA_RCX);
    gs_load(&b->out, CT_X64_RCX, CT_AREA_COUNTERS);
    emit_increment(&b->out, counter * 8);
}

void ct_lower_count(struct stalk_build *b, const uint64_t *counter) {
    gs_store(&b->out, CT_X64_RCX, CT_AREA_RCX);
    CT_X64_BYTES(&b->out, 0x48, 0xb9); /* mov rcx, counter */
    ct_code_u64(&b->out, (uint64_t)counter);
    emit_increment(&b->out, 0);
    ct_build_piece(b, 0);
}

static void direct_call_event(struct stalk_build *b, const struct stalk_insn *insn, uint64_t target) {
    if (b->cache->count_calls) {
        uint32_t counter = ct_build_counter(b, target);
        if (counter)
            emit_count(b, counter);
    } else if (b->cache->mask & CT_STALKER_CALL) {
        emit_record(b, ct_build_site(b, CT_STALKER_CALL, insn->address, target), false);
        end_record(b);
    }
}

/* rcx holds the target; the program's rcx is in the area. */
static void indirect_call_event(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    if (!(b->cache->mask & CT_STALKER_CALL))
        return;
    /* Not in the slot of rax: if the buffer is full, the engine saves rax there, which holds the target then. */
    gs_store(out, CT_X64_RAX, CT_AREA_SPILL);
    CT_X64_BYTES(out, 0x48, 0x89, 0xc8); /* mov rax, rcx */
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    emit_record(b, ct_build_site(b, CT_STALKER_CALL, insn->address, 0), true);
    CT_X64_BYTES(out, 0x48, 0x89, 0xc1); /* mov rcx, rax */
    gs_load(out, CT_X64_RAX, CT_AREA_SPILL);
}

/* ---- instructions ---- */

int ct_lower_decode(const struct stalk_build *b, struct stalk_insn *insn) {
    insn->address = b->pc;
    insn->bytes = b->pc - b->start < b->shadow_size ? b->shadow + (b->pc - b->start) : (const uint8_t *)b->pc;
    return b->pc < b->limit ? ct_x64_decode(insn->bytes, b->limit - b->pc, &insn->x64) : CT_ERR_TRUNCATED;
}

static bool is_narrow(const struct ct_x64_insn *x) {
    return (x->prefixes & CT_X64_OPSIZE) && !(x->rex & 8);
}

/* wrgsbase, swapgs and loads of gs: we use this register. */
static bool changes_gs(const struct ct_x64_insn *x) {
    if (x->encoding != CT_X64_LEGACY)
        return false;
    if (x->map == 0 && x->opcode == 0x8e)
        return (x->modrm >> 3 & 7) == 5;
    if (x->map != 1)
        return false;
    if (x->opcode == 0xae && x->modrm >= 0xc0 && (x->prefixes & CT_X64_REP))
        return (x->modrm >> 3 & 7) == 3;
    return x->opcode == 0xa9 || x->opcode == 0xb5 || (x->opcode == 0x01 && x->modrm == 0xf8);
}

enum stalk_flow ct_lower_flow(const struct stalk_insn *insn) {
    const struct ct_x64_insn *x = &insn->x64;
    switch (x->kind) {
    case CT_INSN_JMP:
    case CT_INSN_CALL:
    case CT_INSN_CALL_INDIRECT:
    case CT_INSN_JMP_INDIRECT:
        return is_narrow(x) ? FLOW_REFUSE : FLOW_END;
    case CT_INSN_RET:
        return is_narrow(x) ? FLOW_REFUSE : FLOW_END;
    case CT_INSN_JCC:
    case CT_INSN_LOOP:
    case CT_INSN_XBEGIN:
        return is_narrow(x) ? FLOW_REFUSE : FLOW_BRANCH;
    case CT_INSN_FAR:
        return FLOW_REFUSE;
    case CT_INSN_TRAP:
        return FLOW_END;
    case CT_INSN_SYSCALL:
        return x->opcode == 0x05 ? FLOW_NEXT : FLOW_REFUSE;
    default:
        return changes_gs(x) ? FLOW_REFUSE : FLOW_NEXT;
    }
}

static void lower_call(struct stalk_build *b, const struct stalk_insn *insn, uint64_t target) {
    b->end_kind = CT_STALKER_END_CALL;
    direct_call_event(b, insn, target);
    push_return(b, insn->address + insn->x64.length);
    ct_flags_note_call(b, insn->address + insn->x64.length);
    ct_lower_jump(b, target, CT_STALKER_END_CALL);
    emit_full(b);
}

static void lower_jump(struct stalk_build *b, uint64_t target) {
    b->end_kind = CT_STALKER_END_JUMP;
    align_rel32(b, 1);
    ct_build_piece(b, 0);
    ct_lower_jump(b, target, CT_STALKER_END_JUMP);
}

/* Writes the jump to the inline cache. One store can change all of it. */
static void emit_inline_jump(struct stalk_build *b) {
    uint64_t at = ct_code_here(&b->out) % 8;
    if (at > 3)
        ct_x64_emit_nop(&b->out, 8 - at);
    ct_lower_jump(b, 0, b->end_kind);
}

/* Is there nothing of the program's before it in the fragment, except for a landing pad? */
static bool comes_first(const struct stalk_build *b, const struct stalk_insn *insn) {
    enum { FAR = 16 };
    uint64_t size = insn->address - b->start;
    struct ct_x64_insn x;
    for (uint64_t at = 0; at < size; at += x.length)
        if (size > FAR || ct_x64_decode(insn->bytes - size + at, size - at, &x) ||
            (x.kind != CT_INSN_NOP && x.kind != CT_INSN_LANDING))
            return false;
    return !b->callouts && !b->cache->transformer.transform;
}

/* Does the branch go where a word says that only a system call can change? Linkage tables are like that once they are
 * complete. Excluded code makes calls that nobody sees, so nothing is constant beside it. Before the branch there is
 * nothing in which the thread could wait for another one, or see that it has changed the word: a thread
 * that is in the fragment when it is given up goes where the word led. */
static bool has_constant_target(struct stalk_build *b, const struct stalk_insn *insn, uint64_t *target) {
    const struct ct_x64_insn *x = &insn->x64;
    const uint8_t other = CT_X64_SEG_FS | CT_X64_SEG_GS | CT_X64_ADDRSIZE;
    if (!x->rip_relative || x->prefixes & other || b->shadow_size || ct_stalk_has_excluded(b->cache->stalker) ||
        !comes_first(b, insn))
        return false;
    uint64_t word = ct_x64_rip_address(x, insn->address);
    if (!ct_stalk_constant(b->cache->stalker, word) || ct_os_peek(word, target, sizeof *target))
        return false;
    b->constant = word;
    b->constant_value = *target;
    return true;
}

static void lower_indirect(struct stalk_build *b, const struct stalk_insn *insn) {
    bool call = insn->x64.kind == CT_INSN_CALL_INDIRECT;
    uint64_t target;
    if (has_constant_target(b, insn, &target)) {
        if (call)
            lower_call(b, insn, target);
        else
            lower_jump(b, target);
        return;
    }
    b->end_kind = call ? CT_STALKER_END_CALL_INDIRECT : CT_STALKER_END_JUMP_INDIRECT;
    gs_store(&b->out, CT_X64_RCX, CT_AREA_RCX);
    load_target(b, insn);
    if (call) {
        indirect_call_event(b, insn);
        push_return(b, insn->address + insn->x64.length);
        ct_flags_note_call(b, insn->address + insn->x64.length);
    }
    save_flags(&b->out);
    if (b->cache->stalker->inline_entries)
        emit_inline_jump(b);
    emit_table_jump(b);
    emit_full(b);
}

static void lower_return(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    uint16_t more = insn->x64.opcode == 0xc2 ? (uint16_t)insn->x64.imm : 0;
    b->end_kind = CT_STALKER_END_RETURN;
    if (b->cache->mask & CT_STALKER_RET) {
        gs_store(out, CT_X64_RAX, CT_AREA_SPILL);
        CT_X64_BYTES(out, 0x48, 0x8b, 0x04, 0x24); /* mov rax, [rsp] */
        emit_record(b, ct_build_site(b, CT_STALKER_RET, insn->address, 0), true);
        gs_load(out, CT_X64_RAX, CT_AREA_SPILL);
    } else {
        gs_store(out, CT_X64_RCX, CT_AREA_RCX);
    }
    if (more || ct_flags_pushed_here(b)) { /* it drops bytes above the return address, or is a jump */
        ct_code_byte(out, 0x59);           /* pop rcx */
        if (more)
            ct_x64_emit_add_rsp(out, more);
        save_flags(out);
        emit_table_jump(b);
    } else {
        if (b->cache->stalker->machine.has_rorx)
            CT_X64_BYTES(out, 0xc4, 0xe3, 0xfb, 0xf0, 0x0c, 0x24, 0x02); /* rorx rcx, [rsp], 2 */
        else
            CT_X64_BYTES(out, 0x48, 0x8b, 0x0c, 0x24); /* mov rcx, [rsp] */
        CT_X64_BYTES(out, 0x0f, 0xb7, 0xc9,            /* movzx ecx, cx */
                     0xff, 0x24, 0xcd);                /* jmp [rcx * 8 + table] */
        ct_code_u32(out, (uint32_t)(uint64_t)b->cache->return_table);
    }
    emit_full(b);
}

/* The engine looks at the number of the system call first. The call destroys rcx anyway. The engine returns to the
 * instruction, or after it. */
static void lower_syscall(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    CT_X64_BYTES(out, 0x48, 0x8d, 0x0d, 14, 0, 0, 0); /* lea rcx, [rip + 14] */
    gs_store(out, CT_X64_RCX, CT_AREA_TARGET);
    jump_helper(b, ct_stalk_syscall);
    ct_build_piece(b, 0);
    CT_X64_BYTES(out, 0x0f, 0x05);
    ct_build_piece(b, insn->x64.length);
    CT_X64_BYTES(out, 0x48, 0xb9); /* mov rcx, next */
    ct_code_u64(out, insn->address + insn->x64.length);
    if (b->cache->mask & CT_STALKER_FAST_CLOCK) { /* the call may have taken long */
        gs_store(out, CT_X64_RCX, CT_AREA_RCX);
        CT_X64_BYTES(out, 0x48, 0x8d, 0x0d, 14, 0, 0, 0); /* lea rcx, [rip + 14] */
        gs_store(out, CT_X64_RCX, CT_AREA_TARGET);
        jump_helper(b, ct_stalk_clock);
    }
    ct_build_piece(b, 0);
}

static enum stalk_flow lower_plain(struct stalk_build *b, const struct stalk_insn *insn) {
    if (!ct_section_load(b, insn) && ct_x64_relocate(&b->out, insn->bytes, &insn->x64, insn->address))
        return FLOW_REFUSE;
    ct_build_piece(b, insn->x64.length);
    return insn->x64.kind == CT_INSN_TRAP ? FLOW_END : FLOW_NEXT;
}

enum stalk_flow ct_lower_insn(struct stalk_build *b, const struct stalk_insn *insn) {
    enum stalk_flow flow = ct_lower_flow(insn);
    if (flow == FLOW_REFUSE)
        return flow;
    ct_flags_watch_stack(b, insn);
    if (b->shadow_size)
        ct_check_note(b, &insn->x64);
    switch (insn->x64.kind) {
    case CT_INSN_JMP:
        lower_jump(b, ct_x64_target(&insn->x64, insn->address));
        break;
    case CT_INSN_JCC:
        b->end_kind = CT_STALKER_END_BRANCH;
        emit_jcc(b, insn->x64.opcode & 15, ct_x64_target(&insn->x64, insn->address));
        break;
    case CT_INSN_LOOP:
    case CT_INSN_XBEGIN:
        b->end_kind = CT_STALKER_END_BRANCH;
        emit_island(b, insn);
        break;
    case CT_INSN_CALL:
        lower_call(b, insn, ct_x64_target(&insn->x64, insn->address));
        break;
    case CT_INSN_CALL_INDIRECT:
    case CT_INSN_JMP_INDIRECT:
        lower_indirect(b, insn);
        break;
    case CT_INSN_RET:
        lower_return(b, insn);
        break;
    case CT_INSN_SYSCALL:
        lower_syscall(b, insn);
        return FLOW_NEXT;
    default:
        return lower_plain(b, insn);
    }
    ct_build_piece(b, insn->x64.length);
    return flow;
}

void ct_lower_callout(struct stalk_build *b, uint32_t callout) {
    struct ct_code_buf *out = &b->out;
    gs_store(out, CT_X64_RCX, CT_AREA_RCX);
    CT_X64_BYTES(out, 0x48, 0x8d, 0x0d, 36, 0, 0, 0); /* lea rcx, [rip + 36] */
    gs_store(out, CT_X64_RCX, CT_AREA_TARGET);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    gs_store_imm(out, CT_AREA_REASON, CT_REASON_CALLOUT | callout);
    jump_helper(b, ct_stalk_enter);
    ct_build_piece(b, 0);
}

void ct_lower_bytes(struct stalk_build *b, const void *bytes, size_t size) {
    ct_code_copy(&b->out, bytes, size);
    ct_build_piece(b, 0);
}

size_t ct_lower_branch(struct stalk_build *b, unsigned condition) {
    struct ct_code_buf *out = &b->out;
    if (condition < 16)
        CT_X64_BYTES(out, 0x0f, (uint8_t)(0x80 | condition), 0, 0, 0, 0);
    else
        CT_X64_BYTES(out, 0xe9, 0, 0, 0, 0);
    ct_build_piece(b, 0);
    return out->length - 4;
}

void ct_lower_land(struct stalk_build *b, size_t branch) {
    ct_x64_patch_u32(&b->out, branch, (uint32_t)(b->out.length - (branch + 4)));
}

/* ---- the end of a fragment ---- */

/* Stubs and literals are kept away from code that runs often. */
static int finish_exit(struct stalk_build *b, struct stalk_fragment *f, struct ct_code_buf *cold, unsigned i) {
    struct stalk_cache *c = b->cache;
    uint32_t id = ct_stalk_new_item(&c->pool, &c->exits, sizeof(struct stalk_exit));
    if (!id)
        return CT_ERR_NO_MEMORY;
    struct stalk_exit *e = ct_stalk_item(&c->exits, id);
    e->target = b->exits[i].target;
    e->patch = b->out.address + b->exits[i].patch;
    e->stub = ct_code_here(cold);
    e->from = f;
    e->region = b->region;
    e->kind = b->exits[i].kind;
    e->skips = ct_check_skips(b, b->exits[i].written);
    ct_x64_patch_u32(&b->out, b->exits[i].patch, (uint32_t)(e->stub - (e->patch + 4)));
    bool indirect = e->kind == CT_STALKER_END_CALL_INDIRECT || e->kind == CT_STALKER_END_JUMP_INDIRECT;
    uint32_t direct = e->kind == STALK_END_CHANGED ? CT_REASON_CHANGED : CT_REASON_EXIT;
    gs_store_imm(cold, CT_AREA_REASON, (indirect ? CT_REASON_SITE : direct) | id);
    ct_x64_emit_jmp(cold, ct_stalk_helper(b->region, indirect ? ct_stalk_uncached : ct_stalk_enter));
    return CT_OK;
}

enum { COLD_MAX = STALK_MAX_EXITS * 18 + BUILD_LITERALS * 8 + 16 };

int ct_lower_finish(struct stalk_build *b, struct stalk_fragment *f) {
    uint8_t bytes[COLD_MAX];
    struct ct_code_buf cold = {bytes, sizeof bytes, 0, 0, false};
    uint8_t *write;
    if (ct_stalk_cold_room(b->region, b->exit_count * 18 + b->literal_count * 8 + 8, &cold.address, &write))
        return CT_ERR_NO_MEMORY;
    for (unsigned i = 0; i < b->literal_count; i++) {
        uint64_t next = b->out.address + b->literals[i].at + 4;
        ct_x64_patch_u32(&b->out, b->literals[i].at, (uint32_t)(ct_code_here(&cold) - next));
        ct_code_u64(&cold, b->literals[i].value);
    }
    uint32_t first_exit = b->cache->exits.count + !b->cache->exits.count;
    for (unsigned i = 0; i < b->exit_count; i++) {
        int status = finish_exit(b, f, &cold, i);
        if (status)
            return status;
    }
    int bad = ct_section_finish(b, f, first_exit);
    if (bad)
        return bad;
    if (b->out.overflow || cold.overflow)
        return CT_ERR_NO_SPACE;
    b->cold_bytes = cold.length;
    if (!cold.length)
        return CT_OK;
    if (ct_arena_mode(b->region->arena) == CT_WX_PROTECT)
        return ct_arena_write(b->region->arena, cold.address, bytes, cold.length);
    ct_stalk_copy(write, bytes, cold.length);
    return CT_OK;
}

/* ---- for transformers ---- */

static enum ct_stalker_insn_kind public_kind(uint8_t kind) {
    switch (kind) {
    case CT_INSN_JMP:
    case CT_INSN_JMP_INDIRECT:
        return CT_STALKER_INSN_JUMP;
    case CT_INSN_JCC:
    case CT_INSN_LOOP:
    case CT_INSN_XBEGIN:
        return CT_STALKER_INSN_BRANCH;
    case CT_INSN_CALL:
    case CT_INSN_CALL_INDIRECT:
        return CT_STALKER_INSN_CALL;
    case CT_INSN_RET:
        return CT_STALKER_INSN_RETURN;
    case CT_INSN_SYSCALL:
        return CT_STALKER_INSN_SYSCALL;
    default:
        return CT_STALKER_INSN_OTHER;
    }
}

void ct_lower_describe(const struct stalk_insn *insn, struct ct_stalker_insn *out) {
    const struct ct_x64_insn *x = &insn->x64;
    struct ct_x64_effects effects;
    struct ct_x64_mem mem;
    ct_x64_effects(x, &effects);
    out->size = sizeof *out;
    out->address = insn->address;
    out->bytes = insn->bytes;
    out->length = x->length;
    out->kind = public_kind(x->kind);
    out->indirect = x->kind == CT_INSN_CALL_INDIRECT || x->kind == CT_INSN_JMP_INDIRECT || x->kind == CT_INSN_RET;
    out->has_memory = ct_x64_memory(x, &mem);
    out->base = !out->has_memory ? CT_STALKER_NO_REGISTER : mem.base == CT_X64_RIP ? CT_STALKER_PC : mem.base;
    out->index = out->has_memory ? mem.index : CT_STALKER_NO_REGISTER;
    out->scale = out->has_memory ? mem.scale : 0;
    out->displacement = out->has_memory ? mem.disp : 0;
    out->memory_read = effects.mem_read;
    out->memory_written = effects.mem_written;
    out->immediate = x->imm;
    bool direct = x->kind == CT_INSN_JMP || x->kind == CT_INSN_JCC || x->kind == CT_INSN_LOOP ||
                  x->kind == CT_INSN_CALL || x->kind == CT_INSN_XBEGIN;
    out->target = direct ? ct_x64_target(x, insn->address) : 0;
    out->registers_read = effects.regs_read;
    out->registers_written = effects.regs_written;
    out->flags_read = effects.flags_read;
    out->flags_written = effects.flags_written;
}
