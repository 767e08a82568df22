/* SPDX-License-Identifier: Apache-2.0 */
/* What must be refused: addresses that are no code, not mapped, in a hook, in Contrail itself, or hooked already; calls
 * in the wrong state. Each with its own error, and without changing a byte. A failed transaction changes nothing. */
#include "harness.h"
#include "text.h"
#include <asm/prctl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static E2E_FN int one(int x) {
    int y = x * 3;
    E2E_BARRIER();
    return y + 1;
}

static E2E_FN int two(int x) {
    int y = x * 5;
    E2E_BARRIER();
    return y + 1;
}

static E2E_FN int three(int x) {
    int y = x * 7;
    E2E_BARRIER();
    return y + 1;
}

__asm__(".text\n"
        ".balign 16, 0xcc\n"
        ".type nonsense, @function\n"
        "nonsense: .byte 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27\n" /* no instructions in 64-bit mode */
        ".size nonsense, . - nonsense\n"
        ".balign 16, 0xcc\n");
void nonsense(void);

static int data = 7;
static const char *text = "text is no code either";

static void listener_function(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    (void)call;
}

/* All three ways to hook give the same answer. */
static void refused(int line, void *address, int expected) {
    struct ct_hook_listener listener = {.size = sizeof listener, .on_call = listener_function};
    void *original = (void *)0x5a5a;
    uint64_t before = text_fingerprint();
    int results[3] = {ct_hooks_record(e2e_hooks, address), ct_hooks_attach(e2e_hooks, address, &listener, NULL),
                      ct_hooks_replace(e2e_hooks, address, (void *)listener_function, &original)};
    for (int i = 0; i < 3; i++)
        if (results[i] != expected)
            e2e_fail(__FILE__, line, "way %d of hooking gave %d %s, expected %s", i, results[i],
                     ct_status_name(results[i]), ct_status_name(expected));
    if (original != (void *)0x5a5a)
        e2e_fail(__FILE__, line, "a failed replacement set *original");
    if (text_fingerprint() != before)
        e2e_fail(__FILE__, line, "code has changed");
}
#define REFUSED(address, expected) refused(__LINE__, (void *)(address), expected)

static void check_addresses(void) {
    char *heap = malloc(100);
    int local = 0;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REFUSED(&data, CT_ERR_NOT_CODE);
    REFUSED(text, CT_ERR_NOT_CODE);
    REFUSED(heap, CT_ERR_NOT_CODE);
    REFUSED(&local, CT_ERR_NOT_CODE);
    REFUSED(page, CT_ERR_NOT_CODE);
    munmap(page, 4096);
    REFUSED(page, CT_ERR_NOT_MAPPED);
    REFUSED(NULL, CT_ERR_NOT_MAPPED);
    REFUSED(16, CT_ERR_NOT_MAPPED);
    REFUSED(0x7ffffffff000, CT_ERR_NOT_MAPPED);
    REFUSED(0xffff800000000000, CT_ERR_NOT_MAPPED);
    REFUSED(UINTPTR_MAX, CT_ERR_NOT_MAPPED);
    REFUSED(ct_hooks_attach, CT_ERR_OWN_CODE);
    REFUSED(ct_hooks_create, CT_ERR_OWN_CODE);
    REFUSED(ct_status_text, CT_ERR_OWN_CODE);
    uint64_t before = text_fingerprint();
    E2E_CHECK(ct_hooks_record(e2e_hooks, (void *)nonsense) < 0);
    E2E_EQUAL(text_fingerprint(), before);
    char reason[300] = "";
    E2E_EQUAL(ct_hooks_reason(e2e_hooks, reason, sizeof reason), 0);
    E2E_CHECK(!strncmp(reason, "nonsense (0x", 12) && strstr(reason, ct_hook_skip_text(CT_HOOK_SKIP_UNDECODABLE)));
    free(heap);
}

static void check_names(void) {
    void *found = NULL, *in_module = NULL;
    E2E_EQUAL(ct_hooks_find(e2e_hooks, "three", &found), 0);
    E2E_CHECK(found == (void *)three);
    E2E_EQUAL(ct_hooks_find(e2e_hooks, "libc.so.6!qsort", &in_module), 0);
    E2E_EQUAL(ct_hooks_find(e2e_hooks, "qsort", &found), 0);
    E2E_CHECK(found == in_module && in_module == (void *)qsort);
    found = NULL;
    E2E_EQUAL(ct_hooks_find(e2e_hooks, "libc.so.6!three", &found), CT_ERR_NOT_FOUND);
    E2E_EQUAL(ct_hooks_find(e2e_hooks, "no such function", &found), CT_ERR_NOT_FOUND);
    E2E_EQUAL(ct_hooks_find(e2e_hooks, "thre*", &found), CT_ERR_NOT_FOUND); /* a name, not a glob */
    E2E_EQUAL(ct_hooks_find(e2e_hooks, "libnone.so!three", &found), CT_ERR_NOT_FOUND);
    E2E_EQUAL(ct_hooks_find(e2e_hooks, "", &found), CT_ERR_INVALID_ARGUMENT);
    E2E_CHECK(!found);
}

static void check_hooked(void) {
    void *original = NULL;
    uint64_t before = text_fingerprint();
    int hook = ct_hooks_replace(e2e_hooks, (void *)one, (void *)two, &original);
    E2E_CHECK(hook >= 0);
    E2E_CHECK(text_fingerprint() != before);
    REFUSED(one, CT_ERR_ALREADY_HOOKED);
    char *volatile inside = (char *)(void *)one; /* an address that the code itself took would be a label to jump to */
    for (int i = 1; i < 5; i++)
        REFUSED(inside + i, CT_ERR_INSIDE_HOOK);
    REFUSED(original, CT_ERR_OWN_CODE); /* in a stub */
    E2E_EQUAL(one(1), 6);
    E2E_EQUAL(((int (*)(int))original)(1), 4);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
    E2E_EQUAL(text_fingerprint(), before);
    E2E_EQUAL(one(1), 4);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), CT_ERR_NOT_FOUND);
    hook = ct_hooks_record(e2e_hooks, (void *)one);
    REFUSED(one, CT_ERR_ALREADY_HOOKED);
    E2E_EQUAL(ct_hooks_disable(e2e_hooks, hook), 0);
    REFUSED(one, CT_ERR_ALREADY_HOOKED); /* disabled hooks are hooks */
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
    E2E_EQUAL(text_fingerprint(), before);
}

static void check_numbers(void) {
    static const int numbers[] = {-1, INT_MIN, INT_MAX, 1000000};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, numbers[i]), CT_ERR_NOT_FOUND);
        E2E_EQUAL(ct_hooks_disable(e2e_hooks, numbers[i]), CT_ERR_NOT_FOUND);
        E2E_EQUAL(ct_hooks_enable(e2e_hooks, numbers[i]), CT_ERR_NOT_FOUND);
    }
    struct ct_hooks_module what = {
        .size = sizeof what, .module = "libno_such_module.so.9", .flavor = CT_HOOK_FLAVOR_RECORD};
    E2E_EQUAL(ct_hooks_attach_module(e2e_hooks, &what), CT_ERR_NOT_FOUND);
}

static void check_states(void) {
    struct ct_hooks *another = (struct ct_hooks *)0x5a5a;
    E2E_CHECK(ct_hooks_create(&another, NULL) < 0); /* one at a time */
    E2E_EQUAL(ct_hooks_commit(e2e_hooks), CT_ERR_BAD_STATE);
    ct_hooks_abort(e2e_hooks); /* nothing to abort: nothing happens */
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), CT_ERR_BAD_STATE);
    E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0); /* an empty one */
    E2E_EQUAL(ct_hooks_commit(e2e_hooks), CT_ERR_BAD_STATE);
}

static void check_results(int line) {
    if (one(2) != 7 || two(2) != 11 || three(2) != 15)
        e2e_fail(__FILE__, line, "a function gives wrong results");
}

/* Nothing takes effect before commit; nothing at all after abort. */
static void check_abort(void) {
    uint64_t before = text_fingerprint();
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    E2E_CHECK(ct_hooks_record(e2e_hooks, (void *)one) >= 0);
    E2E_CHECK(ct_hooks_record(e2e_hooks, (void *)two) >= 0);
    E2E_EQUAL(text_fingerprint(), before);
    REFUSED(one, CT_ERR_ALREADY_HOOKED); /* in this transaction */
    char *volatile inside = (char *)(void *)two;
    REFUSED(inside + 2, CT_ERR_INSIDE_HOOK);
    ct_hooks_abort(e2e_hooks);
    E2E_EQUAL(text_fingerprint(), before);
    check_results(__LINE__);
    E2E_EQUAL(ct_hooks_commit(e2e_hooks), CT_ERR_BAD_STATE);
}

/* Good, good, bad: the commit fails as a whole. */
static void check_failed_commit(void) {
    uint64_t before = text_fingerprint();
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    int first = ct_hooks_record(e2e_hooks, (void *)one);
    E2E_CHECK(first >= 0);
    E2E_CHECK(ct_hooks_record(e2e_hooks, (void *)two) >= 0);
    E2E_EQUAL(ct_hooks_record(e2e_hooks, &data), CT_ERR_NOT_CODE);
    E2E_CHECK(ct_hooks_commit(e2e_hooks) < 0);
    E2E_EQUAL(text_fingerprint(), before);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, first), CT_ERR_NOT_FOUND);
    check_results(__LINE__);
    e2e_forget();
    E2E_EXPECT("");
}

/* A transaction may take hooks away, too: aborted, they stay. */
static void check_aborted_revert(void) {
    uint64_t before = text_fingerprint();
    int hook = ct_hooks_record(e2e_hooks, (void *)one);
    E2E_CHECK(hook >= 0);
    e2e_name(hook, "one");
    uint64_t hooked = text_fingerprint();
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
    int other = ct_hooks_record(e2e_hooks, (void *)three);
    E2E_CHECK(other >= 0);
    E2E_EQUAL(text_fingerprint(), hooked);
    ct_hooks_abort(e2e_hooks);
    E2E_EQUAL(text_fingerprint(), hooked);
    check_results(__LINE__);
    E2E_EXPECT("one()");
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
    other = ct_hooks_record(e2e_hooks, (void *)three);
    E2E_CHECK(other >= 0);
    e2e_name(other, "three");
    E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
    check_results(__LINE__);
    E2E_EXPECT("three()");
    E2E_EQUAL(ct_hooks_revert(e2e_hooks, other), 0);
    E2E_EQUAL(text_fingerprint(), before);
}

/* Memory that a program made executable itself: functions there are functions, up to the page's last byte. */
static void check_generated_code(void) {
    static const unsigned char add_one[] = {0x48, 0x8d, 0x47, 0x01, 0x90, 0x90, 0xc3}; /* lea rax, [rdi+1]; ret */
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    munmap(page + 4096, 4096);
    memset(page, 0xcc, 4096);
    memcpy(page + 64, add_one, sizeof add_one);
    memcpy(page + 4096 - sizeof add_one, add_one, sizeof add_one); /* up against the end */
    page[4096 - sizeof add_one - 2] = 0xc3;
    long (*functions[2])(long) = {(long (*)(long))(page + 64), (long (*)(long))(page + 4096 - sizeof add_one)};
    for (int i = 0; i < 2; i++) {
        int hook = ct_hooks_record(e2e_hooks, (void *)functions[i]);
        E2E_CHECK(hook >= 0);
        e2e_name(hook, "generated");
        E2E_EQUAL(functions[i](41), 42);
        E2E_EXPECT("generated()");
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
    }
    E2E_CHECK(memcmp(page + 4096 - sizeof add_one, add_one, sizeof add_one) == 0);
    memset(page, 0x90, 4096); /* nothing but nops up to the end of the mapping: no function ends here */
    page[4095] = 0xc3;
    int hook = ct_hooks_record(e2e_hooks, page + 4095); /* one byte, nothing after it: refused or working */
    if (hook >= 0) {
        e2e_name(hook, "last_byte");
        ((void (*)(void))(page + 4095))();
        E2E_EXPECT("last_byte()");
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
    }
    munmap(page, 4096);
}

/* A program that uses GS for itself can't be hooked: we need it. */
static void check_gs(void) {
    static uint64_t theirs[8];
    uint64_t before = text_fingerprint(), gs = 0;
    syscall(SYS_arch_prctl, ARCH_SET_GS, theirs);
    E2E_EQUAL(ct_hooks_record(e2e_hooks, (void *)one), CT_ERR_UNSUPPORTED);
    E2E_EQUAL(text_fingerprint(), before);
    syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
    E2E_CHECK(gs == (uint64_t)(uintptr_t)theirs);
    check_results(__LINE__);
    syscall(SYS_arch_prctl, ARCH_SET_GS, 0);
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    check_results(__LINE__);
    if (!e2e_plain()) {
        uint64_t untouched = text_fingerprint();
        check_gs();
        /* With its first hook the engine begins to watch the unwinder and its like, until it is destroyed. */
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, ct_hooks_record(e2e_hooks, (void *)one)), 0);
        uint64_t before = text_fingerprint();
        check_addresses();
        check_names();
        check_hooked();
        check_numbers();
        check_states();
        check_abort();
        check_failed_commit();
        check_aborted_revert();
        check_generated_code();
        E2E_EQUAL(text_fingerprint(), before);
        for (int i = 0; i < 100; i++) { /* whole sets come and go without a trace */
            E2E_RECORD(one);
            E2E_RECORD(two);
            ct_hooks_destroy(e2e_hooks);
            E2E_EQUAL(text_fingerprint(), untouched);
            e2e_begin(argc, argv);
        }
    }
    return e2e_end();
}
