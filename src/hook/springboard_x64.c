/* SPDX-License-Identifier: Apache-2.0 */
/* Room for springboards, x86_64: see springboard.h.
 *
 * Three maps of the scan, one bit per byte: `taken` (a plan uses it), `room` (free bytes of a host), `needy` (places
 * that only a short jump fits into). Bits of `room` that are missing cost hooks; a bit too many would cost the program,
 * so only bytes of straight code count, to which nothing is known to refer. */
#include "hook/springboard.h"
#include <contrail/status.h>
#include "isa/x64/decode.h"
#include <stdlib.h>
#include <string.h>

#define JUMP_SIZE       5u
#define SHORT_JUMP_SIZE 2u
#define REACH_SHORT     127
#define MAX_PADDING     64u
#define LANDING_PAD     4u
#define MAX_BOARDS      5u

static bool any_within(const struct ct_scan *s, const uint64_t *map, uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to && at < s->end; at++)
        if (ct_scan_bit(s, map, at))
            return true;
    return false;
}

uint64_t ct_springboards_place(const struct ct_scan *s, uint64_t function, uint64_t end) {
    static const uint8_t endbr64[LANDING_PAD] = {0xf3, 0x0f, 0x1e, 0xfa};
    end = end < s->end ? end : s->end;
    bool guarded = end - function >= LANDING_PAD && !memcmp(ct_scan_bytes(s, function), endbr64, LANDING_PAD);
    return function + (guarded ? LANDING_PAD : 0);
}

/* ---- padding ---- */

/* Nops and int3 that nothing refers to are padding. Zeros are not: they may be somebody's constants. */
uint64_t ct_springboards_padding_end(const struct ct_scan *s, uint64_t function, uint64_t end) {
    size_t after = ct_scan_after(s, function);
    uint64_t limit = after < s->func_count ? s->funcs[after].start : s->end, at = end;
    if (limit > end + MAX_PADDING)
        limit = end + MAX_PADDING;
    while (at < limit) {
        const uint8_t *p = ct_scan_bytes(s, at);
        struct ct_x64_insn insn = {.length = 1};
        if (*p != 0xcc && (ct_x64_decode(p, (size_t)(s->end - at), &insn) || insn.kind != CT_INSN_NOP))
            break;
        uint64_t next = at + insn.length;
        if (next > limit)
            break;
        for (uint64_t b = at; b < next; b++)
            if (ct_scan_bit(s, s->landing, b) || ct_scan_bit(s, s->referenced, b))
                return at;
        at = next;
    }
    return at;
}

static void take(struct ct_scan *s, uint64_t at) {
    for (uint64_t b = at; b < at + JUMP_SIZE; b++)
        ct_scan_set(s, s->taken, b);
}

/* Searches from the far end, so that a short function before the padding can still be patched. */
static uint64_t take_padding(struct ct_scan *s, uint64_t from, uint64_t to) {
    size_t i = ct_scan_after(s, from);
    for (i = i ? i - 1 : 0; i < s->func_count && s->funcs[i].start <= to; i++) {
        const struct ct_scan_func *f = &s->funcs[i];
        uint64_t limit = ct_springboards_padding_end(s, f->start, f->end), low = f->start + LANDING_PAD + JUMP_SIZE;
        low = low > f->end ? low : f->end;
        for (uint64_t at = limit - JUMP_SIZE; at >= low && at >= from; at--) {
            if (at > to || any_within(s, s->taken, at, at + JUMP_SIZE))
                continue;
            take(s, at);
            return at;
        }
    }
    return 0;
}

/* ---- hosts ---- */

static bool is_free(const struct ct_scan *s, uint64_t at) {
    for (uint64_t b = at; b < at + JUMP_SIZE; b++)
        if (b >= s->end || !ct_scan_bit(s, s->room, b) || ct_scan_bit(s, s->taken, b))
            return false;
    return true;
}

/* The lowest address first: functions are planned in their order, and later ones do not reach it. No function starts in
 * the room of another, so the host is the last one that starts before. */
static uint64_t take_room(struct ct_scan *s, uint64_t from, uint64_t to, uint64_t *host) {
    for (uint64_t at = from; s->room && at <= to && at < s->end; at++) {
        if (!is_free(s, at))
            continue;
        size_t after = ct_scan_after(s, at);
        take(s, at);
        *host = s->funcs[after - 1].start;
        return at;
    }
    return 0;
}

uint64_t ct_springboards_take(struct ct_scan *s, uint64_t next, uint64_t *host) {
    uint64_t from = next > s->start + 128 ? next - 128 : s->start, to = next + REACH_SHORT;
    uint64_t board = take_padding(s, from, to);
    if (host)
        *host = 0;
    return board || !host ? board : take_room(s, from, to, host);
}

/* Calls and system calls run where they are: their copies are slower, or not the same in every respect. */
static bool may_move(const struct ct_x64_insn *insn, const uint8_t *bytes) {
    switch (insn->kind) {
    case CT_INSN_OTHER:
    case CT_INSN_NOP:
    case CT_INSN_JCC:
    case CT_INSN_JMP:
    case CT_INSN_RET:
        return *bytes != 0xcc;
    default:
        return false;
    }
}

static bool is_end(const struct ct_x64_insn *insn) {
    return insn->kind == CT_INSN_JMP || insn->kind == CT_INSN_RET;
}

/* The end of the straight code from `place` that may move, up to `limit` or a little more. What follows a jump or a
 * return is somebody else's, or data. */
static uint64_t straight_end(const struct ct_scan *s, uint64_t place, uint64_t end, uint64_t limit) {
    uint64_t at = place;
    for (unsigned count = 0; at < limit && at < end && count < CT_SPRINGBOARD_MOVES; count++) {
        struct ct_x64_insn insn;
        const uint8_t *bytes = ct_scan_bytes(s, at);
        if (ct_x64_decode(bytes, (size_t)(end - at), &insn) || !may_move(&insn, bytes))
            break;
        uint64_t next = at + insn.length, first = at == place ? at + 1 : at; /* the entry is everybody's */
        if (any_within(s, s->landing, first, next) || any_within(s, s->referenced, first, next))
            break;
        at = next;
        if (is_end(&insn))
            break;
    }
    return at;
}

size_t ct_springboards_fit(const struct ct_scan *s, uint64_t place, uint64_t end, unsigned count) {
    long index = ct_scan_find(s, place);
    if (index < 0)
        index = ct_scan_find(s, place - LANDING_PAD);
    if (!count || !s->room || index < 0 || (s->funcs[index].flags & CT_SCAN_INDIRECT))
        return 0;
    count = count < MAX_BOARDS ? count : MAX_BOARDS;
    size_t straight = (size_t)(straight_end(s, place, end, place + JUMP_SIZE * (1 + count)) - place);
    unsigned fits = (unsigned)(straight / JUMP_SIZE);
    fits = fits < 1 + count ? fits : 1 + count;
    return fits >= 2 ? fits * JUMP_SIZE : 0;
}

bool ct_springboards_may_host(const struct ct_scan *s, size_t index, uint64_t function, uint64_t end) {
    const struct ct_scan_func *f = &s->funcs[index];
    uint64_t next = ct_springboards_place(s, function, end) + SHORT_JUMP_SIZE;
    uint64_t place = ct_springboards_place(s, f->start, f->end), first = place + JUMP_SIZE;
    bool reaches = first + 128 >= next && first <= next + REACH_SHORT;
    return reaches && ct_springboards_fit(s, place, f->end, 1) && !(f->flags & CT_SCAN_LOOPED);
}

void ct_springboards_offer(struct ct_scan *s, uint64_t place, uint64_t end) {
    for (uint64_t at = place + JUMP_SIZE; s->room && at < end; at++)
        ct_scan_set(s, s->room, at);
}

void ct_springboards_withdraw(struct ct_scan *s, uint64_t place, uint64_t end) {
    for (uint64_t at = place + JUMP_SIZE; s->room && at < end; at++)
        ct_scan_clear(s, s->room, at);
}

/* ---- who needs one ---- */

static bool is_needy(const struct ct_scan *s, const struct ct_scan_func *f, uint64_t place) {
    if (place + 1 >= s->end || place >= f->end || ct_scan_bit(s, s->landing, place + 1))
        return false;
    if (any_within(s, s->landing, place + 2, place + JUMP_SIZE))
        return true;
    return f->end < place + JUMP_SIZE && ct_springboards_padding_end(s, f->start, f->end) < place + JUMP_SIZE;
}

int ct_springboards_prepare(struct ct_scan *s) {
    size_t words = (size_t)(s->end - s->start) / 64 + 2;
    s->room = calloc(words, sizeof *s->room);
    s->needy = calloc(words, sizeof *s->needy);
    if (!s->room || !s->needy)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < s->func_count; i++) {
        uint64_t place = ct_springboards_place(s, s->funcs[i].start, s->funcs[i].end);
        if (is_needy(s, &s->funcs[i], place))
            ct_scan_set(s, s->needy, place);
    }
    return 0;
}

void ct_springboards_free(struct ct_scan *s) {
    free(s->room);
    free(s->needy);
    s->room = s->needy = NULL;
}

/* Whole words of the map: a few places too many do no harm. */
unsigned ct_springboards_wanted(const struct ct_scan *s, uint64_t place) {
    uint64_t low = place > s->start + REACH_SHORT ? place - REACH_SHORT : s->start;
    uint64_t high = place + REACH_SHORT < s->end ? place + REACH_SHORT : s->end - 1;
    unsigned count = 0;
    for (uint64_t i = (low - s->start) / 64; s->needy && i <= (high - s->start) / 64; i++)
        count += s->needy[i] ? (unsigned)__builtin_popcountll(s->needy[i]) : 0;
    return count;
}
