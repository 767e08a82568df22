/* SPDX-License-Identifier: Apache-2.0 */
/* Follows locks through time: who holds each, who waits for whom, and who waits in a circle. See locks.h. */
#include "base/grow.h"
#include "report/locks_internal.h"
#include <stdlib.h>
#include <string.h>

/* A lock call is two moments: it begins, and it ends. */
struct moment {
    uint64_t time_ns, sequence;
    const struct ct_lock_op *op;
    bool end;
};

/* The place of a lock in the list, while the list grows. */
struct slot {
    struct ct_table_key key;
    size_t number; /* plus 1 */
};

struct follower {
    struct ct_locks *locks;
    struct ct_table slots;
    size_t lock_room, wait_room;
    size_t thread_count;
    size_t *held;    /* of each thread: locks that it holds */
    size_t *wait_of; /* of each thread: its wait, or SIZE_MAX */
    size_t *next;    /* of each wait: that of the thread that holds the lock, or SIZE_MAX */
};

/* ---- growing lists ---- */

static struct ct_lock *lock_of(struct follower *f, const struct ct_lock_op *op) {
    struct ct_locks *locks = f->locks;
    struct slot *slot = ct_table_get(&f->slots, op->process, op->address, sizeof *slot);
    if (!slot)
        return NULL;
    if (slot->number)
        return &locks->locks[slot->number - 1];
    if (!ct_grow(&locks->locks, &f->lock_room, locks->lock_count, sizeof *locks->locks, 16))
        return NULL;
    struct ct_lock *lock = &locks->locks[locks->lock_count++];
    *lock = (struct ct_lock){.process = op->process, .address = op->address, .what = op->what};
    slot->number = locks->lock_count;
    return lock;
}

static struct ct_lock_holder *holder_of(const struct ct_lock *lock, size_t thread) {
    for (size_t i = 0; i < lock->holder_count; i++)
        if (lock->holders[i].thread == thread)
            return &lock->holders[i];
    return NULL;
}

static struct ct_lock_pair *pair_of(struct ct_lock *lock, size_t waiter, size_t holder) {
    for (size_t i = 0; i < lock->pair_count; i++)
        if (lock->pairs[i].waiter == waiter && lock->pairs[i].holder == holder)
            return &lock->pairs[i];
    struct ct_lock_pair *grown = realloc(lock->pairs, (lock->pair_count + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    lock->pairs = grown;
    grown[lock->pair_count] = (struct ct_lock_pair){.waiter = waiter, .holder = holder};
    return &grown[lock->pair_count++];
}

static int add_wait(struct follower *f, const struct ct_lock_op *op, size_t lock) {
    struct ct_locks *locks = f->locks;
    if (!ct_grow(&locks->waits, &f->wait_room, locks->wait_count, sizeof *locks->waits, 16))
        return CT_ERR_NO_MEMORY;
    locks->waits[locks->wait_count++] = (struct ct_lock_wait){.thread = op->thread,
                                                              .lock = lock,
                                                              .began_ns = op->began_ns,
                                                              .lasted_ns = op->lasted_ns,
                                                              .caller = op->caller,
                                                              .holder = SIZE_MAX,
                                                              .fits = op->fits};
    return 0;
}

/* ---- moments ---- */

static int take(struct follower *f, struct ct_lock *lock, const struct ct_lock_op *op) {
    struct ct_lock_holder *holder = holder_of(lock, op->thread);
    if (holder) { /* a recursive lock */
        holder->depth++;
        return 0;
    }
    if (!ct_grow(&lock->holders, &lock->holder_room, lock->holder_count, sizeof *lock->holders, 2))
        return CT_ERR_NO_MEMORY;
    f->held[op->thread]++;
    lock->holders[lock->holder_count++] =
        (struct ct_lock_holder){.thread = op->thread, .since_ns = op->ended_ns, .depth = 1, .caller = op->caller};
    return 0;
}

static void give(struct follower *f, struct ct_lock *lock, const struct ct_lock_op *op) {
    struct ct_lock_holder *holder = holder_of(lock, op->thread);
    if (!holder || --holder->depth)
        return;
    uint64_t held = op->began_ns > holder->since_ns ? op->began_ns - holder->since_ns : 0;
    lock->held_max_ns = held > lock->held_max_ns ? held : lock->held_max_ns;
    *holder = lock->holders[--lock->holder_count];
    f->held[op->thread]--;
}

static void forget(struct follower *f, size_t thread) {
    struct ct_locks *locks = f->locks;
    for (size_t i = 0; i < locks->lock_count && f->held[thread]; i++) {
        struct ct_lock_holder *holder = holder_of(&locks->locks[i], thread);
        if (!holder)
            continue;
        *holder = locks->locks[i].holders[--locks->locks[i].holder_count];
        f->held[thread]--;
    }
}

/* A wait is one for the thread that has held the lock longest. */
static int count_wait(struct ct_lock *lock, const struct ct_lock_op *op) {
    const struct ct_lock_holder *first = NULL;
    lock->locked++;
    lock->total_ns += op->lasted_ns;
    lock->max_ns = op->lasted_ns > lock->max_ns ? op->lasted_ns : lock->max_ns;
    for (size_t i = 0; i < lock->holder_count; i++)
        if ((lock->holders[i].thread != op->thread || op->open) &&
            (!first || lock->holders[i].since_ns < first->since_ns))
            first = &lock->holders[i];
    if (!first)
        return 0;
    lock->waited++;
    struct ct_lock_pair *pair = pair_of(lock, op->thread, first->thread);
    if (!pair)
        return CT_ERR_NO_MEMORY;
    pair->count++;
    pair->total_ns += op->lasted_ns;
    if (op->lasted_ns >= pair->max_ns) {
        pair->max_ns = op->lasted_ns;
        pair->max_at_ns = op->began_ns;
        pair->waiter_caller = op->caller;
    }
    return 0;
}

static int pass(struct follower *f, const struct moment *m) {
    const struct ct_lock_op *op = m->op;
    if (op->role == CT_LOCK_GAP) {
        forget(f, op->thread);
        return 0;
    }
    struct ct_lock *lock = lock_of(f, op);
    if (!lock)
        return CT_ERR_NO_MEMORY;
    if (m->end)
        return op->taken ? take(f, lock, op) : 0;
    if (op->role == CT_LOCK_GIVE || op->role == CT_LOCK_CONDITION) {
        give(f, lock, op);
        return 0;
    }
    int status = op->fits ? count_wait(lock, op) : 0;
    return status || !op->open ? status : add_wait(f, op, (size_t)(lock - f->locks->locks));
}

static int by_time(const void *a, const void *b) {
    const struct moment *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->op->thread != y->op->thread)
        return x->op->thread < y->op->thread ? -1 : 1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return (int)x->end - (int)y->end;
}

static int pass_all(struct follower *f, const struct ct_lock_op *ops, size_t count) {
    struct moment *moments = calloc(2 * count + 1, sizeof *moments);
    size_t used = 0;
    int status = moments ? 0 : CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        moments[used++] = (struct moment){ops[i].began_ns, ops[i].sequence, &ops[i], false};
        if (ops[i].taken)
            moments[used++] = (struct moment){ops[i].ended_ns, ops[i].sequence, &ops[i], true};
    }
    if (used)
        qsort(moments, used, sizeof *moments, by_time);
    for (size_t i = 0; i < used && !status; i++)
        status = pass(f, &moments[i]);
    free(moments);
    return status;
}

/* ---- circles ---- */

/* Finds whom this one waits for: a thread that waits itself, or the first. */
static size_t next_wait(const struct follower *f, struct ct_lock_wait *wait) {
    const struct ct_lock *lock = &f->locks->locks[wait->lock];
    for (size_t i = lock->holder_count; i-- > 0;) {
        size_t next = f->wait_of[lock->holders[i].thread];
        wait->holder = i;
        if (next != SIZE_MAX)
            return next;
    }
    return SIZE_MAX;
}

/* Numbers the circle that the wait is in, if it is in one. */
static void find_circle(struct follower *f, size_t start) {
    struct ct_locks *locks = f->locks;
    size_t at = start, steps = 0;
    while (at != SIZE_MAX && steps++ < locks->wait_count) {
        at = f->next[at];
        if (at != start)
            continue;
        locks->cycles++;
        do {
            locks->waits[at].cycle = locks->cycles;
            at = f->next[at];
        } while (at != start);
        return;
    }
}

static void find_circles(struct follower *f) {
    struct ct_locks *locks = f->locks;
    for (size_t i = 0; i < f->thread_count; i++)
        f->wait_of[i] = SIZE_MAX;
    for (size_t i = 0; i < locks->wait_count; i++)
        f->wait_of[locks->waits[i].thread] = i;
    for (size_t i = 0; i < locks->wait_count; i++)
        f->next[i] = next_wait(f, &locks->waits[i]);
    for (size_t i = 0; i < locks->wait_count; i++)
        if (!locks->waits[i].cycle)
            find_circle(f, i);
}

/* Puts the waits of a circle one after the other; leaves out those that do not fit and are in no circle. */
static int order_waits(const struct follower *f) {
    struct ct_locks *locks = f->locks;
    size_t used = 0;
    struct ct_lock_wait *sorted = calloc(locks->wait_count + 1, sizeof *sorted);
    if (!sorted)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0, cycle = 1; i < locks->wait_count; i++) {
        if (locks->waits[i].cycle != cycle)
            continue;
        size_t at = i;
        do {
            sorted[used++] = locks->waits[at];
            at = f->next[at];
        } while (at != i);
        cycle++;
    }
    for (size_t i = 0; i < locks->wait_count; i++)
        if (!locks->waits[i].cycle && locks->waits[i].fits)
            sorted[used++] = locks->waits[i];
    free(locks->waits);
    locks->waits = sorted;
    locks->wait_count = used;
    return 0;
}

/* ---- order ---- */

static int by_total(const void *a, const void *b, void *arg) {
    const struct ct_lock *locks = arg, *x = &locks[*(const size_t *)a], *y = &locks[*(const size_t *)b];
    if (x->total_ns != y->total_ns)
        return x->total_ns < y->total_ns ? 1 : -1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int pairs_by_total(const void *a, const void *b) {
    const struct ct_lock_pair *x = a, *y = b;
    if (x->total_ns != y->total_ns)
        return x->total_ns < y->total_ns ? 1 : -1;
    if (x->waiter != y->waiter)
        return x->waiter < y->waiter ? -1 : 1;
    return x->holder < y->holder ? -1 : x->holder > y->holder;
}

static int order_locks(struct ct_locks *locks) {
    locks->order = calloc(locks->lock_count + 1, sizeof *locks->order);
    if (!locks->order)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < locks->lock_count; i++) {
        struct ct_lock *lock = &locks->locks[i];
        if (lock->pair_count)
            qsort(lock->pairs, lock->pair_count, sizeof *lock->pairs, pairs_by_total);
        if (lock->locked)
            locks->order[locks->order_count++] = i;
    }
    if (locks->order_count)
        qsort_r(locks->order, locks->order_count, sizeof *locks->order, by_total, locks->locks);
    return 0;
}

/* ---- all ---- */

int ct_locks_follow(struct ct_locks *locks, const struct ct_lock_op *ops, size_t count, size_t threads) {
    struct follower f = {.locks = locks, .thread_count = threads};
    f.held = calloc(f.thread_count + 1, sizeof *f.held);
    f.wait_of = calloc(f.thread_count + 1, sizeof *f.wait_of);
    int status = f.held && f.wait_of ? pass_all(&f, ops, count) : CT_ERR_NO_MEMORY;
    f.next = calloc(locks->wait_count + 1, sizeof *f.next);
    if (!status)
        status = f.next ? 0 : CT_ERR_NO_MEMORY;
    if (!status) {
        find_circles(&f);
        status = order_waits(&f);
    }
    if (!status)
        status = order_locks(locks);
    ct_table_free(&f.slots, NULL);
    free(f.held);
    free(f.wait_of);
    free(f.next);
    return status;
}
