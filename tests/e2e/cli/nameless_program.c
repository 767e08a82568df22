/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose tables name no function: no C library, no symbols, no unwind tables, and 128 KiB of code. */
__asm__(".globl _start\n"
        ".text\n"
        "_start:\n"
        "  call inner\n"
        "  mov $60, %eax\n"
        "  xor %edi, %edi\n"
        "  syscall\n"
        "inner:\n"
        "  .skip 131072, 0x90\n"
        "  ret\n");
