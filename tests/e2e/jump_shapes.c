/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that jump back into their own first bytes, where nothing but a table shows it: computed goto and jump
 * tables in a program that is not position-independent, and tables that begin with places outside the function.
 *
 * What went wrong here: tables of absolute addresses were not seen, and a table was taken to end at its first entry
 * that led out of the function (gcc's .cold parts). So the patch covered a jump target, and the program jumped into the
 * middle of it. Such a function may be refused; when it is hooked its calls are exact. Either way it works as before.
 *
 * FORMS is X(gcc_O2) X(gcc_Os)...: the forms jump_shapes_subject.c was compiled in. */
#include "harness.h"
#include <unistd.h>

typedef int interpreter(const unsigned char *code);

/* The table's first entry leads to a cold part, which is another symbol; the last one to the function's third byte. */
__asm__(".text\n"
        ".p2align 4\n"
        ".type cold_first.cold, @function\n"
        "cold_first.cold: mov $-1, %eax\n"
        "ret\n"
        "nop; nop; nop; nop; nop; nop; nop; nop\n"
        ".size cold_first.cold, . - cold_first.cold\n"
        ".p2align 4\n"
        ".globl cold_first\n"
        ".type cold_first, @function\n"
        "cold_first: xor %eax, %eax\n"
        "1: movzbl (%rdi), %ecx\n"
        "inc %rdi\n"
        "lea 4f(%rip), %rdx\n"
        "movslq (%rdx,%rcx,4), %rcx\n"
        "add %rdx, %rcx\n"
        "jmp *%rcx\n"
        "2: inc %eax\n"
        "movzbl (%rdi), %ecx\n"
        "inc %rdi\n"
        "movslq (%rdx,%rcx,4), %rcx\n"
        "add %rdx, %rcx\n"
        "jmp *%rcx\n"
        "3: ret\n"
        ".size cold_first, . - cold_first\n"
        ".section .rodata\n"
        ".p2align 2\n"
        "4: .long cold_first.cold - 4b, 3b - 4b, 2b - 4b, 1b - 4b\n"
        ".text\n"
        ".p2align 4\n");
interpreter cold_first;

/* Absolute addresses, loaded by an index into a register; and one jump through a word in memory. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl absolute\n"
        ".type absolute, @function\n"
        "absolute: xor %eax, %eax\n"
        "1: movzbl (%rdi), %ecx\n"
        "inc %rdi\n"
        "mov 4f(,%rcx,8), %rdx\n"
        "jmp *%rdx\n"
        "2: inc %eax\n"
        "jmp *5f\n"
        "3: ret\n"
        ".size absolute, . - absolute\n"
        ".data\n"
        ".p2align 3\n"
        "4: .quad 3b, 2b, 1b\n"
        "5: .quad 1b\n"
        ".text\n"
        ".p2align 4\n");
interpreter absolute;

/* clang-format off */
#define DECLARE_FORM(form) interpreter form##_threaded, form##_one_jump, form##_switched;
FORMS(DECLARE_FORM)

#define LIST_FORM(form) {#form "_threaded", form##_threaded, {1, 1, 2, 1, 0}}, \
                        {#form "_one_jump", form##_one_jump, {1, 1, 2, 1, 0}}, \
                        {#form "_switched", form##_switched, {1, 1, 2, 1, 0}},
/* clang-format on */

static const struct {
    const char *name;
    interpreter *function;
    unsigned char code[8];
} shapes[] = {
    {"cold_first", cold_first, {2, 2, 3, 2, 1}}, {"absolute", absolute, {1, 1, 2, 1, 0}}, FORMS(LIST_FORM) /* */
};

int main(int argc, char **argv) {
    alarm(240);
    int hooked = 0;
    e2e_begin(argc, argv);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bool before = e2e_passed();
        E2E_EQUAL(shapes[i].function(shapes[i].code), 3);
        int hook = e2e_try_record("f", (void *)shapes[i].function);
        for (int k = 0; k < 3; k++)
            E2E_EQUAL(shapes[i].function(shapes[i].code), 3);
        if (hook >= 0)
            E2E_EXPECT("f()*3");
        else
            printf("%s: %s\n", shapes[i].name, e2e_plain() ? "not hooked" : ct_status_text(hook));
        hooked += hook >= 0;
        if (before && !e2e_passed())
            fprintf(stderr, "  (in %s)\n", shapes[i].name);
        fflush(NULL);
    }
    E2E_CHECK(hooked > 0 || e2e_plain()); /* refusing everything is no answer */
    return e2e_end();
}
