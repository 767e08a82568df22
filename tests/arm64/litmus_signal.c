/* SPDX-License-Identifier: Apache-2.0 */
/* Litmus tests of what a thread shares with its own signal handlers: plain stores, and exclusives without release. A
 * second thread sends signals as fast as it can. */
#include "litmus.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static uint64_t first, second, last, handled, wrong, ended;

static void *send_signals(void *arg) {
    pthread_t victim = *(pthread_t *)arg;
    while (!load_acquire(&ended)) {
        pthread_kill(victim, SIGUSR1);
        sched_yield();
    }
    return NULL;
}

/* Runs `work` until the time is over, with signals. */
static uint64_t with_signals(void (*handler)(int), void (*work)(void)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    handled = wrong = ended = 0;
    sigaction(SIGUSR1, &action, &before);
    pthread_t self = pthread_self(), sender;
    uint64_t rounds = 0;
    if (pthread_create(&sender, NULL, send_signals, &self) == 0) {
        for (; !litmus_over(); rounds++)
            work();
        store_release(&ended, 1);
        pthread_join(sender, NULL);
    }
    sigaction(SIGUSR1, &before, NULL);
    return rounds;
}

/* Plain stores in program order: the handler may see none, the first, or both. */
static void see_stores(int number) {
    (void)number;
    uint64_t b = PLAIN(second), a = PLAIN(first);
    wrong += a != b && a != b + 1;
    handled++;
}

static void store_both(void) {
    for (unsigned i = 0; i < 1000; i++) {
        PLAIN(first) = PLAIN(first) + 1;
        PLAIN(second) = PLAIN(first);
    }
}

void litmus_handler(struct litmus *result, bool ordered) {
    (void)ordered;
    first = second = 0;
    with_signals(see_stores, store_both);
    *result = (struct litmus){.rounds = handled, .wrong = wrong};
}

/* The cursor: each slot is given once, to the thread or to a handler. */
enum { SLOTS = 1 << 16 };

static uint64_t cursor;
static uint8_t given[SLOTS];

static void give(void) {
    uint64_t slot = add_own(&cursor, 1) % SLOTS;
    PLAIN(given[slot]) = PLAIN(given[slot]) + 1;
}

static void give_to_handler(int number) {
    (void)number;
    if (PLAIN(cursor) < SLOTS - 16) /* the rest is the thread's */
        give();
    handled++;
}

static void give_all(void) {
    memset(given, 0, sizeof given);
    store_release(&cursor, 0);
    while (PLAIN(cursor) < SLOTS - 16)
        give();
    uint64_t end = PLAIN(cursor);
    for (uint64_t i = 0; i < end && i < SLOTS; i++)
        wrong += given[i] != 1;
}

void litmus_cursor(struct litmus *result, bool ordered) {
    (void)ordered;
    cursor = SLOTS; /* handlers wait */
    with_signals(give_to_handler, give_all);
    *result = (struct litmus){.rounds = handled, .wrong = wrong};
}

/* A frame's slot, when it returns: the thread takes it by exclusives, unless a handler took it before. */
static uint64_t claimed, takes;

static uint64_t take_claim(void) {
    uint64_t old;
    uint32_t failed;
    __asm__ volatile("1: ldxr %0, [%2]\n\t"
                     "stxr %w1, xzr, [%2]\n\t"
                     "cbnz %w1, 1b"
                     : "=&r"(old), "=&r"(failed)
                     : "r"(&claimed)
                     : "memory");
    return old;
}

static void handler_takes(int number) {
    (void)number;
    if (take_claim())
        PLAIN(takes) = PLAIN(takes) + 1;
    handled++;
}

static void claim_and_take(void) {
    for (unsigned i = 0; i < 1000; i++) {
        PLAIN(takes) = 0;
        PLAIN(last) = PLAIN(last) + 1;
        PLAIN(claimed) = PLAIN(last);
        uint64_t mine = take_claim() != 0;
        wrong += PLAIN(takes) + mine != 1;
    }
}

void litmus_claim(struct litmus *result, bool ordered) {
    (void)ordered;
    last = claimed = takes = 0;
    with_signals(handler_takes, claim_and_take);
    *result = (struct litmus){.rounds = handled, .wrong = wrong};
}
