/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of excluded code that do not enter the engine, x86_64.
 *
 * The engine decides that a call runs natively once for each call site, or once for each pair of target and return
 * address. From then on:
 *   - the exit of a direct call is linked to code that replaces the return address by the stub's and jumps to the
 *     target;
 *   - the table of indirect branches leads to code that looks up the return address, which is on the stack by then, in
 *     a table of its own. The code found there knows the stub.
 * Forms and registers are as in lower_x64.c: a signal that arrives here is delivered as if the call had been made.
 * Owner: the holder of the Stalker's lock. */
#include "os/os.h"
#include "stalk/cache.h"
#include "stalk/emit_x64.h"
#include "stalk/engine.h"
#include "stalk/link.h"
#include "stalk/memory.h"

static uint64_t write_code(struct stalk_region *r, struct ct_code_buf *code) {
    return code->overflow || ct_arena_write(r->arena, code->address, code->bytes, code->length) ? 0 : code->address;
}

static bool take_room(struct stalk_region *r, struct ct_code_buf *code) {
    uint8_t *write;
    return !ct_stalk_cold_room(r, code->capacity, &code->address, &write);
}

/* Replaces the return address on the stack by the stub. The program's rcx is in the area. */
static void put_stub(struct ct_code_buf *code, uint64_t stub) {
    ct_x64_emit_mov_imm(code, CT_X64_RCX, stub);
    CT_X64_BYTES(code, 0x48, 0x89, 0x0c, 0x24); /* mov [rsp], rcx */
    gs_store(code, CT_X64_RSP, CT_AREA_NATIVE);
}

void ct_stalk_link_excluded(struct stalk_cache *c, uint32_t id, uint64_t target, uint64_t stub) {
    struct stalk_exit *e = ct_stalk_item(&c->exits, id);
    uint8_t bytes[64];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    if (e->linked || !take_room(e->region, &code))
        return;
    gs_store(&code, CT_X64_RCX, CT_AREA_RCX);
    put_stub(&code, stub);
    gs_load(&code, CT_X64_RCX, CT_AREA_RCX);
    CT_X64_BYTES(&code, 0xff, 0x25, 0, 0, 0, 0); /* jmp [rip + 0] */
    ct_code_u64(&code, target);
    uint64_t run = write_code(e->region, &code);
    if (!run)
        return;
    e->linked = 1; /* never unlinked: excluded code stays excluded */
    c->stalker->statistics.links++;
    ct_stalk_patch32(e->region, e->patch, (uint32_t)(run - (e->patch + 4)));
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

void ct_stalk_clear_native(struct stalk_cache *c) {
    for (size_t i = 0; c->native_table && i < STALK_TABLE_SIZE; i++)
        c->native_table[i] = ct_stalk_helper(c->home, ct_stalk_native_miss);
}

/* Code for the table of indirect branches. rcx holds the target, and then the return address. */
static uint64_t make_way_in(struct stalk_cache *c, uint64_t target) {
    uint8_t bytes[80];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    if (!take_room(c->home, &code))
        return 0;
    CT_X64_BYTES(&code, 0x49, 0xbb); /* mov r11, -target */
    ct_code_u64(&code, 0 - target);
    CT_X64_BYTES(&code, 0x4a, 0x8d, 0x0c, 0x19, /* lea rcx, [rcx + r11] */
                 0xe3, 0x05);                   /* jrcxz over the jump */
    ct_x64_emit_jmp(&code, ct_stalk_helper(c->home, ct_stalk_collide));
    ct_x64_emit_mov_imm(&code, CT_X64_RCX, target);
    gs_store(&code, CT_X64_RCX, CT_AREA_TARGET);
    CT_X64_BYTES(&code, 0x48, 0x8b, 0x0c, 0x24, /* mov rcx, [rsp] */
                 0x44, 0x0f, 0xb7, 0xd9,        /* movzx r11d, cx */
                 0x42, 0xff, 0x24, 0xdd);       /* jmp [r11 * 8 + table] */
    ct_code_u32(&code, (uint32_t)(uint64_t)c->native_table);
    return write_code(c->home, &code);
}

/* Code for native_table. rcx holds the return address; the target is in the area. */
static uint64_t make_setter(struct stalk_cache *c, uint64_t address, uint64_t stub) {
    uint8_t bytes[96];
    struct ct_code_buf code = {bytes, sizeof bytes, 0, 0, false};
    if (!take_room(c->home, &code))
        return 0;
    CT_X64_BYTES(&code, 0x49, 0xbb); /* mov r11, -address */
    ct_code_u64(&code, 0 - address);
    CT_X64_BYTES(&code, 0x4a, 0x8d, 0x0c, 0x19, 0xe3, 0x05);
    ct_x64_emit_jmp(&code, ct_stalk_helper(c->home, ct_stalk_native_miss));
    put_stub(&code, stub);
    gs_load(&code, CT_X64_R11, CT_AREA_R11);
    gs_load(&code, CT_X64_RCX, CT_AREA_RCX);
    CT_X64_BYTES(&code, 0x65, 0xff, 0x24, 0x25); /* jmp gs:target */
    ct_code_u32(&code, CT_AREA_TARGET);
    return write_code(c->home, &code);
}

void ct_stalk_publish_excluded(struct stalk_cache *c, uint64_t target, uint64_t address, uint64_t stub) {
    uint64_t *setter = ct_stalk_stub_place(c, address | STALK_KEY_SETTER);
    if (!setter || !make_native_table(c))
        return;
    if (!*setter)
        *setter = make_setter(c, address, stub);
    if (*setter)
        __atomic_store_n(&c->native_table[(uint16_t)address], *setter, __ATOMIC_RELEASE);
    uint64_t *way_in = ct_stalk_stub_place(c, target | STALK_KEY_TARGET);
    if (way_in && !*way_in)
        *way_in = make_way_in(c, target);
    if (way_in && *way_in)
        __atomic_store_n(&c->table[ct_stalk_table_index(c->stalker, target)], *way_in, __ATOMIC_RELEASE);
}
