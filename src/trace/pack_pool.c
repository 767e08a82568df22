/* SPDX-License-Identifier: Apache-2.0 */
/* See pack_pool.h. All state is under one lock; a job takes thousands of times longer than the lock is held. */
#include "trace/pack_pool.h"
#include "trace/packed_columns.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#define MOST_WORKERS 8u
#define PER_WORKER   2u /* jobs in the queue and at work */
#define LEAST_CORES  4  /* a program, its drain, and two that may be idle */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static pthread_t workers[MOST_WORKERS];
static unsigned worker_count, users, jobs;
static bool ending;
static struct ct_pack *first, **end = &first;

unsigned ct_pack_pool_spare(void) {
    cpu_set_t ours;
    int cores = sched_getaffinity(0, sizeof ours, &ours) == 0 ? CPU_COUNT(&ours) : 1;
    unsigned spare = cores < LEAST_CORES ? 0 : (unsigned)cores / 2 - 1;
    return spare < MOST_WORKERS ? spare : MOST_WORKERS;
}

static struct ct_pack_job *job_of(struct ct_pack *pack) {
    return &ct_pack_columns(pack)->job;
}

/* Call this and the next two with the lock held. */
static struct ct_pack *take_first(void) {
    struct ct_pack *pack = first;
    if (pack && !(first = job_of(pack)->next))
        end = &first;
    return pack;
}

static bool take_out(struct ct_pack *pack) {
    struct ct_pack **at = &first;
    while (*at && *at != pack)
        at = &job_of(*at)->next;
    if (!*at)
        return false;
    *at = job_of(pack)->next;
    if (end == &job_of(pack)->next)
        end = at;
    return true;
}

static void run_job(struct ct_pack *pack) {
    struct ct_pack_job *job = job_of(pack);
    pthread_mutex_unlock(&lock);
    job->block = ct_pack_end(pack, job->first_seq, &job->size);
    pthread_mutex_lock(&lock);
    jobs--;
    __atomic_store_n(&job->done, true, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&done);
}

static void *run_worker(void *unused) {
    struct ct_pack *pack;
    pthread_mutex_lock(&lock);
    while (!ending)
        if ((pack = take_first()))
            run_job(pack);
        else
            pthread_cond_wait(&more, &lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Signals are for the program's own threads. */
static void start_workers(unsigned count) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (worker_count < count && worker_count < MOST_WORKERS &&
           pthread_create(&workers[worker_count], NULL, run_worker, NULL) == 0)
        worker_count++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void ct_pack_pool_open(unsigned count) {
    pthread_mutex_lock(&lock);
    if (!users++)
        start_workers(count);
    pthread_mutex_unlock(&lock);
}

/* A user that comes while the workers end does without. */
void ct_pack_pool_close(void) {
    pthread_mutex_lock(&lock);
    if (users == 1) {
        ending = true;
        pthread_cond_broadcast(&more);
        for (unsigned i = worker_count; i > 0; i--) {
            pthread_t worker = workers[i - 1];
            pthread_mutex_unlock(&lock);
            pthread_join(worker, NULL);
            pthread_mutex_lock(&lock);
        }
        worker_count = 0;
        ending = false;
    }
    users--;
    pthread_mutex_unlock(&lock);
}

bool ct_pack_pool_give(struct ct_pack *pack, uint64_t first_seq) {
    pthread_mutex_lock(&lock);
    bool taken = !ending && jobs < PER_WORKER * worker_count;
    if (taken) {
        *job_of(pack) = (struct ct_pack_job){.first_seq = first_seq};
        *end = pack;
        end = &job_of(pack)->next;
        jobs++;
        pthread_cond_signal(&more);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

bool ct_pack_pool_is_done(const struct ct_pack *pack) {
    return __atomic_load_n(&ct_pack_columns((struct ct_pack *)(uintptr_t)pack)->job.done, __ATOMIC_ACQUIRE);
}

void ct_pack_pool_wait(struct ct_pack *pack) {
    if (ct_pack_pool_is_done(pack))
        return;
    pthread_mutex_lock(&lock);
    if (take_out(pack))
        run_job(pack);
    while (!ct_pack_pool_is_done(pack))
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
}
