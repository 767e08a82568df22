/* SPDX-License-Identifier: Apache-2.0 */
/* See stalk_gen.h. Data are in x27; x28 counts loops. */
#include "stalk_gen.h"
#include "isa/a64/encode.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { DATA = 27, COUNTER = 28, LR = 30, SP = 31 };

static void put(struct stalk_gen *g, uint32_t word) {
    if (g->used + 4 <= g->capacity) {
        memcpy(g->code + g->used, &word, 4);
        g->used += 4;
    }
}

static uint64_t here(const struct stalk_gen *g) {
    return (uint64_t)g->code + g->used;
}

static bool once_in(struct stalk_gen *g, unsigned n) {
    return !stalk_gen_pick(g, n);
}

/* x16 to x18 are used by the code around: they are what can go wrong. */
static unsigned reg(struct stalk_gen *g) {
    if (once_in(g, 3))
        return 16 + stalk_gen_pick(g, 3);
    unsigned r = stalk_gen_pick(g, 28);
    return r == DATA ? 29 : r;
}

static unsigned other_than(struct stalk_gen *g, unsigned no, unsigned nor) {
    unsigned r;
    do
        r = reg(g);
    while (r == no || r == nor);
    return r;
}

/* ---- instructions that use registers only ---- */

enum { WORDS = 4000 };
static uint32_t words[WORDS];
static volatile sig_atomic_t refused;

static void on_refused(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    refused = 1;
    ((ucontext_t *)context)->uc_mcontext.pc += 4;
}

static uint32_t random_word(struct stalk_gen *g) {
    static const uint32_t of_class[] = {0x10000000, 0x0a000000, 0x1a000000, 0x0e000000, 0x1e000000};
    static const uint32_t mask[] = {0x1c000000, 0x1e000000, 0x1e000000, 0x1e000000, 0x1e000000};
    unsigned class = stalk_gen_pick(g, 5);
    uint32_t word = ((uint32_t)stalk_gen_random(g) & ~mask[class]) | of_class[class];
    if (once_in(g, 2))
        word = (word & ~31u) | reg(g);
    if (once_in(g, 2))
        word = (word & ~(31u << 5)) | reg(g) << 5;
    return word;
}

/* Does the same each time, and spares the registers that have a purpose. */
static bool is_usable(uint32_t word) {
    struct ct_a64_insn x;
    struct ct_a64_effects effects;
    uint32_t kept = 1u << DATA | 1u << COUNTER | 1u << LR | 1u << SP;
    if (ct_a64_decode(word, &x) || x.kind != CT_INSN_OTHER)
        return false;
    ct_a64_effects(&x, &effects);
    bool random_tag = (word & 0xffe0fc00) == 0x9ac01000, pointer_signature = (word & 0xffff0000) == 0xdac10000;
    return !(effects.regs_written & kept) && !effects.mem_read && !effects.mem_written && !random_tag &&
           !pointer_signature;
}

/* This processor may not know an instruction that the decoder knows. */
static bool is_known(uint32_t *page, uint32_t word) {
    static _Alignas(16) uint8_t stack[256];
    struct stalk_state state = {.words = {[SP] = (uint64_t)stack + 128}};
    page[0] = word;
    page[1] = 0xd65f03c0;
    __builtin___clear_cache((char *)page, (char *)&page[2]);
    refused = 0;
    stalk_run(&state, page);
    return !refused;
}

static void choose_words(void) {
    struct stalk_gen g = {.seed = 17};
    struct sigaction action = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO}, old;
    uint32_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    sigaction(SIGILL, &action, &old);
    for (unsigned n = 0; n < WORDS;) {
        words[n] = random_word(&g);
        n += is_usable(words[n]) && is_known(page, words[n]);
    }
    sigaction(SIGILL, &old, NULL);
    munmap(page, 4096);
}

/* ---- memory ---- */

/* add r, x27, #n: a multiple of 16 */
static unsigned pointer(struct stalk_gen *g, unsigned no, unsigned nor) {
    unsigned r = other_than(g, no, nor);
    put(g, 0x91000000 | stalk_gen_pick(g, 60) * 16 << 10 | DATA << 5 | r);
    return r;
}

static void load_or_store(struct stalk_gen *g) {
    unsigned size = stalk_gen_pick(g, 4), opcode = stalk_gen_pick(g, size == 3 ? 2 : size == 2 ? 3 : 4), r = reg(g);
    switch (stalk_gen_pick(g, 5)) {
    case 0:
        put(g, size << 30 | 0x39000000 | opcode << 22 | stalk_gen_pick(g, 240) << 10 | DATA << 5 | r);
        break;
    case 1: /* any distance */
        put(g, size << 30 | 0x38000000 | opcode << 22 | stalk_gen_pick(g, 512) << 12 | DATA << 5 | r);
        break;
    case 2: { /* with write-back, before or after */
        unsigned base = pointer(g, r, r);
        put(g, size << 30 | 0x38000400 | opcode << 22 | stalk_gen_pick(g, 512) << 12 | stalk_gen_pick(g, 2) << 11 |
                   base << 5 | r);
        break;
    }
    case 3: { /* an index: movz w, #n; [x27, w, uxtw] */
        unsigned index = other_than(g, r, r);
        put(g, 0x52800000 | stalk_gen_pick(g, 1000) << 5 | index);
        put(g, size << 30 | 0x38204800 | opcode << 22 | index << 16 | DATA << 5 | r);
        break;
    }
    default: /* b, h, s, d, q */
        put(g, size << 30 | 0x3d000000 | (size ? opcode & 1 : stalk_gen_pick(g, 4)) << 22 |
                   stalk_gen_pick(g, 60) << 10 | DATA << 5 | stalk_gen_pick(g, 32));
        break;
    }
}

static void pair(struct stalk_gen *g) {
    static const uint32_t forms[] = {0x29000000, 0xa9000000, 0x2d000000, 0x6d000000, 0xad000000, 0x69400000};
    unsigned a = reg(g), b = other_than(g, a, a), base = DATA;
    uint32_t word = forms[stalk_gen_pick(g, 6)] | stalk_gen_pick(g, 2) << 22 | stalk_gen_pick(g, 128) << 15;
    if (once_in(g, 2)) {
        base = pointer(g, a, b);
        word = once_in(g, 2) ? word | 1 << 23 : (word ^ 3 << 23); /* before, after */
    }
    put(g, word | b << 10 | base << 5 | a);
}

/* ldadd ... ldumin, swp, cas */
static void atomic(struct stalk_gen *g) {
    unsigned r = reg(g), value = reg(g), base = pointer(g, r, value), size = stalk_gen_pick(g, 4);
    unsigned order = stalk_gen_pick(g, 4);
    switch (stalk_gen_pick(g, 3)) {
    case 0:
        put(g, size << 30 | 0x38200000 | order << 22 | value << 16 | stalk_gen_pick(g, 8) << 12 | base << 5 | r);
        break;
    case 1:
        put(g, size << 30 | 0x38208000 | order << 22 | value << 16 | base << 5 | r);
        break;
    default:
        put(g, size << 30 | 0x08a07c00 | (order & 1) << 15 | (order & 2) << 21 | value << 16 | base << 5 | r);
        break;
    }
}

/* From code, which does not change: ldr w, ldr x, ldrsw, prfm; ldr s, d, q */
static void literal(struct stalk_gen *g) {
    int distance = (int)stalk_gen_pick(g, 2000) - 1000;
    if ((int64_t)g->used + 4 * distance < 0)
        distance = 4;
    bool vector = once_in(g, 3);
    put(g, stalk_gen_pick(g, vector ? 3 : 4) << 30 | (vector ? 0x1c000000u : 0x18000000u) |
               ((uint32_t)distance & 0x7ffff) << 5 | reg(g));
}

static void stack(struct stalk_gen *g) {
    unsigned a = reg(g), b = other_than(g, a, a);
    put(g, 0xa9bf0000 | b << 10 | SP << 5 | a); /* stp a, b, [sp, #-16]! */
    a = reg(g), b = other_than(g, a, a);
    put(g, 0xa8c10000 | b << 10 | SP << 5 | a); /* ldp a, b, [sp], #16 */
}

static void plain(struct stalk_gen *g) {
    switch (stalk_gen_pick(g, 20)) {
    case 0:
    case 1:
    case 2:
        load_or_store(g);
        break;
    case 3:
    case 4:
        pair(g);
        break;
    case 5:
        atomic(g);
        break;
    case 6:
        literal(g);
        break;
    case 7:
        stack(g);
        break;
    case 8:
        put(g, 0xaa1e03e0 | reg(g)); /* the return address: that of the program */
        break;
    default:
        put(g, words[stalk_gen_pick(g, WORDS)]);
        break;
    }
}

static void some(struct stalk_gen *g, unsigned most) {
    for (unsigned n = stalk_gen_pick(g, most + 1); n; n--)
        plain(g);
}

/* ---- ends of blocks ---- */

enum { SIGN_A = 0xdac10000, SIGN_B = 0xdac10400, SIGN_A_ZERO = 0xdac123e0, SIGN_B_ZERO = 0xdac127e0 };

/* br, blr to what is in r, with or without a signature. */
static void branch_to(struct stalk_gen *g, unsigned r, bool call) {
    unsigned modifier = once_in(g, 2) ? SP : other_than(g, r, r);
    uint32_t link = call ? 1u << 21 : 0, b_key = stalk_gen_pick(g, 2);
    switch (stalk_gen_pick(g, 4)) {
    case 0:
        put(g, (b_key ? SIGN_B_ZERO : SIGN_A_ZERO) | r);
        put(g, 0xd61f081f | link | b_key << 10 | r << 5);
        break;
    case 1:
        put(g, (b_key ? SIGN_B : SIGN_A) | modifier << 5 | r);
        put(g, 0xd71f0800 | link | b_key << 10 | r << 5 | modifier);
        break;
    default:
        put(g, 0xd61f0000 | link | r << 5);
        break;
    }
}

/* movz, movk, movk */
static void address(struct stalk_gen *g, unsigned r, uint64_t value) {
    for (unsigned i = 0; i < 3; i++)
        put(g, (i ? 0xf2800000 : 0xd2800000) | i << 21 | ((uint32_t)(value >> 16 * i) & 0xffff) << 5 | r);
}

/* Loads an entry of the table: adrp, ldr. */
static bool from_table(struct stalk_gen *g, unsigned r, uint64_t value) {
    if (g->table_used == g->table_size)
        return false;
    uint64_t at = (uint64_t)&g->table[g->table_used++];
    int64_t pages = (int64_t)((at >> 12) - (here(g) >> 12));
    memcpy((void *)at, &value, 8);
    put(g, 0x90000000 | ((uint32_t)pages & 3) << 29 | ((uint32_t)(pages >> 2) & 0x7ffff) << 5 | r);
    put(g, 0xf9400000 | ((uint32_t)at & 0xfff) / 8 << 10 | r << 5 | r);
    return true;
}

static void call_leaf(struct stalk_gen *g) {
    uint64_t leaf = (uint64_t)g->code + g->leaves[stalk_gen_pick(g, g->leaf_count)];
    unsigned r = once_in(g, 10) ? LR : reg(g);
    switch (stalk_gen_pick(g, 3)) {
    case 0:
        put(g, 0x94000000 | ((uint32_t)((leaf - here(g)) >> 2) & 0x3ffffff));
        break;
    case 1:
        address(g, r, leaf);
        branch_to(g, r, true);
        break;
    default:
        if (!from_table(g, r, leaf))
            return;
        branch_to(g, r, true);
        break;
    }
    g->blocks++;
}

/* The word at `at` is a branch with its distance in bits 5 and up, or a call or jump. */
static void lead_here(struct stalk_gen *g, size_t at) {
    uint32_t word, distance = (uint32_t)(g->used - at) >> 2;
    memcpy(&word, g->code + at, 4);
    word |= (word >> 26 & 31) == 5 ? distance : distance << 5;
    memcpy(g->code + at, &word, 4);
}

static void no_code(struct stalk_gen *g) {
    for (unsigned n = stalk_gen_pick(g, 3); n; n--)
        put(g, (uint32_t)stalk_gen_random(g));
}

/* adr r, to what comes next: the place is filled in by put_target. */
static size_t put_adr(struct stalk_gen *g, unsigned r) {
    put(g, 0x10000000 | r);
    return g->used - 4;
}

/* Adds to a word between a load-exclusive and its store-exclusive, with a branch out that may be taken. */
static void exclusive(struct stalk_gen *g) {
    unsigned value = reg(g), status = other_than(g, value, value), base = pointer(g, value, status);
    uint32_t wide = stalk_gen_pick(g, 2) << 30 | 0x88000000, order = stalk_gen_pick(g, 2) << 15;
    size_t start = g->used;
    put(g, wide | 0x005f7c00 | order | base << 5 | value);
    if (once_in(g, 2))
        put(g, 0x36000000 | stalk_gen_pick(g, 32) << 19 | value); /* tbz */
    else
        put(g, CT_A64_NOP);
    put(g, 0x91000400 | value << 5 | value);
    put(g, wide | 0x00007c00 | status << 16 | order | base << 5 | value);
    put(g, 0x35ffff80 | status); /* cbnz: four words back */
    if ((g->code[start + 7] & 0x7e) == 0x36)
        lead_here(g, start + 4);
}

static void indirect_skip(struct stalk_gen *g, unsigned kind) {
    unsigned r = reg(g);
    size_t at = put_adr(g, r);
    if (kind == 0)
        branch_to(g, r, false);
    else
        put(g, 0xd65f0000 | r << 5); /* ret r */
    no_code(g);
    lead_here(g, at);
}

/* A branch to a little further on. */
static void skip(struct stalk_gen *g) {
    size_t at = g->used;
    switch (stalk_gen_pick(g, 9)) {
    case 0:
        put(g, 0x14000000);
        no_code(g);
        break;
    case 1:
        put(g, 0x54000000 | stalk_gen_pick(g, 16)); /* b.cond */
        some(g, 4);
        break;
    case 2:
        put(g, 0x34000000 | stalk_gen_pick(g, 2) << 31 | stalk_gen_pick(g, 2) << 24 | reg(g)); /* cbz, cbnz */
        some(g, 4);
        break;
    case 3:
        put(g, 0x36000000 | stalk_gen_pick(g, 2) << 31 | stalk_gen_pick(g, 2) << 24 | stalk_gen_pick(g, 32) << 19 |
                   reg(g)); /* tbz, tbnz */
        some(g, 4);
        break;
    case 4:
        put(g, 0x94000000); /* bl to the next word, or a little further */
        no_code(g);
        break;
    case 5:
    case 6:
        indirect_skip(g, stalk_gen_pick(g, 2));
        at = g->used;
        break;
    case 7: {
        unsigned r = reg(g);
        size_t from = g->table_used;
        if (!from_table(g, r, 0))
            return;
        branch_to(g, r, false);
        no_code(g);
        g->table[from] = here(g);
        at = g->used;
        break;
    }
    default:
        if (once_in(g, 4)) {
            put(g, 0xd2801588); /* mov x8, #172: getpid */
            put(g, 0xd4000001);
        } else {
            exclusive(g);
        }
        at = g->used;
        break;
    }
    if (g->used != at)
        lead_here(g, at);
    g->blocks++;
}

/* movz w28, #n; 1: ...; subs w28, w28, #1; b.ne 1b, or without flags */
static void repeat(struct stalk_gen *g) {
    bool flags = stalk_gen_pick(g, 2);
    put(g, 0x52800000 | (1 + stalk_gen_pick(g, 5)) << 5 | COUNTER);
    size_t start = g->used;
    some(g, 3);
    if (once_in(g, 2))
        call_leaf(g);
    put(g, (flags ? 0x71000400 : 0x51000400) | COUNTER << 5 | COUNTER);
    uint32_t distance = ((uint32_t)(start - g->used) >> 2 & 0x7ffff) << 5;
    put(g, (flags ? 0x54000001 : 0x35000000 | COUNTER) | distance);
    g->blocks++;
}

/* ---- functions ---- */

enum { PACIASP = 0xd503233f, PACIBSP = 0xd503237f, RET = 0xd65f03c0, RETAA = 0xd65f0bff, RETAB = 0xd65f0fff };

/* Writes the prologue, if any, and returns what ends the function. */
static uint32_t begin(struct stalk_gen *g) {
    static const uint32_t signing[] = {PACIASP, PACIBSP}, returns[] = {RETAA, RETAB, RET};
    unsigned how = stalk_gen_pick(g, 3);
    if (how < 2)
        put(g, signing[how]);
    return returns[how];
}

void stalk_gen_leaves(struct stalk_gen *g) {
    if (!words[0])
        choose_words();
    g->leaf_count = 0;
    for (unsigned i = 0; i < sizeof g->leaves / sizeof *g->leaves; i++) {
        g->leaves[g->leaf_count++] = g->used;
        uint32_t end = begin(g);
        some(g, 5);
        if (end == RET && once_in(g, 3)) {
            unsigned r = reg(g);
            put(g, 0xaa1e03e0 | r); /* mov r, x30; ret r */
            end = 0xd65f0000 | r << 5;
        }
        put(g, end);
        g->blocks++;
    }
}

size_t stalk_gen_function(struct stalk_gen *g, unsigned blocks) {
    while (g->used % 16)
        put(g, CT_A64_NOP);
    size_t start = g->used;
    uint32_t end = begin(g);
    put(g, 0xf81f0ffe); /* str x30, [sp, #-16]! */
    for (unsigned goal = g->blocks + blocks; g->blocks < goal;) {
        some(g, 6);
        unsigned kind = stalk_gen_pick(g, 10);
        if (kind < 6)
            skip(g);
        else if (kind < 9)
            call_leaf(g);
        else
            repeat(g);
    }
    put(g, 0xf84107fe); /* ldr x30, [sp], #16 */
    put(g, end);
    g->blocks++;
    __builtin___clear_cache((char *)g->code + start, (char *)g->code + g->used);
    return start;
}

void stalk_gen_state(struct stalk_gen *g, struct stalk_state *state, uint64_t data, uint64_t stack_pointer) {
    enum { FLAGS = 0, VECTORS = 16, VECTORS_END = 16 + 512 }; /* in `more` */
    memset(state, 0, sizeof *state);
    for (unsigned i = 0; i < LR; i++)
        state->words[i] = stalk_gen_random(g) << 16 ^ stalk_gen_random(g);
    state->words[DATA] = data;
    state->words[SP] = stack_pointer;
    state->more[FLAGS + 3] = (uint8_t)(stalk_gen_pick(g, 16) << 4);
    for (unsigned i = VECTORS; i < VECTORS_END; i++)
        state->more[i] = (uint8_t)stalk_gen_random(g);
}
