/* SPDX-License-Identifier: Apache-2.0 */
/* See stub.h. No state. */
#include "hook/stub.h"

struct moves {
    uint64_t at; /* of the first */
    uint8_t lead, count;
};

struct move {
    uint8_t from;
    uint16_t to;
};

uint64_t ct_stub_around(ct_stub_read *read, void *arg, uint64_t pc) {
    for (uint64_t at = pc & ~UINT64_C(7); pc - at < CT_STUB_SIZE_MAX; at -= 8)
        if (ct_stub_is_at(read, arg, at))
            return at;
    return 0;
}

static bool find_moves(ct_stub_read *read, void *arg, uint64_t stub, struct moves *m) {
    uint16_t offset;
    uint8_t head[CT_STUB_MOVES_HEAD];
    if (!read(arg, stub + CT_STUB_MOVES, &offset, sizeof offset) || !offset || offset >= CT_STUB_SIZE_MAX ||
        !read(arg, stub + offset, head, sizeof head))
        return false;
    *m = (struct moves){.at = stub + offset + sizeof head, .lead = head[0], .count = head[1]};
    return true;
}

static bool read_move(ct_stub_read *read, void *arg, const struct moves *m, unsigned i, struct move *move) {
    uint8_t b[CT_STUB_MOVE_SIZE];
    if (!read(arg, m->at + i * sizeof b, b, sizeof b))
        return false;
    *move = (struct move){.from = b[0], .to = (uint16_t)(b[1] | b[2] << 8)};
    return true;
}

uint64_t ct_stub_lead(ct_stub_read *read, void *arg, uint64_t stub) {
    struct moves m;
    return find_moves(read, arg, stub, &m) ? m.lead : 0;
}

uint64_t ct_stub_original(ct_stub_read *read, void *arg, uint64_t stub, uint64_t pc) {
    struct moves m;
    struct move move;
    uint64_t found = UINT64_MAX;
    if (!find_moves(read, arg, stub, &m) || pc >= m.at)
        return UINT64_MAX;
    for (unsigned i = 0; i < m.count && read_move(read, arg, &m, i, &move) && move.to <= pc - stub; i++)
        found = (uint64_t)m.lead + move.from;
    return found;
}

uint64_t ct_stub_copy(ct_stub_read *read, void *arg, uint64_t stub, uint64_t offset) {
    struct moves m;
    struct move move;
    if (!find_moves(read, arg, stub, &m))
        return 0;
    for (unsigned i = 0; i < m.count && read_move(read, arg, &m, i, &move); i++)
        if ((uint64_t)m.lead + move.from == offset)
            return stub + move.to;
    return 0;
}
