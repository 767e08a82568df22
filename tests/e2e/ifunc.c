/* SPDX-License-Identifier: Apache-2.0 */
/* IFUNCs: one's own, and libc's (memcpy, strlen and their kind, hooked at the implementation that was chosen and at
 * every other one).
 *
 * An engine can go wrong here by hooking the resolver where the implementation was meant, and by calling a hooked
 * memcpy from its own slow paths. */
#include "harness.h"
#include <stdlib.h>
#include <string.h>

static int resolved;

static E2E_FN int implementation_a(int x) {
    E2E_BARRIER();
    return x + 100;
}

static E2E_FN int implementation_b(int x) {
    E2E_BARRIER();
    return x + 200;
}

__attribute__((used)) static int (*resolve_chosen(void))(int) {
    resolved++;
#ifdef __x86_64__
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse2") ? implementation_b : implementation_a;
#else
    return resolved ? implementation_b : implementation_a;
#endif
}

int chosen(int x) __attribute__((ifunc("resolve_chosen")));

static E2E_FN int caller(int x) {
    int y = chosen(x);
    E2E_BARRIER();
    return y + 1;
}

static void check_own(void) {
    E2E_EQUAL(caller(1), 202);
    int before = resolved;
    E2E_RECORD(implementation_a);
    E2E_RECORD(implementation_b);
    E2E_RECORD(caller);
    E2E_EQUAL(caller(1), 202);
    E2E_EXPECT("caller(implementation_b())");
    int (*volatile pointer)(int) = chosen; /* its address is the implementation's, or a PLT entry that goes there */
    E2E_EQUAL(pointer(5), 205);
    E2E_EXPECT("implementation_b()");
    E2E_EQUAL(resolved, before);
}

static E2E_FN size_t use_strings(char *buffer, const char *text) {
    /* through volatile pointers, or the compiler would do it all itself */
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    size_t (*volatile length)(const char *) = strlen;
    int (*volatile compare)(const char *, const char *) = strcmp;
    void *(*volatile set)(void *, int, size_t) = memset;
    char *(*volatile find)(const char *, int) = strchr;
    set(buffer, 0, 64);
    copy(buffer, text, length(text) + 1);
    E2E_EQUAL(compare(buffer, text), 0);
    E2E_CHECK(find(buffer, 'w') == buffer + 6);
    return length(buffer);
}

static void check_libc(void) {
    char buffer[64];
    e2e_record("memcpy", (void *)memcpy);
    e2e_record("strlen", (void *)strlen);
    e2e_record("strcmp", (void *)strcmp);
    e2e_record("memset", (void *)memset);
    e2e_record("strchr", (void *)strchr);
    E2E_RECORD(use_strings);
    e2e_forget();
    E2E_EQUAL(use_strings(buffer, "hello world"), 11);
    E2E_EXPECT("use_strings(memset() strlen() memcpy() strcmp() strchr() strlen())");
}

/* Vector arguments don't exist for them, but the fast versions live in vector registers across the hook's entry: big
 * copies of every size and alignment must come out right. */
static void check_copies(void) {
    static unsigned char from[9000], to[9000];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 31 + i / 251);
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    void *(*volatile move)(void *, const void *, size_t) = memmove;
    for (size_t size = 0; size < 4200; size += size < 300 ? 1 : 61)
        for (size_t shift = 0; shift < 4; shift++) {
            memset(to, 0xee, sizeof to);
            copy(to + shift, from + shift * 2, size);
            if (memcmp(to + shift, from + shift * 2, size) != 0 || to[shift + size] != 0xee)
                e2e_fail(__FILE__, __LINE__, "memcpy of %zu bytes went wrong", size);
            move(to + shift + 3, to + shift, size);
            if (memcmp(to + shift + 3, from + shift * 2, size) != 0)
                e2e_fail(__FILE__, __LINE__, "memmove of %zu bytes went wrong", size);
        }
    e2e_forget();
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    check_own();
    check_libc();
    check_copies();
    return e2e_end();
}
