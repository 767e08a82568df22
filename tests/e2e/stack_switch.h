/* SPDX-License-Identifier: Apache-2.0 */
/* A switch of stacks by hand, as libraries of coroutines have it: nothing that an engine could know by name. */
#ifndef STACK_SWITCH_H
#define STACK_SWITCH_H

/* Defines `void name(void **save, void *load)`: goes on where `load` was saved. On top of a new stack are six words,
 * r15 to rbp, and the address that it begins at. */
#define STACK_SWITCH(name)                                                                                             \
    __asm__(".text\n"                                                                                                  \
            ".balign 16\n"                                                                                             \
            ".type " #name ", @function\n" #name ":\n"                                                                 \
            "  push %rbp\n"                                                                                            \
            "  push %rbx\n"                                                                                            \
            "  push %r12\n"                                                                                            \
            "  push %r13\n"                                                                                            \
            "  push %r14\n"                                                                                            \
            "  push %r15\n"                                                                                            \
            "  mov %rsp, (%rdi)\n"                                                                                     \
            "  mov %rsi, %rsp\n"                                                                                       \
            "  pop %r15\n"                                                                                             \
            "  pop %r14\n"                                                                                             \
            "  pop %r13\n"                                                                                             \
            "  pop %r12\n"                                                                                             \
            "  pop %rbx\n"                                                                                             \
            "  pop %rbp\n"                                                                                             \
            "  ret\n"                                                                                                  \
            ".size " #name ", . - " #name "\n");                                                                       \
    void name(void **save, void *load)

#endif
