/* SPDX-License-Identifier: Apache-2.0 */
/* Two counters sell the seats of a hall. The check whether a seat is free and the sale are two steps; another counter
 * may come between them. The counters meet at seat 500, so that it happens in every run. */
#include <pthread.h>
#include <stdio.h>

enum { SEATS = 1000, MEETING = 500 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t meeting;
static int owner[SEATS], twice;

static __attribute__((noinline)) int is_free(int seat) {
    pthread_mutex_lock(&lock);
    int free = !owner[seat];
    pthread_mutex_unlock(&lock);
    return free;
}

static __attribute__((noinline)) int sell_seat(int seat, int customer) {
    pthread_mutex_lock(&lock);
    int before = owner[seat];
    owner[seat] = customer;
    twice += before != 0;
    pthread_mutex_unlock(&lock);
    return before; /* the customer who has lost the seat */
}

static __attribute__((noinline)) void serve_customer(int counter, int seat) {
    int free = is_free(seat);
    if (seat == MEETING)
        pthread_barrier_wait(&meeting);
    if (free)
        sell_seat(seat, counter * SEATS + seat);
}

static __attribute__((noinline)) void *run_counter(void *arg) {
    int counter = arg ? 2 : 1;
    for (int seat = 0; seat < SEATS; seat++)
        if (seat == MEETING || seat % 2 == counter - 1)
            serve_customer(counter, seat);
    return NULL;
}

int main(void) {
    pthread_t other;
    pthread_barrier_init(&meeting, NULL, 2);
    if (pthread_create(&other, NULL, run_counter, &meeting))
        return 1;
    run_counter(NULL);
    pthread_join(other, NULL);
    printf("%d seats sold twice\n", twice);
    return 0;
}
