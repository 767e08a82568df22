/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: born before and after the hooks, 64 at a time starting and ending under load, on the smallest stacks; each
 * thread's events are exact.
 *
 * An engine can go wrong here by a thread that inherits another one's state at birth, by state that is lost or reused
 * too early when a thread ends, and by needing more stack than the program did. */
#include "harness.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static E2E_FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN int work(int x) {
    int y = leaf(x);
    y = leaf(y);
    E2E_BARRIER();
    return y;
}

struct job {
    int rounds, tid;
    long sum;
};

static E2E_FN void *thread_main(void *arg) {
    struct job *job = arg;
    job->tid = e2e_gettid();
    for (int i = 0; i < job->rounds; i++)
        job->sum += work(i) - i;
    return NULL;
}

static void check_job(const struct job *job) {
    E2E_EQUAL(job->sum, 2L * job->rounds);
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(job->tid);
    size_t calls = (size_t)job->rounds * 3 + 1;
    E2E_EQUAL(s.calls, calls);
    E2E_EQUAL(s.returns, calls);
    E2E_EQUAL(s.left + s.open + s.unpaired, 0);
    E2E_EQUAL(s.depth, 3);
}

/* Waves of threads that overlap: while some start, others end. */
static void check_many(void) {
    enum { THREADS = 64, WAVES = 4 };
    static struct job jobs[WAVES][THREADS];
    static pthread_t threads[WAVES][THREADS];
    for (int wave = 0; wave <= WAVES; wave++)
        for (int i = 0; i < THREADS; i++) {
            if (wave < WAVES) {
                jobs[wave][i].rounds = 100 + (i * 37 + wave * 11) % 400;
                E2E_EQUAL(pthread_create(&threads[wave][i], NULL, thread_main, &jobs[wave][i]), 0);
            }
            if (wave > 0)
                pthread_join(threads[wave - 1][i], NULL);
        }
    size_t total = 0;
    for (int wave = 0; wave < WAVES; wave++)
        for (int i = 0; i < THREADS; i++) {
            check_job(&jobs[wave][i]);
            total += (size_t)jobs[wave][i].rounds * 3 + 1;
        }
    if (e2e_plain())
        return;
    struct e2e_summary all = e2e_summarize(-1);
    E2E_EQUAL(all.calls, total);
    struct ct_hooks_statistics s = {.size = sizeof s};
    ct_hooks_statistics(e2e_hooks, &s);
    E2E_CHECK(s.threads >= THREADS * WAVES);
    e2e_forget();
}

/* Thousands of short threads: what each leaves behind must be used again. */
static void check_turnover(void) {
    size_t before = 0;
    for (int i = 0; i < 2000; i++) {
        struct job job = {.rounds = 1};
        pthread_t thread;
        pthread_create(&thread, NULL, thread_main, &job);
        pthread_join(thread, NULL);
        if (job.sum != 2)
            e2e_fail(__FILE__, __LINE__, "wrong result");
        if (i == 200)
            before = e2e_rss_kib();
    }
    E2E_CHECK(e2e_rss_kib() < before + 16 * 1024);
    if (e2e_plain())
        return;
    struct e2e_summary all = e2e_summarize(-1);
    E2E_EQUAL(all.calls, 2000 * 4);
    E2E_EQUAL(all.returns, 2000 * 4);
    e2e_forget();
}

static void *dive_main(void *arg) {
    struct job *job = arg;
    job->tid = e2e_gettid();
    for (int i = 0; i < job->rounds; i++)
        job->sum += work(i) - i;
    return NULL;
}

static void check_small_stacks(void) {
    struct job job = {.rounds = 3000};
    pthread_attr_t attr;
    pthread_t thread;
    size_t size = (size_t)sysconf(_SC_THREAD_STACK_MIN) > 16384 ? (size_t)sysconf(_SC_THREAD_STACK_MIN) : 16384;
    pthread_attr_init(&attr);
    E2E_EQUAL(pthread_attr_setstacksize(&attr, size), 0);
    E2E_EQUAL(pthread_create(&thread, &attr, dive_main, &job), 0);
    pthread_join(thread, NULL);
    E2E_EQUAL(job.sum, 6000);
    if (!e2e_plain())
        E2E_EQUAL(e2e_summarize(job.tid).returns, 9000);
    e2e_forget();
}

/* Born before the hooks, and inside functions that become hooked while they run. */
static pthread_barrier_t hooked;
static struct job early_jobs[4];

static void *early_main(void *arg) {
    pthread_barrier_wait(&hooked); /* alive */
    pthread_barrier_wait(&hooked); /* hooks are there */
    return thread_main(arg);
}

static void start_early(pthread_t *threads) {
    pthread_barrier_init(&hooked, NULL, 5);
    for (int i = 0; i < 4; i++) {
        early_jobs[i].rounds = 1000;
        pthread_create(&threads[i], NULL, early_main, &early_jobs[i]);
    }
    pthread_barrier_wait(&hooked);
}

static volatile bool stop;
static struct job running_job;

/* Until it has made a call that began after we came. */
static void wait_for_rounds(const int *rounds) {
    int first = __atomic_load_n(rounds, __ATOMIC_ACQUIRE);
    while (__atomic_load_n(rounds, __ATOMIC_ACQUIRE) < first + 2)
        usleep(1000);
}

static void *running_main(void *arg) {
    struct job *job = arg;
    job->tid = e2e_gettid();
    while (!stop) {
        job->sum += work(job->rounds) - job->rounds;
        if (__atomic_add_fetch(&job->rounds, 1, __ATOMIC_RELEASE) > (e2e_listening() ? 20000 : 1000000))
            usleep(100); /* its log has an end */
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t early[4], running;
    e2e_begin(argc, argv);
    start_early(early);
    pthread_create(&running, NULL, running_main, &running_job);

    if (!e2e_plain())
        E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    E2E_RECORD(leaf);
    E2E_RECORD(work);
    E2E_RECORD(thread_main);
    if (!e2e_plain())
        E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);

    wait_for_rounds(&running_job.rounds);
    usleep(20000);
    stop = true;
    pthread_join(running, NULL);
    E2E_EQUAL(running_job.sum, 2L * running_job.rounds);
    if (!e2e_plain()) {
        struct e2e_summary s = e2e_summarize(running_job.tid);
        E2E_EQUAL(s.calls, s.returns);
        E2E_EQUAL(s.left + s.open + s.unpaired, 0);
        E2E_CHECK(s.calls > 0 && s.calls <= (size_t)running_job.rounds * 3);
    }

    pthread_barrier_wait(&hooked);
    for (int i = 0; i < 4; i++) {
        pthread_join(early[i], NULL);
        check_job(&early_jobs[i]);
    }
    e2e_forget();
    check_many();
    check_turnover();
    check_small_stacks();
    return e2e_end();
}
