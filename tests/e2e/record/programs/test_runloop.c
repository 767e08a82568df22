/* SPDX-License-Identifier: Apache-2.0 */
/* The event-driven program: an epoll loop with a timer and an event descriptor, and workers that get a job per tick. */
#include "zoo.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#define WORKERS 4
#define TICKS   25

ZOO_GATES

static int timer, done_event, ticks, finished;
static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int jobs[TICKS + 1], head, tail;
    long sum;
} workers[WORKERS];

static FN long compute(long job) {
    long sum = 0;
    for (int i = 0; i < 100; i++)
        sum += (job * 31 + i) % 7;
    BARRIER();
    return sum;
}

static FN void handle_job(int worker, int job) {
    workers[worker].sum += compute(job);
    uint64_t one = 1;
    if (write(done_event, &one, sizeof one) != sizeof one)
        abort();
}

INLINE int next_job(int worker) {
    pthread_mutex_lock(&workers[worker].lock);
    while (workers[worker].head == workers[worker].tail)
        pthread_cond_wait(&workers[worker].changed, &workers[worker].lock);
    int job = workers[worker].jobs[workers[worker].head++];
    pthread_mutex_unlock(&workers[worker].lock);
    return job;
}

static FN void *worker_main(void *arg) {
    int worker = (int)(intptr_t)arg, job;
    while ((job = next_job(worker)) >= 0)
        handle_job(worker, job);
    return NULL;
}

static FN void dispatch(int worker, int job) {
    pthread_mutex_lock(&workers[worker].lock);
    workers[worker].jobs[workers[worker].tail++] = job;
    pthread_cond_signal(&workers[worker].changed);
    pthread_mutex_unlock(&workers[worker].lock);
}

static FN void on_tick(void) {
    for (int i = 0; i < WORKERS; i++)
        dispatch(i, ticks * WORKERS + i);
    ticks++;
}

static FN void start_workers(void) {
    for (int i = 0; i < WORKERS; i++) {
        pthread_mutex_init(&workers[i].lock, NULL);
        pthread_cond_init(&workers[i].changed, NULL);
        if (pthread_create(&workers[i].thread, NULL, worker_main, (void *)(intptr_t)i) != 0)
            abort();
    }
}

static FN void stop_workers(void) {
    for (int i = 0; i < WORKERS; i++)
        dispatch(i, -1);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
}

static FN void run_loop(void) {
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    struct itimerspec every = {{0, 2000000}, {0, 2000000}};
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    event.data.fd = timer;
    epoll_ctl(loop, EPOLL_CTL_ADD, timer, &event);
    event.data.fd = done_event;
    epoll_ctl(loop, EPOLL_CTL_ADD, done_event, &event);
    timerfd_settime(timer, 0, &every, NULL);
    while (finished < WORKERS * TICKS) {
        uint64_t count;
        if (epoll_wait(loop, &event, 1, -1) != 1) {
            perror("epoll_wait");
            abort();
        }
        if (read(event.data.fd, &count, sizeof count) != sizeof count)
            abort();
        if (event.data.fd == done_event)
            finished += (int)count;
        for (uint64_t i = 0; event.data.fd == timer && i < count && ticks < TICKS; i++)
            on_tick();
    }
    close(timer);
    close(loop);
}

static FN void report(void) {
    for (int i = 0; i < WORKERS; i++)
        printf("worker %d: %ld\n", i, workers[i].sum);
    printf("%d ticks, %d jobs\n", ticks, finished);
}

int main(void) {
    done_event = eventfd(0, EFD_CLOEXEC);
    wait_for_start();
    start_workers();
    run_loop();
    stop_workers();
    report();
    wait_for_end();
    return 0;
}
