/* SPDX-License-Identifier: Apache-2.0 */
/* Records of open calls are told apart although the counter does not tell their times apart. */
#include "agent/agent_open.h"
#include "abi/event.h"
#include "hook/frame.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define FRAMES 8u
#define KEY    77u
#define SIZE   256u

/* The chunk of a thread that is about to be overwritten, and its OPEN segment. */
static union {
    uint8_t bytes[CT_SHM_DETAIL_CHUNK];
    struct ct_shm_detail first;
} chunk, slots;
static struct ct_shadow frames[FRAMES + 2];
static struct ct_block block;
static uint32_t numbers[FRAMES], record_count;

static void start(void) {
    memset(&chunk, 0, sizeof chunk);
    memset(&slots, 0, sizeof slots);
    block = (struct ct_block){.base = frames, .top = frames + 1, .call_size = SIZE, .detail_key = KEY};
    record_count = 0;
}

static struct ct_shm_detail *slot(uint32_t i) {
    return (struct ct_shm_detail *)(slots.bytes + i * SIZE);
}

static void put_record_at(uint64_t place, uint64_t stamp, uint32_t hook, uint32_t kind) {
    struct ct_shm_detail *r = (struct ct_shm_detail *)(chunk.bytes + record_count++ * SIZE);
    r->stamp = stamp;
    r->tag = record_count * CT_TAG_STEP + kind;
    r->hook = hook;
    r->call.registers[0] = record_count;
    r->call.stack_pointer = place;
    r->check = stamp * (uint64_t)(int64_t)CT_DETAIL_MIX ^ ((uint64_t)hook << 32 | r->tag) ^ KEY;
}

static void put_record(uint64_t stamp, uint32_t hook, uint32_t kind) {
    put_record_at(16, stamp, hook, kind);
}

/* A call that stays open. */
static void open_call_at(uint64_t place, uint64_t stamp, uint32_t hook) {
    put_record_at(place, stamp, hook, CT_EVENT_CALL);
    numbers[hook] = hook;
    *block.top++ = (struct ct_shadow){
        .slot = place, .stub = (uint64_t)&numbers[hook] - (uint64_t)CT_AFTER_TO_NUMBER, .data = stamp | 1};
}

static void open_call(uint64_t stamp, uint32_t hook) {
    open_call_at(16, stamp, hook);
}

static void carry(uint64_t until, bool exact) {
    const struct ct_agent_old_chunk old = {(uint64_t)chunk.bytes, until, exact};
    block.top++; /* the frame whose record needs room */
    assert_true(ct_agent_open_has(&block, &old));
    ct_agent_open_carry(&block, &old, (uint64_t)slots.bytes, 1);
    block.top--;
}

static void assert_carried(uint32_t i, uint64_t record) {
    assert_true(block.detail_carried > i);
    assert_int_equal(slot(i)->call.registers[0], record);
}

static void test_two_functions_at_one_time(void **state) {
    (void)state;
    start();
    open_call(1000, 1);
    open_call(1000, 2);
    put_record(1000, 3, CT_EVENT_CALL);
    put_record(1000, 3, CT_EVENT_RETURN);
    open_call(1000, 4);
    carry(2000, true);
    assert_carried(0, 1);
    assert_carried(1, 2);
    assert_carried(2, 5);
}

static void test_a_function_that_calls_itself(void **state) {
    (void)state;
    start();
    for (int i = 0; i < 4; i++)
        open_call(1000, 1);
    carry(2000, true);
    for (uint32_t i = 0; i < 4; i++)
        assert_carried(i, i + 1);
}

/* Calls that have ended, from the same place as those that are open, in the same moment. */
static void test_a_function_that_is_called_again(void **state) {
    (void)state;
    start();
    put_record_at(160, 1000, 1, CT_EVENT_CALL);
    put_record_at(160, 1000, 1, CT_EVENT_RETURN);
    open_call_at(160, 1000, 1);
    put_record_at(80, 1000, 1, CT_EVENT_CALL);
    put_record_at(80, 1000, 1, CT_EVENT_RETURN);
    open_call_at(80, 1000, 1);
    open_call_at(80, 1000, 2); /* tail calls */
    open_call_at(80, 1000, 1);
    open_call_at(64, 1000, 2);
    carry(2000, true);
    for (uint32_t i = 0; i < 5; i++)
        assert_carried(i, i ? i + 5 : 3);
}

/* The next chunk begins at the same time: the second call's record may be there, or the last one here. */
static void test_at_the_end_of_a_chunk(void **state) {
    (void)state;
    start();
    open_call(1000, 1);
    open_call(2000, 2);
    carry(2000, true);
    assert_carried(0, 1);
    assert_carried(1, 2);
    start();
    open_call(1000, 1);
    open_call(2000, 2);
    slots.first.check = 0;
    memset(chunk.bytes + SIZE, 0, SIZE); /* it is there */
    carry(2000, true);
    assert_int_equal(block.detail_carried, 1);
    put_record(2000, 2, CT_EVENT_CALL);
    carry(3000, true);
    assert_carried(1, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_functions_at_one_time),
        cmocka_unit_test(test_a_function_that_calls_itself),
        cmocka_unit_test(test_a_function_that_is_called_again),
        cmocka_unit_test(test_at_the_end_of_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
