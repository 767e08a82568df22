/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that look at their own return address get the real one: __builtin_return_address in frames of several
 * shapes, and assembly that reads, pops or changes it.
 *
 * An engine can go wrong here because the stub's address is in the slot while the body runs. */
#include "harness.h"

/* Compilers read it from [rsp+n] or [rbp+8]. */
static E2E_FN void *leaf_reader(void) {
    return __builtin_return_address(0);
}

static E2E_FN void *frame_reader(int n) {
    volatile char space[200];
    space[n] = 1;
    E2E_BARRIER();
    return space[n] ? __builtin_return_address(0) : NULL;
}

/* alloca: a frame pointer */
static E2E_FN void *pointer_reader(int n) {
    volatile char *space = __builtin_alloca((size_t)n + 1);
    space[n] = 1;
    E2E_BARRIER();
    return __builtin_return_address(0);
}

static void *noted;
static E2E_FN void note(void *address) {
    noted = address;
    E2E_BARRIER();
}

static E2E_FN int passes_on(int x) {
    note(__builtin_return_address(0));
    return x + 1;
}

__asm__(".text\n"
#ifdef __x86_64__
        ".balign 16\n"
        ".type asm_reader, @function\n"
        "asm_reader:\n" /* mov rax, [rsp] */
        "  mov (%rsp), %rax\n"
        "  nop\n"
        "  nop\n"
        "  ret\n"
        ".size asm_reader, . - asm_reader\n"

        ".balign 16\n"
        ".type pops, @function\n"
        "pops:\n" /* takes its return address off the stack and jumps to it */
        "  pop %rcx\n"
        "  mov %rcx, %rax\n"
        "  nop\n"
        "  jmp *%rcx\n"
        ".size pops, . - pops\n"

        ".balign 16\n"
        ".type skips, @function\n"
        "skips:\n" /* returns past the byte after its call */
        "  addq $5, (%rsp)\n"
        "  nop\n"
        "  ret\n"
        ".size skips, . - skips\n"
        ".balign 16\n"
        ".type calls_skips, @function\n"
        "calls_skips:\n"
        "  mov $1, %eax\n"
        "  call skips\n"
        "  mov $99, %eax\n" /* 5 bytes: skipped */
        "  ret\n"
        ".size calls_skips, . - calls_skips\n"

        ".balign 16\n"
        ".type xchgs, @function\n"
        "xchgs:\n" /* the continuation-passing way: swaps rdi and the return address */
        "  xchg %rdi, (%rsp)\n"
        "  mov %rdi, %rax\n"
        "  mov %rdi, (%rsp)\n"
        "  ret\n"
        ".size xchgs, . - xchgs\n"

        ".balign 16\n"
        ".type callee_pops, @function\n"
        "callee_pops:\n" /* ret n: the callee takes one argument off the stack */
        "  mov 8(%rsp), %rax\n"
        "  add %rdi, %rax\n"
        "  ret $8\n"
        ".size callee_pops, . - callee_pops\n"
        ".balign 16\n"
        ".type calls_popper, @function\n"
        "calls_popper:\n" /* returns the argument sum, or -1 when the stack is off */
        "  push %rbx\n"
        "  mov %rsp, %rbx\n"
        "  pushq $40\n"
        "  mov $2, %edi\n"
        "  call callee_pops\n"
        "  cmp %rbx, %rsp\n"
        "  je 1f\n"
        "  mov %rbx, %rsp\n"
        "  mov $-1, %rax\n"
        "1: pop %rbx\n"
        "  ret\n"
        ".size calls_popper, . - calls_popper\n"
#else
        /* Not local: binutils for arm64 mix up those in the GOT. */
        ".globl asm_reader, pops, skips, calls_skips, xchgs, callee_pops, calls_popper\n"
        ".hidden asm_reader, pops, skips, calls_skips, xchgs, callee_pops, calls_popper\n"
        ".balign 16\n"
        ".type asm_reader, @function\n"
        "asm_reader:\n"
        "  mov x0, x30\n"
        "  ret\n"
        ".size asm_reader, . - asm_reader\n"

        ".balign 16\n"
        ".type pops, @function\n"
        "pops:\n" /* takes its return address away and jumps to it */
        "  mov x1, x30\n"
        "  mov x0, x1\n"
        "  mov x30, #0\n"
        "  br x1\n"
        ".size pops, . - pops\n"

        ".balign 16\n"
        ".type skips, @function\n"
        "skips:\n" /* returns past the instruction after its call */
        "  add x30, x30, #4\n"
        "  ret\n"
        ".size skips, . - skips\n"
        ".balign 16\n"
        ".type calls_skips, @function\n"
        "calls_skips:\n"
        "  stp x29, x30, [sp, #-16]!\n"
        "  mov x0, #1\n"
        "  bl skips\n"
        "  mov x0, #99\n" /* skipped */
        "  ldp x29, x30, [sp], #16\n"
        "  ret\n"
        ".size calls_skips, . - calls_skips\n"

        ".balign 16\n"
        ".type xchgs, @function\n"
        "xchgs:\n" /* swaps x0 and the return address, and returns by the other one */
        "  mov x1, x30\n"
        "  mov x30, x0\n"
        "  mov x0, x1\n"
        "  ret x1\n"
        ".size xchgs, . - xchgs\n"

        ".balign 16\n"
        ".type callee_pops, @function\n"
        "callee_pops:\n" /* takes one argument off the stack, and reads its return address */
        "  mov x2, x30\n"
        "  ldr x1, [sp], #16\n"
        "  add x0, x0, x1\n"
        "  ret x2\n"
        ".size callee_pops, . - callee_pops\n"
        ".balign 16\n"
        ".type calls_popper, @function\n"
        "calls_popper:\n" /* returns the argument sum, or -1 when the stack is off */
        "  stp x29, x30, [sp, #-16]!\n"
        "  mov x29, sp\n"
        "  mov x1, #40\n"
        "  mov x0, #2\n"
        "  str x1, [sp, #-16]!\n"
        "  bl callee_pops\n"
        "  mov x1, sp\n"
        "  cmp x1, x29\n"
        "  mov sp, x29\n"
        "  csinv x0, x0, xzr, eq\n"
        "  ldp x29, x30, [sp], #16\n"
        "  ret\n"
        ".size calls_popper, . - calls_popper\n"
#endif
);
void *asm_reader(void), *pops(void), *xchgs(void *);
long calls_skips(void), calls_popper(void);
void skips(void), callee_pops(void);

/* The call site of each reader is the same in both rounds. */
struct round {
    void *seen[8];
};

static E2E_FN void run(struct round *r) {
    r->seen[0] = leaf_reader();
    E2E_BARRIER();
    r->seen[1] = frame_reader(3);
    E2E_BARRIER();
    r->seen[2] = pointer_reader(100);
    E2E_BARRIER();
    E2E_EQUAL(passes_on(1), 2);
    r->seen[3] = noted;
    r->seen[4] = asm_reader();
    E2E_BARRIER();
    r->seen[5] = pops();
    E2E_BARRIER();
    r->seen[6] = xchgs(NULL);
    E2E_BARRIER();
    E2E_EQUAL(calls_skips(), 1);
    E2E_EQUAL(calls_popper(), 42);
}

/* Some of them may be refused; the program must work all the same. */
static void try_to_record(const char *name, void *function) {
    int hook = e2e_try_record(name, function);
    if (hook < 0 && !e2e_plain())
        printf("%s: %s\n", name, ct_status_text(hook));
}
#define TRY(function) try_to_record(#function, (void *)(function))

int main(int argc, char **argv) {
    struct round before, after;
    e2e_begin(argc, argv);
    e2e_allow_stack_pops();
    run(&before);
    TRY(leaf_reader);
    TRY(frame_reader);
    TRY(pointer_reader);
    TRY(note);
    TRY(passes_on);
    TRY(asm_reader);
    TRY(pops);
    TRY(skips);
    TRY(calls_skips);
    TRY(xchgs);
    TRY(callee_pops);
    TRY(calls_popper);
    for (int i = 0; i < 2; i++) {
        run(&after);
        for (int k = 0; k < 7; k++)
            if (before.seen[k] != after.seen[k])
                e2e_fail(__FILE__, __LINE__, "reader %d saw %p instead of %p", k, after.seen[k], before.seen[k]);
    }
    /* `;`: those that look are recorded on entry only */
#define ONE_RUN                                                                                                        \
    "leaf_reader; frame_reader; pointer_reader; passes_on; note() asm_reader; pops; xchgs;"                            \
    "calls_skips(skips;) calls_popper(callee_pops;)"
    E2E_EXPECT(ONE_RUN ONE_RUN);
    return e2e_end();
}
