/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of 1 to 16 bytes: with padding after them and squeezed against their neighbours, with endbr64 in front and
 * without.
 *
 * A patch needs 5 bytes. An engine can go wrong here by writing over the next function, over padding that is code after
 * all, or over bytes that the short function's body needs. Functions without room may be refused; then they run. */
#include "harness.h"
#include <string.h>

/* Each is (a run of one-byte nops, then) something that returns in eax what it got in edi, or for the shortest ones
 * leaves eax alone (the caller puts the value there). */
__asm__(".text\n"
        ".macro short_fn prefix, size\n"
        ".type \\prefix\\size, @function\n"
        "\\prefix\\size:\n"
        ".rept \\size - 1\n nop\n .endr\n"
        "ret\n"
        ".size \\prefix\\size, . - \\prefix\\size\n"
        ".endm\n"

        ".balign 64\n"
        /* padded to 16 with int3, as compilers and linkers do between functions */
        ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16\n"
        ".balign 16, 0xcc\n"
        "short_fn padded, \\n\n"
        ".endr\n"
        ".balign 16, 0xcc\n"
        /* padded with the long nops of the assembler */
        ".irp n, 1,2,3,4,5,6,7\n"
        ".p2align 4\n"
        "short_fn nopped, \\n\n"
        ".endr\n"
        ".p2align 4\n"
        /* squeezed: each begins where the one before ends */
        "squeezed_begin:\n"
        ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16\n"
        "short_fn squeezed, \\n\n"
        ".endr\n"
        "squeezed_end:\n"
        ".balign 16, 0xcc\n"
        /* endbr64 first: 4 bytes, and then 1 to 12 */
        ".macro guarded_fn size\n"
        ".balign 16, 0xcc\n"
        ".type guarded\\size, @function\n"
        "guarded\\size:\n"
        "endbr64\n"
        ".rept \\size - 5\n nop\n .endr\n"
        "ret\n"
        ".size guarded\\size, . - guarded\\size\n"
        ".endm\n"
        ".irp n, 5,6,7,8,9,10,11,12,13,14,15,16\n"
        "guarded_fn \\n\n"
        ".endr\n"
        ".balign 16, 0xcc\n"
        /* long call_keeping_rax(void (*f)(void), long rax): calls with a value in rax, gives back what is there then */
        ".type call_keeping_rax, @function\n"
        "call_keeping_rax:\n"
        "  sub $8, %rsp\n"
        "  mov %rsi, %rax\n"
        "  call *%rdi\n"
        "  add $8, %rsp\n"
        "  ret\n"
        ".size call_keeping_rax, . - call_keeping_rax\n");

long call_keeping_rax(void (*f)(void), long rax);
extern char squeezed_begin[], squeezed_end[];

#define EACH_16(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
#define EACH_7(X)  X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH_12(X) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
#define DECLARE(n) void padded##n(void), squeezed##n(void);
EACH_16(DECLARE)
#define DECLARE_NOPPED(n) void nopped##n(void);
EACH_7(DECLARE_NOPPED)
#define DECLARE_GUARDED(n) void guarded##n(void);
EACH_12(DECLARE_GUARDED)

struct short_function {
    const char *name;
    void (*function)(void);
    int size;
    bool must_hook;
    bool hooked;
};

#define PADDED(n)   {"padded" #n, padded##n, n, true, false},
#define NOPPED(n)   {"nopped" #n, nopped##n, n, true, false},
#define SQUEEZED(n) {"squeezed" #n, squeezed##n, n, n >= 5, false},
#define GUARDED(n)  {"guarded" #n, guarded##n, n, true, false},
static struct short_function functions[] = {EACH_16(PADDED) EACH_7(NOPPED) EACH_16(SQUEEZED) EACH_12(GUARDED)};
#define COUNT (sizeof functions / sizeof *functions)

static void call_all(void) {
    for (size_t i = 0; i < COUNT; i++) {
        struct short_function *f = &functions[i];
        for (long value = 1; value < 3; value++)
            if (call_keeping_rax(f->function, value * 1000 + f->size) != value * 1000 + f->size)
                e2e_fail(__FILE__, __LINE__, "%s changed rax", f->name);
        char expected[64];
        snprintf(expected, sizeof expected, "%s()*2", f->hooked ? f->name : "");
        E2E_EXPECT(f->hooked ? expected : "");
    }
}

static int hook_one(struct short_function *f) {
    int hook = e2e_try_record(f->name, (void *)f->function);
    if (hook < 0 && !e2e_plain()) {
        printf("%s: %s\n", f->name, ct_status_text(hook));
        if (f->must_hook)
            e2e_fail(__FILE__, __LINE__, "%s has room and was refused: %s", f->name, ct_status_name(hook));
    }
    f->hooked = hook >= 0;
    return hook;
}

int main(int argc, char **argv) {
    static int hooks[COUNT];
    e2e_begin(argc, argv);
    call_all();
    char *area = (char *)(void *)padded1;
    size_t size = (size_t)((char *)(void *)call_keeping_rax - area);
    char *before = __builtin_alloca(size);
    memcpy(before, area, size);

    /* one at a time: the others stay as they are */
    for (size_t i = 0; i < COUNT; i++) {
        hooks[i] = hook_one(&functions[i]);
        call_all();
        if (hooks[i] >= 0)
            E2E_EQUAL(ct_hooks_revert(e2e_hooks, hooks[i]), 0);
        functions[i].hooked = false;
        E2E_CHECK(memcmp(before, area, size) == 0);
    }
    /* all together */
    for (size_t i = 0; i < COUNT; i++)
        hooks[i] = hook_one(&functions[i]);
    call_all();
    for (size_t i = 0; i < COUNT; i++)
        if (hooks[i] >= 0)
            E2E_EQUAL(ct_hooks_revert(e2e_hooks, hooks[i]), 0);
    E2E_CHECK(memcmp(before, area, size) == 0);
    return e2e_end();
}
