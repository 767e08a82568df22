/* SPDX-License-Identifier: Apache-2.0 */
/* The code of links between fragments, and code outside of them, arm64: ways in and out, far jumps, calls of excluded
 * code. A direct branch is a word that is b or nop, before and after a link: threads may be running it meanwhile. */
#include "stalk/link.h"
#include "os/linux/registers_a64.h"
#include "hook/layout.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/emit_a64.h"
#include "stalk/engine.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk/unwind.h"

/* ---- writing ---- */

static bool take_room(struct stalk_region *r, struct ct_code_buf *code) {
    uint8_t *write;
    return r && !ct_stalk_cold_room(r, code->capacity, &code->address, &write);
}

static uint64_t write_code(struct stalk_region *r, struct ct_code_buf *code) {
    return code->overflow || ct_arena_write(r->arena, code->address, code->bytes, code->length) ? 0 : code->address;
}

void ct_stalk_set_exit(struct stalk_exit *e, uint64_t to) {
    ct_stalk_patch32(e->region, e->patch, word_of_b(e->patch, to));
}

static bool is_near(uint64_t from, uint64_t to) {
    return ct_a64_reaches(from, to, CT_A64_REACH_B);
}

/* Jumps to a place with a reload before it. The program's x17 is in the area. */
static void put_jump(struct ct_code_buf *code, uint64_t to) {
    if (is_near(ct_code_here(code), to - 4)) {
        ct_a64_b(code, to - 4);
        return;
    }
    ct_a64_address(code, X17, to - 4);
    ct_a64_br(code, X17);
}

/* ---- links ---- */

/* Makes a jump to another region. */
static uint64_t far_jump(struct stalk_region *r, uint64_t to) {
    uint8_t bytes[32];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    if (!take_room(r, &code))
        return 0;
    save_reg(&code, X17);
    put_jump(&code, to);
    return write_code(r, &code);
}

void ct_stalk_open_exit(struct stalk_exit *e) {
    ct_stalk_patch32(e->region, e->patch, CT_A64_NOP);
}

uint64_t ct_stalk_link_target(const struct stalk_exit *e, const struct stalk_entry *entry) {
    return is_near(e->patch, entry->code) ? entry->code : far_jump(e->region, entry->code);
}

/* ---- inline caches ---- */

enum { COMPARE_ROOM = 48 };

static void put_compare(struct ct_code_buf *code, const struct stalk_entry *e) {
    ct_a64_address(code, X16, e->address);
    ct_a64_eor_reg(code, X16, X16, X17);
    size_t branch = code->length;
    ct_a64_put(code, 0);
    load_reg(code, X16);
    put_jump(code, e->code);
    ct_a64_patch(code, branch, 0xb5000000 | (uint32_t)(code->length - branch) / 4 << 5 | X16); /* cbnz x16 */
}

uint64_t ct_stalk_make_compares(struct stalk_cache *c, const struct stalk_exit *site,
                                const struct stalk_entry *const *targets, unsigned n) {
    (void)c;
    uint8_t bytes[(STALK_MAX_INLINE + 1) * COMPARE_ROOM], *write;
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    if (ct_stalk_warm_room(site->region, (n + 1) * COMPARE_ROOM, &code.address, &write))
        return 0;
    while (n--) /* in the order in which the targets were seen */
        put_compare(&code, targets[n]);
    ct_a64_b(&code, site->stub);
    uint64_t run = write_code(site->region, &code);
    return run && is_near(site->patch, run) ? run : 0;
}

uint64_t ct_stalk_make_way_in(const struct stalk_entry *e, bool returns) {
    uint8_t bytes[64];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    struct stalk_region *r = e->fragment->region;
    if (!take_room(r, &code))
        return 0;
    put_way_in(&code, e->address, returns ? X30 : X17,
               ct_stalk_helper(r, returns ? ct_stalk_return_collide : ct_stalk_collide));
    ct_a64_b(&code, e->code);
    return write_code(r, &code);
}

bool ct_stalk_return_way_fits(struct stalk_cache *c, struct stalk_entry *e) {
    (void)c;
    return e->returns != 0;
}

/* ---- stubs by address ---- */

/* The return address of an excluded call is in a register, and then anywhere. It may be used after the thread was let
 * go, and when the Stalker is gone: so all stubs are landing slots (landing_a64.c). */
uint64_t ct_stalk_return_stub(struct stalk_cache *c, uint64_t address) {
    return ct_stalk_landing(c->stalker, address);
}

uint64_t ct_stalk_return_of(const struct stalk_cache *c, uint64_t stub) {
    (void)c;
    return ct_stalk_landing_of(stub);
}

/* ---- ways out ---- */

#define STALK_KEY_LEAVE (1ull << 60)

/* All registers are the program's when the thread arrives there. */
static uint64_t make_way_out(struct stalk_cache *c, uint64_t to) {
    uint8_t bytes[16];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    struct stalk_region *r = ct_stalk_region_for(c, to);
    if (!take_room(r, &code))
        return 0;
    put_reload(&code);
    load_reg(&code, X18);
    ct_a64_b(&code, to);
    return write_code(r, &code) ? code.address + 4 : 0;
}

static bool in_chunks(const struct stalk_cache *c, uint64_t pc) {
    for (const struct stalk_chunk *chunk = c ? c->chunks : NULL; chunk; chunk = chunk->next)
        if (pc - chunk->run < chunk->size)
            return true;
    return false;
}

uint64_t ct_stalk_way_out(struct stalk_thread *t, uint64_t to) {
    struct stalk_cache *c = t->cache;
    if (in_chunks(c, to))
        return to;
    uint64_t code = 0;
    ct_stalk_lock(t->stalker);
    if (!(to & 3) && to >> 48 == 0) {
        uint64_t *place = ct_stalk_stub_place(c, to | STALK_KEY_LEAVE);
        if (place && !*place)
            *place = make_way_out(c, to);
        code = place ? *place : 0;
    }
    ct_stalk_unlock(t->stalker);
    if (code)
        return code;
    t->area->target = to; /* nothing near: x17 is lost */
    return ct_stalk_helper(c->regions, ct_stalk_away);
}

/* ---- calls of excluded code ---- */

/* Stores where the frame of the call is. x17 is free. */
static void note_native(struct ct_code_buf *code) {
    ct_a64_add(code, X17, SP, -8);
    ct_a64_str(code, X17, X18, AREA(CT_AREA_NATIVE));
}

/* A call may change x16 and x17, as a linker's veneer may. */
void ct_stalk_link_excluded(struct stalk_cache *c, uint32_t id, uint64_t target, uint64_t stub) {
    struct stalk_exit *e = ct_stalk_item(&c->exits, id);
    uint8_t bytes[64];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    if (e->linked || !take_room(e->region, &code))
        return;
    note_native(&code);
    ct_a64_address(&code, X30, stub);
    load_reg(&code, X18);
    ct_a64_jump(&code, X17, target);
    uint64_t run = write_code(e->region, &code);
    if (!run)
        return;
    e->linked = 1; /* never unlinked: excluded code stays excluded */
    c->stalker->statistics.links++;
    ct_stalk_set_exit(e, run);
}

static const uint64_t nothing[STALK_LANDING_SIZE / 8]; /* a slot for no address */

void ct_stalk_clear_native(struct stalk_cache *c) {
    for (size_t i = 0; c->native_table && i < STALK_TABLE_SIZE; i++)
        c->native_table[i] = (uint64_t)nothing;
}

static bool make_native_table(struct stalk_cache *c) {
    if (c->native_table)
        return true;
    c->native_table = ct_stalk_alloc_table(STALK_TABLE_SIZE * sizeof *c->native_table);
    if (!c->native_table)
        return false;
    ct_stalk_clear_native(c);
    return true;
}

/* Code for the table of indirect branches: x17 holds the target, x30 the return address. The table of return addresses
 * leads to a landing slot, which says for which address it is. */
static uint64_t make_native_way(struct stalk_cache *c, uint64_t target) {
    uint8_t bytes[96];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    struct stalk_region *r = ct_stalk_region_for(c, target);
    if (!take_room(r, &code))
        return 0;
    ct_a64_address(&code, X16, target);
    ct_a64_eor_reg(&code, X16, X16, X17);
    ct_a64_cbz(&code, X16, ct_code_here(&code) + 8);
    ct_a64_b(&code, ct_stalk_helper(r, ct_stalk_collide));
    ct_a64_str(&code, X17, X18, AREA(CT_AREA_TARGET));
    put_lookup(&code, c->native_table, X30);
    ct_a64_ldr(&code, X17, X16, STALK_LANDING_WORD);
    ct_a64_eor_reg(&code, X17, X17, X30);
    ct_a64_cbz(&code, X17, ct_code_here(&code) + 8);
    ct_a64_b(&code, ct_stalk_helper(r, ct_stalk_native_miss));
    note_native(&code);
    ct_a64_mov(&code, X30, X16);
    load_pair(&code, X16);
    load_reg(&code, X18);
    ct_a64_b(&code, target);
    return write_code(r, &code);
}

void ct_stalk_publish_excluded(struct stalk_cache *c, uint64_t target, uint64_t address, uint64_t stub) {
    if (!make_native_table(c))
        return;
    __atomic_store_n(&c->native_table[ct_stalk_return_index(c->stalker, address)], stub, __ATOMIC_RELEASE);
    uint64_t *way_in = ct_stalk_stub_place(c, target | STALK_KEY_TARGET);
    if (way_in && !*way_in)
        *way_in = make_native_way(c, target);
    if (way_in && *way_in)
        __atomic_store_n(&c->table[ct_stalk_table_index(c->stalker, target)], *way_in, __ATOMIC_RELEASE);
}

/* ---- system calls that return twice ---- */

/* x18 becomes the address of the area again. */
static void find_area(struct ct_code_buf *code) {
    ct_a64_mrs_tp(code, X18);
    ct_a64_ldr(code, X18, X18, 8);
    ct_a64_add(code, X18, X18, CT_AREA);
}

static void enter_engine(struct ct_code_buf *code, const struct stalk_region *r, uint32_t reason) {
    save_reg(code, X17);
    put_reason(code, X17, reason);
    ct_a64_b(code, ct_stalk_helper(r, ct_stalk_exit));
}

/* A new thread asks whether it is followed: entry_a64.S has the layout of what x16 points to. */
static void start_thread(struct ct_code_buf *code, uint64_t next) {
    ct_a64_push_pair(code, X16, X17);
    ct_a64_adr(code, X16, ct_code_here(code) + 12);
    ct_a64_ldr(code, X17, X16, 0);
    ct_a64_br(code, X17);
    ct_code_u64(code, (uint64_t)ct_stalk_child);
    ct_code_u64(code, next);
    ct_a64_pop_pair(code, X16, X17);
    ct_a64_b(code, next);
}

/* The call is made with the program's x18: a child may run on without us. Each call site gets its own stub. */
static uint64_t make_clone_stub(struct stalk_cache *c, uint64_t next, uint64_t resume, enum stalk_clone kind) {
    struct stalk_region *r = ct_stalk_region_for(c, next);
    uint8_t bytes[128];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    if (!take_room(r, &code))
        return 0;
    put_reload(&code);
    load_reg(&code, X18);
    ct_a64_put(&code, STALK_SVC);
    ct_a64_b(&code, ct_code_here(&code) + 12);
    ct_code_u64(&code, next); /* recover_a64.c reads it */
    size_t branch = code.length;
    ct_a64_put(&code, 0);
    find_area(&code);
    if (kind == STALK_CLONE_VFORK) {
        enter_engine(&code, r, CT_REASON_BACK);
    } else if (is_near(ct_code_here(&code), resume)) {
        ct_a64_b(&code, resume);
    } else {
        save_reg(&code, X17);
        put_jump(&code, resume);
    }
    ct_a64_patch(&code, branch, 0xb4000000 | (uint32_t)(code.length - branch) / 4 << 5); /* cbz x0 */
    if (kind == STALK_CLONE_VFORK) {
        find_area(&code);
        enter_engine(&code, r, CT_REASON_VFORKED);
    } else if (kind == STALK_CLONE_THREAD) {
        start_thread(&code, next);
    } else {
        ct_a64_b(&code, next);
    }
    return write_code(r, &code) ? code.address + 4 : 0;
}

uint64_t ct_stalk_clone_stub(struct stalk_cache *c, uint64_t next, uint64_t resume, enum stalk_clone kind) {
    static const uint64_t keys[] = {[STALK_CLONE_NATIVE] = STALK_KEY_CLONE,
                                    [STALK_CLONE_THREAD] = STALK_KEY_CLONE_FOLLOWED,
                                    [STALK_CLONE_VFORK] = STALK_KEY_CLONE_VFORK};
    uint64_t *stub = ct_stalk_stub_place(c, resume | keys[kind]);
    if (stub && !*stub)
        *stub = make_clone_stub(c, next, resume, kind);
    return stub ? *stub : 0;
}

/* ---- the program's code ---- */

/* bti, a signature, or a new frame: no call returns to that, though one that never returns may be before it. */
static bool begins_function(uint64_t address) {
    struct ct_a64_insn x;
    uint32_t word = ct_a64_word((const uint8_t *)address);
    return !ct_a64_decode(word, &x) && (x.kind == CT_INSN_LANDING || x.what == CT_A64_SIGN ||
                                        (word & 0xffc07fff) == 0xa9807bfd || /* stp x29, x30, [sp, #-n]! */
                                        (word & 0xff8003ff) == 0xd10003ff);  /* sub sp, sp, #n */
}

bool ct_stalk_follows_call(struct ct_stalker *s, uint64_t address) {
    uint64_t end;
    bool changes;
    struct ct_a64_insn x;
    if (address & 3 || !ct_stalk_executable(s, address, &end, &changes) ||
        !ct_stalk_executable(s, address - 4, &end, &changes))
        return false;
    return !ct_a64_decode(ct_a64_word((const uint8_t *)(address - 4)), &x) &&
           (x.kind == CT_INSN_CALL || x.kind == CT_INSN_CALL_INDIRECT);
}

bool ct_stalk_is_returned_to(struct ct_stalker *s, uint64_t address) {
    return ct_stalk_follows_call(s, address) && !begins_function(address);
}

bool ct_stalk_is_setjmp(uint64_t address) {
    for (unsigned i = STALK_SETJMP; i <= STALK_SIGSETJMP; i++)
        if (address && address == ct_stalk_functions[i])
            return true;
    return false;
}

/* The instruction is executed again afterwards. */
bool ct_stalk_move_block(struct stalk_thread *t, unsigned reg) {
    struct stalk_area *a = t->area;
    uint64_t block = (uint64_t)a - CT_AREA, old = ct_os_thread_pointer(), word;
    uint64_t new = reg == CT_A64_ZR ? 0 : a->gpr[reg];
    bool of_hooks = *(const uint64_t *)(block + CT_BLOCK_OWNER) != 0;
    if (of_hooks || !new || new & 7 || ct_os_peek(new + CT_BLOCK_WORD_A64, &word, sizeof word))
        return false;
    *(uint64_t *)(new + CT_BLOCK_WORD_A64) = block;
    ct_os_set_thread_pointer(new);
    a->own = new;
    if (old && old != new)
        ct_os_forget_block(old);
    return true;
}

/* What leave_at() finds in the area as x18 is the register's value where the thread was stopped. */
void ct_stalk_redirect(struct ct_registers *regs, struct stalk_area *area) {
    struct ct_registers_a64 *r = ct_registers_as_a64(regs);
    area->gpr[X17] = r->x[X17];
    area->gpr[X18] = r->x[X18];
    r->x[X18] = (uint64_t)area;
}

extern const uint8_t ct_stalk_come[] __attribute__((visibility("hidden"))); /* entry_a64.S */

uint64_t ct_stalk_way_in(struct stalk_thread *t) {
    t->area->target = ct_stalk_helper(t->cache->regions, ct_stalk_begin);
    return (uint64_t)ct_stalk_come;
}

void ct_stalk_machine_find(struct stalk_machine *machine) {
    machine->unused = false;
}
