/* SPDX-License-Identifier: Apache-2.0 */
/* unsigned e2e_clobber_level(int level): destroys what the ABI lets a C function destroy. There is one level, and
 * nothing to report: returns 0. */
    .text
    .globl e2e_clobber_level
    .hidden e2e_clobber_level
    .type e2e_clobber_level, @function
e2e_clobber_level:
    .irp n, 0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    movi v\n\().16b, #0x5a
    .endr
    .irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
    mov x\n, #0x5a5a5a5a5a5a5a5a & 0xffff
    .endr
    mov w0, #0
    ret
    .size e2e_clobber_level, . - e2e_clobber_level
    .section .note.GNU-stack, "", @progbits
