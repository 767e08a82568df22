/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a machine, see machine.h. */
#include "isa/machine.h"
#include <stddef.h>

const struct ct_machine *ct_machine_host(void) {
#if defined(__x86_64__)
    return &ct_machine_x64;
#elif defined(__aarch64__)
    return &ct_machine_a64;
#else
#error "no table for this machine"
#endif
}

const struct ct_machine *ct_machine_by_elf(uint16_t e_machine) {
    return e_machine == ct_machine_x64.elf ? &ct_machine_x64 : e_machine == ct_machine_a64.elf ? &ct_machine_a64 : NULL;
}

const struct ct_machine *ct_machine_by_arch(uint8_t arch) {
    return arch == ct_machine_x64.arch ? &ct_machine_x64 : arch == ct_machine_a64.arch ? &ct_machine_a64 : NULL;
}
