/* SPDX-License-Identifier: Apache-2.0 */
/* Where the flags do not matter, x86_64.
 *
 * Most code after a call overwrites the flags before it reads any. The way in for returns may compare with cmp there,
 * which is cheaper than a comparison that keeps them. But the thread may have wanted another address, one that shares
 * the slot of the table: its code must not read flags either. So each call that is translated is noted here if the code
 * that it returns to may read flags, and the ways in of that slot keep them from then on. A return to an address that
 * its own block has pushed is no such return: it is made as an indirect jump, whose ways in always keep the flags.
 *
 * Owner: the holder of the Stalker's lock. */
#include "stalk/flags_x64.h"
#include "isa/x64/decode.h"
#include "stalk/build.h"
#include "stalk/cache.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"

enum { MOST_LOOKED_AT = 12 }; /* instructions */
#define FAR (1ll << 40)       /* on the stack */

/* Code that is looked at. */
struct code {
    struct ct_stalker *stalker;
    uint64_t address;
    const uint8_t *bytes;
    size_t size;
    uint64_t end;   /* of the mapping */
    uint64_t other; /* where a jump or call has led; 0: none has */
};

/* Does the instruction give every flag a value that does not depend on what it was? Shifts and multiplications leave
 * some as they were, depending on the processor. The logical ones set AF to zero on all processors. */
static bool sets_all_flags(const struct ct_x64_insn *x) {
    unsigned op = x->opcode, operation = x->modrm >> 3 & 7;
    enum { ADC = 2, SBB = 3, NEG = 3 };
    if (x->encoding != CT_X64_LEGACY || x->map > 1)
        return false;
    if (x->map == 1)
        return op == 0x2e || op == 0x2f; /* ucomiss, comiss and so on */
    if (op < 0x40 && (op & 7) < 6)
        return op >> 3 != ADC && op >> 3 != SBB;
    if (op >= 0x80 && op <= 0x83)
        return operation != ADC && operation != SBB;
    if (op == 0xf6 || op == 0xf7)
        return operation < 2 || operation == NEG;
    return op == 0x84 || op == 0x85 || op == 0xa8 || op == 0xa9; /* test */
}

/* A direct jump or call within the mapping that ends at `end`. */
static bool goes_on(const struct ct_x64_insn *x, const struct code *code, uint64_t target) {
    uint64_t end;
    bool changes;
    return (x->kind == CT_INSN_JMP || x->kind == CT_INSN_CALL) &&
           ct_stalk_executable(code->stalker, target, &end, &changes) && !changes && end == code->end;
}

/* Does the code overwrite all flags before it reads any? One jump or call is followed. */
static bool overwrites_flags(struct code *code) {
    struct ct_x64_insn x;
    struct ct_x64_effects effects;
    for (unsigned n = 0; n < MOST_LOOKED_AT; n++) {
        if (ct_x64_decode(code->bytes, code->size, &x))
            return false;
        uint64_t target = ct_x64_target(&x, code->address);
        code->bytes += x.length;
        code->size -= x.length;
        code->address += x.length;
        if (!code->other && goes_on(&x, code, target)) {
            code->other = code->address = target;
            code->bytes = (const uint8_t *)target;
            code->size = code->end - target;
            continue;
        }
        ct_x64_effects(&x, &effects);
        if ((x.kind != CT_INSN_OTHER && x.kind != CT_INSN_NOP && x.kind != CT_INSN_LANDING) || effects.flags_read)
            return false;
        if (sets_all_flags(&x))
            return true;
    }
    return false;
}

/* Probes and callouts of transformers show all registers. */
static bool something_sees_them(const struct stalk_cache *c) {
    return c->transformer.transform || c->stalker->probe_count;
}

/* The code of `f` relies on this code too: it is given up when that changes. */
static void rely_on(struct stalk_fragment *f, const struct code *code) {
    if (!code->other)
        return;
    bool first = f->relies_from == f->relies_to;
    if (first || code->other < f->relies_from)
        f->relies_from = code->other;
    if (first || code->address > f->relies_to)
        f->relies_to = code->address;
}

bool ct_flags_unused_by(const struct stalk_entry *e) {
    struct stalk_fragment *f = e->fragment;
    struct ct_stalker *s = f->region->cache->stalker;
    uint64_t from = e->address - f->first.address;
    struct code code = {.stalker = s, .address = e->address, .bytes = f->snapshot + from, .size = f->length - from};
    bool changes, exact = f->flags & FRAGMENT_COMPARED || something_sees_them(f->region->cache);
    if (exact || !ct_stalk_executable(s, e->address, &code.end, &changes) || !overwrites_flags(&code))
        return false;
    rely_on(f, &code);
    return true;
}

/* The code at an address in the mapping of the fragment that is built. */
static struct code code_at(const struct stalk_build *b, uint64_t address) {
    return (struct code){.stalker = b->cache->stalker,
                         .address = address,
                         .bytes = (const uint8_t *)address,
                         .size = address < b->limit ? b->limit - address : 0,
                         .end = b->limit};
}

/* The same for the code after a call, whose answer is kept for the moment when it is translated. */
static bool overwrites_after_call(struct stalk_build *b, uint64_t address) {
    struct ct_stalker *s = b->cache->stalker;
    struct code code = code_at(b, address);
    s->machine.after_call.overwrites = overwrites_flags(&code);
    s->machine.after_call.address = address;
    s->machine.after_call.other = code.other;
    s->machine.after_call.to = code.other ? code.address : 0;
    s->machine.after_call.turn = s->map_turn;
    return s->machine.after_call.overwrites;
}

bool ct_flags_unused_here(struct stalk_build *b) {
    struct ct_stalker *s = b->cache->stalker;
    if (b->shadow_size || something_sees_them(b->cache))
        return false;
    if (s->machine.after_call.address != b->start || s->machine.after_call.turn != s->map_turn)
        (void)overwrites_after_call(b, b->start);
    if (!s->machine.after_call.overwrites)
        return false;
    b->relies_from = s->machine.after_call.other;
    b->relies_to = s->machine.after_call.to;
    return true;
}

/* Adds the effect of an instruction that stores to its operand. */
static void watch_store(struct stalk_build *b, const struct ct_x64_insn *x) {
    struct ct_x64_effects effects;
    struct ct_x64_mem mem;
    if (!x->modrm_offset || x->modrm >= 0xc0 || !ct_x64_memory(x, &mem) ||
        (mem.base != CT_X64_RSP && (mem.base != CT_X64_RBP || mem.disp != 8)))
        return;
    ct_x64_effects(x, &effects);
    if (!effects.mem_written)
        return;
    int64_t at = mem.base == CT_X64_RSP ? b->stack_at + mem.disp : FAR; /* 8(%rbp) is where return addresses are */
    if (at > b->stack_written)
        b->stack_written = at;
}

/* Could rsp be an operand that is not the base of an address? False for nearly all instructions, at little cost. */
static bool may_name_rsp(const struct ct_x64_insn *x) {
    if (x->modrm_offset)
        return (x->modrm >> 3 & 7) == CT_X64_RSP || (x->modrm & 0xc7) == (0xc0 | CT_X64_RSP) ||
               (x->encoding != CT_X64_LEGACY && (x->vvvv & 15) == CT_X64_RSP);
    return x->map != 0 || x->opcode == 0xc8 || x->opcode == 0xc9 || (x->opcode & 7) == CT_X64_RSP;
}

/* How many bytes the instruction adds to the stack pointer; FAR: it is not known. */
static int64_t stack_change(const struct ct_x64_insn *x) {
    struct ct_x64_effects effects;
    unsigned op = x->opcode, low = op & 7, operation = x->modrm >> 3 & 7;
    bool legacy = x->encoding == CT_X64_LEGACY && x->map == 0 && !(x->prefixes & CT_X64_OPSIZE);
    if (legacy &&
        ((op >= 0x50 && op < 0x58) || op == 0x68 || op == 0x6a || op == 0x9c || (op == 0xff && operation == 6)))
        return -8;
    if (legacy && ((op >= 0x58 && op < 0x60 && (low != CT_X64_RSP || x->rex & 1)) || op == 0x9d))
        return 8;
    if (legacy && (op == 0x81 || op == 0x83) && x->modrm >= 0xc0 && (x->modrm & 7) == CT_X64_RSP && !(x->rex & 1) &&
        (operation == 0 || operation == 5))
        return operation == 0 ? x->imm : -x->imm;
    if (!may_name_rsp(x))
        return 0;
    ct_x64_effects(x, &effects);
    return effects.regs_written & 1u << CT_X64_RSP ? FAR : 0;
}

void ct_flags_watch_stack(struct stalk_build *b, const struct stalk_insn *insn) {
    const struct ct_x64_insn *x = &insn->x64;
    if (insn->address == b->block) {
        b->stack_at = 0;
        b->stack_written = -FAR;
    }
    if (x->kind == CT_INSN_RET)
        return;
    watch_store(b, x);
    int64_t change = stack_change(x);
    if (change == FAR) { /* somewhere else: nothing is known to be written there */
        b->stack_at = 0;
        b->stack_written = b->stack_written == FAR ? FAR : -FAR;
        return;
    }
    b->stack_at += change;
    if (change == -8 && b->stack_at > b->stack_written)
        b->stack_written = b->stack_at;
}

bool ct_flags_kept(const struct ct_stalker *s, uint64_t address) {
    uint32_t i = ct_stalk_return_index(s, address);
    return s->machine.keep_flags[i / 8] & 1u << i % 8;
}

void ct_flags_note_call(struct stalk_build *b, uint64_t address) {
    struct stalk_cache *c = b->cache;
    struct ct_stalker *s = c->stalker;
    if (ct_flags_kept(s, address))
        return;
    if (!b->shadow_size && !something_sees_them(c) && overwrites_after_call(b, address))
        return;
    uint32_t i = ct_stalk_return_index(s, address);
    s->machine.keep_flags[i / 8] |= (uint8_t)(1u << i % 8);
    for (c = s->caches; c; c = c->next) /* what is there now may not keep them: it is made again */
        __atomic_store_n(&c->return_table[i], c->return_miss, __ATOMIC_RELEASE);
}
