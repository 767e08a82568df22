/* SPDX-License-Identifier: Apache-2.0 */
/* The subjects of plan_check.h: text with functions in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "plan_check.h"
#include "hook/springboard.h"

void subject_start(struct subject *s, uint8_t filler) {
    memset(s, 0, sizeof *s);
    memset(s->original, filler, TEXT_SIZE);
    memset(s->stubs, 0xcc, STUBS_SIZE);
    s->scan =
        (struct ct_scan){.code = s->original, .start = TEXT_BASE, .end = TEXT_BASE + TEXT_SIZE, .funcs = s->funcs};
    ct_shared_code_at(&s->shared, SHARED_BASE);
}

size_t subject_add(struct subject *s, size_t offset, const uint8_t *code, size_t size) {
    size_t index = s->scan.func_count++;
    assert_true(index < MAX_FUNCS && offset + size <= TEXT_SIZE);
    assert_true(index == 0 || s->funcs[index - 1].end <= TEXT_BASE + offset);
    memcpy(s->original + offset, code, size);
    s->funcs[index] = (struct ct_scan_func){.start = TEXT_BASE + offset, .end = TEXT_BASE + offset + size};
    return index;
}

size_t subject_add_sized(struct subject *s, size_t offset, size_t n) {
    uint8_t code[64];
    memset(code, 0xf8, sizeof code); /* clc */
    code[n - 1] = RET;
    return subject_add(s, offset, code, n);
}

void subject_scan(struct subject *s) {
    assert_int_equal(ct_scan_run(&s->scan), 0);
    assert_int_equal(ct_springboards_prepare(&s->scan), 0);
    memcpy(s->patched, s->original, TEXT_SIZE);
}

void subject_end(struct subject *s) {
    for (size_t i = 0; i < s->scan.func_count; i++)
        if (s->hooks[i].planned)
            subject_revert(s, i);
    assert_memory_equal(s->patched, s->original, TEXT_SIZE);
    assert_false(subject_is_taken(s, TEXT_BASE, TEXT_BASE + TEXT_SIZE));
    for (uint64_t at = TEXT_BASE; at < TEXT_BASE + TEXT_SIZE; at++)
        assert_false(ct_scan_bit(&s->scan, s->scan.room, at));
    ct_scan_free(&s->scan);
}

struct ct_plan_request subject_request(struct subject *s, size_t index) {
    return (struct ct_plan_request){
        .scan = &s->scan,
        .shared = &s->shared,
        .function = s->funcs[index].start,
        .end = s->funcs[index].end,
        .scan_flags = s->funcs[index].flags,
        .number = FIRST_NUMBER + (uint32_t)index,
        .action = CT_ACTION_RECORD,
    };
}

/* ---- forms ---- */

static const struct ct_patch *entry_patch(const struct ct_plan *p) {
    for (unsigned i = 0; i < p->patch_count; i++)
        if (p->patches[i].at == p->place)
            return &p->patches[i];
    fail_msg("no patch at the entry");
    return NULL;
}

enum form subject_form(const struct subject *s, size_t index) {
    const struct ct_plan *p = &s->hooks[index].plan;
    const struct ct_patch *entry = entry_patch(p);
    if (p->whole)
        return WHOLE;
    return entry->size == 2 ? SHORT : entry->size == 5 ? LONG : TWO_JUMPS;
}

const struct ct_plan *expect_form(struct subject *s, size_t index, enum form form) {
    assert_int_equal(subject_plan(s, index), CT_HOOK_SKIP_NONE);
    assert_int_equal(subject_form(s, index), form);
    subject_check(s);
    return &s->hooks[index].plan;
}

void expect_skip(struct subject *s, size_t index, enum ct_hook_skip_reason reason) {
    assert_int_equal(subject_plan(s, index), reason);
    assert_false(subject_is_taken(s, TEXT_BASE, TEXT_BASE + TEXT_SIZE));
}
