/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of threads that wait: taken, and answered. See abi/script_abi.h for the turns of a slot. */
#include "os/os.h"
#include "os/thread.h"
#include "remote/namespace.h"
#include "script/script_internal.h"
#include <contrail/status.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_MS 100u /* of one sleep: the target could forget to ring */
#define GENERAL    16u

static uint32_t state_of(const struct ct_script_slot *slot) {
    return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
}

static bool change_state(struct ct_script_slot *slot, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(&slot->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---- registers ---- */

/* x86_64 has 16 general registers, pc and flags; arm64 32, pc and flags. Read once: the target may change it. */
static uint32_t general_of(const struct ct_script_slot *slot) {
    uint32_t words = __atomic_load_n(&slot->cpu_words, __ATOMIC_RELAXED);
    uint32_t general = words > 2 ? words - 2 : 0;
    return general < CT_SCRIPT_CPU_WORDS - 2 ? general : CT_SCRIPT_CPU_WORDS - 2;
}

static void read_cpu(const struct ct_script_slot *slot, struct ct_script_request *r) {
    uint32_t general = general_of(slot);
    for (uint32_t i = 0; i < general; i++)
        *(i < GENERAL ? &r->cpu.gpr[i] : &r->cpu.more[i - GENERAL]) = slot->cpu[i];
    r->cpu.pc = slot->cpu[general];
    r->cpu.flags = slot->cpu[general + 1];
}

static void write_cpu(struct ct_script_slot *slot, const struct ct_script_request *r) {
    uint32_t general = general_of(slot);
    for (uint32_t i = 0; i < general; i++)
        slot->cpu[i] = i < GENERAL ? r->cpu.gpr[i] : r->cpu.more[i - GENERAL];
    slot->cpu[general] = r->cpu.pc;
    slot->cpu[general + 1] = r->cpu.flags;
}

/* ---- taking ---- */

int ct_script_outer_tid(const struct ct_script *s, int tid) {
    if (!s->other_namespace)
        return tid;
    int outer = ct_remote_outer_tid(s->pid, tid);
    return outer > 0 ? outer : tid;
}

static void copy_request(struct ct_script *s, uint32_t i, uint32_t word, struct ct_script_request *out) {
    const struct ct_script_slot *slot = &s->shared->slots[i];
    uint32_t parent = __atomic_load_n(&slot->parent, __ATOMIC_RELAXED);
    *out = (struct ct_script_request){
        .slot = i,
        .kind = slot->kind,
        .id = slot->id,
        .tid = slot->tid,
        .depth = slot->depth,
        .parent = parent && parent <= CT_SCRIPT_SLOTS ? parent - 1 : CT_SCRIPT_NO_SLOT,
        .ticket = word >> 8,
        .call = slot->call,
        .function = slot->function,
        .return_address = slot->return_address,
        .address = slot->address,
        .fault = slot->fault,
        .vectors = slot->vectors,
        .vectors_size = slot->vectors_size,
    };
    read_cpu(slot, out);
}

/* The bit goes first: a request that is posted afterwards sets it again. Under the lock. */
static bool take_slot(struct ct_script *s, uint32_t i, uint32_t parent, struct ct_script_request *out) {
    uint64_t *posted = &s->shared->posted[i / 64], bit = 1ull << (i & 63);
    const struct ct_script_slot *slot = &s->shared->slots[i];
    (void)__atomic_fetch_and(posted, ~bit, __ATOMIC_ACQ_REL);
    uint32_t word = state_of(slot), of = __atomic_load_n(&slot->parent, __ATOMIC_RELAXED);
    if (CT_ASK_STATE(word) != CT_ASK_POSTED || s->taken[i] == word)
        return false;
    if (!of || of > CT_SCRIPT_SLOTS || !s->running[of - 1])
        of = 0;
    if (of != parent) {
        (void)__atomic_fetch_or(posted, bit, __ATOMIC_RELEASE);
        return false;
    }
    s->taken[i] = word;
    copy_request(s, i, word, out);
    return true;
}

bool ct_script_take(struct ct_script *s, uint32_t parent, struct ct_script_request *out) {
    bool found = false;
    pthread_mutex_lock(&s->slots);
    for (uint32_t w = 0; w < CT_SCRIPT_SLOTS / 64 && !found; w++) {
        uint64_t bits = __atomic_load_n(&s->shared->posted[w], __ATOMIC_ACQUIRE);
        for (; bits && !found; bits &= bits - 1)
            found = take_slot(s, w * 64 + (uint32_t)__builtin_ctzll(bits), parent, out);
    }
    pthread_mutex_unlock(&s->slots);
    if (found)
        out->tid = ct_script_outer_tid(s, out->tid);
    return found;
}

bool ct_script_waits(const struct ct_script *s, int tid) {
    for (uint32_t i = 0; i < CT_SCRIPT_SLOTS; i++)
        if (CT_ASK_STATE(state_of(&s->shared->slots[i])) == CT_ASK_POSTED &&
            ct_script_outer_tid(s, s->shared->slots[i].tid) == tid)
            return true;
    return false;
}

/* ---- waiting ---- */

static bool has_news(const struct ct_script *s, uint32_t heard) {
    return ct_script_heard(s) != heard;
}

/* Until there are news after `heard`, or the time that began at `since` is over. */
static bool spin(const struct ct_script *s, uint32_t heard, uint64_t since) {
    while (ct_os_timestamp() - since < s->spin_counts) {
        if (has_news(s, heard))
            return true;
        ct_os_relax();
    }
    return false;
}

/* `asleep` counts those who do. */
static void sleep_until_news(struct ct_script *s, uint32_t heard, uint32_t timeout_ms, uint32_t *asleep) {
    uint32_t ms = timeout_ms < LONGEST_MS ? timeout_ms : LONGEST_MS;
    const struct timespec limit = {0, ms * 1000000L};
    __atomic_fetch_add(asleep, 1, __ATOMIC_SEQ_CST);
    if (ms && !has_news(s, heard))
        (void)syscall(SYS_futex, &s->shared->bell, FUTEX_WAIT, heard, &limit, NULL, 0);
    __atomic_fetch_sub(asleep, 1, __ATOMIC_SEQ_CST);
}

void ct_script_await(struct ct_script *s, uint32_t heard, uint32_t timeout_ms) {
    if (!spin(s, heard, ct_os_timestamp()))
        sleep_until_news(s, heard, timeout_ms, &s->shared->callers);
}

static void fill_without_slot(const struct ct_script *s, uint32_t kind, struct ct_script_request *request) {
    *request =
        (struct ct_script_request){.slot = CT_SCRIPT_NO_SLOT, .parent = CT_SCRIPT_NO_SLOT, .kind = kind, .tid = s->pid};
}

static bool tell_end(struct ct_script *s) {
    pthread_mutex_lock(&s->slots);
    bool first = !s->told_gone;
    s->told_gone = true;
    pthread_mutex_unlock(&s->slots);
    return first;
}

static bool is_shut(const struct ct_script *s) {
    return __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
}

/* CT_ERR_TIMEOUT: there is nothing. */
static int take_next(struct ct_script *s, struct ct_script_request *request) {
    if (is_shut(s))
        return CT_ERR_NOT_FOUND;
    if (ct_script_is_gone(s)) {
        fill_without_slot(s, CT_SCRIPT_GONE, request);
        return tell_end(s) ? 0 : CT_ERR_NOT_FOUND;
    }
    if (ct_script_take(s, 0, request))
        return 0;
    uint64_t ticket;
    if (ct_script_take_modules(s, &ticket)) {
        fill_without_slot(s, CT_SCRIPT_MODULES, request);
        request->ticket = ticket;
        return 0;
    }
    if (!ct_script_has_events(s))
        return CT_ERR_TIMEOUT;
    fill_without_slot(s, CT_SCRIPT_EVENTS, request);
    return 0;
}

/* Is what comes another thread's? The end is for all. */
static bool is_attended(const struct ct_script *s) {
    return __atomic_load_n(&s->shared->attended, __ATOMIC_SEQ_CST) && !is_shut(s) && !ct_script_is_gone(s);
}

int ct_script_wait(struct ct_script *s, uint32_t timeout_ms, struct ct_script_request *request) {
    uint64_t since = ct_clock_now();
    for (;;) {
        uint32_t heard = ct_script_heard(s);
        int status = is_attended(s) ? CT_ERR_TIMEOUT : take_next(s, request);
        if (status != CT_ERR_TIMEOUT)
            return status;
        uint64_t spent = (ct_clock_now() - since) / 1000000;
        if (timeout_ms != UINT32_MAX && spent >= timeout_ms)
            return CT_ERR_TIMEOUT;
        if (s->options.sleeps || !spin(s, heard, ct_os_timestamp()))
            sleep_until_news(s, heard, timeout_ms == UINT32_MAX ? timeout_ms : (uint32_t)(timeout_ms - spent),
                             &s->shared->waiters);
    }
}

void ct_script_rest(struct ct_script *s) {
    __atomic_store_n(&s->shared->attended, 0, __ATOMIC_SEQ_CST);
}

int ct_script_look(struct ct_script *s, struct ct_script_request *request) {
    uint64_t since = ct_os_timestamp();
    uint32_t heard;
    __atomic_store_n(&s->shared->attended, 1, __ATOMIC_SEQ_CST);
    do {
        heard = ct_script_heard(s);
        int status = take_next(s, request);
        if (status != CT_ERR_TIMEOUT)
            return status;
    } while (spin(s, heard, since));
    ct_script_rest(s);
    return take_next(s, request); /* who rang before that has woken nobody */
}

void ct_script_shut(struct ct_script *s) {
    __atomic_store_n(&s->shut, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&s->shared->open, 0, __ATOMIC_RELEASE);
    ct_script_ring(s);
    for (uint32_t i = 0; i < CT_SCRIPT_SLOTS; i++)
        if (s->shared->slots[i].sleeping)
            ct_os_wake(&s->shared->slots[i].state);
}

/* ---- answering ---- */

struct ct_script_slot *ct_script_slot_of(struct ct_script *s, const struct ct_script_request *request, uint32_t *word) {
    if (request->slot >= CT_SCRIPT_SLOTS)
        return NULL;
    *word = (uint32_t)request->ticket << 8 | CT_ASK_POSTED;
    return &s->shared->slots[request->slot];
}

bool ct_script_begin_answer(struct ct_script_slot *slot, uint32_t word) {
    return change_state(slot, CT_ASK_WORD(word, CT_ASK_POSTED), CT_ASK_WORD(word, CT_ASK_ANSWERING));
}

int ct_script_end_answer(struct ct_script_slot *slot, uint32_t word, uint32_t state) {
    uint32_t answering = CT_ASK_WORD(word, CT_ASK_ANSWERING);
    if (!change_state(slot, answering, CT_ASK_WORD(word, state))) {
        (void)change_state(slot, CT_ASK_WORD(word, CT_ASK_ABANDONED), CT_ASK_WORD(word, CT_ASK_FREE));
        return CT_ERR_TIMEOUT;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&slot->sleeping, __ATOMIC_SEQ_CST))
        ct_os_wake(&slot->state);
    return 0;
}

static int too_late(struct ct_script *s) {
    if (ct_script_is_gone(s))
        return ct_script_fail(s, CT_ERR_NOT_FOUND, "the process has ended");
    return ct_script_fail(s, CT_ERR_TIMEOUT,
                          "the thread has gone on by itself: a callback took longer than the time limit");
}

int ct_script_answer(struct ct_script *s, const struct ct_script_request *request, bool changed) {
    uint32_t word;
    struct ct_script_slot *slot = ct_script_slot_of(s, request, &word);
    if (!slot)
        return ct_script_fail(s, CT_ERR_INVALID_ARGUMENT, "no thread waits for this answer");
    if (!ct_script_begin_answer(slot, word))
        return too_late(s);
    slot->changed = changed;
    if (changed)
        write_cpu(slot, request);
    return ct_script_end_answer(slot, word, CT_ASK_ANSWERED) ? too_late(s) : 0;
}

int ct_script_extend(struct ct_script *s, const struct ct_script_request *request) {
    uint32_t word;
    struct ct_script_slot *slot = ct_script_slot_of(s, request, &word);
    if (!slot || state_of(slot) != word)
        return too_late(s);
    __atomic_fetch_add(&slot->extended, 1, __ATOMIC_RELEASE);
    return 0;
}
