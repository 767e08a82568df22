/* SPDX-License-Identifier: Apache-2.0 */
/* A signal that reached a thread of a recorded process, seen right before its delivery: the thread has run nothing
 * since. crash.c makes it on the tracer that holds the process; the drain takes it (ct_drain_signal) and puts it in its
 * place in the thread's files. */
#ifndef CT_DRAIN_SIGNAL_RECORD_H
#define CT_DRAIN_SIGNAL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* General registers in the order of the machine's numbers, then pc and flags: as in the signal record of detail.atf. */
enum { CT_SIGNAL_REGISTERS = 40 }; /* room for any machine */

struct ct_signal_record {
    int tid; /* in our pid namespace */
    int signal, code;
    uint64_t fault_address; /* 0: the signal has none */
    uint64_t counter;       /* of the CPU: all events of the thread so far are older, all later ones newer */
    bool fatal;             /* the process will die of it, as far as we know */
    uint32_t register_count;
    uint64_t registers[CT_SIGNAL_REGISTERS];
    char mark[64]; /* the trigger that makes it a mark; "": it is none */
};

#endif
