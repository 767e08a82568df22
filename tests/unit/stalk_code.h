/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the Stalker's tests write or contain, by machine; and what a machine may lack. */
#ifndef STALK_CODE_H
#define STALK_CODE_H

#include <contrail/stalker.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
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

/* Memory for code that can be written. The emulator reports neighbours as one mapping, with the rights of the first: so
 * a page on either side has none. These stay when the code is unmapped. */
static inline uint8_t *map_code(size_t size) {
    enum { GUARD = 4096 };
    uint8_t *all = mmap(NULL, size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + GUARD, size, PROT_READ | PROT_WRITE | PROT_EXEC))
        abort();
    return all + GUARD;
}

/* A test that stops other threads, or steps. */
#define NEEDS_PTRACE()                                                                                                 \
    do {                                                                                                               \
        if (is_emulated())                                                                                             \
            skip();                                                                                                    \
    } while (0)

#endif
