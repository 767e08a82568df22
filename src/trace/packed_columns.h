/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a block that is being filled: what packed_block.c and the drain's own loop share.
 *
 * Most events of a thread are a call at the depth that is reached, or the return of the innermost open call of the
 * block. These take a byte or two of each column, which the drain writes itself (drain/drain_run.c): no event is put
 * into another form first. All others go through ct_pack_put. One owner: whoever has the packer. */
#ifndef CT_TRACE_PACKED_COLUMNS_H
#define CT_TRACE_PACKED_COLUMNS_H

#include "abi/packed.h"
#include "trace/packed_block.h"
#include "trace/packed_state.h"

#define CT_PACK_CODES 1024u /* functions that are found by key */
#define CT_PACK_RUN   16u   /* fewer events are not worth a table of these */

/* A function of the block, by a key of the caller's (ct_pack_note). */
struct ct_pack_code {
    uint64_t function;
    uint32_t key;
    uint32_t bytes; /* in the column of shapes, the first one lowest; bit 16: there are two */
};

/* A block on its way through pack_pool.c, and out of it. */
struct ct_pack_job {
    struct ct_pack *next;
    uint64_t first_seq;
    const uint8_t *block;
    size_t size;
    bool done;
};

struct ct_pack_columns {
    uint8_t *shape, *time; /* where the next event goes */
    uint64_t first_ns, last_ns;
    struct ctp_state state;
    /* For the caller: what it expects as the end of each open call of the block, from 1 on. 0: ct_pack_put took the
     * call, or another one in its place. */
    uint64_t *expected;
    uint32_t count; /* events so far */
    uint32_t tid;
    uint32_t first_depth; /* frames open before the first event */
    bool after_call;
    bool has_codes;   /* codes[] is of this block; see ct_pack_use_codes */
    bool plain_times; /* set it before ct_pack_end: times are not compressed, which takes most of its time */
    bool stiff_times; /* after ct_pack_end: compressing them was in vain */
    struct ct_pack_job job;
    struct ct_pack_code codes[CT_PACK_CODES];
};

struct ct_pack_columns *ct_pack_columns(struct ct_pack *pack);
/* Gives a function the code that it has in this block, under `key`. */
const struct ct_pack_code *ct_pack_note(struct ct_pack *pack, uint32_t key, uint64_t function);

/* Call this before codes are looked at, when `count` events are to come. False: these are too few. */
bool ct_pack_use_codes(struct ct_pack *pack, size_t count);

static inline struct ct_pack_code *ct_pack_code_at(struct ct_pack_columns *columns, uint32_t key) {
    return &columns->codes[key % CT_PACK_CODES];
}

/* Differences from here on take more than two bytes. */
#define CT_PACK_LONG_TIME (CTP_TIME_SHORT + ((CTP_TIME_LONG - CTP_TIME_SHORT) << 8))

/* Writes up to nine bytes. */
static inline uint8_t *ct_pack_long_time(uint8_t *p, uint64_t delta) {
    delta -= CT_PACK_LONG_TIME;
    unsigned more = delta ? (63 - (unsigned)__builtin_clzll(delta)) / 8 : 0;
    *p++ = (uint8_t)(CTP_TIME_LONG + more);
    memcpy(p, &delta, sizeof delta);
    return p + more + 1;
}

/* Writes one byte or two without a branch: nobody can guess which. */
static inline uint8_t *ct_pack_time(uint8_t *p, uint64_t delta) {
    if (__builtin_expect(delta >= CT_PACK_LONG_TIME, 0))
        return ct_pack_long_time(p, delta);
    uint32_t over = (uint32_t)delta - CTP_TIME_SHORT, wide = delta >= CTP_TIME_SHORT;
    uint32_t first = wide ? CTP_TIME_SHORT + (over >> 8) : (uint32_t)delta;
    p[0] = (uint8_t)first;
    p[1] = (uint8_t)over;
    return p + 1 + wide;
}

#endif
