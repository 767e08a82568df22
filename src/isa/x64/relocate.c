/* SPDX-License-Identifier: Apache-2.0 */
/* The relocator: branches, calls and ranges here, operands out of reach in relocate_data.c.
 *
 * Three rules hold for every emitted sequence:
 *  1. only instructions that leave the flags alone (mov, lea, push, pop, xchg, jumps);
 *  2. nothing that is still needed lies more than 128 bytes below rsp, at any instruction boundary: a signal frame may
 *     be written there;
 *  3. the bytes [rsp-128, rsp) of the original are not written, unless the original instruction is a call. */
#include "isa/x64/relocate.h"

#include "contrail/status.h"
#include "isa/x64/encode.h"
#include "isa/x64/relocate_internal.h"

/* A range being moved. Branches into the range are filled in when all its instructions have their addresses. */
struct range {
    uint64_t from;
    size_t covered;
    const struct ct_x64_moved *moved;
    unsigned fix_count;
    struct {
        size_t rel32_at; /* offset in the buffer */
        unsigned target; /* index in moved->at */
    } fix[CT_X64_RANGE_MAX];
};

static unsigned start_at(const struct range *range, size_t offset) {
    unsigned i = 0;
    while (i < range->moved->count && range->moved->at[i].from != offset)
        i++;
    return i;
}

/* Where a direct branch goes. */
struct destination {
    uint64_t address; /* when outside */
    bool inside;
    unsigned index; /* of the instruction in the range, when inside */
};

static int find_destination(const struct ct_x64_move *m, struct range *range, struct destination *d) {
    *d = (struct destination){.address = ct_x64_target(m->insn, m->from)};
    uint64_t offset = range ? d->address - range->from : 0;
    if (!range || offset >= range->covered || (offset == 0 && m->insn->kind == CT_INSN_CALL))
        return 0;
    d->inside = true;
    d->index = start_at(range, offset);
    return d->index < range->moved->count ? 0 : CT_ERR_UNSUPPORTED;
}

static void emit_rel32_inside(struct ct_code_buf *out, struct range *range, const struct destination *d) {
    range->fix[range->fix_count].rel32_at = out->length;
    range->fix[range->fix_count++].target = d->index;
    ct_code_u32(out, 0);
}

static void emit_goto(struct ct_code_buf *out, struct range *range, const struct destination *d) {
    if (!d->inside) {
        ct_x64_emit_jmp(out, d->address);
        return;
    }
    ct_code_byte(out, 0xe9);
    emit_rel32_inside(out, range, d);
}

/* Prefixes that mean something on a branch: bnd, notrack and the branch hints. */
static void copy_branch_prefixes(const struct ct_x64_move *m) {
    for (unsigned i = 0; i < m->insn->opcode_offset; i++)
        if (m->bytes[i] == 0xf2 || m->bytes[i] == 0x2e || m->bytes[i] == 0x3e)
            ct_code_byte(m->out, m->bytes[i]);
}

static void move_jcc(const struct ct_x64_move *m, struct range *range, const struct destination *d) {
    uint8_t condition = m->insn->opcode & 15;
    if (d->inside) {
        copy_branch_prefixes(m);
        CT_X64_BYTES(m->out, 0x0f, (uint8_t)(0x80 | condition));
        emit_rel32_inside(m->out, range, d);
        return;
    }
    if (ct_x64_reaches(ct_code_here(m->out) + CT_X64_MAX_LENGTH, d->address))
        copy_branch_prefixes(m); /* the far form tests the opposite, where a hint would be wrong */
    ct_x64_emit_jcc(m->out, condition, d->address);
}

/* loop, jrcxz and xbegin have a short reach: they branch to an island, a jump that reaches the target.
 *     loop L / jmp next / L: jmp target / next: */
static void move_island(const struct ct_x64_move *m, struct range *range, const struct destination *d) {
    struct ct_code_buf *out = m->out;
    ct_code_copy(out, m->bytes, m->insn->imm_offset);
    ct_code_byte(out, 2);
    for (unsigned i = 1; i < m->insn->imm_size; i++)
        ct_code_byte(out, 0);
    CT_X64_BYTES(out, 0xeb, 0);
    size_t island = out->length;
    emit_goto(out, range, d);
    if (!out->overflow)
        out->bytes[island - 1] = (uint8_t)(out->length - island);
}

/* Pushes the original return address with one store. Returns the offset of the literal's displacement, or 0 when the
 * address fits into the push. */
static size_t emit_push_return(const struct ct_x64_move *m) {
    uint64_t value = m->from + m->insn->length;
    if ((uint64_t)(int64_t)(int32_t)value != value)
        return ct_x64_emit_push_literal(m->out);
    ct_code_byte(m->out, 0x68);
    ct_code_u32(m->out, (uint32_t)value);
    return 0;
}

static void place_return(const struct ct_x64_move *m, size_t displacement_at) {
    if (displacement_at)
        ct_x64_place_literal(m->out, displacement_at, m->from + m->insn->length);
}

static void move_call(const struct ct_x64_move *m, struct range *range, const struct destination *d) {
    size_t literal = emit_push_return(m);
    emit_goto(m->out, range, d);
    place_return(m, literal);
}

/* Emits the operand of call/jmp r/m64 with another operation of the same opcode group: 4 is jmp, 6 is push. */
static void emit_group5(const struct ct_x64_move *m, uint8_t operation) {
    const struct ct_x64_insn *insn = m->insn;
    for (unsigned i = 0; i < insn->length; i++) {
        uint8_t byte = m->bytes[i];
        if (i == insn->modrm_offset)
            byte = (uint8_t)((byte & 0xc7) | operation << 3);
        else if (i < insn->opcode_offset && (byte == 0x66 || byte == 0xf3 || (operation == 6 && byte == 0xf2)))
            continue; /* without meaning on a call, but not on a push */
        ct_code_byte(m->out, byte);
    }
}

/* call [rip+x] in reach: the operand can't be on the stack, so pushing first changes nothing. */
static void move_call_rip(const struct ct_x64_move *m) {
    size_t literal = emit_push_return(m);
    emit_group5(m, 4);
    uint64_t next = ct_code_here(m->out); /* no immediate follows the displacement */
    ct_x64_patch_u32(m->out, m->out->length - 4, (uint32_t)(ct_x64_rip_address(m->insn, m->from) - next));
    place_return(m, literal);
}

/* call [rip+x] out of reach: the target ends up 16 bytes below where the callee finds its return address. */
static void move_call_rip_far(const struct ct_x64_move *m) {
    struct ct_code_buf *out = m->out;
    size_t literal = emit_push_return(m);
    ct_x64_emit_push(out, CT_X64_RAX);
    ct_x64_emit_mov_imm(out, CT_X64_RAX, ct_x64_rip_address(m->insn, m->from));
    ct_x64_copy_segment(m);
    CT_X64_BYTES(out, 0xff, 0x30);                   /* push [rax] */
    CT_X64_BYTES(out, 0x48, 0x8b, 0x44, 0x24, 0x08); /* mov rax, [rsp+8] */
    ct_x64_emit_add_rsp(out, 16);
    copy_branch_prefixes(m);
    CT_X64_BYTES(out, 0xff, 0x64, 0x24, 0xf0); /* jmp [rsp-16] */
    place_return(m, literal);
}

/* call [mem] and call rsp: the operand is read first, while rsp has its original value, because it may be addressed
 * with rsp, may overlap the slot of the return address, and may fault. */
static void move_call_memory(const struct ct_x64_move *m) {
    struct ct_code_buf *out = m->out;
    emit_group5(m, 6);                   /* push target */
    CT_X64_BYTES(out, 0xff, 0x34, 0x24); /* push [rsp]: the target again, 16 below */
    size_t literal = emit_push_return(m);
    CT_X64_BYTES(out, 0x8f, 0x44, 0x24, 0x08); /* pop [rsp+8], rsp counted after the pop: over the first one */
    ct_x64_emit_add_rsp(out, 8);
    copy_branch_prefixes(m);
    CT_X64_BYTES(out, 0xff, 0x64, 0x24, 0xf8); /* jmp [rsp-8] */
    place_return(m, literal);
}

static void move_call_register(const struct ct_x64_move *m) {
    size_t literal = emit_push_return(m);
    emit_group5(m, 4);
    place_return(m, literal);
}

static int move_call_indirect(const struct ct_x64_move *m) {
    const struct ct_x64_insn *insn = m->insn;
    if (ct_x64_narrow(insn))
        return CT_ERR_UNSUPPORTED;
    if (insn->rip_relative && ct_x64_in_reach(m, 6))
        move_call_rip(m);
    else if (insn->rip_relative)
        move_call_rip_far(m);
    else if (insn->modrm >= 0xc0 && ((insn->modrm & 7) != CT_X64_RSP || insn->rex & 1))
        move_call_register(m);
    else
        move_call_memory(m);
    return 0;
}

static int move_branch(const struct ct_x64_move *m, struct range *range) {
    struct destination d;
    int rc = ct_x64_narrow(m->insn) ? CT_ERR_UNSUPPORTED : find_destination(m, range, &d);
    if (rc)
        return rc;
    switch (m->insn->kind) {
    case CT_INSN_JMP:
        copy_branch_prefixes(m);
        emit_goto(m->out, range, &d);
        break;
    case CT_INSN_JCC:
        move_jcc(m, range, &d);
        break;
    case CT_INSN_CALL:
        move_call(m, range, &d);
        break;
    default:
        move_island(m, range, &d);
        break;
    }
    return 0;
}

/* syscall leaves the address after itself in rcx. */
static void move_syscall(const struct ct_x64_move *m) {
    struct ct_code_buf *out = m->out;
    ct_code_copy(out, m->bytes, m->insn->length);
    if (m->insn->opcode != 0x05)
        return; /* sysenter comes back elsewhere */
    ct_x64_emit_mov_imm(out, CT_X64_RCX, m->from + m->insn->length);
    CT_X64_BYTES(out, 0xeb, 0x02); /* over the one for restarts */
    CT_X64_BYTES(out, 0x0f, 0x05);
}

static int move_far_transfer(const struct ct_x64_move *m) {
    bool group5 = m->insn->map == 0 && m->insn->opcode == 0xff;
    if (group5 && (m->insn->modrm >> 3 & 7) == 3)
        return CT_ERR_UNSUPPORTED;
    if (m->insn->rip_relative && !ct_x64_in_reach(m, 0))
        return CT_ERR_UNSUPPORTED;
    return ct_x64_move_plain(m);
}

static int move_one(const struct ct_x64_move *m, struct range *range) {
    switch (m->insn->kind) {
    case CT_INSN_JMP:
    case CT_INSN_JCC:
    case CT_INSN_CALL:
    case CT_INSN_LOOP:
    case CT_INSN_XBEGIN:
        return move_branch(m, range);
    case CT_INSN_CALL_INDIRECT:
        return move_call_indirect(m);
    case CT_INSN_FAR:
        return move_far_transfer(m);
    case CT_INSN_SYSCALL:
        move_syscall(m);
        return 0;
    default:
        return ct_x64_move_plain(m);
    }
}

/* Ends every move: all or nothing. */
static int finish_move(struct ct_code_buf *out, size_t start, int rc) {
    if (!rc && out->overflow)
        rc = CT_ERR_NO_SPACE;
    if (rc)
        out->length = start;
    return rc;
}

int ct_x64_relocate(struct ct_code_buf *out, const uint8_t *bytes, const struct ct_x64_insn *insn, uint64_t from) {
    size_t start = out->length;
    struct ct_x64_move m = {out, bytes, insn, from};
    return finish_move(out, start, move_one(&m, NULL));
}

/* Decodes the instructions of a range and notes where they start. */
static int find_starts(const uint8_t *bytes, size_t size, size_t minimum, struct ct_x64_insn *insns, size_t *covered,
                       struct ct_x64_moved *moved) {
    size_t at = 0;
    moved->count = 0;
    while (at < minimum) {
        if (moved->count == CT_X64_RANGE_MAX)
            return CT_ERR_NO_SPACE;
        struct ct_x64_insn *insn = &insns[moved->count];
        int rc = ct_x64_decode(bytes + at, size - at, insn);
        if (rc)
            return rc;
        moved->at[moved->count++].from = (uint16_t)at;
        at += insn->length;
        bool call = insn->kind == CT_INSN_CALL || insn->kind == CT_INSN_CALL_INDIRECT;
        if (call && at < minimum)
            return CT_ERR_UNSUPPORTED;
    }
    *covered = at;
    return 0;
}

static void fix_branches(struct ct_code_buf *out, size_t start, const struct range *range) {
    for (unsigned i = 0; i < range->fix_count; i++) {
        size_t at = range->fix[i].rel32_at, target = start + range->moved->at[range->fix[i].target].to;
        ct_x64_patch_u32(out, at, (uint32_t)(target - (at + 4)));
    }
}

int ct_x64_relocate_range(struct ct_code_buf *out, const uint8_t *bytes, size_t size, size_t minimum, uint64_t from,
                          size_t *covered, struct ct_x64_moved *moved) {
    struct ct_x64_insn insns[CT_X64_RANGE_MAX];
    struct ct_x64_moved unused;
    size_t start = out->length;
    if (!moved)
        moved = &unused;
    int rc = find_starts(bytes, size, minimum, insns, covered, moved);
    if (rc)
        return rc;
    struct range range;
    range.from = from;
    range.covered = *covered;
    range.moved = moved;
    range.fix_count = 0; /* fixes are added as they come */
    for (unsigned i = 0; i < moved->count && !rc; i++) {
        moved->at[i].to = (uint16_t)(out->length - start);
        uint16_t offset = moved->at[i].from;
        struct ct_x64_move m = {out, bytes + offset, &insns[i], from + offset};
        rc = move_one(&m, &range);
    }
    if (!rc && (!moved->count || ct_x64_copy_continues(&insns[moved->count - 1])))
        ct_x64_emit_jmp(out, from + *covered);
    rc = finish_move(out, start, rc);
    if (!rc)
        fix_branches(out, start, &range);
    return rc;
}
