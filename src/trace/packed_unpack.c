/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks blocks of a packed index: see packed_block.h. The bytes are not trusted: each length and code is checked
 * before use, and no block needs more memory than its number of events can take. */
#include "trace/packed_block.h"
#include "trace/packed_state.h"
#include <errno.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>

#define SLACK 16 /* readable bytes after a column */

struct column {
    const uint8_t *bytes; /* as stored */
    size_t stored, size;
    bool compressed;
};

static bool get_column(const uint8_t **p, const uint8_t *end, size_t limit, struct column *column) {
    uint64_t head, stored;
    if (!ct_varint_get(p, end, &head) || head >> 1 > limit)
        return false;
    column->size = (size_t)(head >> 1);
    column->compressed = head & 1;
    stored = column->size;
    if (column->compressed && !ct_varint_get(p, end, &stored))
        return false;
    if (stored > (uint64_t)(end - *p))
        return false;
    column->stored = (size_t)stored;
    column->bytes = *p;
    *p += stored;
    return true;
}

static bool expand_column(const struct column *column, uint8_t *to) {
    memset(to + column->size, 0, SLACK);
    if (column->compressed)
        return LZ4_decompress_safe((const char *)column->bytes, (char *)to, (int)column->stored, (int)column->size) ==
               (int)column->size;
    memcpy(to, column->bytes, column->size);
    return true;
}

static bool grow_memory(void **memory, size_t *room, size_t wanted) {
    if (wanted <= *room)
        return true;
    free(*memory);
    *memory = malloc(wanted);
    *room = *memory ? wanted : 0;
    return *memory != NULL;
}

static bool read_names(const uint8_t *p, const uint8_t *end, uint64_t *ids, size_t count) {
    uint64_t id = 0, delta;
    for (size_t i = 0; i < count; i++) {
        if (!ct_varint_get(&p, end, &delta))
            return false;
        id += ct_unzigzag(delta);
        ids[i] = id;
    }
    return p == end;
}

static int lay_out(struct ct_unpack *unpack, const struct column columns[4], size_t id_count) {
    size_t total = id_count * sizeof *unpack->ids;
    for (int i = 0; i < 4; i++)
        total += columns[i].size + SLACK;
    void *memory = unpack->memory;
    bool enough = grow_memory(&memory, &unpack->memory_size, total + 1);
    unpack->memory = memory;
    if (!enough)
        return ENOMEM;
    uint64_t *ids = memory;
    uint8_t *at = (uint8_t *)(ids + id_count), *start[4];
    for (int i = 0; i < 4; i++) {
        start[i] = at;
        if (!expand_column(&columns[i], at))
            return EBADMSG;
        at += columns[i].size + SLACK;
    }
    if (!read_names(start[0], start[0] + columns[0].size, ids, id_count))
        return EBADMSG;
    unpack->ids = ids;
    unpack->id_count = id_count;
    unpack->shape = start[1];
    unpack->shape_end = start[1] + columns[1].size;
    unpack->time = start[2];
    unpack->time_end = start[2] + columns[2].size;
    unpack->odd = start[3];
    unpack->odd_end = start[3] + columns[3].size;
    return 0;
}

int ct_unpack_begin(struct ct_unpack *unpack, const uint8_t *block, uint32_t tid) {
    struct ctp_block header;
    struct column columns[4];
    uint64_t id_count;
    memcpy(&header, block, sizeof header);
    const uint8_t *p = block + sizeof header, *end = block + header.size;
    size_t count = header.count;
    unpack->left = 0;
    if (header.type != CTP_EVENTS || !count || count > CTP_BLOCK_EVENTS || !ct_varint_get(&p, end, &id_count) ||
        id_count > count || !get_column(&p, end, 10 * count, &columns[0]) ||
        !get_column(&p, end, 3 * count, &columns[1]) || !get_column(&p, end, 9 * count, &columns[2]) ||
        !get_column(&p, end, 21 * count, &columns[3]))
        return EBADMSG;
    int error = lay_out(unpack, columns, (size_t)id_count);
    if (error)
        return error;
    void *stack = unpack->stack;
    size_t room = unpack->stack_room * sizeof *unpack->stack;
    bool enough = grow_memory(&stack, &room, count * sizeof *unpack->stack);
    unpack->stack = stack;
    unpack->stack_room = room / sizeof *unpack->stack;
    if (!enough)
        return ENOMEM;
    unpack->used = 0;
    unpack->last_ns = header.time_first_ns;
    unpack->depth = header.depth;
    unpack->tid = tid;
    unpack->next_seq = header.first_seq;
    unpack->left = header.count;
    return 0;
}

void ct_unpack_free(struct ct_unpack *unpack) {
    free(unpack->memory);
    free(unpack->stack);
    *unpack = (struct ct_unpack){0};
}

/* ---- events ---- */

/* Reads up to nine bytes, which are always readable: columns have slack after them. */
static inline const uint8_t *get_time(const uint8_t *p, uint64_t *delta) {
    uint8_t first = *p++;
    if (first < CTP_TIME_SHORT) {
        *delta = first;
        return p;
    }
    if (first < CTP_TIME_LONG) {
        *delta = CTP_TIME_SHORT + ((uint64_t)(first - CTP_TIME_SHORT) << 8 | *p);
        return p + 1;
    }
    unsigned bytes = first - CTP_TIME_LONG + 1u;
    uint64_t value;
    memcpy(&value, p, sizeof value);
    value &= UINT64_MAX >> (64 - 8 * bytes);
    *delta = value + CTP_TIME_SHORT + ((CTP_TIME_LONG - CTP_TIME_SHORT) << 8);
    return p + bytes;
}

static bool get_odd(struct ct_unpack *unpack, struct ctp_state *state, struct atf_index_event *event) {
    const uint8_t **p = &unpack->odd, *end = unpack->odd_end;
    uint64_t kind, depth, thread = unpack->tid, code;
    if (*p == end)
        return false;
    uint8_t first = *(*p)++;
    kind = first & CTP_ODD_KIND;
    if (!kind && !ct_varint_get(p, end, &kind))
        return false;
    depth = ctp_expected_depth(state, (uint32_t)kind);
    if (first & CTP_ODD_DEPTH && !ct_varint_get(p, end, &depth))
        return false;
    if (first & CTP_ODD_THREAD && !ct_varint_get(p, end, &thread))
        return false;
    if (!ct_varint_get(p, end, &code) || code >= unpack->id_count || (kind | depth | thread) > UINT32_MAX)
        return false;
    event->event_kind = (uint32_t)kind;
    event->call_depth = (uint32_t)depth;
    event->thread_id = (uint32_t)thread;
    event->function_id = unpack->ids[code];
    ctp_state_odd(state, (uint32_t)kind, (uint32_t)depth, event->function_id);
    return true;
}

/* Unpacks kind, depth and function of the next event; its thread is set already. */
static inline bool get_shape(struct ct_unpack *unpack, struct ctp_state *state, struct atf_index_event *event) {
    const uint8_t *p = unpack->shape, *end = unpack->shape_end;
    while (p < end) {
        uint32_t first = *p++;
        if (first >= CTP_CALL) {
            uint32_t code = first - CTP_CALL;
            if (first >= CTP_LONG)
                code = CTP_CALL_CODES + ((first - CTP_LONG) << 8 | *p++);
            if (code >= unpack->id_count)
                return false;
            event->event_kind = ATF_CALL;
            event->call_depth = state->depth;
            event->function_id = unpack->ids[code];
            ctp_state_push(state, event->function_id);
            unpack->shape = p;
            return true;
        }
        if (first == CTP_ODD) {
            unpack->shape = p;
            return get_odd(unpack, state, event);
        }
        if (!state->used)
            return false;
        ctp_state_pop(state);
        if (first == CTP_RETURN) {
            event->event_kind = ATF_RETURN;
            event->call_depth = state->depth;
            event->function_id = state->stack[state->used];
            unpack->shape = p;
            return true;
        }
    }
    return false;
}

int ct_unpack_events(struct ct_unpack *unpack, struct atf_index_event *events, size_t count, size_t *done) {
    struct ctp_state state = {unpack->stack, unpack->used, unpack->depth};
    uint64_t delta;
    int error = 0;
    if (count > unpack->left)
        count = unpack->left;
    for (*done = 0; *done < count; ++*done) {
        struct atf_index_event *event = &events[*done];
        event->thread_id = unpack->tid;
        event->detail_seq = ATF_NO_DETAIL;
        if (unpack->time >= unpack->time_end || !get_shape(unpack, &state, event)) {
            error = EBADMSG;
            break;
        }
        unpack->time = get_time(unpack->time, &delta);
        unpack->last_ns += delta;
        event->timestamp_ns = unpack->last_ns;
    }
    unpack->used = state.used;
    unpack->depth = state.depth;
    unpack->next_seq += *done;
    unpack->left = error ? 0 : unpack->left - (uint32_t)*done;
    return error;
}

/* ---- links ---- */

static int read_pairs(const uint8_t *p, size_t size, const struct ctp_block *header,
                      void (*each)(void *arg, const struct ct_link *link), void *arg) {
    const uint8_t *end = p + size;
    uint64_t seq = 0, detail = 0, a, b;
    for (uint32_t i = 0; i < header->count; i++) {
        if (!ct_varint_get(&p, end, &a) || !ct_varint_get(&p, end, &b))
            return EBADMSG;
        seq += ct_unzigzag(a);
        detail += ct_unzigzag(b);
        if (seq - header->first_seq > header->span || detail > UINT32_MAX)
            return EBADMSG;
        each(arg, &(struct ct_link){seq, (uint32_t)detail});
    }
    return p == end ? 0 : EBADMSG;
}

int ct_unpack_links(const uint8_t *block, void (*each)(void *arg, const struct ct_link *link), void *arg) {
    struct ctp_block header;
    struct column column;
    memcpy(&header, block, sizeof header);
    const uint8_t *p = block + sizeof header;
    if (header.count > CTP_BLOCK_EVENTS || !get_column(&p, block + header.size, 16 * (size_t)header.count, &column))
        return EBADMSG;
    uint8_t *pairs = malloc(column.size + SLACK);
    int error = !pairs                          ? ENOMEM
                : expand_column(&column, pairs) ? read_pairs(pairs, column.size, &header, each, arg)
                                                : EBADMSG;
    free(pairs);
    return error;
}
