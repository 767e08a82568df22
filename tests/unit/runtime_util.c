/* SPDX-License-Identifier: Apache-2.0 */
/* See runtime_util.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "os/os.h"
#include "runtime_util.h"

#define GAP (1u << 20)

void fixture_sink(void *arg, int tid, const struct ct_event *events, size_t count) {
    struct fixture *f = arg;
    f->sink_calls++;
    f->empty_calls += count == 0;
    f->last_tid = tid;
    for (size_t i = 0; i < count && f->event_count < MAX_EVENTS; i++)
        f->events[f->event_count++] = events[i];
}

static void make_stacks(struct fixture *f) {
    f->memory = ct_os_alloc(STACK_COUNT * (STACK_BYTES + GAP) + GAP, 0);
    assert_non_null(f->memory);
    for (unsigned i = 0; i < STACK_COUNT; i++) {
        f->stacks[i] = (uint64_t *)(void *)(f->memory + GAP + i * (STACK_BYTES + GAP));
        assert_int_equal(ct_os_protect(f->stacks[i], STACK_BYTES, CT_OS_READ | CT_OS_WRITE), 0);
    }
}

void fixture_start(struct fixture *f, size_t max_depth, size_t buffer_events) {
    memset(f, 0, sizeof *f);
    for (uint32_t i = 0; i < HOOK_COUNT; i++) {
        memset(f->stubs[i], 0xcc, sizeof f->stubs[i]);
        memcpy(f->stubs[i] + CT_STUB_NUMBER, &i, sizeof i);
        f->hooks[i] = (struct ct_hook_entry){.function = 0x1000 + i, .flavor = CT_ACTION_RECORD};
    }
    struct ct_runtime *rt = &f->runtime;
    rt->pid = ct_os_getpid();
    rt->hooks = f->hooks;
    rt->max_depth = max_depth;
    rt->buffer_bytes = buffer_events * sizeof(struct ct_event);
    rt->sink = fixture_sink;
    rt->sink_arg = f;
    rt->parked = ct_os_alloc(CT_PARKED_CAPACITY * sizeof *rt->parked, CT_OS_READ | CT_OS_WRITE);
    assert_true(ct_os_vectors(&rt->vectors) && rt->parked);
    make_stacks(f);
    f->block = ct_block_create(rt, ct_os_gettid(), ct_os_thread_pointer());
    assert_non_null(f->block);
    f->block->pid = 0; /* no main thread: its stack is a mapping like any other */
    f->block->home_low = slot_at(f, HOME_STACK, 0);
    f->block->home_high = f->block->home_low + STACK_BYTES;
    assert_int_equal(ct_block_install(f->block), 0);
}

void fixture_end(struct fixture *f) {
    assert_int_equal(ct_os_set_block(NULL), 0);
    ct_os_free(f->memory, STACK_COUNT * (STACK_BYTES + GAP) + GAP);
    ct_os_free(f->runtime.parked, CT_PARKED_CAPACITY * sizeof *f->runtime.parked);
    for (struct ct_block *b = f->runtime.blocks, *next; b; b = next) {
        next = b->next;
        ct_os_free(b, b->size);
    }
}

struct ct_shadow *fake_tail_call(struct fixture *f, unsigned n, uint64_t slot) {
    struct ct_shadow *e = ct_shadow_enter(f->block, slot, stub_of(f, n));
    if (!e)
        return NULL;
    ct_event_write(f->block, n, CT_EVENT_CALL);
    *word_at(slot) = resume_of(f, n);
    return e;
}

struct ct_shadow *fake_call(struct fixture *f, unsigned n, uint64_t slot) {
    *word_at(slot) = real_return(slot);
    return fake_tail_call(f, n, slot);
}

uint64_t fake_return(struct fixture *f, uint64_t slot) {
    struct ct_shadow found;
    uint32_t depth;
    if (!ct_shadow_leave(f->block, slot, *word_at(slot), &found, &depth))
        fail_msg("a return that nobody knows of");
    assert_int_equal(found.slot, slot);
    ct_event_write(f->block, ct_shadow_number(&found), CT_EVENT_RETURN);
    *word_at(slot) = found.ret;
    return found.ret;
}

bool knows_return(struct fixture *f, unsigned n, uint64_t slot) {
    struct ct_shadow found;
    uint32_t depth;
    return ct_shadow_leave(f->block, slot, resume_of(f, n), &found, &depth);
}

void fake_return_fully(struct fixture *f, uint64_t slot) {
    uint64_t to;
    do
        to = fake_return(f, slot);
    while (to >= (uint64_t)f->stubs && to < (uint64_t)f->stubs + sizeof f->stubs);
    assert_int_equal(to, real_return(slot));
}

const char *recorded(struct fixture *f) {
    static const char kinds[] = "?CRXE";
    ct_event_drain(f->block);
    char *at = f->text;
    *at = 0;
    for (size_t i = 0; i < f->event_count; i++)
        at += sprintf(at, "%s%c%u", i ? " " : "", kinds[f->events[i].kind], f->events[i].hook);
    f->event_count = 0;
    return f->text;
}

void check_free_entries(const struct ct_block *b) {
    for (const struct ct_shadow *e = b->top; e < b->limit; e++)
        assert_int_equal(e->slot, CT_SLOT_CLAIMED);
    assert_true(b->top >= b->base + 1);
    assert_int_equal(b->base->slot, ~0ull);
}

void check_signals(void) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGUSR1), 0);
}
