/* SPDX-License-Identifier: Apache-2.0 */
/* x86_64 in numbers, see machine.h. Registers are in hardware numbering. */
#include "isa/machine.h"
#include "abi/atf.h"
#include <linux/elf-em.h>

/* Relocations that hold an address. */
enum { R_64 = 1, R_GLOB_DAT = 6, R_RELATIVE = 8 };

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, RIP, RFLAGS, COUNT };

const struct ct_machine ct_machine_x64 = {
    .name = "x86_64",
    .arch = ATF_ARCH_X86_64,
    .thread_pointer = "fs_base",
    .elf = EM_X86_64,
    .program = "an x86_64 program",
    .small_program = "an x32 program",
    .reloc_relative = R_RELATIVE,
    .reloc_symbol = {R_64, R_GLOB_DAT},
    .branch_reach = 0x7f000000, /* of rel32, with 16 MiB to spare */
    .address_limit = 0x7ffffffff000,
    .breakpoint = {0xcc},
    .breakpoint_size = 1,
    .nop = {0x90},
    .nop_size = 1,
    .dwarf_sp = 7,
    .dwarf_ra = 16,
    .cfa_offset = 8,
    .ra_offset = -8,
    .registers = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                  "r15", "rip", "rflags"},
    .register_count = COUNT,
    .sp = RSP,
    .fp = RBP,
    .pc = RIP,
    .call = {RDI, RSI, RDX, RCX, R8, R9, RAX, R10},
    .argument_count = 6,
    .result = {RAX, RDX},
    .vectors_at = 160,
    .vector_count = 16,
    .vectors_used_at = 512,
    .vectors_used = 2,
};
_Static_assert((int)COUNT == (int)ATF_DETAIL_SIGNAL_REGISTERS_X64, "signal records");
