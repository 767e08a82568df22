/* SPDX-License-Identifier: Apache-2.0 */
/* The code of links between fragments, and code outside of them, x86_64: inline caches, far jumps, returns of excluded
 * calls. */
#include "os/os.h"
#include "stalk/link.h"
#include "stalk/cache.h"
#include "stalk/emit_x64.h"
#include "stalk/engine.h"
#include "stalk/flags_x64.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"
#include "stalk/unwind.h"

/* ---- links ---- */

/* Allocates room for a small piece of code outside of fragments; 0: out of memory. */
static uint64_t take_room(struct stalk_region *r, size_t size) {
    uint64_t run;
    uint8_t *write;
    return ct_stalk_cold_room(r, size, &run, &write) ? 0 : run;
}

/* Makes a jump to another region: jmp [rip + 0]. */
static uint64_t far_jump(struct stalk_region *r, uint64_t target) {
    uint8_t bytes[16];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    CT_X64_BYTES(&code, 0xff, 0x25, 0, 0, 0, 0);
    ct_code_u64(&code, target);
    uint64_t run = take_room(r, code.length);
    return run && !ct_arena_write(r->arena, run, bytes, code.length) ? run : 0;
}

void ct_stalk_set_exit(struct stalk_exit *e, uint64_t to) {
    ct_stalk_patch32(e->region, e->patch, (uint32_t)(to - (e->patch + 4)));
}

void ct_stalk_open_exit(struct stalk_exit *e) {
    static const uint8_t nop[5] = {0x0f, 0x1f, 0x44, 0, 0}; /* replaces the whole jump, which lies in one word */
    ct_stalk_patch_word(e->region, e->patch - 1, nop, sizeof nop);
}

uint64_t ct_stalk_link_target(const struct stalk_exit *e, const struct stalk_entry *entry) {
    uint64_t to = entry->code + (entry->fragment->flags & FRAGMENT_COMPARED ? e->skips : 0);
    return ct_x64_reaches(e->patch + 4, to) ? to : far_jump(e->region, to);
}

/* ---- inline caches ---- */

/* rcx is the difference to one address, and becomes the difference to the address that is `delta` less. If it is zero
 * the code jumps to `to`. */
static void emit_compare(struct ct_code_buf *out, const struct ct_stalker *s, uint64_t delta, uint64_t to) {
    uint64_t more = delta + s->machine.quick_loop;
    if ((uint64_t)(int64_t)(int32_t)more == more) {
        CT_X64_BYTES(out, 0x48, 0x8d, 0x89); /* lea rcx, [rcx + delta] */
        ct_code_u32(out, (uint32_t)more);
    } else {
        CT_X64_BYTES(out, 0x49, 0xbb); /* mov r11, delta */
        ct_code_u64(out, delta);
        CT_X64_BYTES(out, 0x4a, 0x8d, 0x4c, 0x19, s->machine.quick_loop); /* lea rcx, [rcx + r11] */
    }
    if (s->machine.quick_loop)
        CT_X64_BYTES(out, 0xe2, 0); /* loop to the next one */
    else
        CT_X64_BYTES(out, 0xe3, 2, 0xeb, 0); /* jrcxz over a jump to it */
    size_t from = out->length;
    gs_load(out, CT_X64_R11, CT_AREA_R11);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    ct_x64_emit_jmp(out, to);
    if (!out->overflow)
        out->bytes[from - 1] = (uint8_t)(out->length - from);
}

/* The same with cmp; rcx keeps the target. */
static void emit_quick_compare(struct ct_code_buf *out, uint64_t address, uint64_t to) {
    ct_stalk_emit_cmp(out, address);
    CT_X64_BYTES(out, 0x75, 0); /* jne to the next one */
    size_t from = out->length;
    gs_load(out, CT_X64_R11, CT_AREA_R11);
    gs_load(out, CT_X64_RCX, CT_AREA_RCX);
    ct_x64_emit_jmp(out, to);
    if (!out->overflow)
        out->bytes[from - 1] = (uint8_t)(out->length - from);
}

enum { COMPARE_ROOM = 64 };

uint64_t ct_stalk_make_compares(struct stalk_cache *c, const struct stalk_exit *site,
                                const struct stalk_entry *const *targets, unsigned n) {
    uint8_t bytes[(STALK_MAX_INLINE + 1) * COMPARE_ROOM], *write;
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    bool quick = true; /* no target needs the flags */
    for (unsigned i = 0; i < n; i++)
        quick = quick && ct_flags_unused_by(targets[i]);
    if (ct_stalk_warm_room(site->region, (n + 1) * COMPARE_ROOM, &code.address, &write))
        return 0;
    uint64_t run = code.address, last = 0;
    while (n--) { /* in the order in which the targets were seen */
        if (quick)
            emit_quick_compare(&code, targets[n]->address, targets[n]->code);
        else
            emit_compare(&code, c->stalker, last - targets[n]->address, targets[n]->code);
        last = targets[n]->address;
    }
    if (!quick) {
        CT_X64_BYTES(&code, 0x49, 0xbb); /* mov r11, the last one */
        ct_code_u64(&code, last);
        CT_X64_BYTES(&code, 0x4a, 0x8d, 0x0c, 0x19); /* lea rcx, [rcx + r11] */
    }
    ct_x64_emit_jmp(&code, site->stub);
    if (code.overflow || ct_arena_write(site->region->arena, run, bytes, code.length))
        return 0;
    return ct_x64_reaches(site->patch + 4, run) ? run : 0;
}

uint64_t ct_stalk_make_way_in(const struct stalk_entry *e, bool returns) {
    uint8_t bytes[96];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    struct stalk_region *r = e->fragment->region;
    uint64_t run = take_room(r, sizeof bytes), start;
    if (!run)
        return 0;
    code.address = run;
    if (returns)
        start = ct_stalk_emit_return(&code, r, e->address, e->spoils_flags);
    else
        start = ct_stalk_emit_indirect(&code, r, e->address, ct_flags_unused_by(e));
    ct_x64_emit_jmp(&code, e->code);
    return code.overflow || ct_arena_write(r->arena, run, bytes, code.length) ? 0 : start;
}

bool ct_stalk_return_way_fits(struct stalk_cache *c, struct stalk_entry *e) {
    bool spoils = e->returns ? e->spoils_flags : ct_flags_unused_by(e);
    spoils = spoils && !ct_flags_kept(c->stalker, e->address);
    bool fits = e->returns && spoils == e->spoils_flags;
    e->spoils_flags = spoils;
    return fits;
}

/* ---- excluded calls ---- */

uint64_t ct_stalk_return_of(const struct stalk_cache *c, uint64_t stub) {
    uint64_t landing = ct_stalk_landing_of(stub);
    if (landing)
        return landing;
    const struct stalk_chunk *chunk = c->return_chunk;
    uint64_t slot = stub - STALK_RETURN_NOP;
    bool is_stub = slot - chunk->run < chunk->used && (slot - chunk->run) % STALK_RETURN_SLOT == 0;
    return is_stub ? *(const uint64_t *)(slot + STALK_RETURN_WORD) : 0;
}

/* nop; jmp exit: an exit like those of fragments, so that it gets linked. The return address is after the nop, because
 * unwinders look up the byte before it (unwind_x64.c). */
static uint64_t make_return_stub(struct stalk_cache *c, uint64_t address) {
    struct stalk_region *r = c->home;
    struct stalk_chunk *chunk = c->return_chunk;
    uint8_t bytes[STALK_RETURN_SLOT] = {0};
    uint64_t run = chunk->run + chunk->used;
    struct ct_code_buf code = {bytes, sizeof bytes, 0, run, false};
    uint32_t id = ct_stalk_new_item(&c->pool, &c->exits, sizeof(struct stalk_exit));
    if (!id || chunk->size - chunk->used < STALK_RETURN_SLOT)
        return 0;
    ct_x64_emit_nop(&code, STALK_RETURN_NOP);
    ct_code_byte(&code, 0xe9);
    ct_code_u32(&code, 0); /* to the next instruction */
    struct stalk_exit *e = ct_stalk_item(&c->exits, id);
    e->target = address;
    e->patch = run + STALK_RETURN_NOP + 1;
    e->stub = ct_code_here(&code);
    e->region = r;
    e->kind = CT_STALKER_END_RETURN;
    gs_store_imm(&code, CT_AREA_REASON, CT_REASON_EXIT | id);
    ct_x64_emit_jmp(&code, ct_stalk_helper(r, ct_stalk_enter));
    ct_stalk_copy(bytes + STALK_RETURN_WORD, &address, sizeof address);
    if (code.overflow || code.length > STALK_RETURN_WORD || ct_arena_write(r->arena, run, bytes, sizeof bytes))
        return 0;
    chunk->used += STALK_RETURN_SLOT;
    return run + STALK_RETURN_NOP;
}

uint64_t ct_stalk_return_stub(struct stalk_cache *c, uint64_t address) {
    uint64_t *stub = ct_stalk_stub_place(c, address);
    if (stub && !*stub)
        *stub = make_return_stub(c, address);
    return stub ? *stub : 0;
}

/* Writes two ways to the engine: first the child's, then the parent's. */
static void emit_vfork_ways(struct ct_code_buf *code, const struct stalk_region *r) {
    gs_store_imm(code, CT_AREA_REASON, CT_REASON_VFORKED);
    ct_x64_emit_jmp(code, ct_stalk_helper(r, ct_stalk_enter));
    gs_store_imm(code, CT_AREA_REASON, CT_REASON_BACK);
    ct_x64_emit_jmp(code, ct_stalk_helper(r, ct_stalk_enter));
}
enum { VFORK_PARENT = 40 }; /* offset of the parent's way in the stub */

/* syscall; mov rcx, rax; jrcxz child; jmp resume; child: mov rcx, next; jmp [next or ct_stalk_child]
 * recover_x64.c knows this layout. Each call site gets its own stub. */
static uint64_t make_clone_stub(struct stalk_cache *c, uint64_t next, uint64_t resume, enum stalk_clone kind) {
    struct stalk_region *r = ct_stalk_region_for(c, next);
    uint8_t bytes[64];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    uint64_t run = r ? take_room(r, sizeof bytes) : 0;
    if (!run)
        return 0;
    code.address = run;
    CT_X64_BYTES(&code, 0x0f, 0x05, 0x48, 0x89, 0xc1, 0xe3, 5);
    ct_code_byte(&code, 0xe9); /* jrcxz skips this jump, to mov rcx, next */
    uint64_t parent = kind == STALK_CLONE_VFORK ? run + VFORK_PARENT : resume;
    ct_code_u32(&code, (uint32_t)(parent - (ct_code_here(&code) + 4)));
    CT_X64_BYTES(&code, 0x48, 0xb9);
    ct_code_u64(&code, next);
    if (kind == STALK_CLONE_VFORK) {
        emit_vfork_ways(&code, r);
    } else {
        CT_X64_BYTES(&code, 0xff, 0x25, 0, 0, 0, 0);
        ct_code_u64(&code, kind == STALK_CLONE_THREAD ? (uint64_t)ct_stalk_child : next);
    }
    return code.overflow || ct_arena_write(r->arena, run, bytes, code.length) ? 0 : run;
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

bool ct_stalk_follows_call(struct ct_stalker *s, uint64_t address) {
    uint64_t end;
    bool changes;
    if (!ct_stalk_executable(s, address, &end, &changes) || !ct_stalk_executable(s, address - 8, &end, &changes))
        return false;
    struct ct_x64_insn x;
    for (unsigned n = 2; n <= 7; n++) {
        const uint8_t *bytes = (const uint8_t *)(address - n);
        if (!ct_x64_decode(bytes, n, &x) && x.length == n &&
            (x.kind == CT_INSN_CALL || x.kind == CT_INSN_CALL_INDIRECT))
            return true;
    }
    return false;
}

bool ct_stalk_is_returned_to(struct ct_stalker *s, uint64_t address) {
    return ct_stalk_follows_call(s, address);
}

bool ct_stalk_is_setjmp(uint64_t address) {
    for (unsigned i = STALK_SETJMP; i <= STALK_SIGSETJMP; i++)
        if (address && address == ct_stalk_functions[i])
            return true;
    return false;
}

static void cpuid(uint32_t leaf, uint32_t out[4]) {
    __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(0));
}

static bool has_rorx(void) {
    uint32_t r[4];
    cpuid(7, r);
    return r[1] & 1u << 8; /* BMI2 */
}

static bool has_quick_loop(void) {
    uint32_t r[4];
    cpuid(0, r);
    return r[1] == 0x68747541 || r[1] == 0x6f677948; /* AuthenticAMD, HygonGenuine */
}

void ct_stalk_redirect(struct ct_registers *regs, struct stalk_area *area) {
    (void)regs, (void)area; /* GS leads there */
}

uint64_t ct_stalk_way_in(struct stalk_thread *t) {
    return ct_stalk_helper(t->cache->regions, ct_stalk_begin);
}

bool ct_stalk_move_block(struct stalk_thread *t, unsigned reg) {
    (void)t, (void)reg;
    return false;
}

void ct_stalk_machine_find(struct stalk_machine *machine) {
    machine->has_rorx = has_rorx();
    machine->quick_loop = has_quick_loop();
    machine->has_gsbase = ct_os_has_gsbase();
}
