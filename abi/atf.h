/* SPDX-License-Identifier: Apache-2.0 */
/* ATF v2: the raw trace format, byte for byte. Little-endian, packed, freestanding. docs/TRACE-FORMAT.md explains it.
 *
 *   index.atf  = header (64), events (32 each), footer (64)
 *   detail.atf = header (64), events (length-prefixed), footer (64)
 *
 * Other programs read these files: nothing here may move. */
#ifndef CT_ABI_ATF_H
#define CT_ABI_ATF_H

#include <stddef.h>
#include <stdint.h>

#define ATF_INDEX_MAGIC         "ATI2"
#define ATF_INDEX_FOOTER_MAGIC  "2ITA"
#define ATF_DETAIL_MAGIC        "ATD2"
#define ATF_DETAIL_FOOTER_MAGIC "2DTA"

enum atf_endian { ATF_LITTLE_ENDIAN = 1 };
enum { ATF_VERSION = 1 };
enum atf_arch { ATF_ARCH_X86_64 = 1, ATF_ARCH_ARM64 = 2 };
enum atf_os { ATF_OS_LINUX = 4 };
enum atf_clock { ATF_CLOCK_BOOTTIME = 3 };
enum atf_flags { ATF_HAS_DETAIL = 1u << 0 }; /* of the index header: there is a detail file */

enum atf_event_kind { ATF_CALL = 1, ATF_RETURN = 2, ATF_EXCEPTION = 3 };
#define ATF_NO_DETAIL UINT32_MAX

/* call_depth of calls on other stacks than the thread's first one (coroutines, handlers on a stack of their own) has
 * its highest bit set. Such depths come in groups. A stack has a group to itself as long as calls are open on it, and
 * gets another one when it is deeper than that. */
#define ATF_DEPTH_OTHER        0x80000000u
#define ATF_DEPTH_GROUP        4096u   /* depths in a group */
#define ATF_DEPTH_GROUPS       524287u /* how many groups there are */
#define ATF_DEPTH_OF_GROUP(n)  (ATF_DEPTH_OTHER + (uint32_t)(n)*ATF_DEPTH_GROUP)
#define ATF_DEPTH_PLACE(depth) ((depth) & (ATF_DEPTH_GROUP - 1)) /* in its group */
#define ATF_DEPTH_NONE         UINT32_MAX /* there were too many stacks: the depth is not known */

/* ---- index.atf ---- */

struct __attribute__((packed)) atf_index_header {
    uint8_t magic[4];
    uint8_t endian, version, arch, os;
    uint32_t flags;
    uint32_t thread_id; /* as the kernel numbers it */
    uint8_t clock_type;
    uint8_t reserved[7];
    uint32_t event_size;
    uint32_t event_count; /* this and the fields after it, except events_offset: 0 until the file is finished */
    uint64_t events_offset;
    uint64_t footer_offset;
    uint64_t time_start_ns;
    uint64_t time_end_ns;
};

struct __attribute__((packed)) atf_index_event {
    uint64_t timestamp_ns;
    uint64_t function_id; /* module_id << 32 | symbol_index */
    uint32_t thread_id;
    uint32_t event_kind; /* enum atf_event_kind */
    uint32_t call_depth;
    uint32_t detail_seq; /* ordinal of its detail event, or ATF_NO_DETAIL */
};

struct __attribute__((packed)) atf_index_footer {
    uint8_t magic[4];
    uint32_t crc32; /* IEEE 802.3, of all events */
    uint64_t event_count;
    uint64_t time_start_ns;
    uint64_t time_end_ns;
    uint64_t bytes_written; /* of events */
    uint8_t reserved[24];
};

/* ---- detail.atf ---- */

enum atf_detail_type { ATF_DETAIL_CALL = 3, ATF_DETAIL_RETURN = 4, ATF_DETAIL_SIGNAL = 5 };
/* VECTORS: 8 vector registers of 16 bytes follow the stack bytes. ERRNO, of a return: struct atf_detail_errno follows
 * these. STRINGS: texts that arguments point to follow everything else, as struct
 * atf_detail_piece. */
enum atf_detail_flags { ATF_DETAIL_VECTORS = 1u << 0, ATF_DETAIL_STRINGS = 1u << 1, ATF_DETAIL_ERRNO = 1u << 2 };
enum {
    ATF_DETAIL_STACK_MAX = 512,    /* stack bytes of a record */
    ATF_DETAIL_LENGTH_MAX = 16384, /* total_length of any record: a larger one is damage */
    /* of a signal record */
    ATF_DETAIL_SIGNAL_REGISTERS_X64 = 18, /* rax rcx rdx rbx rsp rbp rsi rdi r8 to r15, rip, rflags */
    ATF_DETAIL_SIGNAL_REGISTERS_A64 = 34, /* x0 to x30, sp, pc, pstate */
};
#define ATF_NO_INDEX UINT32_MAX /* index_seq of a record whose index event was lost */

struct __attribute__((packed)) atf_detail_header {
    uint8_t magic[4];
    uint8_t endian, version, arch, os;
    uint32_t flags;
    uint32_t thread_id;
    uint32_t detail_seq_start; /* of its first event: 0, except in detail_2.atf and so on */
    uint64_t events_offset;
    uint64_t event_count;     /* this and the fields after it: 0 until the file is finished */
    uint64_t bytes_length;    /* of events */
    uint64_t index_seq_start; /* of its first and last event that has one */
    uint64_t index_seq_end;
    uint8_t reserved1[4];
};

/* Every detail event begins with this. */
struct __attribute__((packed)) atf_detail_event {
    uint32_t total_length; /* this field included */
    uint16_t event_type;   /* enum atf_detail_type */
    uint16_t flags;        /* enum atf_detail_flags */
    uint32_t index_seq;    /* position of its event in index.atf (the low 32 bits), or ATF_NO_INDEX */
    uint32_t thread_id;
    uint64_t timestamp;
};

/* CALL and RETURN; stack_size bytes of stack follow. */
struct __attribute__((packed)) atf_detail_call {
    struct atf_detail_event event;
    uint64_t function_id;
    uint64_t registers[8];   /* x86_64: rdi rsi rdx rcx r8 r9 rax r10, on return rax and rdx lead; arm64: x0 to x7 */
    uint64_t return_address; /* arm64: lr */
    uint64_t frame_pointer;
    uint64_t stack_pointer;
    uint16_t stack_size;
    uint16_t reserved;
};

/* errno of the thread at the call and at the return. The first one is cut to 4,095, and UINT32_MAX where it is not
 * known. */
struct __attribute__((packed)) atf_detail_errno {
    uint32_t before, after;
};

/* Bytes that were at an address, with the 0 at the end of a text if it was reached. They follow, padded with zeros to a
 * multiple of 8; then the next piece. */
struct __attribute__((packed)) atf_detail_piece {
    uint64_t address; /* or ATF_PIECE_REALS */
    uint16_t size;    /* not 0 */
    uint16_t reserved[3];
};
/* Not memory, and at no address that a program can have: the low 8 bytes of each vector register that passes
 * floating-point numbers. x86_64: xmm0 to xmm7 of a call, xmm0 and xmm1 of a return. */
#define ATF_PIECE_REALS 0x9e3a15c4d2b86f01ull

/* SIGNAL; all general registers, the program counter and the flags follow, 8 bytes each. */
struct __attribute__((packed)) atf_detail_signal {
    struct atf_detail_event event;
    uint32_t signal;
    uint32_t code;
    uint64_t fault_address;
};

struct __attribute__((packed)) atf_detail_footer {
    uint8_t magic[4];
    uint32_t crc32; /* of all events */
    uint64_t event_count;
    uint64_t bytes_length;
    uint64_t time_start_ns;
    uint64_t time_end_ns;
    uint8_t reserved[24];
};

#define ATF_AT(type, field, at)                                                                                        \
    _Static_assert(offsetof(struct type, field) == (at), #type "." #field " is at byte " #at)
#define ATF_SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type " has " #size " bytes")

ATF_AT(atf_index_header, magic, 0);
ATF_AT(atf_index_header, endian, 4);
ATF_AT(atf_index_header, version, 5);
ATF_AT(atf_index_header, arch, 6);
ATF_AT(atf_index_header, os, 7);
ATF_AT(atf_index_header, flags, 8);
ATF_AT(atf_index_header, thread_id, 12);
ATF_AT(atf_index_header, clock_type, 16);
ATF_AT(atf_index_header, reserved, 17);
ATF_AT(atf_index_header, event_size, 24);
ATF_AT(atf_index_header, event_count, 28);
ATF_AT(atf_index_header, events_offset, 32);
ATF_AT(atf_index_header, footer_offset, 40);
ATF_AT(atf_index_header, time_start_ns, 48);
ATF_AT(atf_index_header, time_end_ns, 56);
ATF_SIZE(atf_index_header, 64);

ATF_AT(atf_index_event, timestamp_ns, 0);
ATF_AT(atf_index_event, function_id, 8);
ATF_AT(atf_index_event, thread_id, 16);
ATF_AT(atf_index_event, event_kind, 20);
ATF_AT(atf_index_event, call_depth, 24);
ATF_AT(atf_index_event, detail_seq, 28);
ATF_SIZE(atf_index_event, 32);

ATF_AT(atf_index_footer, magic, 0);
ATF_AT(atf_index_footer, crc32, 4);
ATF_AT(atf_index_footer, event_count, 8);
ATF_AT(atf_index_footer, time_start_ns, 16);
ATF_AT(atf_index_footer, time_end_ns, 24);
ATF_AT(atf_index_footer, bytes_written, 32);
ATF_AT(atf_index_footer, reserved, 40);
ATF_SIZE(atf_index_footer, 64);

ATF_AT(atf_detail_header, magic, 0);
ATF_AT(atf_detail_header, endian, 4);
ATF_AT(atf_detail_header, version, 5);
ATF_AT(atf_detail_header, arch, 6);
ATF_AT(atf_detail_header, os, 7);
ATF_AT(atf_detail_header, flags, 8);
ATF_AT(atf_detail_header, thread_id, 12);
ATF_AT(atf_detail_header, detail_seq_start, 16);
ATF_AT(atf_detail_header, events_offset, 20);
ATF_AT(atf_detail_header, event_count, 28);
ATF_AT(atf_detail_header, bytes_length, 36);
ATF_AT(atf_detail_header, index_seq_start, 44);
ATF_AT(atf_detail_header, index_seq_end, 52);
ATF_AT(atf_detail_header, reserved1, 60);
ATF_SIZE(atf_detail_header, 64);

ATF_AT(atf_detail_event, total_length, 0);
ATF_AT(atf_detail_event, event_type, 4);
ATF_AT(atf_detail_event, flags, 6);
ATF_AT(atf_detail_event, index_seq, 8);
ATF_AT(atf_detail_event, thread_id, 12);
ATF_AT(atf_detail_event, timestamp, 16);
ATF_SIZE(atf_detail_event, 24);

ATF_AT(atf_detail_call, function_id, 24);
ATF_AT(atf_detail_call, registers, 32);
ATF_AT(atf_detail_call, return_address, 96);
ATF_AT(atf_detail_call, frame_pointer, 104);
ATF_AT(atf_detail_call, stack_pointer, 112);
ATF_AT(atf_detail_call, stack_size, 120);
ATF_AT(atf_detail_call, reserved, 122);
ATF_SIZE(atf_detail_call, 124);

ATF_SIZE(atf_detail_errno, 8);
ATF_SIZE(atf_detail_piece, 16);

ATF_AT(atf_detail_signal, signal, 24);
ATF_AT(atf_detail_signal, code, 28);
ATF_AT(atf_detail_signal, fault_address, 32);
ATF_SIZE(atf_detail_signal, 40);

ATF_AT(atf_detail_footer, magic, 0);
ATF_AT(atf_detail_footer, crc32, 4);
ATF_AT(atf_detail_footer, event_count, 8);
ATF_AT(atf_detail_footer, bytes_length, 16);
ATF_AT(atf_detail_footer, time_start_ns, 24);
ATF_AT(atf_detail_footer, time_end_ns, 32);
ATF_AT(atf_detail_footer, reserved, 40);
ATF_SIZE(atf_detail_footer, 64);

#undef ATF_AT
#undef ATF_SIZE

#endif
