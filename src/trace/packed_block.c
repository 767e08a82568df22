/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks of a packed index share, and packing: see packed_block.h.
 *
 * A return needs no function: it ends the innermost open call. Packer and unpacker keep the calls that were opened in
 * the block; returns of calls from before it are odd events, which contain their function. So every block can be read
 * alone. All events come back exactly as they were: what does not match the pattern is an odd event too. */
#include "trace/packed_block.h"
#include "trace/crc32.h"
#include "trace/pack_pool.h"
#include "trace/packed_columns.h"
#include <lz4.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS         (2 * CT_PACK_EVENTS)
#define SHAPE_BYTES   (3 * CT_PACK_EVENTS)
#define TIME_BYTES    (9 * CT_PACK_EVENTS + 8)
#define ODD_BYTES     (21 * CT_PACK_EVENTS)
#define NAME_BYTES    (10 * CT_PACK_EVENTS + 10)
#define COLUMN_HEADS  64
#define LEAST_TO_PACK 48 /* smallest column to compress */
#define KEEP          12 /* packers kept for their next use: what a writer and the pool have at work */

struct slot {
    uint64_t id;
    uint32_t turn, code;
};

struct ct_pack {
    struct ct_pack *next;
    struct ct_pack_columns columns;
    uint32_t turn;     /* slots of other turns are empty */
    uint32_t id_count; /* functions in the block */
    uint64_t last_id;
    uint8_t *name, *odd;
    struct slot slots[SLOTS];
    uint64_t stack[CT_PACK_EVENTS], expected[1 + CT_PACK_EVENTS]; /* see struct ct_pack_columns */
    uint8_t names[NAME_BYTES];
    uint8_t shape[SHAPE_BYTES], time[TIME_BYTES], odds[ODD_BYTES];
    uint8_t out[sizeof(struct ctp_block) + COLUMN_HEADS + NAME_BYTES + SHAPE_BYTES + TIME_BYTES + ODD_BYTES + 8];
};

/* ---- the pool ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ct_pack *spares;
static unsigned spare_count;

struct ct_pack *ct_pack_take(void) {
    pthread_mutex_lock(&lock);
    struct ct_pack *pack = spares;
    if (pack) {
        spares = pack->next;
        spare_count--;
    }
    pthread_mutex_unlock(&lock);
    return pack ? pack : calloc(1, sizeof *pack);
}

void ct_pack_give(struct ct_pack *pack) {
    if (!pack)
        return;
    pthread_mutex_lock(&lock);
    if (spare_count < KEEP) {
        pack->next = spares;
        spares = pack;
        spare_count++;
        pack = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(pack);
}

/* ---- parts ---- */

bool ct_varint_get(const uint8_t **p, const uint8_t *end, uint64_t *value) {
    uint64_t result = 0;
    for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
        uint8_t byte = *(*p)++;
        result |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = result;
            return true;
        }
    }
    return false;
}

size_t ct_pack_seal(uint8_t *block, size_t size) {
    struct ctp_block header;
    memcpy(&header, block, sizeof header);
    while (size % 8)
        block[size++] = 0;
    memcpy(header.magic, CTP_BLOCK_MAGIC, 4);
    header.size = (uint32_t)size;
    header.payload_crc = ct_crc32(0, block + sizeof header, size - sizeof header);
    header.header_crc = ct_crc32(0, &header.size, sizeof header - offsetof(struct ctp_block, size));
    memcpy(block, &header, sizeof header);
    return size;
}

bool ct_block_plausible(const struct ctp_block *header, uint64_t room) {
    return room >= sizeof *header && !memcmp(header->magic, CTP_BLOCK_MAGIC, 4) &&
           header->header_crc == ct_crc32(0, &header->size, sizeof *header - offsetof(struct ctp_block, size)) &&
           header->size >= sizeof *header && header->size % 8 == 0 && header->size <= CTP_BLOCK_BYTES &&
           header->size <= room;
}

bool ct_block_intact(const uint8_t *block) {
    struct ctp_block header;
    memcpy(&header, block, sizeof header);
    return header.payload_crc == ct_crc32(0, block + sizeof header, header.size - sizeof header);
}

/* Writes a column: its length with a bit for "compressed", the compressed length, the bytes. *plain: is not compressed;
 * set if that was in vain. */
static uint8_t *put_column_as(uint8_t *to, const uint8_t *bytes, size_t size, bool *plain) {
    if (size >= LEAST_TO_PACK && !*plain) {
        uint8_t *body = to + 8; /* the longest head: sizes are below 2^24 */
        int room = (int)(size - size / 16);
        int packed = LZ4_compress_fast((const char *)bytes, (char *)body, (int)size, room, 1);
        if (packed > 0) {
            to = ct_varint_put(to, size << 1 | 1);
            to = ct_varint_put(to, (uint64_t)packed);
            memmove(to, body, (size_t)packed);
            return to + packed;
        }
    }
    *plain = true;
    to = ct_varint_put(to, size << 1);
    memcpy(to, bytes, size);
    return to + size;
}

static uint8_t *put_column(uint8_t *to, const uint8_t *bytes, size_t size) {
    bool plain = false;
    return put_column_as(to, bytes, size, &plain);
}

/* ---- events ---- */

static uint32_t code_of(struct ct_pack *pack, uint64_t id) {
    uint32_t at = (uint32_t)((id * 0x9e3779b97f4a7c15u) >> 40) % SLOTS;
    for (;; at = (at + 1) % SLOTS) {
        struct slot *slot = &pack->slots[at];
        if (slot->turn != pack->turn) {
            *slot = (struct slot){id, pack->turn, pack->id_count++};
            pack->name = ct_varint_put(pack->name, ct_zigzag(id - pack->last_id));
            pack->last_id = id;
            return slot->code;
        }
        if (slot->id == id)
            return slot->code;
    }
}

/* The bytes of a call's shape, as in struct ct_pack_code. */
static inline uint32_t shape_of(uint32_t code) {
    uint32_t more = code - CTP_CALL_CODES;
    return code < CTP_CALL_CODES ? CTP_CALL + code : (CTP_LONG + (more >> 8)) | (more & 255) << 8 | 1u << 16;
}

static inline uint8_t *put_call(uint8_t *shape, uint32_t code) {
    uint32_t bytes = shape_of(code);
    shape[0] = (uint8_t)bytes;
    shape[1] = (uint8_t)(bytes >> 8);
    return shape + 1 + (bytes >> 16);
}

struct ct_pack_columns *ct_pack_columns(struct ct_pack *pack) {
    return &pack->columns;
}

const struct ct_pack_code *ct_pack_note(struct ct_pack *pack, uint32_t key, uint64_t function) {
    struct ct_pack_code *at = ct_pack_code_at(&pack->columns, key);
    uint32_t code = code_of(pack, function);
    *at = (struct ct_pack_code){function, key, shape_of(code)};
    return at;
}

bool ct_pack_use_codes(struct ct_pack *pack, size_t count) {
    struct ct_pack_columns *c = &pack->columns;
    if (c->has_codes || count < CT_PACK_RUN)
        return c->has_codes;
    memset(c->codes, 0, sizeof c->codes); /* nobody looks for key 0 anywhere but in the first place */
    c->codes[0].key = 1;
    return c->has_codes = true;
}

static void put_odd(struct ct_pack *pack, struct ctp_state *state, const struct atf_index_event *event) {
    uint32_t kind = event->event_kind;
    bool known = kind >= ATF_CALL && kind <= ATF_EXCEPTION;
    bool deep = event->call_depth != ctp_expected_depth(state, kind), other = event->thread_id != pack->columns.tid;
    uint32_t code = code_of(pack, event->function_id);
    uint8_t *p = pack->odd;
    *p++ = (uint8_t)((known ? kind : 0) | (deep ? CTP_ODD_DEPTH : 0) | (other ? CTP_ODD_THREAD : 0));
    if (!known)
        p = ct_varint_put(p, kind);
    if (deep)
        p = ct_varint_put(p, event->call_depth);
    if (other)
        p = ct_varint_put(p, event->thread_id);
    pack->odd = ct_varint_put(p, code);
    bool innermost = event->call_depth + 1 == state->depth;
    ctp_state_odd(state, kind, event->call_depth, event->function_id);
    if (!innermost) /* calls may have moved */
        memset(pack->expected + 1, 0, state->used * sizeof *pack->expected);
}

/* Writes an event that is neither a call nor the expected return. */
static uint8_t *put_unexpected(struct ct_pack *pack, uint8_t *shape, const struct atf_index_event *event) {
    struct ctp_state *state = &pack->columns.state;
    uint32_t leaves = event->event_kind == ATF_CALL ? 1 : 2;
    bool ours = event->thread_id == pack->columns.tid;
    if (pack->columns.after_call && state->used && state->depth >= leaves &&
        event->call_depth == state->depth - leaves) {
        *shape++ = CTP_LEFT;
        ctp_state_pop(state);
        if (ours && event->event_kind == ATF_CALL) {
            shape = put_call(shape, code_of(pack, event->function_id));
            ctp_state_push(state, event->function_id);
            return shape;
        }
        if (ours && ctp_state_returns(state, event)) {
            *shape++ = CTP_RETURN;
            ctp_state_pop(state);
            return shape;
        }
    }
    *shape++ = CTP_ODD;
    put_odd(pack, state, event);
    return shape;
}

static uint32_t depth_before(const struct atf_index_event *event) {
    bool ends = event->event_kind == ATF_RETURN || (event->event_kind == ATF_EXCEPTION && event->function_id);
    return event->call_depth + (ends && event->call_depth != UINT32_MAX);
}

static void next_turn(struct ct_pack *pack) {
    if (!++pack->turn) {
        memset(pack->slots, 0, sizeof pack->slots);
        pack->turn = 1;
    }
}

void ct_pack_begin(struct ct_pack *pack, uint32_t tid) {
    struct ct_pack_columns *c = &pack->columns;
    next_turn(pack);
    c->shape = pack->shape;
    c->time = pack->time;
    c->state = (struct ctp_state){.stack = pack->stack};
    c->expected = pack->expected;
    c->count = 0;
    c->tid = tid;
    c->after_call = c->has_codes = c->plain_times = false;
    pack->id_count = 0;
    pack->last_id = 0;
    pack->name = pack->names;
    pack->odd = pack->odds;
}

static void put_event(struct ct_pack *pack, const struct atf_index_event *event) {
    struct ct_pack_columns *c = &pack->columns;
    struct ctp_state *state = &c->state;
    bool ours = event->thread_id == c->tid, call = event->event_kind == ATF_CALL;
    c->time = ct_pack_time(c->time, event->timestamp_ns - c->last_ns);
    c->last_ns = event->timestamp_ns;
    if (call && ours && event->call_depth == state->depth) {
        c->shape = put_call(c->shape, code_of(pack, event->function_id));
        ctp_state_push(state, event->function_id);
    } else if (!call && ours && ctp_state_returns(state, event)) {
        *c->shape++ = CTP_RETURN;
        ctp_state_pop(state);
    } else {
        c->shape = put_unexpected(pack, c->shape, event);
    }
    if (call)
        c->expected[state->used] = 0;
    c->after_call = call;
}

void ct_pack_put(struct ct_pack *pack, const struct atf_index_event *event) {
    struct ct_pack_columns *c = &pack->columns;
    if (!c->count++) {
        c->first_ns = c->last_ns = event->timestamp_ns;
        c->first_depth = c->state.depth = depth_before(event);
    }
    put_event(pack, event);
}

unsigned ct_pack_delay_us;

const uint8_t *ct_pack_end(struct ct_pack *pack, uint64_t first_seq, size_t *size) {
    struct ct_pack_columns *c = &pack->columns;
    unsigned delay_us = __atomic_load_n(&ct_pack_delay_us, __ATOMIC_RELAXED);
    if (delay_us)
        usleep(delay_us);
    struct ctp_block header = {.type = CTP_EVENTS,
                               .count = c->count,
                               .first_seq = first_seq,
                               .time_first_ns = c->first_ns,
                               .time_last_ns = c->last_ns,
                               .depth = c->first_depth,
                               .span = c->count - 1};
    memcpy(pack->out, &header, sizeof header);
    uint8_t *p = ct_varint_put(pack->out + sizeof header, pack->id_count);
    p = put_column(p, pack->names, (size_t)(pack->name - pack->names));
    p = put_column(p, pack->shape, (size_t)(c->shape - pack->shape));
    c->stiff_times = c->plain_times;
    p = put_column_as(p, pack->time, (size_t)(c->time - pack->time), &c->stiff_times);
    p = put_column(p, pack->odds, (size_t)(pack->odd - pack->odds));
    *size = ct_pack_seal(pack->out, (size_t)(p - pack->out));
    return pack->out;
}

const uint8_t *ct_pack_events(struct ct_pack *pack, const struct atf_index_event *events, size_t count,
                              uint64_t first_seq, uint32_t tid, size_t *size) {
    ct_pack_begin(pack, tid);
    for (size_t i = 0; i < count; i++)
        ct_pack_put(pack, &events[i]);
    return ct_pack_end(pack, first_seq, size);
}

struct ct_pack_net ct_pack_net(const struct ct_pack *pack) {
    const struct ctp_state *state = &pack->columns.state;
    return (struct ct_pack_net){state->depth, state->stack, state->used};
}

/* ---- links ---- */

size_t ct_pack_links(uint8_t *out, const struct ct_link *links, size_t count) {
    struct ctp_block header = {.type = CTP_LINKS, .count = (uint32_t)count};
    uint64_t lowest = UINT64_MAX, highest = 0, seq = 0, detail = 0;
    uint8_t pairs[CT_PACK_LINKS * 16], *p = pairs;
    for (size_t i = 0; i < count; i++) {
        lowest = links[i].index_seq < lowest ? links[i].index_seq : lowest;
        highest = links[i].index_seq > highest ? links[i].index_seq : highest;
        p = ct_varint_put(p, ct_zigzag(links[i].index_seq - seq));
        p = ct_varint_put(p, ct_zigzag((uint64_t)links[i].detail_seq - detail));
        seq = links[i].index_seq;
        detail = links[i].detail_seq;
    }
    header.first_seq = lowest;
    header.span = (uint32_t)(highest - lowest);
    memcpy(out, &header, sizeof header);
    p = put_column(out + sizeof header, pairs, (size_t)(p - pairs));
    return ct_pack_seal(out, (size_t)(p - out));
}
