/* SPDX-License-Identifier: Apache-2.0 */
/* The packed index: the events of index.atf in a tenth of the bytes or less. Little-endian, packed, freestanding.
 * docs/TRACE-FORMAT.md explains it.
 *
 *   index.ctp = header (64), blocks (each a multiple of 8 bytes), footer (64)
 *
 * A block's bytes never depend on another block's. We read files that others wrote: nothing here may move. */
#ifndef CT_ABI_PACKED_H
#define CT_ABI_PACKED_H

#include <stddef.h>
#include <stdint.h>

#define CTP_MAGIC        "CTP1"
#define CTP_BLOCK_MAGIC  "CTPB"
#define CTP_FOOTER_MAGIC "1PTC"

enum { CTP_VERSION = 1 };

struct __attribute__((packed)) ctp_header {
    uint8_t magic[4];
    uint8_t endian, version, arch, os; /* as in struct atf_index_header */
    uint32_t flags;                    /* enum atf_flags */
    uint32_t thread_id;                /* as the kernel numbers it */
    uint8_t clock_type;                /* enum atf_clock */
    uint8_t reserved0[7];
    uint64_t first_seq; /* position in the thread of the first event of this file */
    uint8_t reserved1[28];
    uint32_t crc; /* of the bytes before it */
};

enum ctp_block_type {
    CTP_EVENTS = 1,
    CTP_LINKS = 2, /* detail_seq of events, wherever in the thread they are */
    CTP_TABLE = 3, /* where blocks are */
    /* first block of a segment: functions of the calls that are open at its beginning, outermost first */
    CTP_STACK = 4,
};

struct __attribute__((packed)) ctp_block {
    uint8_t magic[4];
    uint32_t header_crc; /* of the bytes after this field, up to the payload */
    uint32_t size;       /* of the whole block, a multiple of 8 */
    uint32_t payload_crc;
    uint8_t type; /* enum ctp_block_type */
    uint8_t reserved[3];
    uint32_t count;     /* number of events, links, entries or functions */
    uint64_t first_seq; /* events, links: lowest position; stack: the position where it is valid */
    uint64_t time_first_ns;
    uint64_t time_last_ns; /* of the first and last event */
    uint32_t depth;        /* events, stack: frames open before the first event */
    uint32_t span;         /* events, links: highest position - first_seq */
};

#define CTP_BLOCK_EVENTS 65536u      /* in one block, at most */
#define CTP_BLOCK_BYTES  (16u << 20) /* for one block, at most */

/* ---- columns of a block of events ---- */

/* One byte for each event, more where a function has a code that takes two:
 *   RETURN  of the innermost open call of this block
 *   ODD     everything else: its fields are in the column of odd events
 *   LEFT    no event: the innermost open call has ended without one (its function is entry-only)
 *   CALL    + code: call of the function with that code, at the depth that is reached
 *   LONG    + code >> 8, then a byte: a call too, for codes from CTP_CALL_CODES on */
enum { CTP_RETURN = 0, CTP_ODD = 1, CTP_LEFT = 2, CTP_CALL = 3, CTP_LONG = 224 };
#define CTP_CALL_CODES (CTP_LONG - CTP_CALL)
#define CTP_CODES      (CTP_CALL_CODES + (256u - CTP_LONG) * 256u)

/* Time since the previous event: one byte if below SHORT; two if below SHORT + (LONG - SHORT) * 256; else a byte LONG +
 * n and n + 1 bytes. What the shorter forms can express is subtracted. */
enum { CTP_TIME_SHORT = 192, CTP_TIME_LONG = 248 };

/* ---- the end ---- */

/* An entry of the table: where a block is. */
struct __attribute__((packed)) ctp_entry {
    uint64_t offset;
    uint64_t first_seq;
    uint64_t time_first_ns;
    uint32_t count;
    uint16_t type;
    uint16_t reserved;
    uint32_t span;
    uint32_t size;
};

/* The payload of a CTP_TABLE block: this, then entries in the order of the file. */
struct __attribute__((packed)) ctp_table {
    uint64_t previous; /* offset of the previous table; 0: none */
};

struct __attribute__((packed)) ctp_footer {
    uint8_t magic[4];
    uint32_t crc; /* of the bytes after this field */
    uint64_t table_offset;
    uint64_t event_count;
    uint64_t time_start_ns, time_end_ns;
    uint64_t block_count; /* entries in all tables */
    uint64_t link_count;
    uint8_t reserved[8];
};

#define CTP_AT(type, field, at)                                                                                        \
    _Static_assert(offsetof(struct type, field) == (at), #type "." #field " is at byte " #at)
#define CTP_SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type " has " #size " bytes")

CTP_AT(ctp_header, endian, 4);
CTP_AT(ctp_header, flags, 8);
CTP_AT(ctp_header, thread_id, 12);
CTP_AT(ctp_header, clock_type, 16);
CTP_AT(ctp_header, first_seq, 24);
CTP_AT(ctp_header, crc, 60);
CTP_SIZE(ctp_header, 64);

CTP_AT(ctp_block, header_crc, 4);
CTP_AT(ctp_block, size, 8);
CTP_AT(ctp_block, payload_crc, 12);
CTP_AT(ctp_block, type, 16);
CTP_AT(ctp_block, count, 20);
CTP_AT(ctp_block, first_seq, 24);
CTP_AT(ctp_block, time_first_ns, 32);
CTP_AT(ctp_block, time_last_ns, 40);
CTP_AT(ctp_block, depth, 48);
CTP_AT(ctp_block, span, 52);
CTP_SIZE(ctp_block, 56);

CTP_AT(ctp_entry, first_seq, 8);
CTP_AT(ctp_entry, time_first_ns, 16);
CTP_AT(ctp_entry, count, 24);
CTP_AT(ctp_entry, type, 28);
CTP_AT(ctp_entry, span, 32);
CTP_AT(ctp_entry, size, 36);
CTP_SIZE(ctp_entry, 40);
CTP_SIZE(ctp_table, 8);

CTP_AT(ctp_footer, table_offset, 8);
CTP_AT(ctp_footer, event_count, 16);
CTP_AT(ctp_footer, time_start_ns, 24);
CTP_AT(ctp_footer, time_end_ns, 32);
CTP_AT(ctp_footer, block_count, 40);
CTP_AT(ctp_footer, link_count, 48);
CTP_SIZE(ctp_footer, 64);

#undef CTP_AT
#undef CTP_SIZE

#endif
