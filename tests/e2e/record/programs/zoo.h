/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs that are recorded from outside share: functions that stay functions, gates, self-checks. Nothing of
 * Contrail. Written to compile with any libc and as C++. */
#ifndef ZOO_H
#define ZOO_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A function that the compiler neither inlines nor clones nor reasons about. */
#if defined(__clang__)
#define FN __attribute__((noinline, optnone, used))
#else
#define FN __attribute__((noipa))
#endif
/* Not a function at any optimization level, so that it does not show in trees. */
#define INLINE static inline __attribute__((always_inline, unused))
/* Keeps a call from becoming a tail call, and a loop from being folded. */
#define BARRIER() __asm__ volatile("" ::: "memory")

/* Stands in a FIFO until the runner lets it go; goes on at once when nobody asked it to wait. */
INLINE void zoo_gate(const char *variable) {
    const char *fifo = getenv(variable);
    char byte;
    if (!fifo)
        return;
    int file = open(fifo, O_RDONLY);
    if (file < 0 || read(file, &byte, 1) != 1)
        abort();
    close(file);
}

#define ZOO_GATES                                                                                                      \
    static FN __attribute__((unused)) void wait_for_start(void) {                                                      \
        zoo_gate("E2E_WAIT");                                                                                          \
        BARRIER();                                                                                                     \
    }                                                                                                                  \
    static FN __attribute__((unused)) void wait_for_end(void) {                                                        \
        zoo_gate("E2E_WAIT_END");                                                                                      \
        BARRIER();                                                                                                     \
    }

static int zoo_failures __attribute__((unused));
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            __atomic_fetch_add(&zoo_failures, 1, __ATOMIC_RELAXED);                                                    \
        }                                                                                                              \
    } while (0)

#endif
