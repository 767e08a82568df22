/* SPDX-License-Identifier: Apache-2.0 */
/* Limits how long a process is kept stopped because of what is in its memory.
 *
 * Lists and tables there may be of any length, or endless. Code that follows them reads memory, so the reads end it:
 * when the time is over, or the user has given up, they fail. The callback belongs to the caller and is called on the
 * caller's thread only, never by the tracer; the tracer sees the answer. */
#include "remote/remote_internal.h"

#include <time.h>

enum { ASK_MS = 10 };

/* The clock of ct_seize_now_ms, without a system call: this is asked before every read. */
static uint64_t now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void begin_limit(struct patience *p) {
    uint64_t now = now_ms();
    p->next_ask_ms = now;
    p->until_ms = now + p->limit_ms;
    __atomic_store_n(&p->over, false, __ATOMIC_RELEASE);
    p->running = p->limit_ms != 0;
}

void ct_remote_limit(struct ct_remote *remote, unsigned limit_ms, bool (*given_up)(void *arg), void *arg) {
    remote->patience = (struct patience){.limit_ms = limit_ms, .given_up = given_up, .arg = arg};
    if (remote->stopped)
        begin_limit(&remote->patience);
}

void ct_patience_begin(struct ct_remote *remote) {
    begin_limit(&remote->patience);
}

void ct_patience_end(struct ct_remote *remote) {
    remote->patience.running = false;
}

static bool check_limit(struct patience *p, bool ask) {
    if (!p->running)
        return false;
    if (__atomic_load_n(&p->over, __ATOMIC_ACQUIRE))
        return true;
    uint64_t now = now_ms();
    bool over = now >= p->until_ms;
    if (!over && ask && p->given_up && now >= p->next_ask_ms) {
        p->next_ask_ms = now + ASK_MS;
        over = p->given_up(p->arg);
    }
    if (over)
        __atomic_store_n(&p->over, true, __ATOMIC_RELEASE);
    return over;
}

/* A read does not change the process, so `remote` is const; its time limit is not part of that. */
bool ct_remote_is_over(const struct ct_remote *remote) {
    return check_limit((struct patience *)&remote->patience, !remote->tracer.working);
}

bool ct_patience_ask(struct ct_remote *remote) {
    return check_limit(&remote->patience, true);
}

uint64_t ct_patience_deadline(const struct ct_remote *remote, uint64_t deadline_ms) {
    const struct patience *p = &remote->patience;
    return p->running && p->until_ms < deadline_ms ? p->until_ms : deadline_ms;
}
