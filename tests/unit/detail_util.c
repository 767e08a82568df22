/* SPDX-License-Identifier: Apache-2.0 */
/* See detail_util.h. */
#include "detail_util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HOOKS 64u

struct lane_fixture f;
struct ct_windows windows;

void start(size_t memory, const struct ct_windows_rolls *rolls, bool grows) {
    const struct ct_lane_options o = {.index_memory = 32u << 20,
                                      .detail_memory = memory,
                                      .detail_grows = grows,
                                      .stack_bytes = 128,
                                      .hook_room = HOOKS};
    const struct ct_windows_options w = {.detail = CT_SESSION_DETAIL_MARKED, .rolls = *rolls, .grows = grows};
    lane_start_with(&f, &o, 0);
    ct_windows_init(&windows, &w);
    lane_prepare_drain(&f);
    f.drain.windows = &windows;
    ct_windows_start(&windows, f.clock.first.ns);
}

int clean(void **state) {
    (void)state;
    (void)ct_os_set_block(NULL);
    if (f.lane.control) {
        lane_end(&f);
        ct_windows_free(&windows);
    }
    return 0;
}

/* ---- as stubs do it ---- */

/* What the runtime reads of a function's stub: its number. */
static uint64_t stub_of(uint32_t hook) {
    static uint32_t numbers[HOOKS];
    numbers[hook] = hook;
    return (uint64_t)&numbers[hook] - (uint64_t)CT_AFTER_TO_NUMBER;
}

struct ct_block *begin(void) {
    struct ct_block *b = lane_thread(&f);
    assert_int_equal(ct_block_install(b), 0);
    return b;
}

enum { PLACE = 16 }; /* of all return addresses: nobody looks there */

void record(struct ct_block *b, uint32_t hook, uint32_t kind, uint64_t value, struct ct_shadow *e) {
    struct ct_detail_note note = {.entered = kind == CT_EVENT_RETURN ? e->data : 1};
    ct_event_note(b, hook, kind, &note);
    if (e)
        *e = kind == CT_EVENT_RETURN ? (struct ct_shadow){0}
                                     : (struct ct_shadow){.slot = PLACE,
                                                          .stub = stub_of(hook),
                                                          .data = (note.stamp & ((1ull << CT_ENTERED_BITS) - 1)) | 1};
    if (b->rules[hook])
        ct_agent_detail_mark(&note, value, 0, NULL);
    bool returned = kind == CT_EVENT_RETURN;
    struct ct_shm_detail *r = (void *)ct_agent_detail_reserve(returned ? b->return_size : b->call_size);
    if (!r)
        return;
    memset(r, 0, returned ? b->return_size : b->call_size); /* all bytes are written */
    *(returned ? r->ret.registers : r->call.registers) = value;
    if (!returned)
        r->call.stack_pointer = PLACE;
    r->stamp = note.stamp;
    r->tag = note.tag;
    r->hook = note.hook;
    r->check = note.stamp * (uint64_t)(int64_t)CT_DETAIL_MIX ^ ((uint64_t)note.hook << 32 | note.tag) ^ b->detail_key;
}

void open_call(struct ct_block *b, uint32_t hook, uint64_t value) {
    b->top++;
    record(b, hook, CT_EVENT_CALL, value, b->top - 1);
}

void close_call(struct ct_block *b, uint32_t hook, uint64_t value) {
    b->top--;
    record(b, hook, CT_EVENT_RETURN, value, b->top);
}

void make_calls(struct ct_block *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        open_call(b, 1, i);
        close_call(b, 1, i);
    }
}

void mark(uint64_t pre_events) {
    struct ct_windows_ask a = {.ns = ct_clock_now(), .rolls = windows.options.rolls};
    a.rolls.pre_events = pre_events ? pre_events : a.rolls.pre_events;
    assert_true(ct_windows_ask(&windows, &a));
}

/* ---- what was written ---- */

size_t count_records(int type, uint64_t hook, uint64_t value) {
    char path[128];
    static uint8_t bytes[96 << 20];
    snprintf(path, sizeof path, "%s/thread_1/detail.atf", f.directory);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t size = fread(bytes, 1, sizeof bytes, file), count = 0;
    fclose(file);
    uint32_t last = 0;
    for (size_t at = 64; at + sizeof(struct atf_detail_call) <= size;) {
        const struct atf_detail_call *r = (const struct atf_detail_call *)(bytes + at);
        assert_true(at == 64 || r->event.index_seq > last); /* in the order of events */
        last = r->event.index_seq;
        count += r->event.event_type == type && r->function_id == hook + 1 &&
                 (value == UINT64_MAX || r->registers[0] == value);
        at += r->event.total_length;
    }
    return count;
}

size_t count_calls(uint64_t hook, uint64_t value) {
    return count_records(ATF_DETAIL_CALL, hook, value);
}
