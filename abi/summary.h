/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a thread's events: thread_N/summary.cts. Little-endian, packed. docs/TRACE-FORMAT.md explains it.
 *
 *   summary.cts = header (128), spans, bitmaps, functions, calls, starts, frames
 *
 * It says nothing that the events do not say: it may be deleted at any time, and is made again when it does not fit. */
#ifndef CT_ABI_SUMMARY_H
#define CT_ABI_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#define CTS_FILE    "summary.cts"
#define CTS_MAGIC   "CTS1"
#define CTS_NOWHERE UINT64_MAX /* end of a call that is open at the end */

enum { CTS_VERSION = 1 };
enum { CTS_OFF = 3 }; /* kinds of time off the processor: blocked, preempted, not known */

enum cts_flags {
    CTS_UNORDERED = 1, /* time goes back somewhere: positions cannot be found by time */
};

struct __attribute__((packed)) cts_header {
    uint8_t magic[4];
    uint32_t crc; /* of all bytes after this field */
    uint32_t version;
    uint32_t flags;          /* enum cts_flags */
    uint64_t size;           /* of the file */
    uint64_t files;          /* what it was made from: a hash of the index files' sizes, headers, footers, tables */
    uint64_t facts;          /* a hash of gaps, and of which functions are entry-only */
    uint64_t first_seq;      /* position of the first event */
    uint64_t end_seq;        /* position after the last one */
    uint64_t event_count;    /* events that could be read */
    uint64_t time_first_ns;  /* of the first event */
    uint64_t time_last_ns;   /* of the last event */
    uint32_t span_count;     /* struct cts_span */
    uint32_t bitmap_size;    /* bytes of the bitmap of one span, a power of two */
    uint32_t call_count;     /* struct cts_call */
    uint32_t start_count;    /* struct cts_start */
    uint64_t frame_count;    /* struct cts_frame */
    uint32_t function_count; /* struct cts_function; 0: there are too many to list */
    uint8_t reserved[20];
};

/* Some blocks that follow each other. */
struct __attribute__((packed)) cts_span {
    uint64_t first_seq; /* position of the first event */
    uint64_t time_first_ns, time_last_ns;
    uint64_t longest_ns;       /* duration, without gaps, of the longest call that ends in it; 0: none ends */
    uint64_t longest_seq;      /* position of its end */
    uint64_t longest_function; /* its function */
    uint64_t busiest_function; /* the function with the most calls in it; 0: none is called */
    uint32_t busiest_calls;
    uint32_t count;     /* events */
    uint32_t calls;     /* calls, entry-only ones included */
    uint32_t ends;      /* calls that end in it, and whose beginning is known */
    uint32_t low, high; /* depths of its events, lowest and highest; of other stacks: the place in the stack */
    uint32_t lost;      /* calls that were open, and whose end was found to be lost in it */
    uint32_t signals;
};

/* A function with events in the thread, by function id. */
struct __attribute__((packed)) cts_function {
    uint64_t function;
    uint64_t calls;
};

enum cts_end { CTS_OPEN, CTS_RETURNED, CTS_LEFT, CTS_LOST };

/* A call that is open at a start. */
struct __attribute__((packed)) cts_call {
    uint64_t function;
    uint64_t start_ns, start_seq; /* its CALL event */
    uint64_t end_ns, end_seq;     /* the event that ended it, or CTS_NOWHERE */
    uint64_t skipped_ns;          /* time in gaps and waits before it began */
    uint64_t waited_ns;           /* of it: in waits for the recorder */
    uint64_t off_ns[CTS_OFF];     /* time off the processor before it began */
    uint32_t depth;               /* as in its event */
    uint32_t detail;              /* detail_seq of its event */
    uint32_t end;                 /* enum cts_end */
    uint32_t reserved;
};

enum cts_start_flags {
    CTS_MANY = 1,      /* other stacks than the first were seen */
    CTS_AFTER_GAP = 2, /* a gap was reported, and no event since */
};

/* A place where a reader may start: at the first event of a span. */
struct __attribute__((packed)) cts_start {
    uint64_t first_frame; /* the open calls, oldest first, are frames from here on */
    uint32_t frame_count;
    uint32_t span;
    uint64_t last_ns;    /* time of the event before; 0: there is none, or a gap was reported since */
    uint64_t skipped_ns; /* time in gaps and waits so far */
    uint64_t waited_ns;  /* of it: in waits for the recorder */
    uint64_t off_ns[CTS_OFF];
    uint32_t running; /* the running one of its frames, plus one; 0: none is known */
    uint32_t trusted; /* of the first stack's frames, this many from before the last gap come first */
    uint32_t flags;   /* enum cts_start_flags */
    uint32_t gaps;    /* gaps that were passed */
};

#define CTS_UNKNOWN UINT32_C(0x80000000)

struct __attribute__((packed)) cts_frame {
    uint64_t self_ns;         /* time in which it was the running one so far */
    uint64_t off_ns[CTS_OFF]; /* of it: off the processor */
    uint32_t call;            /* number of the call; with CTS_UNKNOWN: the number of frames whose calls were not seen */
    uint32_t caller;          /* which of the start's frames has called it, plus one; 0: not known, or it has ended */
};

#define CTS_SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type " has " #size " bytes")
CTS_SIZE(cts_header, 128);
CTS_SIZE(cts_span, 88);
CTS_SIZE(cts_function, 16);
CTS_SIZE(cts_call, 96);
CTS_SIZE(cts_start, 80);
CTS_SIZE(cts_frame, 40);
#undef CTS_SIZE

#endif
