/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that our stop has ended, on arm64. */
#ifndef CT_OS_LINUX_INTERRUPTED_A64_H
#define CT_OS_LINUX_INTERRUPTED_A64_H

#include "registers_a64.h"
#include "seize.h"

/* Notes which call the thread waits in, before it is stopped. */
void ct_interrupted_note(int pid, struct seize_thread *thread);
/* Changes the registers of a stopped thread so that it repeats a call which only the stop has ended; false: there is
 * none. */
bool ct_interrupted_undo(const struct seize_thread *thread, struct ct_registers_a64 *a);
/* Before the thread resumes: changes the registers back if a signal with a handler has come meanwhile. */
bool ct_interrupted_redo(int tid, struct ct_registers_a64 *a);

#endif
