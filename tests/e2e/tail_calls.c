/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are jumps. A function that ends in `jmp other` leaves its frame to the other one; both return at once.
 * The tree shows them nested, as they were written.
 *
 * An engine can go wrong here because both calls have the same stack slot, and because the second one's return address
 * is the first one's stub. */
#include "harness.h"

/* The jumps are written by hand, so that they don't hang on what a compiler does at which level. */
__asm__(".text\n"
        ".macro tail_function name\n"
        ".balign 16\n"
        ".globl \\name\n" /* binutils for arm64 mix up local ones in the GOT */
        ".hidden \\name\n"
        ".type \\name, @function\n"
        "\\name:\n"
        ".endm\n"

#ifdef __x86_64__
        "tail_function first\n" /* first -> second -> third -> leaf */
        "  inc %rdi\n"
        "  add $0, %rdi\n"
        "  jmp second\n"
        "  .size first, . - first\n"
        "tail_function second\n"
        "  sub $8, %rsp\n"
        "  call leaf\n" /* an ordinary call before the jump */
        "  lea 1(%rax), %rdi\n"
        "  add $8, %rsp\n"
        "  jmp third\n"
        "  .size second, . - second\n"
        "tail_function third\n"
        "  lea leaf(%rip), %rax\n"
        "  jmp *%rax\n" /* through a register */
        "  .size third, . - third\n"
        "tail_function leaf\n"
        "  lea 1(%rdi), %rax\n"
        "  nop\n"
        "  ret\n"
        "  .size leaf, . - leaf\n"

        "tail_function bare\n" /* nothing but a jump */
        "  jmp leaf\n"
        "  .size bare, . - bare\n"

        "tail_function conditional\n" /* a conditional tail call */
        "  test %rdi, %rdi\n"
        "  je leaf\n"
        "  mov %rdi, %rax\n"
        "  ret\n"
        "  .size conditional, . - conditional\n"

        /* long down_even(long n, long *sp): mutual recursion that needs no stack */
        "tail_function down_even\n"
        "  mov %rsp, (%rsi)\n"
        "  sub $1, %rdi\n"
        "  jns down_odd\n"
        "  mov $2, %eax\n"
        "  ret\n"
        "  .size down_even, . - down_even\n"
        "tail_function down_odd\n"
        "  mov %rsp, (%rsi)\n"
        "  sub $1, %rdi\n"
        "  jns down_even\n"
        "  mov $1, %eax\n"
        "  ret\n"
        "  .size down_odd, . - down_odd\n"

        /* long down_self(long n): a tail call of itself, to its own first byte */
        "tail_function down_self\n"
        "  sub $1, %rdi\n"
        "  mov %rsi, %rax\n"
        "  js 1f\n"
        "  jmp down_self\n"
        "1: ret\n"
        "  .size down_self, . - down_self\n"
#else
        "tail_function first\n"
        "  add x0, x0, #1\n"
        "  nop\n"
        "  b second\n"
        "  .size first, . - first\n"
        "tail_function second\n"
        "  stp x29, x30, [sp, #-16]!\n"
        "  bl leaf\n"
        "  add x0, x0, #1\n"
        "  ldp x29, x30, [sp], #16\n"
        "  b third\n"
        "  .size second, . - second\n"
        "tail_function third\n"
        "  adr x16, leaf\n"
        "  br x16\n"
        "  .size third, . - third\n"
        "tail_function leaf\n"
        "  add x0, x0, #1\n"
        "  nop\n"
        "  ret\n"
        "  .size leaf, . - leaf\n"
        "tail_function bare\n"
        "  b leaf\n"
        "  .size bare, . - bare\n"
        "tail_function conditional\n"
        "  cbz x0, leaf\n"
        "  ret\n"
        "  .size conditional, . - conditional\n"
        "tail_function down_even\n"
        "  mov x2, sp\n"
        "  str x2, [x1]\n"
        "  subs x0, x0, #1\n"
        "  b.pl down_odd\n"
        "  mov x0, #2\n"
        "  ret\n"
        "  .size down_even, . - down_even\n"
        "tail_function down_odd\n"
        "  mov x2, sp\n"
        "  str x2, [x1]\n"
        "  subs x0, x0, #1\n"
        "  b.pl down_even\n"
        "  mov x0, #1\n"
        "  ret\n"
        "  .size down_odd, . - down_odd\n"
        "tail_function down_self\n"
        "  subs x0, x0, #1\n"
        "  b.mi 1f\n"
        "  b down_self\n"
        "1: mov x0, x1\n"
        "  ret\n"
        "  .size down_self, . - down_self\n"
#endif
);

long first(long), second(long), third(long), leaf(long), bare(long), conditional(long);
long down_even(long, long *), down_odd(long, long *), down_self(long, long);

/* What compilers make of it */
static E2E_FN long helper(long x) {
    return x * 2;
}

static E2E_FN long forward(long x) {
    return helper(x + 1); /* jmp at -O2 */
}

static E2E_FN long forward_indirect(long (*f)(long), long x) {
    return f(x);
}

static E2E_FN long outer(long x) {
    long a = forward(x);
    long b = forward_indirect(forward, x);
    E2E_BARRIER();
    return a + b;
}

static void check_chains(void) {
    E2E_EQUAL(first(10), 14);
    E2E_EXPECT("first(second(leaf() third(leaf())))");
    E2E_EQUAL(bare(1), 2);
    E2E_EXPECT("bare(leaf())");
    E2E_EQUAL(conditional(0) + conditional(7), 8);
    E2E_EXPECT("conditional(leaf()) conditional()");
    E2E_EQUAL(outer(1), 8);
    E2E_EXPECT("outer(forward(helper()) forward_indirect(forward(helper())))");
}

/* A million jumps between two functions. How an engine may see them is open within limits: each jump is a call that
 * returned, or was beyond the recorded depth; the program's stack and our memory don't grow with their number. */
static void check_endless(void) {
    long sp_first = 0, sp_last = 0;
    E2E_EQUAL(down_even(0, &sp_first), 2);
    e2e_forget();
    size_t before = e2e_rss_kib();
    e2e_count_only();
    long many = e2e_times(e2e_listening() ? 20000 : 1000000); /* listeners are slow */
    E2E_EQUAL(down_even(many, &sp_last), 2);
    E2E_EQUAL(sp_last, sp_first);
    E2E_EQUAL(down_even(many + 1, &sp_last), 1);
    E2E_CHECK(e2e_rss_kib() < before + 80 * 1024);
    if (e2e_plain())
        return;
    struct ct_hooks_statistics s = {.size = sizeof s};
    ct_hooks_statistics(e2e_hooks, &s);
    E2E_EQUAL(e2e_total(CT_EVENT_CALL) + s.deep_calls, 2 * many + 3);
    E2E_EQUAL(e2e_total(CT_EVENT_RETURN) + e2e_total(CT_EVENT_EXCEPTION), e2e_total(CT_EVENT_CALL));
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_RECORD(first);
    E2E_RECORD(second);
    E2E_RECORD(third);
    E2E_RECORD(leaf);
    E2E_RECORD(bare);
    E2E_RECORD(conditional);
    E2E_RECORD(down_even);
    E2E_RECORD(down_odd);
    E2E_RECORD(helper);
    E2E_RECORD(forward);
    E2E_RECORD(forward_indirect);
    E2E_RECORD(outer);
    check_chains();
    E2E_EQUAL(down_self(1000, 5), 5); /* not hooked: see entry_shapes.c */
    check_endless();
    return e2e_end();
}
