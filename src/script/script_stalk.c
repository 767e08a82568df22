/* SPDX-License-Identifier: Apache-2.0 */
/* The Stalker of scripts, from the controller: commands, and events from the ring. See agent/script_stalk.c. */
#include "abi/boot_abi.h"
#include "inject/inject_memory.h"
#include "inject/redirect.h"
#include "script/script_internal.h"
#include <contrail/stalker.h>
#include <contrail/status.h>
#include <string.h>
#include <unistd.h>

#define TRIES       200
#define LEAVE_TRIES 200
#define NAP_US      500u
#define CALL_MS     5000u
#define CAPACITY    16384u

_Static_assert(sizeof(struct ct_script_event) == sizeof(struct ct_stalker_event), "the same");
_Static_assert(sizeof(struct ct_script_call_count) == sizeof(struct ct_stalker_call_count), "the same");

static struct ct_script_stalk *shared_of(struct ct_script *s) {
    return (struct ct_script_stalk *)((uint8_t *)s->shared + CT_SCRIPT_STALK_AT);
}

/* ---- what the agent must know ---- */

static bool is_named(const char *name, const char *wanted) {
    size_t length = strlen(wanted);
    return !strncmp(name, wanted, length) && (!name[length] || name[length] == '@');
}

/* Functions of the unwinder come from one module, the others from any (abi/stalk_abi.h). */
static void find_functions(const struct ct_target_module *m, uint64_t functions[CT_STALK_FUNCTIONS]) {
    enum { UNWINDERS = 6 };
    static const char *const names[CT_STALK_FUNCTIONS] = {
#define CT_STALK_FUNCTION_NAME(name, text) text,
        CT_STALK_FUNCTION_LIST(CT_STALK_FUNCTION_NAME)
#undef CT_STALK_FUNCTION_NAME
    };
    uint64_t found[CT_STALK_FUNCTIONS] = {0};
    for (size_t i = 0; i < m->function_count; i++)
        for (size_t k = 0; k < CT_STALK_FUNCTIONS; k++)
            if (m->functions[i].name[0] == names[k][0] && is_named(m->functions[i].name, names[k]))
                found[k] = m->bias + m->functions[i].offset;
    bool unwinder = found[0] && !functions[0];
    for (size_t k = 0; k < CT_STALK_FUNCTIONS; k++)
        if (k < UNWINDERS ? unwinder : !functions[k])
            functions[k] = found[k];
}

static void prepare(struct ct_script *s, const struct ct_script_follow *what) {
    struct ct_script_stalk *stalk = shared_of(s);
    uint64_t functions[CT_STALK_FUNCTIONS] = {0};
    for (size_t p = 0; !stalk->made && p < s->plan_count; p++)
        for (size_t i = 0; i < s->plans[p].plan->module_count; i++)
            find_functions(&s->plans[p].plan->modules[i], functions);
    if (!stalk->made)
        memcpy(stalk->functions, functions, sizeof functions);
    stalk->mask = what->summary ? CT_STALKER_CALL : what->mask & CT_STALKER_ALL_EVENTS;
    stalk->summary = what->summary;
    stalk->transform = what->transform;
    stalk->native_transform = what->native_transform;
    stalk->native_on_event = what->native_on_event;
    stalk->user = what->user;
    stalk->trust = s->trust;
    stalk->queue_capacity = s->queue_capacity ? s->queue_capacity : CAPACITY;
    stalk->drain_interval_ms = s->drain_interval_ms;
}

/* ---- commands, under a stop ---- */

static int command(struct ct_script *s, uint64_t number) {
    const uint64_t a[6] = {number};
    uint64_t result;
    int status = ct_remote_call(s->remote, shared_of(s)->run, s->injection.stack, a, &result);
    return status ? status : ct_inject_said((int32_t)result);
}

static int find_thread(struct ct_script *s, int32_t tid, size_t *place) {
    for (size_t i = 0; i < ct_remote_thread_count(s->remote); i++)
        if (ct_remote_thread_tid(s->remote, i) == tid) {
            *place = i;
            return 0;
        }
    return ct_script_fail(s, CT_ERR_NOT_FOUND, "there is no thread %d", tid);
}

/* The agent moves a thread into translated code, or out of it. */
static int move_thread(struct ct_script *s, int32_t tid, uint64_t number) {
    struct ct_script_stalk *stalk = shared_of(s);
    struct ct_registers regs;
    size_t i = 0;
    int status = find_thread(s, tid, &i);
    if (!status)
        status = ct_remote_get_regs(s->remote, i, &regs);
    if (status)
        return status;
    stalk->tid = ct_remote_thread_inner_tid(s->remote, i);
    stalk->pc = ct_registers_pc(&regs);
    stalk->block = ct_registers_block(&regs);
    stalk->thread_pointer = ct_remote_thread_pointer(s->remote, &regs);
    status = command(s, number);
    if (status)
        return status;
    if (stalk->pc != ct_registers_pc(&regs))
        status = ct_inject_redirect(s->remote, &regs, stalk->block);
    if (status)
        return status;
    ct_registers_set_pc(&regs, stalk->pc);
    ct_registers_set_block(&regs, stalk->block);
    return ct_remote_set_regs(s->remote, i, &regs);
}

struct attempt {
    int32_t tid;
    uint64_t command;
};

static int try_once(struct ct_script *s, const struct attempt *a) {
    bool was;
    int status = ct_script_stop(s, &was);
    if (status)
        return status;
    ct_remote_limit(s->remote, CALL_MS, NULL, NULL);
    status = a->tid ? move_thread(s, a->tid, a->command) : command(s, a->command);
    ct_remote_limit(s->remote, 0, NULL, NULL);
    ct_script_go_on(s, was);
    return status;
}

/* Longer and longer: on a busy machine a thread that holds the Stalker's lock may get no turn for milliseconds. */
static void nap(int tries) {
    usleep(NAP_US * (1 + (unsigned)tries / 10));
}

/* Not while a thread waits for our answer with the Stalker's lock. */
static bool may_try_again(struct ct_script *s) {
    const struct ct_script_stalk *stalk = shared_of(s);
    return !ct_remote_is_stopped(s->remote) && !__atomic_load_n(&stalk->asking, __ATOMIC_ACQUIRE);
}

/* A thread that is stopped may hold the Stalker's lock: then the others run on for a moment. It is CT_ERR_BUSY when
 * that thread waits for an answer of ours: who answers must try again. */
static int attempt(struct ct_script *s, const struct attempt *a) {
    int status = try_once(s, a);
    for (int tries = 1; status == CT_ERR_BUSY && tries < TRIES && may_try_again(s); tries++) {
        nap(tries);
        status = try_once(s, a);
    }
    return status == CT_ERR_BUSY ? ct_script_fail(s, status, "a thread of the program must go on first; try again")
                                 : status;
}

/* ---- following ---- */

static int refuse(struct ct_script *s) {
    struct ct_boot boot;
    if (s->guest)
        return ct_script_fail(s, CT_ERR_UNSUPPORTED, "threads cannot be followed while the process is recorded");
    if (ct_remote_read(s->remote, s->injection.boot, &boot, sizeof boot) || boot.by_table)
        return ct_script_fail(s, CT_ERR_UNSUPPORTED,
                              "the program uses the GS register itself (as Wine does), so it cannot be followed");
    return 0;
}

static int follow_waiting(struct ct_script *s, const struct ct_script_request *request) {
    struct ct_script_call call = {.function = shared_of(s)->run, .integers = {CT_SCRIPT_STALK_FOLLOW_ME}};
    int status = CT_ERR_BUSY;
    for (int tries = 0; status == CT_ERR_BUSY && tries < TRIES && (!tries || may_try_again(s)); tries++) {
        if (tries)
            nap(tries);
        status = ct_script_run(s, request, &call, NULL, NULL);
        status = status ? status : ct_inject_said((int32_t)call.result);
    }
    return status;
}

static int explain(struct ct_script *s, int status, int32_t tid) {
    if (status == CT_ERR_BAD_STATE)
        return ct_script_fail(s, status, "thread %d is followed already", tid);
    if (status == CT_ERR_BUSY)
        return ct_script_fail(s, status, "thread %d cannot be taken over now; try again", tid);
    if (status == CT_ERR_NO_SPACE)
        return ct_script_fail(s, status, "no more than 256 transforms and sinks in C are possible");
    return status;
}

int ct_script_follow(struct ct_script *s, const struct ct_script_request *request, int32_t tid,
                     const struct ct_script_follow *what) {
    const struct attempt a = {tid, CT_SCRIPT_STALK_FOLLOW};
    pthread_mutex_lock(&s->work);
    int status = ct_script_is_gone(s) ? ct_script_fail(s, CT_ERR_NOT_FOUND, "the process has ended") : refuse(s);
    if (!status) {
        prepare(s, what);
        status = request ? follow_waiting(s, request) : attempt(s, &a);
    }
    pthread_mutex_unlock(&s->work);
    return explain(s, status, request ? request->tid : tid);
}

/* It was asked to leave, and does so when it runs on: one that waits for our answer, not before it has that. */
static bool is_on_its_way(struct ct_script *s, int32_t tid) {
    return shared_of(s)->inside && !ct_script_waits(s, tid);
}

/* Until the thread is out: it may have to be asked, and to run, several times. */
static int let_go(struct ct_script *s, int32_t tid) {
    const struct attempt a = {tid, CT_SCRIPT_STALK_UNFOLLOW};
    int status = try_once(s, &a);
    for (int tries = 0;
         tries < LEAVE_TRIES && ((status == CT_ERR_BUSY && may_try_again(s)) || (!status && is_on_its_way(s, tid)));
         tries++) {
        nap(status ? tries : 0);
        status = try_once(s, &a);
    }
    return status == CT_ERR_NOT_FOUND ? 0
           : status == CT_ERR_BUSY    ? ct_script_fail(s, status, "thread %d cannot leave now; try again", tid)
                                      : status;
}

int ct_script_unfollow(struct ct_script *s, const struct ct_script_request *request, int32_t tid) {
    pthread_mutex_lock(&s->work);
    int status = ct_script_is_gone(s) || !shared_of(s)->made ? 0 : let_go(s, request ? request->tid : tid);
    pthread_mutex_unlock(&s->work);
    return status;
}

int ct_script_exclude(struct ct_script *s, uint64_t start, uint64_t size) {
    struct ct_script_stalk *stalk = shared_of(s);
    const struct attempt a = {.command = CT_SCRIPT_STALK_EXCLUDE};
    int status = 0;
    pthread_mutex_lock(&s->work);
    if (!stalk->made && s->excluded_count == CT_SCRIPT_EXCLUDED)
        status = ct_script_fail(s, CT_ERR_NO_SPACE, "no more ranges can be excluded");
    else if (!stalk->made) {
        stalk->excluded[s->excluded_count][0] = start;
        stalk->excluded[s->excluded_count][1] = start + size;
        stalk->excluded_count = ++s->excluded_count;
    } else {
        stalk->start = start;
        stalk->size = size;
        status = attempt(s, &a);
    }
    pthread_mutex_unlock(&s->work);
    return status;
}

/* A command that needs a Stalker; without one there is nothing to do. */
static int command_if_made(struct ct_script *s, uint64_t number) {
    const struct attempt a = {.command = number};
    return ct_script_is_gone(s) || !shared_of(s)->made ? 0 : attempt(s, &a);
}

int ct_script_set_trust(struct ct_script *s, int32_t threshold) {
    if (threshold < -1)
        return ct_script_fail(s, CT_ERR_INVALID_ARGUMENT, "a trust threshold is -1, 0 or more");
    pthread_mutex_lock(&s->work);
    s->trust = shared_of(s)->trust = threshold;
    int status = command_if_made(s, CT_SCRIPT_STALK_TRUST);
    pthread_mutex_unlock(&s->work);
    return status;
}

int ct_script_set_queue(struct ct_script *s, uint32_t capacity, uint32_t interval_ms) {
    s->queue_capacity = capacity;
    s->drain_interval_ms = interval_ms;
    return 0;
}

/* Under `work`, with the target stopped. */
int ct_script_code_changed(struct ct_script *s, uint64_t address) {
    struct ct_script_stalk *stalk = shared_of(s);
    if (!stalk->made)
        return 0;
    stalk->start = address;
    return command(s, CT_SCRIPT_STALK_INVALIDATE);
}

int ct_script_invalidate(struct ct_script *s, int32_t tid, uint64_t address) {
    const struct attempt a = {.command = CT_SCRIPT_STALK_INVALIDATE};
    (void)tid; /* all threads share what was made of it */
    pthread_mutex_lock(&s->work);
    shared_of(s)->start = address;
    int status = shared_of(s)->made ? attempt(s, &a) : 0;
    pthread_mutex_unlock(&s->work);
    return status;
}

int ct_script_flush(struct ct_script *s) {
    pthread_mutex_lock(&s->work);
    int status = command_if_made(s, CT_SCRIPT_STALK_FLUSH);
    pthread_mutex_unlock(&s->work);
    return status;
}

int64_t ct_script_collect(struct ct_script *s) {
    pthread_mutex_lock(&s->work);
    shared_of(s)->size = 0;
    int status = command_if_made(s, CT_SCRIPT_STALK_COLLECT);
    int64_t bytes = (int64_t)shared_of(s)->size;
    pthread_mutex_unlock(&s->work);
    return status ? status : bytes;
}

/* ---- probes ---- */

int ct_script_add_probe(struct ct_script *s, uint64_t target, uint64_t native, uint64_t user, uint32_t *id) {
    struct ct_script_stalk *stalk = shared_of(s);
    const struct attempt a = {.command = CT_SCRIPT_STALK_PROBE};
    int status = CT_ERR_NO_SPACE;
    pthread_mutex_lock(&s->work);
    if (s->guest)
        status = CT_ERR_UNSUPPORTED; /* the process is recorded */
    else if (s->probe_count < CT_SCRIPT_PROBES) {
        static const struct ct_script_follow nothing;
        if (!stalk->made)
            prepare(s, &nothing);
        stalk->start = target;
        stalk->size = native;
        stalk->pc = native ? user : s->probe_count;
        status = attempt(s, &a);
    }
    if (!status) {
        *id = s->probe_count;
        s->probes[s->probe_count++] = (int32_t)stalk->block;
    }
    pthread_mutex_unlock(&s->work);
    return status ? ct_script_fail(s, status, "0x%llx cannot be probed: %s", (unsigned long long)target,
                                   ct_status_text(status))
                  : 0;
}

int ct_script_remove_probe(struct ct_script *s, uint32_t id) {
    const struct attempt a = {.command = CT_SCRIPT_STALK_UNPROBE};
    int status = CT_ERR_NOT_FOUND;
    pthread_mutex_lock(&s->work);
    if (id < s->probe_count && s->probes[id] >= 0) {
        shared_of(s)->block = (uint64_t)s->probes[id];
        status = attempt(s, &a);
        s->probes[id] = -1;
    }
    pthread_mutex_unlock(&s->work);
    return status ? ct_script_fail(s, status, "there is no such probe") : 0;
}

/* ---- transforms ---- */

_Static_assert(sizeof(struct ct_script_edit) == sizeof(struct ct_script_block_edit), "the same");

int ct_script_block(struct ct_script *s, const struct ct_script_request *request, struct ct_script_insn *insns,
                    size_t room) {
    const struct ct_script_block *b = &shared_of(s)->transformed;
    uint32_t count = __atomic_load_n(&b->count, __ATOMIC_RELAXED); /* once: the target writes there at any time */
    count = count < CT_SCRIPT_INSNS ? count : CT_SCRIPT_INSNS;
    if (request->kind != CT_SCRIPT_TRANSFORM)
        return ct_script_fail(s, CT_ERR_INVALID_ARGUMENT, "this request is not about a block");
    for (uint32_t i = 0; i < count && i < room; i++) {
        insns[i] = (struct ct_script_insn){.address = b->addresses[i]};
        uint8_t length = __atomic_load_n(&b->lengths[i], __ATOMIC_RELAXED);
        insns[i].length = length < sizeof insns[i].bytes ? length : sizeof insns[i].bytes;
        if (ct_script_read(s, insns[i].address, insns[i].bytes, insns[i].length))
            return CT_ERR_NOT_MAPPED;
    }
    return (int)count;
}

static size_t count_jumps(const struct ct_script_edit *edits, size_t count) {
    size_t jumps = 0;
    for (size_t i = 0; i < count; i++)
        jumps += edits[i].kind == CT_SCRIPT_PUT_JUMP;
    return jumps;
}

int ct_script_transform(struct ct_script *s, const struct ct_script_request *request,
                        const struct ct_script_edit *edits, size_t count) {
    struct ct_script_block *b = &shared_of(s)->transformed;
    if (request->kind != CT_SCRIPT_TRANSFORM || count > CT_SCRIPT_EDITS ||
        count_jumps(edits, count) > CT_SCRIPT_LABELS) {
        b->edit_count = 0;
        (void)ct_script_answer(s, request, false);
        return ct_script_fail(s, CT_ERR_NO_SPACE,
                              "a block can have 1,024 edits, 64 of them jumps; it was left as it is");
    }
    if (count)
        memcpy(b->edits, edits, count * sizeof *edits);
    b->edit_count = (uint32_t)count;
    return ct_script_answer(s, request, false);
}

/* ---- events ---- */

/* The oldest batch; NULL: there is none, or its thread is writing it. Under `slots`. */
static const struct ct_script_batch *oldest(struct ct_script *s, uint64_t *bytes) {
    struct ct_script_stalk *stalk = shared_of(s);
    uint8_t *ring = (uint8_t *)stalk + CT_SCRIPT_RING_AT;
    for (int turn = 0; turn < 2; turn++) {
        uint64_t head = __atomic_load_n(&stalk->head, __ATOMIC_ACQUIRE), at = s->tail % CT_SCRIPT_RING;
        if (s->tail >= head || CT_SCRIPT_RING - at < sizeof(struct ct_script_batch)) {
            if (s->tail < head)
                s->tail += CT_SCRIPT_RING - at;
            continue;
        }
        const struct ct_script_batch *b = (const struct ct_script_batch *)(ring + at);
        *bytes = __atomic_load_n(&b->bytes, __ATOMIC_RELAXED);
        if (!*bytes) {
            s->tail += CT_SCRIPT_RING - at;
            continue;
        }
        bool fits = *bytes >= sizeof *b && *bytes % 8 == 0 && *bytes <= CT_SCRIPT_RING - at;
        if (!fits) { /* overwritten by the target: what is there is lost */
            s->tail = head;
            continue;
        }
        return __atomic_load_n(&b->ready, __ATOMIC_ACQUIRE) ? b : NULL;
    }
    __atomic_store_n(&stalk->tail, s->tail, __ATOMIC_RELEASE);
    return NULL;
}

bool ct_script_has_events(struct ct_script *s) {
    uint64_t bytes;
    pthread_mutex_lock(&s->slots);
    bool has = !s->told_events && oldest(s, &bytes);
    s->told_events |= has;
    pthread_mutex_unlock(&s->slots);
    return has;
}

int ct_script_events(struct ct_script *s, struct ct_script_events *out) {
    uint64_t bytes = 0;
    pthread_mutex_lock(&s->slots);
    const struct ct_script_batch *b = oldest(s, &bytes);
    if (!b) {
        s->told_events = false;
        b = oldest(s, &bytes); /* one that came meanwhile is not announced any more */
    }
    if (b) {
        uint64_t lost = __atomic_load_n(&shared_of(s)->lost, __ATOMIC_RELAXED);
        uint32_t summary = b->summary != 0;
        *out = (struct ct_script_events){.tid = b->tid, .summary = summary, .data = b + 1, .lost = lost - s->lost_told};
        size_t size = summary ? sizeof(struct ct_script_call_count) : sizeof(struct ct_script_event);
        uint32_t said = __atomic_load_n(&b->count, __ATOMIC_RELAXED);
        out->count = (bytes - sizeof *b) / size;
        out->count = said < out->count ? said : out->count;
        out->bytes = out->count * size;
        s->lost_told = lost;
        s->batch_bytes = bytes;
    }
    pthread_mutex_unlock(&s->slots);
    if (!b)
        return CT_ERR_NOT_FOUND;
    out->tid = ct_script_outer_tid(s, out->tid);
    return 0;
}

void ct_script_events_done(struct ct_script *s, const struct ct_script_events *events) {
    (void)events;
    pthread_mutex_lock(&s->slots);
    s->tail += s->batch_bytes;
    s->batch_bytes = 0;
    __atomic_store_n(&shared_of(s)->tail, s->tail, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->slots);
}

uint64_t ct_script_lost_events(struct ct_script *s) {
    return __atomic_load_n(&shared_of(s)->lost, __ATOMIC_RELAXED);
}
