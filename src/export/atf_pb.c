/* SPDX-License-Identifier: Apache-2.0 */
/* atf-pb: every event as a protobuf message of proto/atf.proto, after its length. All threads are merged by time. */
#include "abi/atf.h"
#include "export/export_internal.h"
#include "export/proto.h"
#include "isa/machine.h"
#include "trace/signal_text.h"
#include "trace/timeline.h"
#include <stdlib.h>

/* Field numbers of proto/atf.proto. */
enum {
    RECORD_PROCESS = 1,
    RECORD_MODULE,
    RECORD_THREAD,
    RECORD_FUNCTION,
    RECORD_CALL,
    RECORD_RETURN,
    RECORD_EXCEPTION,
    RECORD_LOSS,
    RECORD_OFF
};
enum { PROGRESS = 1 << 15 };

static void put_record(struct ct_export *e, uint32_t kind, const struct ct_proto *message) {
    struct ct_proto record;
    record.used = 0;
    ct_proto_message(&record, kind, message);
    ct_proto_put(&e->out, 0, &record);
}

/* ---- processes, modules, threads, functions ---- */

static void put_process(struct ct_export *e, size_t i) {
    const struct ct_trace_process *process = ct_trace_process_at(e->trace, i);
    struct ct_proto p = {.used = 0};
    ct_proto_number(&p, 1, i);
    ct_proto_number(&p, 2, (uint32_t)process->pid);
    ct_proto_text(&p, 3, ct_export_manifest_text(e, i, "command_line", ""));
    ct_proto_text(&p, 4, ct_export_manifest_text(e, i, "host", ""));
    ct_proto_text(&p, 5, ct_export_manifest_text(e, i, "arch", ""));
    ct_proto_number(&p, 6, process->time_start_ns);
    ct_proto_number(&p, 7, process->time_end_ns);
    ct_proto_number(&p, 8, process->complete);
    ct_proto_number(&p, 9, process->recording_start_ns);
    ct_proto_number(&p, 10, process->recording_end_ns);
    put_record(e, RECORD_PROCESS, &p);
}

static void put_module(struct ct_export *e, size_t i) {
    const struct ct_trace_module *module = ct_trace_module_at(e->trace, i);
    struct ct_proto p = {.used = 0};
    ct_proto_number(&p, 1, module->process);
    ct_proto_number(&p, 2, module->id);
    ct_proto_text(&p, 3, module->path);
    ct_proto_text(&p, 4, module->build_id);
    ct_proto_number(&p, 5, module->base);
    put_record(e, RECORD_MODULE, &p);
}

static void put_thread(struct ct_export *e, size_t i) {
    const struct ct_trace_thread *thread = ct_trace_thread_at(e->trace, i);
    struct ct_proto p = {.used = 0};
    ct_proto_number(&p, 1, i);
    ct_proto_number(&p, 2, thread->process);
    ct_proto_number(&p, 3, thread->tid);
    ct_proto_text(&p, 4, thread->name);
    ct_proto_number(&p, 5, thread->event_count);
    ct_proto_number(&p, 6, thread->lost);
    put_record(e, RECORD_THREAD, &p);
}

static void put_off(struct ct_export *e, size_t thread, const struct ct_off_span *span) {
    struct ct_proto p = {.used = 0};
    ct_proto_number(&p, 1, span->from_ns);
    ct_proto_number(&p, 2, thread);
    ct_proto_number(&p, 3, span->to_ns);
    ct_proto_number(&p, 4, span->kind); /* enum ct_off_kind has the numbers of the message */
    if (*span->reason)
        ct_proto_text(&p, 5, span->reason);
    put_record(e, RECORD_OFF, &p);
}

static int put_offs(struct ct_export *e, size_t thread) {
    const struct ct_select *select = &e->options->select;
    const struct ct_trace_process *process =
        ct_trace_process_at(e->trace, ct_trace_thread_at(e->trace, thread)->process);
    uint64_t to_ns = ct_facts_thread_end(&e->facts, e->trace, thread, process->time_end_ns, SIZE_MAX);
    to_ns = select->to_ns && select->to_ns < to_ns ? select->to_ns : to_ns;
    struct ct_timeline timeline;
    struct ct_off_span span;
    int status = ct_timeline_open(&timeline, &e->facts, e->trace, thread);
    while (!status && !e->status && ct_timeline_next(&timeline, &span)) {
        span.from_ns = span.from_ns > select->from_ns ? span.from_ns : select->from_ns;
        span.to_ns = span.to_ns < to_ns ? span.to_ns : to_ns;
        if (span.from_ns && span.to_ns > span.from_ns)
            put_off(e, thread, &span);
    }
    if (!status)
        ct_timeline_close(&timeline);
    return status;
}

static void put_function(struct ct_export *e, const struct ct_name *name) {
    const struct ct_trace_function *f = ct_trace_function(e->trace, name->key.process, name->key.function);
    struct ct_proto p = {.used = 0};
    ct_proto_number(&p, 1, name->key.process);
    ct_proto_number(&p, 2, name->key.function);
    ct_proto_text(&p, 3, name->name);
    ct_proto_number(&p, 4, f ? f->offset : 0);
    ct_proto_number(&p, 5, name->entry_only);
    if (name->file) {
        ct_proto_text(&p, 6, name->file);
        ct_proto_number(&p, 7, name->line);
    }
    if (f)
        ct_proto_text(&p, 8, f->linkage_name);
    put_record(e, RECORD_FUNCTION, &p);
}

/* ---- events ---- */

static void put_gaps(struct ct_export *e, size_t thread, size_t *next, uint64_t sequence) {
    const struct ct_thread_facts *facts = &e->facts.threads[thread];
    for (; *next < facts->gap_count && facts->gaps[*next].at <= sequence; ++*next) {
        struct ct_proto p = {.used = 0};
        ct_proto_number(&p, 1, thread);
        ct_proto_number(&p, 2, facts->gaps[*next].lost);
        ct_proto_text(&p, 3, facts->gaps[*next].reason);
        put_record(e, RECORD_LOSS, &p);
    }
}

/* Writes straight into the output: there may be a billion of these. The lengths are below 128. */
static void put_event(struct ct_export *e, const struct ct_trace_event *event) {
    uint32_t kind = event->kind == CT_TRACE_CALL     ? RECORD_CALL
                    : event->kind == CT_TRACE_RETURN ? RECORD_RETURN
                                                     : RECORD_EXCEPTION;
    uint8_t *to = ct_out_room(&e->out, 64), *body = to + 3;
    size_t n = 0;
    body[n++] = 1 << 3;
    n += ct_proto_varint(body + n, event->timestamp_ns);
    body[n++] = 2 << 3;
    n += ct_proto_varint(body + n, event->thread);
    body[n++] = 3 << 3;
    n += ct_proto_varint(body + n, event->function_id);
    body[n++] = 4 << 3;
    n += ct_proto_varint(body + n, event->depth);
    to[0] = (uint8_t)(n + 2);
    to[1] = (uint8_t)(kind << 3 | 2);
    to[2] = (uint8_t)n;
    ct_out_took(&e->out, n + 3);
}

/* ---- events with a detail record ---- */

enum {
    DETAIL_REGISTERS = 1,
    DETAIL_RETURN_ADDRESS,
    DETAIL_STACK,
    DETAIL_VECTORS,
    DETAIL_ARGUMENT,
    DETAIL_RESULT,
    DETAIL_ARM_REGISTERS
};
enum { SIGNAL_REGISTERS = 4, SIGNAL_ARM_REGISTERS };
enum { VALUE_NAME = 1, VALUE_SIGNED, VALUE_UNSIGNED, VALUE_BOOL, VALUE_REAL, VALUE_POINTER, VALUE_TEXT, VALUE_SHOWN };
enum { EVENT_DETAIL = 5 };

static void add_value(struct ct_proto *p, uint32_t field, const struct ct_argument *a) {
    struct ct_proto value = {.used = 0};
    if (*a->name)
        ct_proto_text(&value, VALUE_NAME, a->name);
    switch (a->kind) {
    case CT_VALUE_UNKNOWN:
        break;
    case CT_VALUE_SIGNED:
        ct_proto_number(&value, VALUE_SIGNED, a->number);
        break;
    case CT_VALUE_UNSIGNED:
        ct_proto_number(&value, VALUE_UNSIGNED, a->number);
        break;
    case CT_VALUE_BOOL:
        ct_proto_number(&value, VALUE_BOOL, a->number != 0);
        break;
    case CT_VALUE_REAL:
        ct_proto_double(&value, VALUE_REAL, a->real);
        break;
    case CT_VALUE_POINTER:
        ct_proto_number(&value, VALUE_POINTER, a->number);
        break;
    case CT_VALUE_STRING:
        ct_proto_text(&value, VALUE_TEXT, a->string);
        break;
    default:
        ct_proto_text(&value, VALUE_SHOWN, a->text);
    }
    ct_proto_message(p, field, &value);
}

/* Fields of messages of registers are numbered as struct ct_machine lists them, from 1 on. */
static void add_register(struct ct_proto *registers, unsigned place, uint64_t value) {
    ct_proto_number(registers, place + 1, value);
}

static void add_call_registers(struct ct_proto *message, const struct ct_trace_detail *detail) {
    const struct ct_machine *machine = ct_machine_by_arch(detail->arch);
    bool call = detail->type == CT_TRACE_DETAIL_CALL;
    struct ct_proto registers = {.used = 0};
    if (!machine)
        return;
    for (size_t i = 0; i < (call ? sizeof machine->call : sizeof machine->result); i++)
        add_register(&registers, call ? machine->call[i] : machine->result[i], detail->registers[i]);
    add_register(&registers, machine->fp, detail->frame_pointer);
    add_register(&registers, machine->sp, detail->stack_pointer);
    ct_proto_message(message, machine->arch == ATF_ARCH_ARM64 ? DETAIL_ARM_REGISTERS : DETAIL_REGISTERS, &registers);
}

static void add_call(struct ct_export *e, struct ct_proto *p, const struct ct_trace_event *event,
                     const struct ct_trace_detail *detail) {
    bool call = detail->type == CT_TRACE_DETAIL_CALL;
    struct ct_proto message = {.used = 0};
    add_call_registers(&message, detail);
    ct_proto_number(&message, DETAIL_RETURN_ADDRESS, detail->return_address);
    ct_proto_bytes(&message, DETAIL_STACK, detail->stack, detail->stack_size);
    if (detail->has_vectors)
        ct_proto_bytes(&message, DETAIL_VECTORS, detail->vectors, sizeof detail->vectors);
    const struct ct_arguments *arguments = ct_export_arguments(e, event->thread, event->detail, &e->values);
    for (size_t i = 0; arguments && arguments->named && i < arguments->count; i++)
        add_value(&message, call ? DETAIL_ARGUMENT : DETAIL_RESULT, &arguments->at[i]);
    ct_proto_message(p, EVENT_DETAIL, &message);
}

static void add_signal(struct ct_proto *p, const struct ct_trace_detail *detail) {
    struct ct_proto message = {.used = 0}, registers = {.used = 0};
    ct_proto_number(&message, 1, detail->signal);
    ct_proto_number(&message, 2, (uint64_t)(int64_t)detail->code);
    ct_proto_number(&message, 3, detail->fault_address);
    for (unsigned i = 0; ct_cpu_register(detail, i); i++)
        add_register(&registers, i, detail->cpu[i]);
    ct_proto_message(&message, detail->arch == ATF_ARCH_ARM64 ? SIGNAL_ARM_REGISTERS : SIGNAL_REGISTERS, &registers);
    ct_proto_message(p, EVENT_DETAIL, &message);
}

/* False: there is no record that fits. */
static bool put_detailed(struct ct_export *e, const struct ct_trace_event *event) {
    struct ct_trace_detail detail = {.size = sizeof detail};
    struct ct_proto p = {.used = 0};
    bool is_signal = event->kind == CT_TRACE_EXCEPTION;
    if (ct_trace_detail(e->trace, event->thread, event->detail, &detail) != 0 ||
        detail.type != (is_signal                      ? CT_TRACE_DETAIL_SIGNAL
                        : event->kind == CT_TRACE_CALL ? CT_TRACE_DETAIL_CALL
                                                       : CT_TRACE_DETAIL_RETURN))
        return false;
    ct_proto_number(&p, 1, event->timestamp_ns);
    ct_proto_number(&p, 2, event->thread);
    ct_proto_number(&p, 3, event->function_id);
    ct_proto_number(&p, 4, event->depth);
    if (is_signal)
        add_signal(&p, &detail);
    else
        add_call(e, &p, event, &detail);
    put_record(e, is_signal ? RECORD_EXCEPTION : event->kind == CT_TRACE_CALL ? RECORD_CALL : RECORD_RETURN, &p);
    return true;
}

static void on_event(struct ct_export *e, const struct ct_trace_event *event, size_t *gaps) {
    if (!ct_select_thread(&e->options->select, e->trace, event->thread) || !ct_export_wants(e, event))
        return;
    if (gaps[event->thread] < e->facts.threads[event->thread].gap_count)
        put_gaps(e, event->thread, &gaps[event->thread], event->sequence);
    if (event->function_id) {
        size_t process = ct_trace_thread_at(e->trace, event->thread)->process;
        struct ct_name *name = ct_names_get(&e->names, process, event->function_id);
        if (!name) {
            ct_export_fail(e, CT_ERR_NO_MEMORY);
            return;
        }
        if (!name->mark)
            put_function(e, name);
        name->mark = 1;
    }
    if (event->detail == CT_TRACE_NO_DETAIL || !put_detailed(e, event))
        put_event(e, event);
}

static void put_events(struct ct_export *e, struct ct_trace_cursor *cursor, size_t *gaps) {
    struct ct_trace_event event;
    uint64_t since = 0;
    while (!e->status && ct_trace_cursor_next(cursor, &event)) {
        on_event(e, &event, gaps);
        if (++since == PROGRESS) {
            ct_export_advance(e, since);
            since = 0;
        }
    }
    ct_export_advance(e, since);
    for (size_t i = 0; i < ct_trace_thread_count(e->trace) && !e->status && !e->options->select.to_ns; i++)
        if (ct_select_thread(&e->options->select, e->trace, i))
            put_gaps(e, i, &gaps[i], UINT64_MAX);
}

int ct_export_atf_pb(struct ct_export *e) {
    struct ct_trace_cursor *cursor;
    size_t *gaps = calloc(ct_trace_thread_count(e->trace) + 1, sizeof *gaps);
    if (!gaps)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < e->result->processes; i++)
        if (ct_select_process(&e->options->select, e->trace, i))
            put_process(e, i);
    for (size_t i = 0; i < ct_trace_module_count(e->trace); i++)
        if (ct_select_process(&e->options->select, e->trace, ct_trace_module_at(e->trace, i)->process))
            put_module(e, i);
    int status = 0;
    for (size_t i = 0; i < ct_trace_thread_count(e->trace) && !status; i++)
        if (ct_select_thread(&e->options->select, e->trace, i)) {
            put_thread(e, i);
            status = put_offs(e, i);
        }
    if (!status)
        status = ct_trace_cursor_open(&cursor, e->trace, 0);
    if (!status) {
        put_events(e, cursor, gaps);
        ct_trace_cursor_close(cursor);
    }
    free(gaps);
    return status ? status : e->status;
}
