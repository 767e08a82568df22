/* SPDX-License-Identifier: Apache-2.0 */
/* Calls made in another process on arm64. */
#include "remote/remote_internal.h"
#include "os/linux/registers_a64.h"

#include <string.h>

/* Not written yet: no thread can make a call, so what follows is never asked. */
bool ct_call_possible(const struct ct_registers *regs) {
    (void)regs;
    return false;
}

void ct_call_write_code(struct saved *saved, uint64_t gadget) {
    (void)gadget;
    memset(saved->code, 0, sizeof saved->code);
}

uint64_t ct_call_name(uint64_t gadget) {
    return gadget;
}

bool ct_call_is_code(const uint8_t bytes[CT_REMOTE_GADGET_ROOM], uint64_t *pc, uint64_t *sp) {
    (void)bytes;
    *pc = *sp = 0;
    return false;
}

void ct_call_registers(const struct call *call, const struct saved *saved, uint64_t gadget, struct ct_registers *regs) {
    (void)call, (void)gadget;
    *regs = saved->regs;
}

uint64_t ct_call_end(const struct call *call, uint64_t gadget, bool *at_exit) {
    *at_exit = call->is_syscall;
    return gadget;
}

bool ct_call_result(struct call *call, const struct ct_registers *regs) {
    call->result = ct_registers_to_a64(regs)->x[0];
    return true;
}
