/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the Stalker's tests write or contain, by machine; and what a machine may lack. */
#ifndef STALK_CODE_H
#define STALK_CODE_H

#include <contrail/stalker.h>
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#if defined __x86_64__
#include "stalk_code_x64.h"
#else
#include "stalk_code_a64.h"
#endif

/* An emulator of user programs: no thread can be stopped, and code does not run from a second mapping of a file. */
static inline bool is_emulated(void) {
    return syscall(SYS_ptrace, -1, 0, 0, 0) < 0 && errno == ENOSYS;
}

static inline int last_memory(void) {
    return is_emulated() ? CT_STALKER_MEMORY_RWX : CT_STALKER_MEMORY_PROTECT;
}

/* A test that stops other threads, or steps. */
#define NEEDS_PTRACE()                                                                                                 \
    do {                                                                                                               \
        if (is_emulated())                                                                                             \
            skip();                                                                                                    \
    } while (0)

#endif
