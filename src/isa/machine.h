/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a machine without running on it: names, numbers and distances.
 *
 * The tables of all machines are in every build, so that a trace of one machine is read on another. They hold no
 * pointers: the agents have no relocations. */
#ifndef CT_ISA_MACHINE_H
#define CT_ISA_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { CT_MACHINE_REGISTERS = 40, CT_MACHINE_CALL = 8, CT_MACHINE_RESULT = 2 };

struct ct_machine {
    char name[12];           /* as uname(2) reports it */
    uint8_t arch;            /* in headers of trace files: enum atf_arch */
    char thread_pointer[12]; /* the register that holds it */
    bool steady_counter;     /* what events are stamped with is steady by the architecture's rules */

    /* ELF */
    uint16_t elf;             /* e_machine */
    char program[20];         /* what a program of it is called, with its article ... */
    char small_program[20];   /* ... and one with 32-bit pointers */
    uint32_t reloc_relative;  /* base + addend */
    uint32_t reloc_symbol[2]; /* symbol + addend */

    /* code */
    uint64_t branch_reach;  /* how far code of ours may be from what jumps to it, either way, its own length included */
    uint64_t address_limit; /* of programs that ask for no larger addresses */
    uint8_t breakpoint[4], breakpoint_size;
    uint8_t nop[4], nop_size; /* the shortest instruction that does nothing */

    /* unwinding, on entry of a function */
    uint8_t dwarf_sp, dwarf_ra; /* DWARF numbers of stack pointer and return address */
    int8_t cfa_offset;          /* CFA is the stack pointer + this ... */
    int8_t ra_offset;           /* ... and the return address is stored at CFA + this; 0: it is in its register */

    /* registers of a signal record, in its order; what follows are places in this list */
    char registers[CT_MACHINE_REGISTERS][8];
    uint8_t register_count;
    uint8_t sp, fp, pc;
    uint8_t call[CT_MACHINE_CALL]; /* of the record of a call; the first `argument_count` of them hold arguments */
    uint8_t argument_count;
    uint8_t result[CT_MACHINE_RESULT]; /* of the record of a return */

    /* Where the vector registers, 16 bytes each, are in what listeners save; and the word, and the bit in it, that says
     * that they are to be restored (bit 0: always). */
    uint16_t vectors_at, vector_count, vectors_used_at;
    uint8_t vectors_used;
};

extern const struct ct_machine ct_machine_x64 __attribute__((visibility("hidden")));
extern const struct ct_machine ct_machine_a64 __attribute__((visibility("hidden")));

/* The one that this program runs on. */
const struct ct_machine *ct_machine_host(void);
/* NULL: there is none such. */
const struct ct_machine *ct_machine_by_elf(uint16_t e_machine);
const struct ct_machine *ct_machine_by_arch(uint8_t arch);

/* Does a function begin with its return address in a register, and not on the stack? */
static inline bool ct_machine_has_link(const struct ct_machine *machine) {
    return machine->ra_offset == 0;
}

/* The number by which filters of system calls know it: AUDIT_ARCH_..., for 64 bits and little endian. */
static inline uint32_t ct_machine_audit(const struct ct_machine *machine) {
    return UINT32_C(0xc0000000) | machine->elf;
}

#endif
