/* Faults in stubs of a process that stays traced: what is told, and what a core will show, is as the program would have had it. */
#ifndef CT_SESSION_CRASH_FAULT_H
#define CT_SESSION_CRASH_FAULT_H

#include "inspect/process.h"

/* On the tracer, before the signal is delivered. A fault that has a handler is put right by the agent (hook/fault.h): it is only shown. */
enum ct_remote_verdict ct_crash_fault_judge(struct ct_process *process, struct ct_remote_signal *signal);

#endif
