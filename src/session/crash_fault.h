/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in stubs of a process that stays traced: the report, and a core file, show them as they would be without
 * hooks. */
#ifndef CT_SESSION_CRASH_FAULT_H
#define CT_SESSION_CRASH_FAULT_H

#include "inspect/process.h"

/* Runs on the tracer, before the signal is delivered. For a fault that has a handler only the report is corrected: the
 * agent corrects the rest (hook/fault.h). */
enum ct_remote_verdict ct_crash_fault_judge(struct ct_process *process, struct ct_remote_signal *signal);

#endif
