/* SPDX-License-Identifier: Apache-2.0 */
/* Two tellers move money between two accounts, in opposite directions. A barrier makes them meet in the last round:
 * each has locked one account and wants the other. */
#include <pthread.h>
#include <stdio.h>

struct account {
    pthread_mutex_t lock;
    long cents;
};

static struct account checking = {PTHREAD_MUTEX_INITIALIZER, 100000};
static struct account savings = {PTHREAD_MUTEX_INITIALIZER, 100000};
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t meeting;

static __attribute__((noinline)) void transfer(struct account *from, struct account *to, long cents, int meet) {
    pthread_mutex_lock(&from->lock);
    if (meet)
        pthread_barrier_wait(&meeting);
    pthread_mutex_lock(&to->lock);
    from->cents -= cents;
    to->cents += cents;
    pthread_mutex_unlock(&to->lock);
    pthread_mutex_unlock(&from->lock);
}

static __attribute__((noinline)) void transfer_alone(struct account *from, struct account *to, long cents) {
    pthread_mutex_lock(&turn);
    transfer(from, to, cents, 0);
    pthread_mutex_unlock(&turn);
}

static __attribute__((noinline)) void *serve_teller(void *arg) {
    struct account *from = arg, *to = from == &checking ? &savings : &checking;
    for (int round = 1; round <= 100; round++)
        transfer_alone(from, to, round);
    pthread_barrier_wait(&meeting);
    if (from == &checking) {
        puts("the last round");
        fflush(stdout);
    }
    transfer(from, to, 500, 1);
    return NULL;
}

int main(void) {
    pthread_t tellers[2];
    pthread_barrier_init(&meeting, NULL, 2);
    if (pthread_create(&tellers[0], NULL, serve_teller, &checking) ||
        pthread_create(&tellers[1], NULL, serve_teller, &savings))
        return 1;
    pthread_join(tellers[0], NULL);
    pthread_join(tellers[1], NULL);
    return 0;
}
