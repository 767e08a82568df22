/* SPDX-License-Identifier: Apache-2.0 */
/* ctf: Common Trace Format 1.8. The events as they are, one stream file for each thread, and a text that describes
 * them. Names of functions and modules are labels of enumerations, so that an event is 21 bytes long.
 *
 * The enumerators below (bytes) and `declarations` (text) describe one layout: change them together. */
#include "export/files.h"
#include "export/text.h"
#include "trace/timeline.h"
#include <contrail/contrail.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAGIC = 0xC1FC1FC1u, PACKET_EVENTS = 3000, EVENT_SIZE = 21, PROGRESS = 1 << 15 };
enum { ID_CALL, ID_RETURN, ID_EXCEPTION, ID_SIGNAL, ID_LOST, ID_OFF, ID_WAIT };
enum { HEADER_SIZE = 8 + 5 * 8 + 2 * 4, MAX_NAME = 255, MAX_LOST_EVENT = 17 + 256 };

/* Goes into the file as it is, but for `%s`. */
static const char declarations[] =
    "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n\n"
    "trace {\n"
    "    major = 1;\n"
    "    minor = 8;\n"
    "    byte_order = le;\n"
    "    packet.header := struct {\n"
    "        uint32_t magic;\n"
    "        uint32_t stream_id;\n"
    "    };\n"
    "};\n\n"
    "clock {\n"
    "    name = boottime;\n"
    "    description = \"CLOCK_BOOTTIME\";\n"
    "    freq = 1000000000;\n"
    "    offset = 0;\n"
    "};\n\n"
    "typealias integer { size = 64; align = 8; signed = false; map = clock.boottime.value; } := time_t;\n";

static const char stream_declaration[] = "\nstream {\n"
                                         "    id = 0;\n"
                                         "    packet.context := struct {\n"
                                         "        time_t timestamp_begin;\n"
                                         "        time_t timestamp_end;\n"
                                         "        uint64_t content_size;\n"
                                         "        uint64_t packet_size;\n"
                                         "        uint64_t events_discarded;\n"
                                         "        uint32_t pid;\n"
                                         "        uint32_t tid;\n"
                                         "        string thread_name;\n"
                                         "    };\n"
                                         "    event.header := struct {\n"
                                         "        uint8_t id;\n"
                                         "        time_t timestamp;\n"
                                         "    };\n"
                                         "};\n";

struct stream {
    struct ct_export *e;
    struct ct_out out;
    const struct ct_trace_thread *thread;
    uint8_t *packet; /* the packet that is being filled: header, then events */
    size_t header, used;
    uint64_t begin_ns, end_ns, discarded;
    struct ct_timeline timeline;
    struct ct_off_span off; /* the next wait, or time off the processor; to_ns 0: there are no more */
};

/* ---- packets ---- */

static void put_u32(uint8_t *to, uint32_t value) {
    memcpy(to, &value, sizeof value); /* little-endian, as the text says and as all our machines are */
}

static void put_u64(uint8_t *to, uint64_t value) {
    memcpy(to, &value, sizeof value);
}

static void finish_packet(struct stream *s) {
    uint8_t *p = s->packet;
    if (s->used == s->header)
        return;
    put_u32(p, MAGIC);
    put_u32(p + 4, 0);
    put_u64(p + 8, s->begin_ns);
    put_u64(p + 16, s->end_ns);
    put_u64(p + 24, s->used * 8);
    put_u64(p + 32, s->used * 8);
    put_u64(p + 40, s->discarded);
    put_u32(p + 48, (uint32_t)ct_trace_process_at(s->e->trace, s->thread->process)->pid);
    put_u32(p + 52, s->thread->tid);
    ct_out_bytes(&s->out, p, s->used);
    ct_export_write_failed(s->e, s->out.error);
    s->used = s->header;
}

/* Writes the head of an event and returns where its payload goes, at most `size` bytes. */
static uint8_t *new_event(struct stream *s, uint8_t id, uint64_t ns, size_t size) {
    if (s->used + 9 + size > s->header + (size_t)PACKET_EVENTS * EVENT_SIZE)
        finish_packet(s);
    if (s->used == s->header)
        s->begin_ns = ns;
    s->end_ns = ns;
    uint8_t *to = s->packet + s->used;
    to[0] = id;
    put_u64(to + 1, ns);
    s->used += 9;
    return to + 9;
}

static size_t put_string(uint8_t *to, const char *text) {
    size_t length = ct_text_clean((char *)to, MAX_NAME, text, false);
    to[length] = 0;
    return length + 1;
}

/* ---- events ---- */

/* Position of the function's module among those of the trace, from 1 on; 0: not known. The name's `mark` keeps it, plus
 * 1. */
static uint32_t module_of(struct ct_export *e, struct ct_name *name) {
    for (size_t i = 0; !name->mark && i < ct_trace_module_count(e->trace); i++) {
        const struct ct_trace_module *module = ct_trace_module_at(e->trace, i);
        if (module->process == name->key.process && module->id == name->key.function >> 32)
            name->mark = i + 2;
    }
    if (!name->mark)
        name->mark = 1;
    return (uint32_t)name->mark - 1;
}

static void put_event(struct stream *s, const struct ct_trace_event *event) {
    if (event->kind == CT_TRACE_EXCEPTION && event->function_id == 0) {
        new_event(s, ID_SIGNAL, event->timestamp_ns, 0);
        return;
    }
    struct ct_name *name = ct_names_get(&s->e->names, s->thread->process, event->function_id);
    if (!name) {
        ct_export_fail(s->e, CT_ERR_NO_MEMORY);
        return;
    }
    uint8_t id = event->kind == CT_TRACE_CALL ? ID_CALL : event->kind == CT_TRACE_RETURN ? ID_RETURN : ID_EXCEPTION;
    uint8_t *to = new_event(s, id, event->timestamp_ns, 12);
    put_u32(to, (uint32_t)name->number + 1);
    put_u32(to + 4, module_of(s->e, name));
    put_u32(to + 8, event->depth);
    s->used += 12;
}

/* Puts the gap into the next packet, so that readers see between which packets it is. */
static void put_gap(struct stream *s, const struct ct_gap *gap, uint64_t ns) {
    finish_packet(s);
    s->discarded += gap->lost;
    uint8_t *to = new_event(s, ID_LOST, ns, MAX_LOST_EVENT);
    put_u64(to, gap->lost);
    s->used += 8 + put_string(to + 8, gap->reason);
}

static bool is_in_time(const struct ct_export *e, uint64_t ns) {
    const struct ct_select *select = &e->options->select;
    return ns >= select->from_ns && (!select->to_ns || ns < select->to_ns);
}

/* ---- waits, and time off the processor ---- */

static void next_off(struct stream *s) {
    do
        if (!ct_timeline_next(&s->timeline, &s->off))
            s->off = (struct ct_off_span){0};
    while (s->off.to_ns && s->off.kind == CT_OFF_UNKNOWN);
}

static void put_off(struct stream *s, uint64_t duration_ns, uint64_t now_ns) {
    uint8_t *to;
    if (s->off.kind == CT_OFF_WAITED) {
        to = new_event(s, ID_WAIT, now_ns, 8 + MAX_NAME + 1);
        s->used += 8 + put_string(to + 8, s->off.reason);
    } else {
        to = new_event(s, ID_OFF, now_ns, 9);
        to[8] = (uint8_t)s->off.kind;
        s->used += 9;
    }
    put_u64(to, duration_ns);
}

/* Puts those that begin after `from_ns` and at `until_ns` or before it. The times are the kernel's: the last one before
 * an event may end a little after it. */
static void pass_off(struct stream *s, uint64_t from_ns, uint64_t until_ns, uint64_t end_ns) {
    for (; s->off.to_ns && s->off.from_ns <= until_ns && !s->e->status; next_off(s)) {
        uint64_t to_ns = s->off.to_ns < end_ns ? s->off.to_ns : end_ns;
        uint64_t now_ns = s->off.from_ns > s->end_ns ? s->off.from_ns : s->end_ns;
        if (s->off.from_ns >= from_ns && to_ns > s->off.from_ns && is_in_time(s->e, now_ns))
            put_off(s, to_ns - s->off.from_ns, now_ns);
    }
}

/* The last packet reaches to the end of the thread, or of the recording: calls may be open until then. */
static void last_until(struct stream *s, size_t thread) {
    const struct ct_thread_facts *facts = &s->e->facts.threads[thread];
    uint64_t to_ns = s->e->options->select.to_ns;
    if (facts->gap_count && facts->gaps[facts->gap_count - 1].at >= s->thread->first_sequence + s->thread->event_count)
        return;
    uint64_t end_ns = ct_facts_thread_end(&s->e->facts, s->e->trace, thread, s->end_ns, SIZE_MAX);
    pass_off(s, 0, end_ns, to_ns && to_ns < end_ns ? to_ns : end_ns);
    s->end_ns = to_ns && end_ns > to_ns ? s->end_ns : end_ns;
}

static void put_events(struct stream *s, struct ct_trace_cursor *cursor, size_t thread) {
    const struct ct_thread_facts *facts = &s->e->facts.threads[thread];
    struct ct_trace_event event;
    uint64_t since = 0, last_ns = 0, limit_ns = s->e->options->select.to_ns ? s->e->options->select.to_ns : UINT64_MAX;
    size_t gap = 0;
    while (!s->e->status && ct_trace_cursor_next(cursor, &event)) {
        if (event.timestamp_ns < last_ns) /* a damaged file; readers reject time that goes back */
            event.timestamp_ns = last_ns;
        pass_off(s, last_ns ? 0 : event.timestamp_ns, event.timestamp_ns, limit_ns);
        last_ns = event.timestamp_ns;
        for (; gap < facts->gap_count && facts->gaps[gap].at <= event.sequence; gap++)
            if (is_in_time(s->e, last_ns))
                put_gap(s, &facts->gaps[gap], last_ns);
        if (ct_export_wants(s->e, &event))
            put_event(s, &event);
        if (++since == PROGRESS) {
            ct_export_advance(s->e, since);
            since = 0;
        }
    }
    for (; gap < facts->gap_count && is_in_time(s->e, last_ns); gap++)
        put_gap(s, &facts->gaps[gap], last_ns ? last_ns : s->e->start_ns);
    last_until(s, thread);
    finish_packet(s);
    ct_export_advance(s->e, since);
}

static int put_stream(struct ct_export *e, size_t index, uint8_t *packet) {
    struct stream s = {.e = e, .thread = ct_trace_thread_at(e->trace, index), .packet = packet};
    struct ct_trace_cursor *cursor;
    if ((!s.thread->event_count && !e->facts.threads[index].gap_count) ||
        !ct_select_thread(&e->options->select, e->trace, index))
        return 0;
    int status = ct_timeline_open(&s.timeline, &e->facts, e->trace, index);
    if (!status)
        status = ct_trace_cursor_open_thread(&cursor, e->trace, index, 0);
    if (status) {
        ct_timeline_close(&s.timeline);
        return status;
    }
    next_off(&s);
    s.used = s.header = HEADER_SIZE + put_string(packet + HEADER_SIZE, s.thread->name);
    const char *directory = ct_trace_process_at(e->trace, s.thread->process)->directory;
    const char *slash = strrchr(directory, '/');
    if (ct_export_create(e, &s.out, "%s_thread_%u", slash ? slash + 1 : directory, s.thread->id))
        put_events(&s, cursor, index);
    ct_export_close(e, &s.out);
    ct_trace_cursor_close(cursor);
    ct_timeline_close(&s.timeline);
    return e->status;
}

/* ---- metadata ---- */

static void put_literal(struct ct_out *out, const char *text) {
    ct_out_text(out, "\"");
    ct_text_put(out, text, "\"\\");
    ct_out_text(out, "\"");
}

static void put_label(struct ct_out *out, const char *name, uint64_t value) {
    ct_out_text(out, ",\n    ");
    put_literal(out, name);
    ct_out_text(out, " = ");
    ct_out_number(out, value);
}

static void put_enumerations(struct ct_export *e, struct ct_out *out) {
    ct_out_text(out, "\ntypealias enum : uint32_t {\n    \"unknown\" = 0");
    for (size_t i = 0; i < e->names.count; i++)
        put_label(out, e->names.list[i]->name, i + 1);
    ct_out_text(out, "\n} := function_t;\n\ntypealias enum : uint32_t {\n    \"unknown\" = 0");
    for (size_t i = 0; i < ct_trace_module_count(e->trace); i++)
        put_label(out, ct_trace_module_at(e->trace, i)->path, i + 1);
    ct_out_text(out, "\n} := module_t;\n");
}

static void put_event_class(struct ct_out *out, const char *name, unsigned id, const char *fields) {
    ct_out_format(
        out, "\nevent {\n    name = \"%s\";\n    id = %u;\n    stream_id = 0;\n    fields := struct {\n%s    };\n};\n",
        name, id, fields);
}

static void put_environment(struct ct_export *e, struct ct_out *out) {
    ct_out_text(out, "\nenv {\n    tracer_name = \"contrail\";\n    tracer_version = ");
    put_literal(out, ct_version());
    if (e->result->processes) {
        ct_out_text(out, ";\n    hostname = ");
        put_literal(out, ct_export_manifest_text(e, 0, "host", ""));
        ct_out_text(out, ";\n    command_line = ");
        put_literal(out, ct_export_manifest_text(e, 0, "command_line", ""));
    }
    ct_out_text(out, ";\n};\n");
}

static void put_metadata(struct ct_export *e) {
    static const char call[] = "        function_t function;\n        module_t module;\n        uint32_t depth;\n";
    struct ct_out out;
    if (ct_export_create(e, &out, "metadata")) {
        ct_out_text(&out, "/* CTF 1.8 */\n\n");
        ct_out_text(&out, declarations);
        put_environment(e, &out);
        put_enumerations(e, &out);
        ct_out_text(&out, stream_declaration);
        put_event_class(&out, "call", ID_CALL, call);
        put_event_class(&out, "return", ID_RETURN, call);
        put_event_class(&out, "exception", ID_EXCEPTION, call);
        put_event_class(&out, "signal", ID_SIGNAL, "");
        put_event_class(
            &out, "off_cpu", ID_OFF,
            "        uint64_t duration;\n        enum : uint8_t { \"blocked\" = 0, \"preempted\" = 1 } kind;\n");
        put_event_class(&out, "recorder_wait", ID_WAIT, "        uint64_t duration;\n        string reason;\n");
        put_event_class(&out, "events_lost", ID_LOST, "        uint64_t count;\n        string reason;\n");
    }
    ct_export_close(e, &out);
}

int ct_export_ctf(struct ct_export *e) {
    uint8_t *packet = malloc(HEADER_SIZE + MAX_NAME + 1 + (size_t)PACKET_EVENTS * EVENT_SIZE + MAX_LOST_EVENT);
    int status = packet ? 0 : CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < ct_trace_thread_count(e->trace) && !status; i++)
        status = put_stream(e, i, packet);
    free(packet);
    if (!status)
        put_metadata(e);
    return status ? status : e->status;
}
