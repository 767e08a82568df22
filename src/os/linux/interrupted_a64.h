/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that our stop has ended, on arm64. */
#ifndef CT_OS_LINUX_INTERRUPTED_A64_H
#define CT_OS_LINUX_INTERRUPTED_A64_H

#include "registers_a64.h"

/* Changes the registers of a stopped thread so that it repeats a call which only the stop has ended; false: there is
 * none. `signal`: what the stop has taken from the thread. */
bool ct_interrupted_undo(int tid, int signal, struct ct_registers_a64 *a);

#endif
