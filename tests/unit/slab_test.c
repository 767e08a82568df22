/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas in every mode: where their code lies, that it runs, how it changes, and what the maps show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "code/slab.h"
#include "contrail/status.h"
#include "os/os.h"

#define REACH 0x7fff0000ull
#define GIB   (1ull << 30)

static const enum ct_wx_mode modes[] = {CT_WX_RWX, CT_WX_DUAL, CT_WX_PROTECT};
#define EACH_MODE(m) for (const enum ct_wx_mode *m = modes; m < modes + 3; m++)

/* ---- helpers ---- */

/* What was said to have been written, since it was last asked. */
void __real_ct_os_sync_code(uint64_t start, size_t size);
void __wrap_ct_os_sync_code(uint64_t start, size_t size);
static struct {
    uint64_t start;
    size_t size;
} synced[16];
static size_t synced_count;
void __wrap_ct_os_sync_code(uint64_t start, size_t size) {
    synced[synced_count % 16].start = start;
    synced[synced_count++ % 16].size = size;
    __real_ct_os_sync_code(start, size);
}

static bool was_synced(uint64_t start, size_t size) {
    bool found = false;
    for (size_t i = 0; i < synced_count && i < 16; i++)
        found |= start >= synced[i].start && start + size <= synced[i].start + synced[i].size;
    synced_count = 0;
    return found;
}

static uint64_t here(void) {
    return (uint64_t)(uintptr_t)&here;
}

static struct ct_arena *arena_near(uint64_t start, uint64_t end, enum ct_wx_mode mode) {
    struct ct_arena *arena = NULL;
    assert_int_equal(ct_arena_create(&arena, start, end, REACH, mode), CT_OK);
    return arena;
}

/* mov eax, value; ret: as one 8-byte word */
static uint64_t function_returning(uint32_t value) {
    uint8_t code[8] = {0xb8, 0, 0, 0, 0, 0xc3, 0xcc, 0xcc};
    uint64_t word;
    memcpy(code + 1, &value, 4);
    memcpy(&word, code, 8);
    return word;
}

static uint32_t call_at(uint64_t address) {
    uint32_t (*function)(void);
    memcpy(&function, &address, sizeof function);
    return function();
}

/* Allocates and writes a function; the arena is thawed. */
static uint64_t add_function(struct ct_arena *arena, uint32_t value) {
    uint64_t run, word = function_returning(value);
    uint8_t *write;
    assert_int_equal(ct_arena_alloc(arena, 8, 8, &run, &write), CT_OK);
    memcpy(write, &word, 8);
    return run;
}

struct survey {
    int writable_and_executable;
    int maps;
    uint64_t address;
    int prot; /* at the address, -1: not mapped */
};

static int survey_map(void *arg, const struct ct_os_map *map) {
    struct survey *s = arg;
    int wx = CT_OS_WRITE | CT_OS_EXEC;
    s->writable_and_executable += (map->prot & wx) == wx;
    s->maps++;
    if (s->address >= map->start && s->address < map->end)
        s->prot = map->prot;
    return 0;
}

static struct survey survey(uint64_t address) {
    struct survey s = {.address = address, .prot = -1};
    assert_int_equal(ct_os_each_map(survey_map, &s), 0);
    return s;
}

/* Any byte of the slab, header included, is within reach of any byte of [start, end). */
static void assert_near(uint64_t run, uint64_t start, uint64_t end, uint64_t reach) {
    uint64_t low = run - CT_SLAB_HEADER, high = run + CT_SLAB_CODE;
    assert_true(low >= end || high <= start || start == end);
    assert_true(low >= start || end - low <= reach);
    assert_true(high <= end || high - start <= reach);
}

/* The child's exit status. */
static int in_child(int (*body)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- code runs ---- */

static void test_code_runs(void **state) {
    (void)state;
    EACH_MODE(mode) {
        struct ct_arena *arena = arena_near(here(), here() + 1, *mode);
        assert_int_equal(ct_arena_mode(arena), *mode);
        assert_int_equal(ct_arena_thaw(arena), CT_OK);
        uint64_t run = add_function(arena, 42);
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        assert_int_equal(call_at(run), 42);
        assert_near(run, here(), here() + 1, REACH);
        assert_true(ct_arena_contains(arena, run));
        assert_true(ct_arena_contains(arena, run + 7));
        assert_false(ct_arena_contains(arena, run + 8));
        assert_false(ct_arena_contains(arena, run - 1));
        ct_arena_destroy(arena);
        assert_int_equal(survey(run).prot, -1);
    }
}

static void test_auto_takes_the_first_mode(void **state) {
    (void)state;
    struct ct_arena *arena = arena_near(here(), here(), CT_WX_AUTO);
    assert_int_equal(ct_arena_mode(arena), CT_WX_RWX);
    ct_arena_destroy(arena);
}

#ifndef PR_SET_MDWE
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

/* The kernel refuses rwx, and x for what was without it. */
static int auto_without_rwx(void) {
    struct ct_arena *arena;
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
        return 77;
    if (ct_arena_create(&arena, here(), here(), REACH, CT_WX_RWX) != CT_ERR_PERMISSION_DENIED)
        return 1;
    if (ct_arena_create(&arena, here(), here(), REACH, CT_WX_PROTECT) != CT_ERR_PERMISSION_DENIED)
        return 2;
    if (ct_arena_create(&arena, here(), here(), REACH, CT_WX_AUTO) != CT_OK || ct_arena_mode(arena) != CT_WX_DUAL)
        return 3;
    return call_at(add_function(arena, 5)) == 5 ? 0 : 4;
}

static void test_auto_without_rwx(void **state) {
    (void)state;
    int result = in_child(auto_without_rwx);
    if (result == 77)
        skip(); /* before Linux 6.3 */
    assert_int_equal(result, 0);
}

/* ---- write xor execute ---- */

static void test_wx_and_header(void **state) {
    (void)state;
    int before = survey(0).writable_and_executable;
    EACH_MODE(mode) {
        bool rwx = *mode == CT_WX_RWX;
        struct ct_arena *arena = arena_near(here(), here(), *mode);
        assert_int_equal(ct_arena_thaw(arena), CT_OK);
        assert_int_equal(survey(0).writable_and_executable, before + rwx);
        uint64_t run = add_function(arena, 1);
        assert_int_equal(survey(run - 1).prot, CT_OS_READ | CT_OS_WRITE); /* the header part's last byte */
        assert_int_equal(survey(run - CT_SLAB_HEADER).prot, CT_OS_READ | CT_OS_WRITE);
        if (*mode == CT_WX_PROTECT)
            assert_int_equal(survey(run).prot, CT_OS_READ | CT_OS_WRITE);
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        assert_int_equal(survey(0).writable_and_executable, before + rwx);
        assert_int_equal(survey(run).prot, CT_OS_READ | CT_OS_EXEC | (rwx ? CT_OS_WRITE : 0));
        ct_arena_destroy(arena);
    }
    assert_int_equal(survey(0).writable_and_executable, before);
}

static void test_thaw_fresh_keeps_old_code_running(void **state) {
    (void)state;
    EACH_MODE(mode) {
        struct ct_arena *arena = arena_near(here(), here(), *mode);
        assert_int_equal(ct_arena_thaw(arena), CT_OK);
        uint64_t old = add_function(arena, 1);
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        for (uint32_t i = 0; i < 5; i++) {
            struct ct_arena_mark mark = ct_arena_mark(arena);
            assert_int_equal(ct_arena_thaw_fresh(arena), CT_OK);
            add_function(arena, 100);
            ct_arena_rewind(arena, mark); /* to before the thaw */
            uint64_t fresh = add_function(arena, 2 + i);
            assert_int_equal(call_at(old), 1);
            assert_int_equal(ct_arena_store8(arena, old, function_returning(9)), CT_OK);
            assert_int_equal(call_at(old), 9);
            assert_int_equal(ct_arena_store8(arena, old, function_returning(1)), CT_OK);
            assert_int_equal(ct_arena_freeze(arena), CT_OK);
            assert_int_equal(call_at(fresh), 2 + i);
        }
        ct_arena_destroy(arena);
    }
}

/* ---- stores into live code ---- */

static uint64_t live;
static volatile int stop_running, started;
static volatile uint64_t seen[3];

static void *run_live(void *arg) {
    (void)arg;
    while (!stop_running) {
        uint32_t value = call_at(live);
        seen[value == 1 || value == 0x11223344 ? value == 1 : 2]++;
        started = 1;
    }
    return NULL;
}

static void test_store8_under_a_running_thread(void **state) {
    (void)state;
    EACH_MODE(mode) {
        pthread_t thread;
        struct ct_arena *arena = arena_near(here(), here(), *mode);
        assert_int_equal(ct_arena_thaw(arena), CT_OK);
        add_function(arena, 77);
        live = add_function(arena, 1);
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        stop_running = started = 0;
        seen[0] = seen[1] = seen[2] = 0;
        pthread_create(&thread, NULL, run_live, NULL);
        while (!started)
            sched_yield();
        for (int i = 0; i < 20000 || seen[0] == 0 || seen[1] < 2; i++) {
            assert_int_equal(ct_arena_store8(arena, live, function_returning(i % 2 ? 1 : 0x11223344)), CT_OK);
            if (i >= 20000)
                usleep(100);
        }
        stop_running = 1;
        pthread_join(thread, NULL);
        assert_int_equal(seen[2], 0); /* never a mixture of both */
        assert_int_equal(call_at(live - 8), 77);
        ct_arena_destroy(arena);
    }
}

static void test_bad_stores(void **state) {
    (void)state;
    EACH_MODE(mode) {
        struct ct_arena *arena = arena_near(here(), here(), *mode);
        assert_int_equal(ct_arena_thaw(arena), CT_OK);
        uint64_t run = add_function(arena, 3);
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        assert_int_equal(ct_arena_store8(arena, run + 4, 0), CT_ERR_INVALID_ARGUMENT);
        assert_int_equal(ct_arena_store8(arena, run + 8, 0), CT_ERR_INVALID_ARGUMENT);
        assert_int_equal(ct_arena_store8(arena, run - 8, 0), CT_ERR_INVALID_ARGUMENT);
        assert_int_equal(ct_arena_store8(arena, here() & ~7ull, 0), CT_ERR_INVALID_ARGUMENT);
        assert_int_equal(ct_arena_write(arena, run + 1, &run, 8), CT_ERR_INVALID_ARGUMENT);
        assert_int_equal(call_at(run), 3);
        uint32_t value = 0x01020304;
        assert_int_equal(ct_arena_write(arena, run + 1, &value, 4), CT_OK);
        assert_int_equal(call_at(run), value);
        ct_arena_destroy(arena);
    }
}

static void test_write_across_pages(void **state) {
    (void)state;
    EACH_MODE(mode) {
        struct ct_arena *arena = arena_near(here(), here(), *mode);
        static uint8_t bytes[3 * 4096];
        uint64_t run;
        uint8_t *write;
        assert_int_equal(ct_arena_alloc(arena, 4 * 4096, 16, &run, &write), CT_OK);
        memset(bytes, 0x5a, sizeof bytes);
        assert_int_equal(ct_arena_write(arena, run + 100, bytes, sizeof bytes), CT_OK);
        assert_memory_equal((void *)(run + 100), bytes, sizeof bytes);
        assert_int_equal(*(uint8_t *)(run + 99), 0);
        assert_int_equal(*(uint8_t *)(run + 100 + sizeof bytes), 0);
        ct_arena_destroy(arena);
    }
}

/* ---- allocation ---- */

static void test_trim_and_rewind(void **state) {
    (void)state;
    EACH_MODE(mode) {
        struct ct_arena *arena = arena_near(here(), here(), *mode);
        uint64_t a, b, c;
        uint8_t *write;
        assert_int_equal(ct_arena_alloc(arena, 1000, 16, &a, &write), CT_OK);
        ct_arena_trim(arena, a, 10);
        assert_int_equal(ct_arena_bytes_used(arena), 10);
        assert_int_equal(ct_arena_alloc(arena, 100, 16, &b, &write), CT_OK);
        assert_int_equal(b, a + 16);
        ct_arena_trim(arena, a, 1); /* not the newest: ignored */
        ct_arena_trim(arena, b, 101);
        assert_int_equal(ct_arena_bytes_used(arena), 116);
        struct ct_arena_mark mark = ct_arena_mark(arena);
        for (int i = 0; i < 40; i++)
            assert_int_equal(ct_arena_alloc(arena, CT_SLAB_CODE, 1, &c, &write), CT_OK);
        assert_int_equal(ct_arena_slab_count(arena), 41);
        ct_arena_rewind(arena, mark);
        assert_int_equal(ct_arena_bytes_used(arena), 116);
        assert_int_equal(ct_arena_slab_count(arena), 1);
        assert_true(survey(c).prot <= 0);
        assert_int_equal(ct_arena_alloc(arena, 8, 64, &c, &write), CT_OK);
        assert_int_equal(c, (a + 116 + 63) & ~63ull);
        ct_arena_destroy(arena);
    }
}

static void test_bad_allocations(void **state) {
    (void)state;
    struct ct_arena *arena = arena_near(here(), here(), CT_WX_AUTO);
    uint64_t run;
    uint8_t *write;
    assert_int_equal(ct_arena_alloc(arena, 0, 8, &run, &write), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_arena_alloc(arena, 8, 0, &run, &write), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_arena_alloc(arena, 8, 24, &run, &write), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_arena_alloc(arena, 8, 8192, &run, &write), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_arena_alloc(arena, CT_SLAB_CODE + 1, 1, &run, &write), CT_ERR_NO_SPACE);
    assert_int_equal(ct_arena_bytes_used(arena), 0);
    ct_arena_destroy(arena);
    ct_arena_destroy(NULL);
    assert_int_equal(ct_arena_create(NULL, 0, 0, REACH, CT_WX_AUTO), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_arena_create(&arena, 2, 1, REACH, CT_WX_AUTO), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_arena_create(&arena, here(), here() + 2 * REACH, REACH, CT_WX_AUTO), CT_ERR_OUT_OF_RANGE);
}

static void test_hundred_mebibytes(void **state) {
    (void)state;
    EACH_MODE(mode) {
        enum { PIECE = 64 << 10, N = (100 << 20) / PIECE };
        static uint64_t runs[N];
        int maps = survey(0).maps;
        struct ct_arena *arena = arena_near(here(), here(), *mode);
        assert_int_equal(ct_arena_thaw(arena), CT_OK);
        for (uint32_t i = 0; i < N; i++) {
            uint64_t word = function_returning(i);
            uint8_t *write;
            assert_int_equal(ct_arena_alloc(arena, PIECE, 4096, &runs[i], &write), CT_OK);
            memcpy(write + PIECE - 8, &word, 8);
        }
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(call_at(runs[i] + PIECE - 8), i);
            assert_near(runs[i] & ~4095ull, here(), here(), REACH + CT_SLAB_SIZE);
        }
        assert_true(ct_arena_slab_count(arena) >= (size_t)(100 << 20) / CT_SLAB_CODE);
        ct_arena_destroy(arena);
        assert_int_equal(survey(0).maps, maps);
    }
}

/* ---- places ---- */

static int first_of(void *arg, const struct ct_os_map *map) {
    struct ct_os_map *want = arg;
    if (!strstr(map->path, want->path) || !(map->prot & CT_OS_EXEC))
        return 0;
    *want = *map;
    return 1;
}

static void check_place(uint64_t start, uint64_t end) {
    struct ct_arena *arena = arena_near(start, end, CT_WX_AUTO);
    uint64_t run = 0, heap = ct_os_heap_end();
    uint8_t *write;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ct_arena_alloc(arena, CT_SLAB_CODE, 1, &run, &write), CT_OK);
        assert_near(run, start, end, REACH);
        assert_true(run + CT_SLAB_CODE <= heap || run - CT_SLAB_HEADER >= heap + GIB);
    }
    ct_arena_destroy(arena);
}

static void test_near_program_library_and_stack(void **state) {
    (void)state;
    struct ct_os_map libc = {.path = "libc"};
    int local;
    uint64_t stack = (uint64_t)(uintptr_t)&local;
    assert_int_equal(ct_os_each_map(first_of, &libc), 1);
    check_place(here(), here() + 4096);
    check_place(libc.start, libc.end);
    check_place(stack, stack + 1);
    void *heap = sbrk(4096); /* there is one now */
    check_place((uint64_t)(uintptr_t)heap, (uint64_t)(uintptr_t)heap + 4096);
    check_place(here() & ~4095ull, (here() & ~4095ull) + GIB);
}

static void test_near_low_addresses(void **state) {
    (void)state;
    /* where programs that are not position-independent live */
    if (ct_os_reserve_at(0x400000, 0x100000) != CT_OK)
        skip();
    check_place(0x400000, 0x500000);
    ct_os_free((void *)0x400000, 0x100000);
}

/* Everything within reach is taken but for one hole. */
static void test_last_hole(void **state) {
    (void)state;
    size_t span = 8 * GIB;
    void *area = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        skip();
    uint64_t served = (uint64_t)(uintptr_t)area + span / 2;
    struct ct_arena *arena = NULL;
    assert_int_equal(ct_arena_create(&arena, served, served + 4096, REACH, CT_WX_AUTO), CT_ERR_OUT_OF_RANGE);
    const int64_t holes[] = {GIB, -(int64_t)GIB, (int64_t)REACH - (6 << 20), -(int64_t)REACH + (1 << 20)};
    for (size_t i = 0; i < 4; i++) {
        uint64_t hole = (served + (uint64_t)holes[i]) & ~0xfffffull, run;
        uint8_t *write;
        munmap((void *)hole, 5 << 20);
        arena = arena_near(served, served + 4096, CT_WX_AUTO);
        int maps = survey(0).maps;
        assert_int_equal(ct_arena_alloc(arena, CT_SLAB_CODE, 1, &run, &write), CT_OK);
        assert_true(run >= hole && run + CT_SLAB_CODE <= hole + (5 << 20));
        assert_near(run, served, served + 4096, REACH);
        assert_int_equal(ct_arena_alloc(arena, 1, 1, &run, &write), CT_ERR_OUT_OF_RANGE);
        assert_int_equal(ct_arena_bytes_used(arena), CT_SLAB_CODE);
        assert_int_equal(survey(0).maps, maps);
        ct_arena_destroy(arena);
        assert_int_equal(ct_os_reserve_at(hole, 5 << 20), CT_OK);
    }
    munmap(area, span);
}

/* ---- fork ---- */

static struct ct_arena *forked_arena;
static uint64_t forked_run;

static int change_in_child(void) {
    if (call_at(forked_run) != 1)
        return 1;
    if (ct_arena_store8(forked_arena, forked_run, function_returning(2)) != CT_OK || call_at(forked_run) != 2)
        return 2;
    if (ct_arena_thaw_fresh(forked_arena) != CT_OK)
        return 3;
    uint64_t run = add_function(forked_arena, 3);
    if (ct_arena_freeze(forked_arena) != CT_OK)
        return 4;
    return call_at(run) == 3 && call_at(forked_run) == 2 ? 0 : 5;
}

static int destroy_in_child(void) {
    ct_arena_destroy(forked_arena);
    return 0;
}

static void test_child_never_changes_its_parent(void **state) {
    (void)state;
    EACH_MODE(mode) {
        forked_arena = arena_near(here(), here(), *mode);
        assert_int_equal(ct_arena_thaw(forked_arena), CT_OK);
        forked_run = add_function(forked_arena, 1);
        assert_int_equal(ct_arena_freeze(forked_arena), CT_OK);
        assert_int_equal(in_child(change_in_child), 0);
        assert_int_equal(call_at(forked_run), 1);
        assert_int_equal(in_child(destroy_in_child), 0);
        assert_int_equal(call_at(forked_run), 1);
        assert_int_equal(ct_arena_thaw_fresh(forked_arena), CT_OK);
        uint64_t mine = add_function(forked_arena, 4); /* at the place where the child had its own */
        assert_int_equal(ct_arena_freeze(forked_arena), CT_OK);
        assert_int_equal(call_at(mine), 4);
        ct_arena_destroy(forked_arena);
    }
}

/* Whatever way code is written, the processor is synchronized before it runs: by each write, or when it is thawed again
 * or frozen. */
static void test_writes_are_synced(void **state) {
    (void)state;
    EACH_MODE(mode) {
        struct ct_arena *arena = arena_near(here(), here(), *mode);
        uint64_t word = function_returning(7);
        synced_count = 0;
        assert_int_equal(ct_arena_thaw(arena), CT_OK);
        uint64_t first = add_function(arena, 1);
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        assert_true(was_synced(first, 8));
        assert_int_equal(ct_arena_thaw_fresh(arena), CT_OK);
        uint64_t second = add_function(arena, 2);
        assert_int_equal(ct_arena_thaw_fresh(arena), CT_OK);
        assert_true(was_synced(second, 8));
        uint64_t third = add_function(arena, 3);
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        assert_true(was_synced(third, 8));
        assert_int_equal(ct_arena_freeze(arena), CT_OK);
        assert_int_equal(synced_count, 0);
        assert_int_equal(ct_arena_store8(arena, first, word), CT_OK);
        assert_true(was_synced(first, 8));
        assert_int_equal(ct_arena_write(arena, second, &word, sizeof word), CT_OK);
        assert_true(was_synced(second, 8));
        assert_int_equal(call_at(first) + call_at(second) + call_at(third), 17);
        ct_arena_destroy(arena);
    }
}

static int copy_in_child(void) {
    synced_count = 0;
    return ct_arena_unshare(forked_arena) != CT_OK || synced_count != 1 || synced[0].size < 8;
}

/* A copy of code is code that was written. */
static void test_copies_are_synced(void **state) {
    (void)state;
    for (size_t i = 1; i < 3; i++) { /* DUAL, PROTECT */
        forked_arena = arena_near(here(), here(), modes[i]);
        assert_int_equal(ct_arena_thaw(forked_arena), CT_OK);
        forked_run = add_function(forked_arena, 1);
        assert_int_equal(ct_arena_freeze(forked_arena), CT_OK);
        assert_int_equal(in_child(copy_in_child), 0);
        ct_arena_destroy(forked_arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_code_runs),
        cmocka_unit_test(test_auto_takes_the_first_mode),
        cmocka_unit_test(test_auto_without_rwx),
        cmocka_unit_test(test_wx_and_header),
        cmocka_unit_test(test_thaw_fresh_keeps_old_code_running),
        cmocka_unit_test(test_store8_under_a_running_thread),
        cmocka_unit_test(test_bad_stores),
        cmocka_unit_test(test_write_across_pages),
        cmocka_unit_test(test_trim_and_rewind),
        cmocka_unit_test(test_bad_allocations),
        cmocka_unit_test(test_hundred_mebibytes),
        cmocka_unit_test(test_near_program_library_and_stack),
        cmocka_unit_test(test_near_low_addresses),
        cmocka_unit_test(test_last_hole),
        cmocka_unit_test(test_child_never_changes_its_parent),
        cmocka_unit_test(test_writes_are_synced),
        cmocka_unit_test(test_copies_are_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
