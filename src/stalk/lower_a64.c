/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of blocks to arm64.
 *
 * Rules for all code that is not the program's own:
 *   1  Flags are never changed; the stack is never used.
 *   2  x18 is the address of the thread's area, which holds the program's x18. Another register is used only after it
 *      was stored in the area, and is restored from there.
 *   3  Only forms that recover_a64.c knows are used: a signal that arrives in our code is put off by simulating that
 *      code to its end.
 *   4  The word before each place where the engine may let a thread continue reloads x17 (entry_a64.S).
 * An indirect branch puts its target in x17 and jumps through the table. The way into the entry compares x17 with the
 * entry's address and restores x16 and x17. A return leaves its target in x30. */
#include "stalk/build.h"
#include "stalk/cache.h"
#include "stalk/emit_a64.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"
#include "stalk/translate.h"
#include "stalk/unit_a64.h"

static void jump_helper(struct stalk_build *b, const uint8_t *routine) {
    ct_a64_b(&b->out, ct_stalk_helper(b->region, routine));
}

/* ---- exits ---- */

/* One word, which is patched when its target is known. */
void ct_lower_jump(struct stalk_build *b, uint64_t target, uint8_t kind) {
    ct_build_exit(b, target, b->out.length, kind);
    ct_a64_put(&b->out, 0);
}

static bool is_always(const struct ct_a64_insn *x) {
    return x->kind == CT_INSN_JCC && (x->word & 15) >= 14;
}

static bool tests_x18(const struct ct_a64_insn *x) {
    return x->kind != CT_INSN_JCC && (x->word & 31) == X18;
}

/* The opposite of a conditional branch, over `words` words. */
static uint32_t inverted(uint32_t word, unsigned words) {
    if ((word & 0xff000000) == 0x54000000) /* b.cond, bc.cond */
        return ((word ^ 1) & 0xff00001f) | words << 5;
    if ((word & 0x7e000000) == 0x34000000) /* cbz, cbnz */
        return ((word ^ 1 << 24) & 0xff00001f) | words << 5;
    return ((word ^ 1 << 24) & 0xfff8001f) | words << 5; /* tbz, tbnz */
}

/* A branch out of a unit. No block begins after it. */
static void emit_unit_branch(struct stalk_build *b, const struct stalk_insn *insn) {
    uint64_t target = ct_a64_target(&insn->a64, insn->address);
    size_t branch = b->out.length;
    ct_a64_put(&b->out, 0);
    ct_unit_leave(b);
    ct_lower_jump(b, target, CT_STALKER_END_BRANCH);
    unsigned words = (unsigned)(b->out.length - branch) / 4;
    ct_a64_patch(&b->out, branch, is_always(&insn->a64) ? CT_A64_NOP : inverted(insn->a64.word, words));
}

/* The branch that is not taken skips the exit, and the reload for the block that begins after it. */
static void emit_conditional(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    uint32_t word = insn->a64.word;
    uint64_t target = ct_a64_target(&insn->a64, insn->address);
    bool x18 = tests_x18(&insn->a64);
    if (x18) {
        save_reg(out, X17);
        ct_a64_ldr(out, X17, X18, 8 * X18);
        word = (word & ~31u) | X17;
    }
    if (!is_always(&insn->a64))
        ct_a64_put(out, inverted(word, 3));
    if (x18)
        put_reload(out);
    ct_lower_jump(b, target, CT_STALKER_END_BRANCH);
    put_reload(out);
}

void ct_lower_begin(struct stalk_build *b) {
    if (b->way == WAY_IN_INDIRECT)
        b->way_in = put_way_in(&b->out, b->start, X17, ct_stalk_helper(b->region, ct_stalk_collide));
    else if (b->way == WAY_IN_RETURN)
        b->way_in = put_way_in(&b->out, b->start, X30, ct_stalk_helper(b->region, ct_stalk_return_collide));
    else
        put_reload(&b->out);
    b->body = b->piece_from = b->out.length;
}

/* ---- events ---- */

/* Begins a record: x16 becomes its address. The program's x16 and x17 are in the area. */
static void begin_record(struct stalk_build *b) {
    ct_a64_ldr(&b->out, X16, X18, AREA(CT_AREA_EVENTS));
    ct_a64_add(&b->out, X16, X16, -(int64_t)ct_stalk_record_size(b->cache->mask));
}

static void write_site(struct stalk_build *b, uint32_t site) {
    ct_a64_mov64(&b->out, X17, site);
    uint32_t offset = ct_stalk_site_offset(ct_stalk_record_size(b->cache->mask));
    ct_a64_put(&b->out, 0xb9000000 | offset / 4 << 10 | X16 << 5 | X17); /* str w17, [x16, #offset] */
}

/* Publishes the record. w16 is zero if the buffer is full; with the fast clock, after each 16th record. */
static void publish_record(struct stalk_build *b) {
    ct_a64_str(&b->out, X16, X18, AREA(CT_AREA_EVENTS));
    ct_a64_put(&b->out,
               b->cache->mask & CT_STALKER_FAST_CLOCK ? 0x12001e10 : 0x12003e10); /* and w16, w16, #0xff or 0xffff */
}

/* Enters the engine, and continues at `resume` with the same values in the area. */
static void emit_full(struct stalk_build *b, size_t resume) {
    ct_a64_address(&b->out, X17, ct_code_here(&b->out) + 16);
    ct_a64_str(&b->out, X17, X18, AREA(CT_AREA_TARGET));
    jump_helper(b, b->cache->mask & CT_STALKER_FAST_CLOCK ? ct_stalk_clock : ct_stalk_full);
    put_reload(&b->out);
    ct_a64_b(&b->out, b->out.address + resume);
}

/* Writes the record of a call or return. With `target` x17 or x30 holds the target, and has it afterwards; else x17 is
 * free. x16 is free afterwards. The stack pointer of a return is written as that of the call was: the slot of the frame
 * is below it. Each store ends under the next one: the bits above 47 are overwritten. */
static void emit_record(struct stalk_build *b, uint32_t site, unsigned target, bool ret) {
    struct ct_code_buf *out = &b->out;
    if (target == X17)
        ct_a64_str(out, X17, X18, AREA(CT_AREA_SPILL));
    begin_record(b);
    if (target)
        ct_a64_str(out, target, X16, CT_RECORD_TARGET);
    ct_a64_add(out, X17, SP, ret ? -8 : 0);
    ct_a64_str(out, X17, X16, CT_RECORD_SP);
    write_site(b, site);
    if (b->cache->mask & CT_STALKER_TIMESTAMPS) {
        ct_a64_put(out, 0xd53be040 | X17); /* mrs x17, cntvct_el0 */
        ct_a64_str(out, X17, X16, CT_RECORD_TIME);
    }
    publish_record(b);
    b->full_branch = out->length;
    ct_a64_put(out, 0); /* cbz w16, to the code that finish_record writes */
    b->full_resume = out->length;
    if (target == X17)
        ct_a64_ldr(out, X17, X18, AREA(CT_AREA_SPILL));
}

/* The code that an open record branches to is after the branch of the program. */
static void finish_record(struct stalk_build *b) {
    if (!b->full_branch)
        return;
    ct_a64_patch(&b->out, b->full_branch, 0x34000000 | (uint32_t)(b->out.length - b->full_branch) / 4 << 5 | X16);
    b->full_branch = 0;
    emit_full(b, b->full_resume);
}

void ct_lower_block_event(struct stalk_build *b, uint32_t site) {
    save_pair(&b->out, X16);
    begin_record(b);
    write_site(b, site);
    publish_record(b);
    size_t branch = b->out.length;
    ct_a64_put(&b->out, 0);
    emit_full(b, branch + 4 * 6);
    ct_a64_patch(&b->out, branch, 0x35000000 | (uint32_t)(b->out.length - branch) / 4 << 5 | X16); /* cbnz w16 */
    if (b->out.length != branch + 4 * 6)
        b->out.overflow = true;
    load_pair(&b->out, X16);
    ct_build_piece(b, 0);
}

/* Adds one to [x16]. */
static void emit_increment(struct ct_code_buf *out) {
    ct_a64_ldr(out, X17, X16, 0);
    ct_a64_add(out, X17, X17, 1);
    ct_a64_str(out, X17, X16, 0);
    load_pair(out, X16);
}

/* Writes code that counts a call. */
static void emit_count(struct stalk_build *b, uint32_t counter) {
    save_pair(&b->out, X16);
    ct_a64_mov64(&b->out, X17, counter * 8);
    ct_a64_ldr(&b->out, X16, X18, AREA(CT_AREA_COUNTERS));
    ct_a64_add_reg(&b->out, X16, X16, X17);
    emit_increment(&b->out);
}

void ct_lower_count(struct stalk_build *b, const uint64_t *counter) {
    save_pair(&b->out, X16);
    ct_a64_address(&b->out, X16, (uint64_t)counter);
    emit_increment(&b->out);
    ct_build_piece(b, 0);
}

/* ---- branches ---- */

static void direct_call_event(struct stalk_build *b, const struct stalk_insn *insn, uint64_t target) {
    if (b->cache->count_calls) {
        uint32_t counter = ct_build_counter(b, target);
        if (counter)
            emit_count(b, counter);
    } else if (b->cache->mask & CT_STALKER_CALL) {
        save_pair(&b->out, X16);
        emit_record(b, ct_build_site(b, CT_STALKER_CALL, insn->address, target), 0, false);
        load_pair(&b->out, X16);
    }
}

static void lower_call(struct stalk_build *b, const struct stalk_insn *insn) {
    uint64_t target = ct_a64_target(&insn->a64, insn->address);
    b->end_kind = CT_STALKER_END_CALL;
    direct_call_event(b, insn, target);
    ct_a64_address(&b->out, X30, insn->address + 4);
    ct_lower_jump(b, target, CT_STALKER_END_CALL);
    finish_record(b);
}

/* x17 becomes the target of the branch. x16 and x17 are in the area, and have not changed. */
static void load_target(struct ct_code_buf *out, uint32_t word) {
    unsigned rn = word >> 5 & 31, modifier = word & 31;
    if (rn == X18)
        ct_a64_ldr(out, X17, X18, 8 * X18);
    else if (rn != X17)
        ct_a64_mov(out, X17, rn);
    if (!ct_a64_authenticates(word))
        return;
    if (word & 1 << 24 && (modifier == X17 || modifier == X18)) { /* x16 may have been the target */
        ct_a64_ldr(out, X16, X18, 8 * modifier);
        modifier = X16;
    }
    bool b_key = word & 1 << 10;
    if (word & 1 << 24)
        ct_a64_put(out, (b_key ? 0xdac11400 : 0xdac11000) | modifier << 5 | X17); /* autib, autia x17, modifier */
    else
        ct_a64_put(out, (b_key ? 0xdac137e0 : 0xdac133e0) | X17); /* autizb, autiza x17 */
}

static void lower_indirect(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    bool call = insn->a64.kind == CT_INSN_CALL_INDIRECT;
    b->end_kind = call ? CT_STALKER_END_CALL_INDIRECT : CT_STALKER_END_JUMP_INDIRECT;
    save_pair(out, X16);
    load_target(out, insn->a64.word);
    if (call) {
        if (b->cache->mask & CT_STALKER_CALL)
            emit_record(b, ct_build_site(b, CT_STALKER_CALL, insn->address, 0), X17, false);
        ct_a64_address(out, X30, insn->address + 4);
    }
    if (b->cache->stalker->inline_entries)
        ct_lower_jump(b, 0, b->end_kind); /* to the inline cache */
    put_lookup(out, b->cache->table, X17);
    ct_a64_br(out, X16);
    finish_record(b);
}

enum { RETURN_BY_LR_SP = 1 << 24 | 1 << 11 | X30 << 5 | SP }; /* the fields of braa x30, sp */

static void lower_return(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    uint32_t word = insn->a64.word;
    bool authenticates = ct_a64_authenticates(word); /* retaa, retab: x30 stays signed */
    unsigned rn = authenticates ? X30 : word >> 5 & 31, at = rn == X30 && !authenticates ? X30 : X17;
    b->end_kind = CT_STALKER_END_RETURN;
    save_pair(out, X16);
    if (authenticates)
        load_target(out, (word & 1 << 10) | RETURN_BY_LR_SP);
    else if (at == X17)
        load_target(out, word);
    if (b->cache->mask & CT_STALKER_RET)
        emit_record(b, ct_build_site(b, CT_STALKER_RET, insn->address, 0), at, true);
    put_lookup(out, at == X30 ? b->cache->return_table : b->cache->table, at);
    ct_a64_br(out, X16);
    finish_record(b);
}

/* The engine looks at the number of the system call first. It returns to the instruction, or after the words that
 * follow it (calls_a64.h). */
static void lower_syscall(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    save_pair(out, X16);
    ct_a64_address(out, X17, ct_code_here(out) + 16);
    ct_a64_str(out, X17, X18, AREA(CT_AREA_TARGET));
    jump_helper(b, ct_stalk_syscall);
    put_reload(out);
    ct_build_piece(b, 0);
    ct_a64_put(out, insn->a64.word);
    ct_build_piece(b, 4);
    ct_a64_b(out, ct_code_here(out) + 16);
    ct_code_u64(out, insn->address + 4);
    put_reload(out);
    if (b->cache->mask & CT_STALKER_FAST_CLOCK) { /* the call may have taken long */
        save_pair(out, X16);
        ct_a64_address(out, X17, ct_code_here(out) + 16);
        ct_a64_str(out, X17, X18, AREA(CT_AREA_TARGET));
        jump_helper(b, ct_stalk_clock);
        put_reload(out);
    }
    ct_build_piece(b, 0);
}

/* ---- instructions ---- */

/* Could one of the fields be x18? */
static bool may_name_x18(uint32_t word) {
    return (word & 31) == X18 || (word >> 5 & 31) == X18 || (word >> 10 & 31) == X18 || (word >> 16 & 31) == X18;
}

enum { BRANCHES_AND_SYSTEM = 5 };

/* A word that the decoder does not know is of a newer processor, or traps: the copy does the same. */
int ct_lower_decode(const struct stalk_build *b, struct stalk_insn *insn) {
    uint32_t word;
    insn->address = b->pc;
    insn->bytes = b->pc - b->start < b->shadow_size ? b->shadow + (b->pc - b->start) : (const uint8_t *)b->pc;
    if (b->pc & 3 || b->pc >= b->limit || b->limit - b->pc < 4)
        return CT_ERR_TRUNCATED;
    ct_stalk_copy(&word, insn->bytes, sizeof word);
    int status = ct_a64_decode(word, &insn->a64);
    insn->unknown = status != CT_OK;
    if (status && (word >> 26 & 7) != BRANCHES_AND_SYSTEM && !may_name_x18(word)) {
        insn->a64.word = word;
        insn->a64.kind = CT_INSN_OTHER;
        insn->a64.what = CT_A64_PLAIN;
        status = CT_OK;
    }
    return status;
}

enum stalk_flow ct_lower_flow(const struct stalk_insn *insn) {
    switch (insn->a64.kind) {
    case CT_INSN_JMP:
    case CT_INSN_CALL:
    case CT_INSN_CALL_INDIRECT:
    case CT_INSN_JMP_INDIRECT:
    case CT_INSN_RET:
    case CT_INSN_TRAP:
        return FLOW_END;
    case CT_INSN_JCC:
    case CT_INSN_LOOP:
        return FLOW_BRANCH;
    case CT_INSN_FAR:
    case CT_INSN_XBEGIN:
        return FLOW_REFUSE;
    default:
        return FLOW_NEXT;
    }
}

/* Copies an instruction that names x18: another register takes its place. */
static bool replace_x18(struct ct_code_buf *out, const struct ct_a64_insn *x) {
    struct ct_a64_effects effects;
    uint32_t word, bit = 1u << X18;
    ct_a64_effects(x, &effects);
    uint32_t used = effects.regs_read | effects.regs_written;
    unsigned scratch = X17;
    while (used & 1u << scratch)
        scratch--;
    if (!ct_a64_rename(x, X18, scratch, &word))
        return false;
    save_reg(out, scratch);
    if (effects.regs_read & bit)
        ct_a64_ldr(out, scratch, X18, 8 * X18);
    ct_a64_put(out, word);
    if (effects.regs_written & bit)
        ct_a64_str(out, scratch, X18, 8 * X18);
    load_reg(out, scratch);
    return true;
}

static bool names_x18(const struct ct_a64_insn *x) {
    struct ct_a64_effects effects;
    ct_a64_effects(x, &effects);
    return (effects.regs_read | effects.regs_written) & 1u << X18;
}

/* adr and adrp: constants. */
static void lower_address(struct ct_code_buf *out, unsigned rd, uint64_t value) {
    if (rd == CT_A64_ZR)
        return;
    if (rd != X18) {
        ct_a64_address(out, rd, value);
        return;
    }
    save_reg(out, X17);
    ct_a64_address(out, X17, value);
    ct_a64_str(out, X17, X18, 8 * X18);
    put_reload(out);
}

enum { LITERAL_W, LITERAL_X, LITERAL_SW, LITERAL_PREFETCH };

/* Loads from an address in the instruction. */
static void lower_literal(struct ct_code_buf *out, uint32_t word, uint64_t at) {
    static const uint32_t loads[] = {0xb9400000, 0xf9400000, 0xb9800000};
    static const uint32_t vector_loads[] = {0xbd400000, 0xfd400000, 0x3dc00000};
    unsigned size = word >> 30, rt = word & 31;
    bool vector = word & 1 << 26;
    if (!vector && size == LITERAL_PREFETCH)
        return;
    if (!vector && rt < X18) {
        ct_a64_address(out, rt, at);
        ct_a64_put(out, loads[size] | rt << 5 | rt);
        return;
    }
    save_reg(out, X17);
    ct_a64_address(out, X17, at);
    ct_a64_put(out, (vector ? vector_loads[size] : loads[size]) | X17 << 5 | (!vector && rt == X18 ? X17 : rt));
    if (!vector && rt == X18)
        ct_a64_str(out, X17, X18, 8 * X18);
    put_reload(out);
}

/* Enters the engine, which finds the program's registers in the area, and continues after this. */
static void enter_engine(struct stalk_build *b, uint32_t reason) {
    struct ct_code_buf *out = &b->out;
    save_pair(out, X16);
    ct_a64_address(out, X17, ct_code_here(out) + 28);
    ct_a64_str(out, X17, X18, AREA(CT_AREA_TARGET));
    load_reg(out, X16);
    put_reason(out, X17, reason);
    jump_helper(b, ct_stalk_exit);
    put_reload(out);
    ct_build_piece(b, 0);
}

static enum stalk_flow lower_plain(struct stalk_build *b, const struct stalk_insn *insn) {
    struct ct_code_buf *out = &b->out;
    uint64_t target = ct_a64_target(&insn->a64, insn->address);
    if (ct_section_load(b, insn)) {
        ct_build_piece(b, 4);
        return FLOW_NEXT;
    }
    switch (insn->a64.what) {
    case CT_A64_ADR:
    case CT_A64_ADRP:
        lower_address(out, insn->a64.word & 31, target);
        break;
    case CT_A64_LITERAL:
        lower_literal(out, insn->a64.word, target);
        break;
    default:
        if (insn->a64.what == CT_A64_WRITE_TP) /* our place is found through it: the engine is first */
            enter_engine(b, CT_REASON_POINTER | (insn->a64.word & 31));
        if (insn->unknown || !names_x18(&insn->a64))
            ct_a64_put(out, insn->a64.word);
        else if (!replace_x18(out, &insn->a64))
            return FLOW_REFUSE;
    }
    ct_build_piece(b, 4);
    return insn->a64.kind == CT_INSN_TRAP ? FLOW_END : FLOW_NEXT;
}

static enum stalk_flow lower_insn(struct stalk_build *b, const struct stalk_insn *insn) {
    enum stalk_flow flow = ct_lower_flow(insn);
    if (flow == FLOW_REFUSE)
        return flow;
    switch (insn->a64.kind) {
    case CT_INSN_JMP:
        b->end_kind = CT_STALKER_END_JUMP;
        ct_lower_jump(b, ct_a64_target(&insn->a64, insn->address), CT_STALKER_END_JUMP);
        break;
    case CT_INSN_JCC:
    case CT_INSN_LOOP:
        if (insn->address < b->unit_end) {
            flow = FLOW_NEXT;
            if (tests_x18(&insn->a64))
                emit_conditional(b, insn);
            else
                emit_unit_branch(b, insn);
            break;
        }
        b->end_kind = CT_STALKER_END_BRANCH;
        emit_conditional(b, insn);
        break;
    case CT_INSN_CALL:
        lower_call(b, insn);
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
    ct_build_piece(b, 4);
    return flow;
}

enum stalk_flow ct_lower_insn(struct stalk_build *b, const struct stalk_insn *insn) {
    struct stalk_insn renamed;
    if (insn->a64.what == CT_A64_LOAD_EXCLUSIVE && !ct_unit_begin(b))
        return FLOW_REFUSE;
    enum stalk_flow flow = lower_insn(b, ct_unit_insn(b, insn, &renamed));
    ct_unit_end(b, insn);
    return flow;
}

void ct_lower_callout(struct stalk_build *b, uint32_t callout) {
    enter_engine(b, CT_REASON_CALLOUT | callout);
}

enum { BRANCH = 0x14000000, BRANCH_IF = 0x54000000 };

size_t ct_lower_branch(struct stalk_build *b, unsigned condition) {
    size_t branch = b->out.length;
    ct_a64_put(&b->out, condition < 16 ? BRANCH_IF | condition : BRANCH);
    ct_build_piece(b, 0);
    return branch;
}

void ct_lower_land(struct stalk_build *b, size_t branch) {
    if (b->out.overflow)
        return;
    uint32_t word = ct_a64_word(b->out.bytes + branch);
    bool always = (word & BRANCH_IF) == BRANCH;
    word = ct_a64_redirect(word, branch, b->out.length, always ? CT_A64_REACH_B : CT_A64_REACH_COND);
    if (word)
        ct_a64_patch(&b->out, branch, word);
    else
        b->out.overflow = true;
}

void ct_lower_bytes(struct stalk_build *b, const void *bytes, size_t size) {
    ct_code_copy(&b->out, bytes, size);
    ct_build_piece(b, 0);
}

/* ---- the end of a fragment ---- */

enum { EXIT_ROOM = 16, COLD_MAX = STALK_MAX_EXITS * EXIT_ROOM };

/* Stubs are kept away from code that runs often. */
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
    ct_a64_patch(&b->out, b->exits[i].patch, word_of_b(e->patch, e->stub));
    bool indirect = e->kind == CT_STALKER_END_CALL_INDIRECT || e->kind == CT_STALKER_END_JUMP_INDIRECT;
    uint32_t direct = e->kind == STALK_END_CHANGED ? CT_REASON_CHANGED : CT_REASON_EXIT;
    if (!indirect)
        save_reg(cold, X17);
    put_reason(cold, indirect ? X16 : X17, (indirect ? CT_REASON_SITE : direct) | id);
    ct_a64_b(cold, ct_stalk_helper(b->region, indirect ? ct_stalk_uncached : ct_stalk_exit));
    return CT_OK;
}

int ct_lower_finish(struct stalk_build *b, struct stalk_fragment *f) {
    uint8_t bytes[COLD_MAX];
    struct ct_code_buf cold = {bytes, sizeof bytes, 0, 0, false};
    uint8_t *write;
    if (ct_stalk_cold_room(b->region, b->exit_count * EXIT_ROOM, &cold.address, &write))
        return CT_ERR_NO_MEMORY;
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
    return cold.length ? ct_arena_write(b->region->arena, cold.address, bytes, cold.length) : CT_OK;
}

/* ---- for transformers ---- */

static enum ct_stalker_insn_kind public_kind(uint8_t kind) {
    switch (kind) {
    case CT_INSN_JMP:
    case CT_INSN_JMP_INDIRECT:
        return CT_STALKER_INSN_JUMP;
    case CT_INSN_JCC:
    case CT_INSN_LOOP:
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

#define NZCV 0xf0000000u

void ct_lower_describe(const struct stalk_insn *insn, struct ct_stalker_insn *out) {
    const struct ct_a64_insn *x = &insn->a64;
    struct ct_a64_effects effects = {0, 0, false, false, false, false};
    if (!insn->unknown)
        ct_a64_effects(x, &effects);
    out->size = sizeof *out;
    out->address = insn->address;
    out->bytes = insn->bytes;
    out->length = 4;
    out->kind = public_kind(x->kind);
    out->indirect = x->kind == CT_INSN_CALL_INDIRECT || x->kind == CT_INSN_JMP_INDIRECT || x->kind == CT_INSN_RET;
    out->has_memory = effects.mem_read || effects.mem_written;
    out->base = out->has_memory ? (uint8_t)ct_a64_rn(x->word) : CT_STALKER_NO_REGISTER;
    if (x->what == CT_A64_LITERAL)
        out->base = CT_STALKER_PC;
    out->index = CT_STALKER_NO_REGISTER;
    out->scale = 0;
    out->displacement = 0;
    out->memory_read = effects.mem_read;
    out->memory_written = effects.mem_written;
    out->immediate = x->imm;
    out->target = ct_a64_is_direct(x) ? ct_a64_target(x, insn->address) : 0;
    out->registers_read = effects.regs_read;
    out->registers_written = effects.regs_written;
    out->flags_read = effects.flags_read ? NZCV : 0;
    out->flags_written = effects.flags_written ? NZCV : 0;
}
