/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves of 2, 3 and 4 bytes between long functions, without a byte of padding: their springboards are in the bytes of
 * a neighbour, which is hooked too or is given a stub for that alone.
 *
 * An engine can go wrong here by removing one of two hooks that share bytes, by leaving a thread in bytes that become a
 * springboard, and by using bytes that something jumps to. */
#include "harness.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__asm__(".text\n"
        ".macro function name\n"
        ".type \\name, @function\n"
        "\\name:\n"
        ".endm\n"
        ".macro end name\n"
        ".size \\name, . - \\name\n"
        ".endm\n"
        /* Nothing in reach of what is on both sides: it may jump anywhere, so it has no room. */
        ".macro wall name\n"
        "function \\name\n"
        ".fill 300, 1, 0xf8\n" /* clc */
        "jmp *%rax\n"
        "end \\name\n"
        ".endm\n"

        ".balign 64\n"
        "area_begin:\n"
        "wall wall_before\n"
        /* long host(long *p): *p + 7 */
        "function host\n"
        "  mov $7, %eax\n"
        "  add (%rdi), %rax\n" /* +5: where a springboard will be */
        "  mov $0, %ecx\n"
        "  mov $0, %edx\n"
        "  add %rcx, %rax\n"
        "  ret\n"
        "end host\n"
        /* Each leaves rax alone. */
        "function leaf2\n .byte 0xf8\n ret\n end leaf2\n"
        "function leaf3\n .byte 0xf8, 0xf8\n ret\n end leaf3\n"
        "function leaf4\n lea (%rdi), %ecx\n .byte 0xf8\n ret\n end leaf4\n"
        "wall wall_after\n"

        /* Here only branched() could be a host, and its byte 6 is the target of a branch. */
        "function branched\n"
        "  mov $7, %eax\n"
        "  nop\n"
        "1: dec %edi\n"
        "  jns 1b\n"
        "  mov $1, %ecx\n"
        "  ret\n"
        "end branched\n"
        "function homeless3\n .byte 0xf8, 0xf8\n ret\n end homeless3\n"
        "function single\n ret\n end single\n"
        /* The second byte is where the loop lands. */
        "function landed\n .byte 0xf8\n 1: dec %edi\n jns 1b\n end landed\n"
        "wall wall_last\n"
        "area_end:\n"

        /* long call_keeping_rax(void (*f)(void), long rax) */
        ".balign 16, 0xcc\n"
        ".type call_keeping_rax, @function\n"
        "call_keeping_rax:\n"
        "  sub $8, %rsp\n"
        "  mov %rsi, %rax\n"
        "  mov %rdi, %r11\n"
        "  mov %rsi, %rdi\n"
        "  call *%r11\n"
        "  add $8, %rsp\n"
        "  ret\n"
        ".size call_keeping_rax, . - call_keeping_rax\n");

long call_keeping_rax(void (*f)(void), long rax);
long host(long *p);
void leaf2(void), leaf3(void), leaf4(void), branched(void), homeless3(void), single(void), landed(void);
extern char area_begin[], area_end[];

static void (*const leaves[])(void) = {leaf2, leaf3, leaf4};
static const char *const names[] = {"leaf2", "leaf3", "leaf4"};
static char *before;
static long one = 1;

static bool as_before(void) {
    return !memcmp(before, area_begin, (size_t)(area_end - area_begin));
}

static void call_all(void) {
    E2E_EQUAL(host(&one), 8);
    for (int i = 0; i < 3; i++)
        E2E_EQUAL(call_keeping_rax(leaves[i], 100 + i), 100 + i);
}

static void revert(int hook) {
    if (!e2e_plain())
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
}

/* ---- orders ---- */

/* The neighbour is not hooked: it works, and is not seen. */
static void check_alone(void) {
    for (int i = 0; i < 3; i++) {
        char expected[32];
        int hook = e2e_record(names[i], (void *)leaves[i]);
        call_all();
        snprintf(expected, sizeof expected, "%s()", names[i]);
        E2E_EXPECT(expected);
        revert(hook);
        call_all();
        E2E_EXPECT("");
        E2E_CHECK(as_before());
    }
    int hooks[3];
    for (int i = 0; i < 3; i++)
        hooks[i] = e2e_record(names[i], (void *)leaves[i]);
    call_all();
    E2E_EXPECT("leaf2() leaf3() leaf4()");
    for (int i = 0; i < 3; i++)
        revert(hooks[i]);
    E2E_CHECK(as_before());
}

/* The host goes first, and stays while it is needed; comes back; and goes last. */
static void check_host_first(void) {
    int h = E2E_RECORD(host), l = E2E_RECORD(leaf3);
    call_all();
    E2E_EXPECT("host() leaf3()");
    revert(h);
    call_all();
    E2E_EXPECT("leaf3()");
    if (!e2e_plain()) {
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, h), CT_ERR_NOT_FOUND);
        E2E_CHECK(!as_before());
    }
    h = E2E_RECORD(host);
    call_all();
    E2E_EXPECT("host() leaf3()");
    int other = E2E_RECORD(leaf2);
    call_all();
    E2E_EXPECT("host() leaf2() leaf3()");
    revert(h);
    revert(l);
    call_all();
    E2E_EXPECT("leaf2()");
    revert(other);
    call_all();
    E2E_EXPECT("");
    E2E_CHECK(as_before());
}

static void check_leaf_first(void) {
    int l = E2E_RECORD(leaf4), h = E2E_RECORD(host);
    call_all();
    E2E_EXPECT("host() leaf4()");
    revert(l);
    call_all();
    E2E_EXPECT("host()");
    if (!e2e_plain()) {
        E2E_EQUAL(ct_hooks_disable(e2e_hooks, h), 0);
        l = E2E_RECORD(leaf4);
        call_all();
        E2E_EXPECT("leaf4()");
        revert(l);
    }
    revert(h);
    call_all();
    E2E_EXPECT("");
    E2E_CHECK(as_before());
}

static void check_transactions(void) {
    if (e2e_plain())
        return;
    int l = E2E_RECORD(leaf2), h = E2E_RECORD(host);
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    revert(h);
    revert(l);
    ct_hooks_abort(e2e_hooks);
    call_all();
    E2E_EXPECT("host() leaf2()");
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    revert(h);
    revert(l);
    E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
    E2E_CHECK(as_before());
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0); /* the host is needed before it is hooked itself */
    l = E2E_RECORD(leaf2);
    h = E2E_RECORD(host);
    E2E_CHECK(e2e_try_record("host", (void *)host) == CT_ERR_ALREADY_HOOKED);
    ct_hooks_abort(e2e_hooks);
    E2E_CHECK(as_before());
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    l = E2E_RECORD(leaf2);
    h = E2E_RECORD(host);
    E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
    call_all();
    E2E_EXPECT("host() leaf2()");
    revert(l);
    revert(h);
    E2E_CHECK(as_before());
}

/* ---- what must be refused, and why ---- */

static int is_mine(void *arg, const char *name, void *address, size_t length) {
    (void)arg, (void)name, (void)length;
    return (char *)address >= area_begin && (char *)address < area_end;
}

static enum ct_hook_skip_reason reason_of(void *function) {
    struct ct_hook_info info = {.size = sizeof info};
    for (uint64_t position = 0; ct_hooks_next(e2e_hooks, &position, &info) > 0;)
        if (info.function == function)
            return info.skip;
    return CT_HOOK_SKIP_COUNT;
}

static void check_reasons(void) {
    if (e2e_plain())
        return;
    E2E_EQUAL(e2e_try_record("homeless3", (void *)homeless3), CT_ERR_HOOK_FAILED);
    E2E_EQUAL(e2e_try_record("single", (void *)single), CT_ERR_HOOK_FAILED);
    E2E_EQUAL(e2e_try_record("landed", (void *)landed), CT_ERR_HOOK_FAILED);
    E2E_CHECK(as_before());
    struct ct_hooks_module what = {.size = sizeof what, .flavor = CT_HOOK_FLAVOR_RECORD, .filter = is_mine};
    E2E_EQUAL(ct_hooks_attach_module(e2e_hooks, &what), 0);
    E2E_EQUAL(reason_of((void *)homeless3), CT_HOOK_SKIP_NO_SPRINGBOARD);
    E2E_EQUAL(reason_of((void *)single), CT_HOOK_SKIP_TOO_SHORT);
    E2E_EQUAL(reason_of((void *)landed), CT_HOOK_SKIP_BRANCH_INTO);
    E2E_EQUAL(reason_of((void *)host), CT_HOOK_SKIP_NONE);
    for (int i = 0; i < 3; i++)
        E2E_EQUAL(reason_of((void *)leaves[i]), CT_HOOK_SKIP_NONE);
    call_all();
    E2E_EQUAL(e2e_summarize(-1).calls, 4);
    e2e_forget();
}

/* ---- threads ---- */

static volatile bool stop;

static void *caller_main(void *arg) {
    long *count = arg;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (host(&one) != 8)
            e2e_fail(__FILE__, __LINE__, "wrong result of host");
        for (int i = 0; i < 3; i++)
            if (call_keeping_rax(leaves[i], 100 + i) != 100 + i)
                e2e_fail(__FILE__, __LINE__, "wrong result of %s", names[i]);
        if (__atomic_add_fetch(count, 1, __ATOMIC_RELAXED) > 20000)
            usleep(100);
    }
    return NULL;
}

/* Hooks come and go in all orders while three threads call the functions. */
static void check_threads(void) {
    static const char orders[][5] = {"HLhl", "LHlh", "HLlh", "LHhl", "LHhH", "LlHL"};
    pthread_t threads[3];
    long counts[3] = {0};
    int h = -1, l = -1;
    stop = false;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, caller_main, &counts[i]);
    for (int round = 0; round < 24; round++) {
        for (const char *step = orders[round % 6]; *step; step++) {
            int which = round % 3;
            if (*step == 'H')
                h = E2E_RECORD(host);
            else if (*step == 'L')
                l = e2e_record(names[which], (void *)leaves[which]);
            else
                revert(*step == 'h' ? h : l);
            usleep(50);
        }
        if (round % 6 >= 4) { /* these orders end with both */
            revert(h);
            revert(l);
        }
        E2E_CHECK(as_before());
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(-1);
    E2E_EQUAL(s.calls, s.returns);
    E2E_EQUAL(s.open + s.unpaired + s.left, 0);
    e2e_forget();
}

/* A thread is interrupted at the instruction that gives way to a springboard, and goes on when that is there. */
static sem_t in_handler, leave_handler;
static long *page;

static void on_fault(int number) {
    (void)number;
    sem_post(&in_handler);
    while (sem_wait(&leave_handler))
        ;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void *fault_main(void *result) {
    *(long *)result = host(page);
    return NULL;
}

static void check_interrupted(void) {
    struct sigaction action = {.sa_handler = on_fault}, old;
    pthread_t thread;
    long result = 0;
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, &old);
    sem_init(&in_handler, 0, 0);
    sem_init(&leave_handler, 0, 0);
    pthread_create(&thread, NULL, fault_main, &result);
    while (sem_wait(&in_handler))
        ;
    int l = E2E_RECORD(leaf3);
    sem_post(&leave_handler);
    pthread_join(thread, NULL);
    E2E_EQUAL(result, 7);
    revert(l);
    E2E_CHECK(as_before());
    sigaction(SIGSEGV, &old, NULL);
    munmap(page, 4096);
    e2e_forget();
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    size_t size = (size_t)(area_end - area_begin);
    before = __builtin_alloca(size);
    memcpy(before, area_begin, size);
    call_all();
    E2E_EXPECT("");
    check_alone();
    check_host_first();
    check_leaf_first();
    check_transactions();
    check_threads();
    check_interrupted();
    check_reasons(); /* hooks everything, up to the end */
    return e2e_end();
}
