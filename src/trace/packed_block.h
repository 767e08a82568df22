/* SPDX-License-Identifier: Apache-2.0 */
/* One block of a packed index: bytes to bytes (abi/packed.h). No files here. */
#ifndef CT_TRACE_PACKED_BLOCK_H
#define CT_TRACE_PACKED_BLOCK_H

#include "abi/atf.h"
#include "abi/packed.h"
#include <stdbool.h>

#define CT_PACK_EVENTS 8192u /* limit for writing; larger blocks are read too */

/* ---- integers of variable length: seven bits a byte, the lowest first ---- */

static inline uint8_t *ct_varint_put(uint8_t *p, uint64_t value) {
    for (; value > 127; value >>= 7)
        *p++ = (uint8_t)(value | 128);
    *p++ = (uint8_t)value;
    return p;
}
/* Advances *p. False: the number does not end before `end`. */
bool ct_varint_get(const uint8_t **p, const uint8_t *end, uint64_t *value);
/* Small numbers of either sign become small unsigned ones. */
static inline uint64_t ct_zigzag(uint64_t value) {
    return value << 1 ^ (0 - (value >> 63));
}
static inline uint64_t ct_unzigzag(uint64_t value) {
    return value >> 1 ^ (0 - (value & 1));
}

/* ---- packing ---- */

/* Calls that are open where a run of events ends, as changes to those that were open where it began. */
struct ct_pack_net {
    uint32_t depth;        /* open calls at the end */
    const uint64_t *calls; /* functions of the innermost `call_count` of them; the others were open at the beginning */
    size_t call_count;
};

/* Working memory; one user at a time. */
struct ct_pack;
/* Borrows from a pool of the process: any thread. NULL: no memory. */
struct ct_pack *ct_pack_take(void);
void ct_pack_give(struct ct_pack *pack);

/* A block: begins, takes up to CT_PACK_EVENTS events, ends. Its *size bytes are valid until the packer's next use.
 * Links (detail_seq of the events) are not part of it. packed_columns.h has a faster way for most events. */
void ct_pack_begin(struct ct_pack *pack, uint32_t tid);
void ct_pack_put(struct ct_pack *pack, const struct atf_index_event *event);
const uint8_t *ct_pack_end(struct ct_pack *pack, uint64_t first_seq, size_t *size);
/* All of these at once. */
const uint8_t *ct_pack_events(struct ct_pack *pack, const struct atf_index_event *events, size_t count,
                              uint64_t first_seq, uint32_t tid, size_t *size);
/* The net effect of the last run of events. */
struct ct_pack_net ct_pack_net(const struct ct_pack *pack);

struct ct_link {
    uint64_t index_seq;
    uint32_t detail_seq;
};
/* Most links in one block. */
#define CT_PACK_LINKS 1024u
/* Writes a block of up to CT_PACK_LINKS links to `out` and returns its size. The links must lie within 2^32
 * positions. */
size_t ct_pack_links(uint8_t *out, const struct ct_link *links, size_t count);
#define CT_PACK_LINKS_BYTES (sizeof(struct ctp_block) + CT_PACK_LINKS * 16 + 32)

/* Completes a block that has its payload and the header's own fields: adds size, padding, checksums. Returns the
 * size. */
size_t ct_pack_seal(uint8_t *block, size_t size);

/* ---- unpacking ---- */

/* True when this is the header of a block that fits into `room` bytes. */
bool ct_block_plausible(const struct ctp_block *header, uint64_t room);
/* Checks the sums of a block. Its header is plausible and all its bytes are there. */
bool ct_block_intact(const uint8_t *block);

/* Unpacks the events of a block, as many at a time as requested. Zero before the first use. */
struct ct_unpack {
    uint8_t *memory; /* columns */
    size_t memory_size;
    uint64_t *stack;
    size_t stack_room, used;
    const uint8_t *shape, *shape_end, *time, *time_end, *odd, *odd_end;
    const uint64_t *ids;
    size_t id_count;
    uint64_t last_ns;
    uint32_t depth, tid;
    uint64_t next_seq; /* of the next event */
    uint32_t left;     /* events */
};
/* The block must be intact. Returns 0, ENOMEM, or EBADMSG: its contents are impossible. */
int ct_unpack_begin(struct ct_unpack *unpack, const uint8_t *block, uint32_t tid);
/* Returns less than requested only at the end. EBADMSG at impossible events: the first *done are good. */
int ct_unpack_events(struct ct_unpack *unpack, struct atf_index_event *events, size_t count, size_t *done);
void ct_unpack_free(struct ct_unpack *unpack);

/* Calls `each` for every link of an intact block. EBADMSG: its contents are impossible; ENOMEM. */
int ct_unpack_links(const uint8_t *block, void (*each)(void *arg, const struct ct_link *link), void *arg);

#endif
