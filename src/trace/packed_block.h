/* One block of a packed index: bytes to bytes (abi/packed.h). No files here. */
#ifndef CT_TRACE_PACKED_BLOCK_H
#define CT_TRACE_PACKED_BLOCK_H

#include "abi/atf.h"
#include "abi/packed.h"
#include <stdbool.h>

#define CT_PACK_EVENTS 8192u /* what is packed into one block at most; larger ones are read too */

/* ---- varying lengths: seven bits a byte, the lowest first ---- */

static inline uint8_t *ct_varint_put(uint8_t *p, uint64_t value) {
    for (; value > 127; value >>= 7)
        *p++ = (uint8_t)(value | 128);
    *p++ = (uint8_t)value;
    return p;
}
/* Advances *p; false: it does not end before `end`. */
bool ct_varint_get(const uint8_t **p, const uint8_t *end, uint64_t *value);
/* Small numbers of either sign become small ones. */
static inline uint64_t ct_zigzag(uint64_t value) {
    return value << 1 ^ (0 - (value >> 63));
}
static inline uint64_t ct_unzigzag(uint64_t value) {
    return value >> 1 ^ (0 - (value & 1));
}

/* ---- packing ---- */

/* What is open where a run of events ends, as changes to what was open where it began. */
struct ct_pack_net {
    uint32_t depth;        /* open at the end */
    const uint64_t *calls; /* functions of the innermost `call_count` of them; the others were open at the beginning */
    size_t call_count;
};

/* Working memory; one user at a time. */
struct ct_pack;
/* Lent from a pool of the process: any thread. NULL: no memory. */
struct ct_pack *ct_pack_take(void);
void ct_pack_give(struct ct_pack *pack);

/* A whole block of up to CT_PACK_EVENTS events, in the packer's memory until its next use; *size bytes. Links (detail_seq of
 * the events) are not in it. */
const uint8_t *ct_pack_events(struct ct_pack *pack, const struct atf_index_event *events, size_t count,
                              uint64_t first_seq, uint32_t tid, size_t *size);
/* Of the last run of events. */
struct ct_pack_net ct_pack_net(const struct ct_pack *pack);

struct ct_link {
    uint64_t index_seq;
    uint32_t detail_seq;
};
/* The most that one block takes. */
#define CT_PACK_LINKS 1024u
/* Writes a block of up to CT_PACK_LINKS links to `out` and returns its size. They must lie within 2^32 positions. */
size_t ct_pack_links(uint8_t *out, const struct ct_link *links, size_t count);
#define CT_PACK_LINKS_BYTES (sizeof(struct ctp_block) + CT_PACK_LINKS * 16 + 32)

/* Completes a block whose payload and whose header's own fields are there: size, padding, checksums. Returns the size. */
size_t ct_pack_seal(uint8_t *block, size_t size);

/* ---- unpacking ---- */

/* Is it the header of a block that fits into `room` bytes? */
bool ct_block_plausible(const struct ctp_block *header, uint64_t room);
/* The header is plausible and `size` bytes are there. */
bool ct_block_intact(const uint8_t *block);

/* The events of a block, as many at a time as asked for. Zero before the first use. */
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
/* The block is intact. Returns 0, ENOMEM, or EBADMSG: what it says makes no sense. */
int ct_unpack_begin(struct ct_unpack *unpack, const uint8_t *block, uint32_t tid);
/* Less than asked for only at the end; EBADMSG at events that make no sense: *done of them are good. */
int ct_unpack_events(struct ct_unpack *unpack, struct atf_index_event *events, size_t count, size_t *done);
void ct_unpack_free(struct ct_unpack *unpack);

/* Calls `each` for every link of an intact block. EBADMSG: it makes no sense, ENOMEM. */
int ct_unpack_links(const uint8_t *block, void (*each)(void *arg, const struct ct_link *link), void *arg);

#endif
