/* SPDX-License-Identifier: Apache-2.0 */
/* Jump tables, x86_64: see scan.h.
 *
 * Nothing says where a table ends. Too many entries are harmless for the program, but they mark places where nothing
 * lands, which costs hooks; an entry too few would let a patch cover a place where something lands. So a table is read
 * as long as its entries lead to code, and ends early only where another one certainly begins: where the code of a jump
 * shows its table. Compilers put tables one after the other, so this is the end of nearly all of them. */
#include "hook/scan_tables_x64.h"
#include "base/grow.h"
#include <contrail/status.h>
#include "isa/x64/decode.h"
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 4096
#define NEAR_ENTRY  16

int ct_scan_add_table(struct ct_scan *s, size_t function, uint64_t address, enum ct_scan_table_kind kind) {
    if (!ct_grow(&s->tables, &s->table_capacity, s->table_count, sizeof *s->tables, 256))
        return CT_ERR_NO_MEMORY;
    s->tables[s->table_count++] = (struct ct_scan_table){address, (uint32_t)function, (uint8_t)kind};
    return 0;
}

/* ---- the table of a jump ---- */

/* The instructions before a jump, from the newest to the oldest. */
struct look {
    const struct ct_scan *scan;
    const uint64_t *recent;
    unsigned next, seen;
    struct ct_x64_insn insn;
    uint64_t at;
};

static unsigned reg_of(const struct ct_x64_insn *insn) {
    return (insn->modrm >> 3 & 7) | (insn->rex & 4) << 1;
}

static unsigned rm_of(const struct ct_x64_insn *insn) {
    return (insn->modrm & 7) | (insn->rex & 1) << 3;
}

static bool is_plain(const struct ct_x64_insn *insn, uint8_t opcode) {
    return insn->kind == CT_INSN_OTHER && insn->encoding == CT_X64_LEGACY && !insn->map && insn->opcode == opcode &&
           (insn->rex & 8) && !(insn->prefixes & (CT_X64_SEG_FS | CT_X64_SEG_GS | CT_X64_ADDRSIZE));
}

static bool look_back(struct look *l) {
    if (l->seen == CT_SCAN_RECENT || l->seen == l->next)
        return false;
    l->at = l->recent[(l->next - ++l->seen) % CT_SCAN_RECENT];
    return !ct_x64_decode(ct_scan_bytes(l->scan, l->at), (size_t)(l->scan->end - l->at), &l->insn);
}

/* Goes back to the instruction that last wrote one of these registers, in code that runs straight to the jump. */
static bool look_for_writer(struct look *l, uint16_t registers) {
    while (look_back(l)) {
        struct ct_x64_effects effects;
        if (l->insn.kind == CT_INSN_NOP || l->insn.kind == CT_INSN_JCC)
            continue;
        if (l->insn.kind != CT_INSN_OTHER)
            return false;
        ct_x64_effects(&l->insn, &effects);
        if (effects.regs_written & registers)
            return true;
    }
    return false;
}

static uint16_t bit(unsigned reg) {
    return (uint16_t)(1u << reg);
}

/* movsxd entry, [table + index*4] */
static bool is_load(const struct ct_x64_insn *insn, unsigned entry, unsigned table) {
    struct ct_x64_mem mem;
    return is_plain(insn, 0x63) && insn->modrm >> 6 != 3 && reg_of(insn) == entry && ct_x64_memory(insn, &mem) &&
           mem.base == table && mem.scale == 4 && mem.index != CT_X64_NO_REG;
}

/* lea table, [table's address] ... movsxd entry, [table + index*4] ... add entry, table (or add table, entry)
 * ... jmp to the sum, with anything between that leaves these registers alone. */
bool ct_scan_dispatch(const struct ct_scan *s, const uint64_t *recent, unsigned next, uint64_t at, uint64_t *address) {
    struct look l = {.scan = s, .recent = recent, .next = next};
    struct ct_x64_insn jump;
    if (ct_x64_decode(ct_scan_bytes(s, at), (size_t)(s->end - at), &jump) || !look_for_writer(&l, bit(rm_of(&jump))))
        return false;
    bool add = (is_plain(&l.insn, 0x01) || is_plain(&l.insn, 0x03)) && l.insn.modrm >> 6 == 3;
    unsigned a = reg_of(&l.insn), b = rm_of(&l.insn);
    if (!add || a == b || !look_for_writer(&l, bit(a) | bit(b)))
        return false;
    bool loads = is_load(&l.insn, a, b) || is_load(&l.insn, b, a);
    unsigned table = reg_of(&l.insn) == a ? b : a;
    if (!loads || !look_for_writer(&l, bit(table)))
        return false;
    *address = ct_x64_rip_address(&l.insn, l.at);
    return is_plain(&l.insn, 0x8d) && l.insn.rip_relative && reg_of(&l.insn) == table;
}

/* ---- following tables ---- */

/* A table is read in pieces of this many entries, if that many are readable. */
#define PIECE 64u

struct table {
    uint64_t address;
    uint64_t room; /* bytes that it has at most */
    unsigned size; /* of an entry: a 32-bit offset from the table itself, or a 64-bit address */
    const uint8_t *bytes;
    unsigned first, count; /* entries that are at `bytes` */
};

struct follow {
    struct ct_scan *scan;
    struct ct_scan_func *func;
    uint64_t *starts; /* sorted: where tables certainly begin */
    size_t start_count;
    uint64_t work_left; /* entries that may still be looked at */
};

static void note_foreign(struct ct_scan *s, uint64_t target) {
    ct_scan_set(s, s->landing, target);
    ct_scan_set(s, s->foreign, target);
}

static bool read_entries(const struct ct_scan *s, struct table *t, unsigned i) {
    uint64_t address = t->address + (uint64_t)t->size * i;
    t->first = i;
    t->count = PIECE;
    t->bytes = s->read(s->read_arg, address, (size_t)t->size * PIECE);
    if (!t->bytes) {
        t->count = 1;
        t->bytes = s->read(s->read_arg, address, t->size);
    }
    return t->bytes != NULL;
}

/* False: the entry does not lead to code of this module. The end of a table is not known: what follows it is read too,
 * which of our own process a sanitizer would take for a mistake. */
__attribute__((no_sanitize_address)) static bool table_entry(const struct ct_scan *s, struct table *t, unsigned i,
                                                             uint64_t *target) {
    if ((uint64_t)t->size * (i + 1) > t->room)
        return false;
    if ((!t->bytes || i < t->first || i - t->first >= t->count) && !read_entries(s, t, i))
        return false;
    const uint8_t *p = t->bytes + (size_t)t->size * (i - t->first);
    int32_t offset;
    if (t->size == 8) {
        memcpy(target, p, 8);
    } else {
        memcpy(&offset, p, 4);
        *target = t->address + (uint64_t)(int64_t)offset;
    }
    return ct_scan_covers(s, *target);
}

/* Reading past the end of a table gives targets that make no sense. Near a function's entry, where they would matter, a
 * target counts only if it is the start of an instruction. */
static bool is_plausible(const struct ct_scan *s, uint64_t target) {
    size_t after = ct_scan_after(s, target);
    if (!after || target - s->funcs[after - 1].start >= NEAR_ENTRY)
        return true;
    uint64_t at = s->funcs[after - 1].start;
    struct ct_x64_insn insn;
    while (at < target && !ct_x64_decode(ct_scan_bytes(s, at), (size_t)(s->end - at), &insn))
        at += insn.length;
    return at == target;
}

static int compare_addresses(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* How far it is from here to the next table. */
static uint64_t room_at(const struct follow *f, uint64_t address) {
    size_t low = 0, high = f->start_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (f->starts[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->start_count ? f->starts[low] - address : UINT64_MAX;
}

/* Does a table certainly begin here? */
static bool is_start(const struct follow *f, uint64_t address) {
    return f->start_count && bsearch(&address, f->starts, f->start_count, sizeof *f->starts, compare_addresses);
}

/* The table belongs to this function if one of its entries leads into it; others may lead to its cold part, anywhere.
 * `own`: it does in any case. All entries of a table that a cold part uses may lead to the other part. */
static bool follow_table(struct follow *f, uint64_t address, unsigned size, bool own) {
    struct ct_scan *s = f->scan;
    struct table table = {.address = address, .size = size, .room = room_at(f, address)};
    uint64_t target;
    unsigned count = 0;
    for (; count < MAX_ENTRIES && table_entry(s, &table, count, &target); count++)
        own |= target > f->func->start && target < f->func->end;
    f->work_left -= count < f->work_left ? count : f->work_left;
    for (unsigned i = 0; own && i < count; i++)
        if (table_entry(s, &table, i, &target) && !ct_scan_bit(s, s->foreign, target) && is_plausible(s, target))
            note_foreign(s, target);
    return own && count;
}

/* The targets of a jump are not known: no place near the entry is safe. */
static void expect_anything(struct follow *f) {
    uint64_t at = f->func->start, end = f->func->end;
    struct ct_x64_insn insn;
    while (at < end && at < f->func->start + NEAR_ENTRY) {
        if (at != f->func->start)
            note_foreign(f->scan, at);
        if (ct_x64_decode(ct_scan_bytes(f->scan, at), (size_t)(end - at), &insn))
            return;
        at += insn.length;
    }
}

static int find_starts(struct follow *f) {
    const struct ct_scan *s = f->scan;
    f->starts = malloc((s->table_count + 1) * sizeof *f->starts);
    if (!f->starts)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < s->table_count; i++)
        if (s->tables[i].kind == CT_SCAN_TABLE_USED)
            f->starts[f->start_count++] = s->tables[i].address;
    if (f->start_count > 1)
        qsort(f->starts, f->start_count, sizeof *f->starts, compare_addresses);
    return 0;
}

int ct_scan_follow_tables(struct ct_scan *s) {
    struct follow f = {.scan = s, .work_left = ct_scan_work(s)};
    bool found = false;
    int status = find_starts(&f);
    for (size_t i = 0; i < s->table_count && !status; i++) {
        const struct ct_scan_table *t = &s->tables[i];
        if (f.func != &s->funcs[t->function])
            found = false;
        f.func = &s->funcs[t->function];
        if (t->kind == CT_SCAN_TABLE_NAMED) {
            found |= follow_table(&f, t->address, 4, is_start(&f, t->address));
            found |= follow_table(&f, t->address, 8, false);
        } else if (t->kind == CT_SCAN_TABLE_JUMP) {
            found |= follow_table(&f, t->address, 8, true);
        } else if (t->kind == CT_SCAN_TABLE_NEEDED && !found) {
            expect_anything(&f);
        }
        if (!f.work_left)
            status = CT_ERR_UNSUPPORTED;
        else if (s->cancelled && __atomic_load_n(s->cancelled, __ATOMIC_RELAXED))
            status = CT_ERR_TIMEOUT;
    }
    free(f.starts);
    return status;
}
