/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a word that only the calling thread and its signal handlers write; others may read it. To handlers each is
 * one step, and who sees the new value sees all stores before it.
 *
 * On x86_64 an instruction without `lock` does this. A locked one waits until all stores before it have reached the
 * cache, and stubs have just made many. */
#ifndef CT_OS_OWN_WORDS_H
#define CT_OS_OWN_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __x86_64__

/* True: the word was `from`. */
static inline bool ct_os_own_change(uint64_t *word, uint64_t from, uint64_t to) {
    bool done;
    __asm__ volatile("cmpxchg %3, %1" : "=@ccz"(done), "+m"(*word), "+a"(from) : "r"(to) : "memory");
    return done;
}

static inline bool ct_os_own_change32(uint32_t *word, uint32_t from, uint32_t to) {
    bool done;
    __asm__ volatile("cmpxchg %3, %1" : "=@ccz"(done), "+m"(*word), "+a"(from) : "r"(to) : "memory");
    return done;
}

/* Returns what the word was. */
static inline uint64_t ct_os_own_add(uint64_t *word, uint64_t add) {
    __asm__ volatile("xadd %0, %1" : "+r"(add), "+m"(*word)::"cc", "memory");
    return add;
}

static inline void ct_os_own_count32(uint32_t *word) {
    __asm__ volatile("incl %0" : "+m"(*word)::"cc", "memory");
}

#else

static inline bool ct_os_own_change(uint64_t *word, uint64_t from, uint64_t to) {
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static inline bool ct_os_own_change32(uint32_t *word, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static inline uint64_t ct_os_own_add(uint64_t *word, uint64_t add) {
    return __atomic_fetch_add(word, add, __ATOMIC_RELEASE);
}

static inline void ct_os_own_count32(uint32_t *word) {
    __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
}

#endif

#endif
