/* SPDX-License-Identifier: Apache-2.0 */
/* Reading traces. A trace is a session directory (all its processes) or one pid_N directory in it.
 *
 * Files that end anywhere (the recorder was killed, the disk was full) are readable up to there. Everything is
 * streamed: memory does not grow with the number of events. A trace is used from one thread at a time, with one
 * exception: cursors over single threads may be opened, read and closed in parallel when each is over another thread.
 * Structs begin with their size: the rule is in contrail/contrail.h. Those that are lent live as long as the trace. */
#ifndef CONTRAIL_TRACE_H
#define CONTRAIL_TRACE_H

#include <contrail/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct ct_trace;

/* `path` NULL: the newest session in ./traces. After a failure `error` (may be NULL) has a sentence with the remedy. */
int ct_trace_open(struct ct_trace **out, const char *path, char *error, size_t error_size);
void ct_trace_close(struct ct_trace *trace);
const char *ct_trace_path(const struct ct_trace *trace);

/* ---- what it holds ---- */

struct ct_trace_process {
    size_t size;
    int pid;
    const char *directory;
    const char *manifest; /* the JSON text */
    bool complete;        /* the recorder finished it */
    bool recording_known; /* false, of older versions: the recording's times are those of the first and last event */
    uint64_t time_start_ns, time_end_ns; /* of the first and the last event */
    uint64_t module_count, thread_count;
    /* From when until when it was recorded, whether or not there were events. Of a trace that is not complete, the end
     * is at most about a second too early. */
    uint64_t recording_start_ns, recording_end_ns;
};
size_t ct_trace_process_count(const struct ct_trace *trace);
const struct ct_trace_process *ct_trace_process_at(const struct ct_trace *trace, size_t index);

struct ct_trace_thread {
    size_t size;
    size_t process;   /* index */
    uint32_t id, tid; /* N of thread_N; the kernel's number */
    bool cut;         /* its file ends without a footer, or inside an event */
    bool has_detail;  /* there is a detail file */
    const char *name;
    uint64_t event_count;    /* that can be read */
    uint64_t first_sequence; /* of the first of them: older ones were deleted (--keep) */
    uint64_t lost;           /* events, for any reason */
};
size_t ct_trace_thread_count(const struct ct_trace *trace);
const struct ct_trace_thread *ct_trace_thread_at(const struct ct_trace *trace, size_t index);

struct ct_trace_module {
    size_t size;
    size_t process; /* index */
    uint32_t id;
    const char *path, *build_id;
    uint64_t base;
    uint64_t functions, hooked, entry_only;
};
size_t ct_trace_module_count(const struct ct_trace *trace);
const struct ct_trace_module *ct_trace_module_at(const struct ct_trace *trace, size_t index);

struct ct_trace_function {
    size_t size;
    uint64_t id; /* module_id << 32 | symbol_index */
    uint64_t offset, length;
    const char *name;   /* demangled; "module+0xoffset" when nameless: never NULL or empty */
    const char *module; /* file name of the module */
    const char *skip;   /* why it is not hooked, "" when it is */
    bool entry_only;
    const char *entry_only_reason; /* "" when it is not */
    const char *linkage_name;      /* as in the binary, mangled; "" when nameless */
    const char *line;              /* "file:line" of its beginning, "" when not known (`contrail symbolize`) */
    const char *inlines;           /* functions that were inlined into it, mangled, separated by tabs; "" */
};
/* NULL: the process has no such function. */
const struct ct_trace_function *ct_trace_function(const struct ct_trace *trace, size_t process, uint64_t id);
/* From now on names of functions are their linkage names. Call this before the first function is looked up. */
void ct_trace_keep_mangled(struct ct_trace *trace);

/* Functions of the calls that are open where the events of a thread begin because older ones were deleted (--keep):
 * outermost first, 0 where not known; free *functions. None: nothing was deleted, or the files are raw and do not
 * know. */
int ct_trace_open_calls(struct ct_trace *trace, size_t thread, uint64_t **functions, size_t *count);

/* ---- events ---- */

enum ct_trace_kind { CT_TRACE_CALL = 1, CT_TRACE_RETURN = 2, CT_TRACE_EXCEPTION = 3 };
#define CT_TRACE_NO_DETAIL UINT32_MAX

struct ct_trace_event {
    uint64_t timestamp_ns; /* CLOCK_BOOTTIME */
    uint64_t function_id;
    size_t thread;     /* index */
    uint64_t sequence; /* position in its thread */
    enum ct_trace_kind kind;
    uint32_t depth;  /* frames that are open below this one */
    uint32_t detail; /* number of its detail record, or CT_TRACE_NO_DETAIL */
};

struct ct_trace_cursor;
/* Over all threads, merged by time (ties: thread, then sequence), or over one. From `start_ns` on (0: everything). */
int ct_trace_cursor_open(struct ct_trace_cursor **out, struct ct_trace *trace, uint64_t start_ns);
int ct_trace_cursor_open_thread(struct ct_trace_cursor **out, struct ct_trace *trace, size_t thread, uint64_t start_ns);
/* False at the end. */
bool ct_trace_cursor_next(struct ct_trace_cursor *cursor, struct ct_trace_event *event);
void ct_trace_cursor_close(struct ct_trace_cursor *cursor);

/* ---- detail: what an event was called with ---- */

enum ct_trace_detail_type { CT_TRACE_DETAIL_CALL = 3, CT_TRACE_DETAIL_RETURN = 4, CT_TRACE_DETAIL_SIGNAL = 5 };
#define CT_TRACE_NO_INDEX UINT32_MAX

struct ct_trace_detail {
    size_t size;
    enum ct_trace_detail_type type; /* later versions add some: skip those that you do not know */
    uint32_t index_seq; /* position of its event in its thread (the low 32 bits), or CT_TRACE_NO_INDEX: that was lost */
    uint64_t timestamp_ns;
    uint8_t arch; /* whose registers they are, as in the header of the file: 1 x86_64, 2 arm64 */

    /* call and return */
    uint64_t function_id;
    /* x86_64: rdi rsi rdx rcx r8 r9 rax r10, of a return rax rdx. arm64: x0 to x7, of a return x0 x1. */
    uint64_t registers[8];
    uint64_t return_address; /* where it was called from */
    uint64_t frame_pointer, stack_pointer;
    bool has_vectors;       /* `vectors` is filled */
    uint16_t stack_size;    /* bytes of `stack` that are filled */
    uint8_t stack[512];     /* from stack_pointer upward: on x86_64 a call's begins with the return address */
    uint8_t vectors[8][16]; /* xmm0 to xmm7; v0 to v7. Of a return only the first two. */

    /* signal */
    uint32_t signal;
    int32_t code; /* si_code */
    uint64_t fault_address;
    unsigned cpu_count; /* registers of `cpu` that are filled: 18 on x86_64, 34 on arm64 */
    /* x86_64: rax rcx rdx rbx rsp rbp rsi rdi r8 to r15, rip, rflags. arm64: x0 to x30, sp, pc, pstate. */
    uint64_t cpu[40];

    /* return */
    /* errno of the thread when the function was called (at most 4,095), and when it returned; CT_TRACE_NO_ERRNO: not
     * known. Where both are the same it may have been set long before. */
    uint32_t errno_before, errno_after;

    /* call: what arguments point to */
    unsigned piece_count;
    struct {
        uint64_t address;
        uint16_t size, offset; /* its bytes are at this offset in piece_bytes; a whole text has its 0 */
    } pieces[8];
    uint8_t piece_bytes[2048];

    /* The low 8 bytes of vector registers that pass floating-point numbers, where has_vectors is false: of a call xmm0
     * to xmm7, of a return xmm0 and xmm1. 0: they were not captured. */
    unsigned real_count;
    uint64_t reals[8];
};
#define CT_TRACE_NO_ERRNO UINT32_MAX
/* The detail record that ct_trace_event.detail names. The first call for a thread reads through its file; the others
 * are equally fast for every record. CT_ERR_NOT_FOUND: there is no such record, or the file ends before it;
 * CT_ERR_BAD_FILE: it is damaged. May be called in parallel for different threads. */
int ct_trace_detail(struct ct_trace *trace, size_t thread, uint32_t detail_seq, struct ct_trace_detail *out);
/* Records *first up to *end - 1 can be read; both 0: there are none. */
int ct_trace_detail_range(struct ct_trace *trace, size_t thread, uint64_t *first, uint64_t *end);

/* ---- checking ---- */

/* What is missing or cannot be read, as far as headers, tables, sizes and the manifest say: files that are cut, damaged
 * or of a newer version, events that the manifest counts and no file has, a disk that was full. Reads no events. Calls
 * `report` (which may be NULL) with one sentence for each; returns their number. */
size_t ct_trace_damage(struct ct_trace *trace, void (*report)(void *arg, const char *sentence), void *arg);
/* Blocks of events whose checksum was wrong so far, when they were read; their events are missing in what was read. */
uint64_t ct_trace_unreadable_blocks(const struct ct_trace *trace);

/* Checks structure, checksums, time that never goes back, balanced depth, and counts against the manifest. Calls
 * `complain` with one sentence for each problem. Returns 0 when there was none, else CT_ERR_BAD_FILE. Gaps that the
 * manifest reports are no problem. */
int ct_trace_verify(struct ct_trace *trace, void (*complain)(void *arg, const char *sentence), void *arg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
