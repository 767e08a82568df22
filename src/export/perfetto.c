/* SPDX-License-Identifier: Apache-2.0 */
/* perfetto: a file of TracePackets.
 *
 * Every thread is a packet sequence of its own, with its own interned names, its own track, and a clock that counts
 * from the previous packet (so that a time takes a byte or two). The snapshot that ties this clock to BOOTTIME gives
 * the same moment in all sequences: the trace processor requires that BOOTTIME never goes back from one snapshot to the
 * next.
 *
 * The numbers are those of the public .proto files. */
#include "export/proto.h"
#include "export/walk.h"
#include "base/grow.h"
#include <stdio.h>
#include <stdlib.h>

/* Field numbers. */
enum { TRACE_PACKET = 1 };
enum {
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_CLOCK_ID = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK_DESCRIPTOR = 60,
};
enum { FLAG_STATE_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { DEFAULTS_TRACK_EVENT = 11, DEFAULTS_CLOCK_ID = 58, TRACK_EVENT_DEFAULTS_UUID = 11 };
enum { SNAPSHOT_CLOCKS = 1, SNAPSHOT_PRIMARY = 2, CLOCK_ID = 1, CLOCK_TIMESTAMP = 2, CLOCK_INCREMENTAL = 3 };
enum { BOOTTIME = 6, OUR_CLOCK = 64 /* the first that belongs to a sequence */ };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5 };
enum { PROCESS_PID = 1, PROCESS_CMDLINE = 2, PROCESS_NAME = 6, THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { EVENT_CATEGORY_IIDS = 3, EVENT_ANNOTATIONS = 4, EVENT_TYPE = 9, EVENT_NAME_IID = 10, EVENT_TRACK_UUID = 11 };
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3 };
enum { INTERNED_CATEGORIES = 1, INTERNED_NAMES = 2, INTERNED_ANNOTATIONS = 3, INTERNED_IID = 1, INTERNED_TEXT = 2 };
enum {
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_BOOL = 2,
    ANNOTATION_UINT = 3,
    ANNOTATION_INT = 4,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_TEXT = 6,
    ANNOTATION_POINTER = 7,
    ANNOTATION_NAME = 10
};

/* Interned at the beginning of each sequence: names of events (names of functions follow them) and of annotations. */
enum { NAME_LOST = 1, NAME_SIGNAL, NAME_BLOCKED, NAME_PREEMPTED, NAME_WAITED, NAME_FUNCTIONS };
enum {
    CATEGORY_FUNCTION = 1,
    CATEGORY_ENTRY,
    CATEGORY_LOSS,
    CATEGORY_UNPAIRED,
    CATEGORY_SIGNAL,
    CATEGORY_OFF,
    CATEGORY_RECORDER
};
enum { OFF_LANE = INT32_MAX }; /* track of waits and time off the processor */
enum { NOTE_END = 1, NOTE_COUNT, NOTE_REASON, NOTE_CONTINUED };

struct perfetto {
    uint64_t last_ns;
    uint32_t sequence; /* thread index + 1 */
    uint8_t *interned; /* a bit for each name, by number: the sequence has defined it */
    size_t room;
    struct ct_proto packet, body;
};

static uint64_t process_uuid(size_t process) {
    return UINT64_C(1) << 62 | process;
}

static uint64_t track_uuid(const struct ct_walk *w, size_t lane) {
    return UINT64_C(1) << 61 | (uint64_t)(w->thread + 1) << 32 | lane;
}

/* ---- packets ---- */

static void put_packet(struct ct_walk *w, const struct ct_proto *packet) {
    ct_proto_put(w->out, TRACE_PACKET, packet);
}

static void add_interned(struct ct_proto *data, uint32_t kind, uint64_t iid, const char *text) {
    struct ct_proto entry = {.used = 0};
    ct_proto_number(&entry, INTERNED_IID, iid);
    ct_proto_text(&entry, INTERNED_TEXT, text);
    ct_proto_message(data, kind, &entry);
}

static void add_clock(struct ct_proto *snapshot, uint64_t id, uint64_t timestamp, bool incremental) {
    struct ct_proto clock = {.used = 0};
    ct_proto_number(&clock, CLOCK_ID, id);
    ct_proto_number(&clock, CLOCK_TIMESTAMP, timestamp);
    if (incremental)
        ct_proto_number(&clock, CLOCK_INCREMENTAL, 1);
    ct_proto_message(snapshot, SNAPSHOT_CLOCKS, &clock);
}

/* Writes the first packet of a sequence: state, common names, defaults. */
static void put_start(struct ct_walk *w) {
    struct perfetto *p = w->arg;
    struct ct_proto packet = {.used = 0}, data = {.used = 0}, defaults = {.used = 0}, track = {.used = 0};
    ct_proto_number(&packet, PACKET_SEQUENCE_ID, p->sequence);
    ct_proto_number(&packet, PACKET_SEQUENCE_FLAGS, FLAG_STATE_CLEARED);
    ct_proto_number(&track, TRACK_EVENT_DEFAULTS_UUID, track_uuid(w, 0));
    ct_proto_number(&defaults, DEFAULTS_CLOCK_ID, OUR_CLOCK);
    ct_proto_message(&defaults, DEFAULTS_TRACK_EVENT, &track);
    ct_proto_message(&packet, PACKET_DEFAULTS, &defaults);
    add_interned(&data, INTERNED_CATEGORIES, CATEGORY_FUNCTION, "function");
    add_interned(&data, INTERNED_CATEGORIES, CATEGORY_ENTRY, "entry only");
    add_interned(&data, INTERNED_CATEGORIES, CATEGORY_LOSS, "loss");
    add_interned(&data, INTERNED_CATEGORIES, CATEGORY_UNPAIRED, "end without call");
    add_interned(&data, INTERNED_CATEGORIES, CATEGORY_SIGNAL, "signal");
    add_interned(&data, INTERNED_CATEGORIES, CATEGORY_OFF, "off CPU");
    add_interned(&data, INTERNED_CATEGORIES, CATEGORY_RECORDER, "recorder");
    add_interned(&data, INTERNED_NAMES, NAME_BLOCKED, "blocked");
    add_interned(&data, INTERNED_NAMES, NAME_PREEMPTED, "preempted");
    add_interned(&data, INTERNED_NAMES, NAME_WAITED, "waited for the recorder");
    add_interned(&data, INTERNED_NAMES, NAME_LOST, "events lost");
    add_interned(&data, INTERNED_NAMES, NAME_SIGNAL, "signal");
    add_interned(&data, INTERNED_ANNOTATIONS, NOTE_END, "end");
    add_interned(&data, INTERNED_ANNOTATIONS, NOTE_COUNT, "count");
    add_interned(&data, INTERNED_ANNOTATIONS, NOTE_REASON, "reason");
    add_interned(&data, INTERNED_ANNOTATIONS, NOTE_CONTINUED, "continued");
    ct_proto_message(&packet, PACKET_INTERNED_DATA, &data);
    put_packet(w, &packet);
}

static void put_snapshot(struct ct_walk *w) {
    struct perfetto *p = w->arg;
    struct ct_proto packet = {.used = 0}, snapshot = {.used = 0};
    add_clock(&snapshot, BOOTTIME, w->e->start_ns, false);
    add_clock(&snapshot, OUR_CLOCK, w->e->start_ns, true);
    ct_proto_number(&snapshot, SNAPSHOT_PRIMARY, BOOTTIME);
    ct_proto_number(&packet, PACKET_CLOCK_ID, BOOTTIME);
    ct_proto_number(&packet, PACKET_TIMESTAMP, w->e->start_ns);
    ct_proto_number(&packet, PACKET_SEQUENCE_ID, p->sequence);
    ct_proto_message(&packet, PACKET_CLOCK_SNAPSHOT, &snapshot);
    put_packet(w, &packet);
    p->last_ns = w->e->start_ns;
}

static void put_track(struct ct_walk *w, const struct ct_proto *track) {
    const struct perfetto *p = w->arg;
    struct ct_proto packet = {.used = 0};
    ct_proto_number(&packet, PACKET_SEQUENCE_ID, p->sequence);
    ct_proto_message(&packet, PACKET_TRACK_DESCRIPTOR, track);
    put_packet(w, &packet);
}

static void put_thread_track(struct ct_walk *w) {
    struct ct_proto track = {.used = 0}, thread = {.used = 0};
    int pid = ct_trace_process_at(w->e->trace, w->process)->pid;
    ct_proto_number(&track, TRACK_UUID, track_uuid(w, 0));
    ct_proto_number(&track, TRACK_PARENT, process_uuid(w->process));
    ct_proto_number(&thread, THREAD_PID, (uint32_t)pid);
    ct_proto_number(&thread, THREAD_TID, w->info->tid);
    if (*w->info->name)
        ct_proto_text(&thread, THREAD_NAME, w->info->name);
    ct_proto_message(&track, TRACK_THREAD, &thread);
    put_track(w, &track);
}

/* Writes a track below the thread's, where coroutines go on, or that of waits and time off the processor. */
static void put_lane_track(struct ct_walk *w, size_t lane) {
    struct ct_proto track = {.used = 0};
    char name[64] = "off CPU";
    if (lane != OFF_LANE)
        snprintf(name, sizeof name, "suspended calls %zu", lane);
    ct_proto_number(&track, TRACK_UUID, track_uuid(w, lane));
    ct_proto_number(&track, TRACK_PARENT, track_uuid(w, 0));
    ct_proto_text(&track, TRACK_NAME, name);
    put_track(w, &track);
}

/* Writes the processes first, on a sequence that no thread uses. */
static void put_processes(struct ct_walk *w) {
    struct ct_export *e = w->e;
    struct perfetto *p = w->arg;
    char name[256];
    p->sequence = (uint32_t)ct_trace_thread_count(e->trace) + 1;
    for (size_t i = 0; i < ct_trace_process_count(e->trace); i++) {
        if (!ct_select_process(&e->options->select, e->trace, i))
            continue;
        struct ct_proto track = {.used = 0}, process = {.used = 0};
        ct_proto_number(&track, TRACK_UUID, process_uuid(i));
        ct_proto_number(&process, PROCESS_PID, (uint32_t)ct_trace_process_at(e->trace, i)->pid);
        ct_proto_text(&process, PROCESS_CMDLINE, ct_export_manifest_text(e, i, "command_line", ""));
        ct_proto_text(&process, PROCESS_NAME, ct_export_program(e, i, name, sizeof name));
        ct_proto_message(&track, TRACK_PROCESS, &process);
        put_track(w, &track);
    }
}

/* ---- events ---- */

struct event {
    uint32_t type, category;
    uint64_t name; /* iid */
    size_t lane;
    struct ct_name *function;        /* to be interned if needed */
    const struct ct_proto *notes[2]; /* NULL: none */
    const struct ct_arguments *arguments;
};

/* Interned names are numbered in the order in which the whole trace meets them; each sequence defines each name
 * once. */
static bool to_intern(struct ct_walk *w, const struct ct_name *name) {
    struct perfetto *p = w->arg;
    if (!name)
        return false;
    if (!ct_grow_zeroed(&p->interned, &p->room, name->number / 8, 1, 256)) {
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
        return false;
    }
    uint8_t bit = (uint8_t)(1 << name->number % 8), had = p->interned[name->number / 8] & bit;
    p->interned[name->number / 8] |= bit;
    return !had;
}

static void put_argument(struct ct_proto *body, const struct ct_arguments *arguments, size_t index, bool call) {
    const struct ct_argument *a = &arguments->at[index];
    struct ct_proto note = {.used = 0};
    char name[16];
    ct_proto_text(&note, ANNOTATION_NAME, call ? ct_export_argument_name(arguments, index, name) : "return");
    switch (a->kind) {
    case CT_VALUE_SIGNED:
        ct_proto_number(&note, ANNOTATION_INT, a->number);
        break;
    case CT_VALUE_UNSIGNED:
        ct_proto_number(&note, ANNOTATION_UINT, a->number);
        break;
    case CT_VALUE_BOOL:
        ct_proto_number(&note, ANNOTATION_BOOL, a->number != 0);
        break;
    case CT_VALUE_REAL:
        ct_proto_double(&note, ANNOTATION_DOUBLE, a->real);
        break;
    case CT_VALUE_POINTER:
        ct_proto_number(&note, ANNOTATION_POINTER, a->number);
        break;
    case CT_VALUE_STRING:
        ct_proto_text(&note, ANNOTATION_TEXT, a->string);
        break;
    default:
        ct_proto_text(&note, ANNOTATION_TEXT, a->text);
    }
    ct_proto_message(body, EVENT_ANNOTATIONS, &note);
}

static void put_rare_parts(struct ct_proto *body, struct ct_walk *w, const struct event *event) {
    if (event->lane)
        ct_proto_number(body, EVENT_TRACK_UUID, track_uuid(w, event->lane));
    for (int i = 0; i < 2; i++)
        if (event->notes[i])
            ct_proto_message(body, EVENT_ANNOTATIONS, event->notes[i]);
    for (size_t i = 0; event->arguments && i < event->arguments->count; i++)
        put_argument(body, event->arguments, i, event->type == TYPE_BEGIN || event->category == CATEGORY_ENTRY);
}

static void put_event(struct ct_walk *w, const struct event *event) {
    struct perfetto *p = w->arg;
    struct ct_proto *packet = &p->packet, *body = &p->body;
    packet->used = body->used = 0;
    if (event->lane && event->lane != OFF_LANE && !w->lanes[event->lane].user) {
        w->lanes[event->lane].user = 1;
        put_lane_track(w, event->lane);
    }
    ct_proto_number(packet, PACKET_TIMESTAMP, w->now_ns - p->last_ns);
    ct_proto_number(packet, PACKET_SEQUENCE_ID, p->sequence);
    ct_proto_number(packet, PACKET_SEQUENCE_FLAGS, FLAG_NEEDS_STATE);
    ct_proto_number(body, EVENT_TYPE, event->type);
    if (event->type != TYPE_END) {
        ct_proto_number(body, EVENT_CATEGORY_IIDS, event->category);
        ct_proto_number(body, EVENT_NAME_IID, event->name);
    }
    put_rare_parts(body, w, event);
    ct_proto_message(packet, PACKET_TRACK_EVENT, body);
    if (to_intern(w, event->function)) {
        struct ct_proto data = {.used = 0};
        add_interned(&data, INTERNED_NAMES, event->name, event->function->name);
        ct_proto_message(packet, PACKET_INTERNED_DATA, &data);
    }
    put_packet(w, packet);
    p->last_ns = w->now_ns;
}

static void note_text(struct ct_proto *note, uint32_t name, const char *text) {
    note->used = 0;
    ct_proto_number(note, ANNOTATION_NAME_IID, name);
    ct_proto_text(note, ANNOTATION_TEXT, text);
}

static void note_number(struct ct_proto *note, uint32_t name, uint64_t number) {
    note->used = 0;
    ct_proto_number(note, ANNOTATION_NAME_IID, name);
    ct_proto_number(note, ANNOTATION_UINT, number);
}

static void on_begin(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    struct event event = {.type = TYPE_BEGIN,
                          .category = CATEGORY_FUNCTION,
                          .name = NAME_FUNCTIONS + span->name->number,
                          .lane = span->lane,
                          .function = span->name};
    struct ct_proto note;
    (void)caller;
    if (span->continued) {
        note_number(&note, NOTE_CONTINUED, 1);
        event.notes[0] = &note;
    } else {
        event.arguments = ct_export_arguments(w->e, w->thread, w->detail, &w->values);
    }
    put_event(w, &event);
}

static void on_end(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    static const char *const texts[] = {
        [CT_SPAN_LEFT] = "left by exception or longjmp",
        [CT_SPAN_LOST] = "its return was lost",
        [CT_SPAN_OPEN] = "still open when the recording ended",
        [CT_SPAN_MOVED] = "suspended, goes on in another track",
    };
    struct event event = {.type = TYPE_END, .lane = span->lane};
    struct ct_proto note;
    (void)caller;
    if (how != CT_SPAN_RETURNED) {
        note_text(&note, NOTE_END, texts[how]);
        event.notes[0] = &note;
    } else {
        event.arguments = ct_export_arguments(w->e, w->thread, w->detail, &w->values);
    }
    put_event(w, &event);
}

static void on_entry(struct ct_walk *w, struct ct_name *name, struct ct_span *caller) {
    put_event(w, &(struct event){.type = TYPE_INSTANT,
                                 .category = CATEGORY_ENTRY,
                                 .name = NAME_FUNCTIONS + name->number,
                                 .lane = caller ? caller->lane : 0,
                                 .function = name,
                                 .arguments = ct_export_arguments(w->e, w->thread, w->detail, &w->values)});
}

static void on_unpaired(struct ct_walk *w, struct ct_name *name, bool left) {
    struct ct_proto note;
    note_text(&note, NOTE_END,
              left ? "left by exception or longjmp, its call was not recorded" : "its call was not recorded");
    put_event(w,
              &(struct event){.type = TYPE_INSTANT,
                              .category = CATEGORY_UNPAIRED,
                              .name = NAME_FUNCTIONS + name->number,
                              .function = name,
                              .notes = {&note},
                              .arguments = left ? NULL : ct_export_arguments(w->e, w->thread, w->detail, &w->values)});
}

static void on_gap(struct ct_walk *w, const struct ct_gap *gap) {
    struct ct_proto count, reason;
    note_number(&count, NOTE_COUNT, gap->lost);
    note_text(&reason, NOTE_REASON, *gap->reason ? gap->reason : "not known");
    put_event(w, &(struct event){
                     .type = TYPE_INSTANT, .category = CATEGORY_LOSS, .name = NAME_LOST, .notes = {&count, &reason}});
}

static void on_signal(struct ct_walk *w) {
    struct event event = {.type = TYPE_INSTANT, .category = CATEGORY_SIGNAL, .name = NAME_SIGNAL};
    struct ct_proto note;
    char text[1024];
    if (ct_export_signal(w->e, w->thread, w->detail, text, sizeof text)) {
        note_text(&note, NOTE_REASON, text);
        event.notes[0] = &note;
    }
    put_event(w, &event);
}

static void on_off(struct ct_walk *w, const struct ct_off_span *span, bool begin) {
    static const uint32_t names[] = {
        [CT_OFF_BLOCKED] = NAME_BLOCKED, [CT_OFF_PREEMPTED] = NAME_PREEMPTED, [CT_OFF_WAITED] = NAME_WAITED};
    struct ct_proto note;
    struct event event = {.type = begin ? TYPE_BEGIN : TYPE_END,
                          .category = span->kind == CT_OFF_WAITED ? CATEGORY_RECORDER : CATEGORY_OFF,
                          .name = names[span->kind],
                          .lane = OFF_LANE};
    if (begin && span->kind == CT_OFF_WAITED) {
        note_text(&note, NOTE_REASON, span->reason);
        event.notes[0] = &note;
    }
    put_event(w, &event);
}

static void on_thread(struct ct_walk *w) {
    struct perfetto *p = w->arg;
    if (p->room)
        memset(p->interned, 0, p->room);
    p->sequence = (uint32_t)w->thread + 1;
    put_start(w);
    put_snapshot(w);
    put_thread_track(w);
    if (w->off_spans)
        put_lane_track(w, OFF_LANE);
}

/* A part has to know which names are defined, and the time of the packet before it. */
static bool on_part(struct ct_walk *part, const struct ct_walk *whole) {
    const struct perfetto *from = whole->arg;
    struct perfetto *p = part->arg;
    if (from->room && !ct_grow_zeroed(&p->interned, &p->room, from->room - 1, 1, 256))
        return false;
    if (from->room)
        memcpy(p->interned, from->interned, from->room);
    if (p->room > from->room)
        memset(p->interned + from->room, 0, p->room - from->room);
    p->last_ns = from->last_ns;
    p->sequence = from->sequence;
    return true;
}

static void on_passed(struct ct_walk *w, const struct ct_range *range) {
    struct perfetto *p = w->arg;
    for (size_t i = 0; i < range->touched_count; i++)
        (void)to_intern(w, range->touched[i]->user);
    p->last_ns = range->last_ns;
}

static void on_part_end(struct ct_walk *whole, struct ct_walk *part) {
    (void)whole;
    free(((struct perfetto *)part->arg)->interned);
}

int ct_export_perfetto(struct ct_export *e) {
    static const struct ct_walk_sharing sharing = {
        .size = sizeof(struct perfetto), .begin = on_part, .pass = on_passed, .end = on_part_end};
    static const struct ct_walk_format format = {.sharing = &sharing,
                                                 .begin_thread = on_thread,
                                                 .begin = on_begin,
                                                 .end = on_end,
                                                 .entry = on_entry,
                                                 .unpaired = on_unpaired,
                                                 .gap = on_gap,
                                                 .signal = on_signal,
                                                 .off = on_off};
    struct perfetto p = {.last_ns = 0};
    struct ct_walk head = {.e = e, .out = &e->out, .arg = &p};
    put_processes(&head);
    int status = ct_walk_trace(e, &format, &p);
    free(p.interned);
    return status;
}
