/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads that exists during one call. Tasks may add others. See target_internal.h. */
#include "base/grow.h"
#include "plan/target_internal.h"
#include <contrail/status.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS 8u
#define ASK_NS      20000000 /* between two calls of given_up */

struct task {
    ct_target_task *run;
    void *arg;
    size_t n;
};

struct ct_target_pool {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct task *tasks; /* a stack: the last one is taken next */
    size_t count, capacity;
    unsigned active;
};

unsigned ct_target_pool_threads(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return count < 1 ? 1 : (unsigned)count > MAX_THREADS ? MAX_THREADS : (unsigned)count;
}

static bool push_task(struct ct_target_pool *p, struct task task) {
    if (!ct_grow(&p->tasks, &p->capacity, p->count, sizeof *p->tasks, 64))
        return false;
    p->tasks[p->count++] = task;
    return true;
}

void ct_target_pool_add(struct ct_target_pool *p, ct_target_task *run, void *arg, size_t n) {
    pthread_mutex_lock(&p->mutex);
    bool pushed = push_task(p, (struct task){run, arg, n});
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    if (!pushed)
        run(p, arg, n);
}

/* Runs tasks until none is left and none is running that could add one. */
static void *run_tasks(void *arg) {
    struct ct_target_pool *p = arg;
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (!p->count && p->active)
            pthread_cond_wait(&p->changed, &p->mutex);
        if (!p->count)
            break;
        struct task task = p->tasks[--p->count];
        p->active++;
        pthread_mutex_unlock(&p->mutex);
        task.run(p, task.arg, task.n);
        pthread_mutex_lock(&p->mutex);
        p->active--;
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* Asks given_up while the other threads work. */
static void watch_cancel(struct ct_target_pool *p, struct ct_target_cancel *cancel) {
    struct timespec until;
    pthread_mutex_lock(&p->mutex);
    while (p->count || p->active) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += ASK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&p->changed, &p->mutex, &until);
        pthread_mutex_unlock(&p->mutex);
        if (!cancel->over && cancel->given_up(cancel->arg))
            __atomic_store_n(&cancel->over, true, __ATOMIC_RELAXED);
        pthread_mutex_lock(&p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
}

/* Only the calling thread receives signals. It runs tasks too, unless it has to ask given_up. */
void ct_target_pool_run(ct_target_task *run, void *arg, const size_t *order, size_t count,
                        struct ct_target_cancel *cancel) {
    struct ct_target_pool p = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t threads[MAX_THREADS];
    unsigned started = 0, wanted = ct_target_pool_threads() - (cancel->given_up ? 0 : 1);
    sigset_t all, before;
    for (size_t i = count; i-- > 0;)
        ct_target_pool_add(&p, run, arg, order[i]);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (started < wanted && !pthread_create(&threads[started], NULL, run_tasks, &p))
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started && cancel->given_up)
        watch_cancel(&p, cancel);
    run_tasks(&p);
    while (started)
        pthread_join(threads[--started], NULL);
    free(p.tasks);
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.mutex);
}
