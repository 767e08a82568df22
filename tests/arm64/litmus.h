/* SPDX-License-Identifier: Apache-2.0 */
/* Litmus tests of arm64's memory order, with the instructions that Contrail uses: one for each row of the tables in
 * docs/ARM64.md that says why an order holds. Each pattern counts what must never be seen. Some also run without what
 * keeps the order: what is seen then shows that the machine could break it, and is no failure. */
#ifndef LITMUS_H
#define LITMUS_H
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct litmus {
    uint64_t rounds; /* how often it tried */
    uint64_t wrong;  /* how often it saw what must not be */
};

/* ordered: with what keeps the order. False for patterns that have such a form only. */
typedef void litmus_run(struct litmus *result, bool ordered);

litmus_run litmus_event, litmus_detail, litmus_shadow, litmus_blocks; /* litmus_data.c */
litmus_run litmus_handler, litmus_cursor, litmus_claim;               /* litmus_signal.c */
litmus_run litmus_switch, litmus_new_code;                            /* litmus_code.c */

/* Whether the time of this run is over. */
bool litmus_over(void);

/* Plain accesses that the compiler leaves where they are. */
#define PLAIN(place) (*(volatile __typeof__(place) *)&(place))

static inline void store_release(uint64_t *place, uint64_t value) {
    __asm__ volatile("stlr %1, [%0]" : : "r"(place), "r"(value) : "memory");
}
static inline uint64_t load_acquire(const uint64_t *place) {
    uint64_t value;
    __asm__ volatile("ldar %0, [%1]" : "=r"(value) : "r"(place) : "memory");
    return value;
}

/* The last store of something that others read, and their first load of it. */
static inline void publish(uint64_t *place, uint64_t value, bool ordered) {
    if (ordered)
        store_release(place, value);
    else
        PLAIN(*place) = value;
}
static inline uint64_t notice(const uint64_t *place, bool ordered) {
    return ordered ? load_acquire(place) : PLAIN(*place);
}

/* ADD_OWN of src/hook/stubs_common_a64.S: only handlers of the same thread come between. What was there. */
static inline uint64_t add_own(uint64_t *place, uint64_t amount) {
    uint64_t old, new;
    uint32_t failed;
    __asm__ volatile("1: ldxr %0, [%3]\n\t"
                     "add %1, %0, %4\n\t"
                     "stxr %w2, %1, [%3]\n\t"
                     "cbnz %w2, 1b"
                     : "=&r"(old), "=&r"(new), "=&r"(failed)
                     : "r"(place), "r"(amount)
                     : "memory");
    return old;
}
#endif
