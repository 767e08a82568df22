/* SPDX-License-Identifier: Apache-2.0 */
/* The agent that serves scripts: hooks whose listeners ask the controller. Freestanding.
 *
 * A listener puts a request into a slot of shared memory (abi/script_abi.h) and waits for the answer, with signals
 * blocked: a handler comes after the callback, so none can jump out of it. While it waits, the thread does what the
 * controller asks for: it calls functions of the program, as the program would. Those see signals, hooks and everything
 * else as usual. A thread that waits looks whether the controller lives, and how long it has waited. */
#include "agent/script_agent.h"
#include "agent/agent_lane.h"
#include "agent/script_stalk.h"
#include "hook/fault.h"
#include "os/os.h"
#include "os/thread.h"

#define NAP_US        20000u
#define SLOT_NAP_US   200u
#define SLOTS_OF_WORK 32u
#define IDLE_US       200000u /* of the worker, which has no time limit */
#define PATIENCE      4u      /* limits: for a controller that is in the middle of its answer, and has been stopped */

static struct ct_script_shared *shared;
static struct ct_runtime *runtime;
static uint64_t image, image_size;   /* our code */
struct ct_vectors ct_script_vectors; /* what callbacks save (script_call_<isa>.S) */

static bool is_open(void) {
    return __atomic_load_n(&shared->open, __ATOMIC_ACQUIRE) && ct_agent_lane_is_recording() &&
           ct_script_guest_is_open();
}

/* ---- slots ---- */

static uint32_t state_of(const struct ct_script_slot *slot) {
    return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
}

static bool change_state(struct ct_script_slot *slot, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(&slot->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void count_working(int change) {
    __atomic_fetch_add(&shared->working, (uint32_t)change, __ATOMIC_RELAXED);
    __atomic_fetch_add(&runtime->inside, (uint32_t)change, __ATOMIC_RELAXED);
}

/* Work that has left its frame by a jump: the thread is seen where its callback was, or above. What work calls is
 * below. */
static void free_left(int tid, uint64_t stack) {
    if (!__atomic_load_n(&shared->working, __ATOMIC_RELAXED))
        return;
    for (uint32_t i = 0; i < CT_SCRIPT_SLOTS; i++) {
        struct ct_script_slot *slot = &shared->slots[i];
        uint32_t word = state_of(slot);
        bool left = CT_ASK_STATE(word) == CT_ASK_WORKING && slot->tid == tid && slot->stack <= stack;
        if (left && change_state(slot, word, CT_ASK_NEXT(word, CT_ASK_FREE)))
            count_working(-1);
    }
}

/* The slot whose work the thread does, from 1; 0: none, or it has left it. */
static uint32_t work_of(struct ct_block *b) {
    uint32_t i = b->script_work - 1;
    bool works = i < CT_SCRIPT_SLOTS && CT_ASK_STATE(state_of(&shared->slots[i])) == CT_ASK_WORKING &&
                 shared->slots[i].tid == b->tid;
    if (!works)
        b->script_work = 0;
    return b->script_work;
}

/* One of the first `count`. */
static struct ct_script_slot *take_slot(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t word = state_of(&shared->slots[i]);
        if (CT_ASK_STATE(word) == CT_ASK_FREE && change_state(&shared->slots[i], word, CT_ASK_NEXT(word, CT_ASK_TAKEN)))
            return &shared->slots[i];
    }
    return NULL;
}

/* There may be more threads than slots: then they wait for one, as long as for an answer. Some slots are left for
 * threads that do work: all others may wait for the end of that. */
static struct ct_script_slot *wait_for_slot(struct ct_block *b) {
    uint32_t count = work_of(b) ? CT_SCRIPT_SLOTS : CT_SCRIPT_SLOTS - SLOTS_OF_WORK;
    uint64_t since = ct_os_timestamp();
    struct ct_script_slot *slot = take_slot(count);
    while (!slot && is_open() && ct_os_timestamp() - since <= shared->limit_counts) {
        if (ct_os_is_silent())
            ct_os_relax();
        else
            ct_os_sleep_us(SLOT_NAP_US);
        slot = take_slot(count);
    }
    if (!slot)
        __atomic_fetch_add(&shared->unserved, is_open(), __ATOMIC_RELAXED);
    return slot;
}

void ct_script_ring_bell(struct ct_script_shared *s) {
    __atomic_fetch_add(&s->bell, 1, __ATOMIC_SEQ_CST);
    bool wakes = __atomic_load_n(&s->callers, __ATOMIC_SEQ_CST) ||
                 (__atomic_load_n(&s->waiters, __ATOMIC_SEQ_CST) && !__atomic_load_n(&s->attended, __ATOMIC_SEQ_CST));
    if (wakes && !ct_os_is_silent())
        ct_os_wake(&s->bell);
}

static void copy_words(uint64_t *to, const uint64_t *from, uint32_t count) {
    volatile uint64_t *out = to; /* volatile: must not become a call of memcpy */
    for (uint32_t i = 0; i < count; i++)
        out[i] = from[i];
}

/* ---- work ---- */

/* From `result` to `error`. */
enum {
    RESULT_WORDS =
        (__builtin_offsetof(struct ct_script_work, place) - __builtin_offsetof(struct ct_script_work, result)) / 8
};

static int32_t *errno_place(const struct ct_script_work *work) {
    return work->errno_function ? ((int32_t * (*)(void)) work->errno_function)() : NULL;
}

/* The program's errno stays what it was. */
static void call_it(struct ct_script_work *work) {
    int32_t *place = errno_place(work), before = place ? *place : 0;
    if (place)
        *place = 0;
    ct_script_call(work);
    if (!place)
        return;
    work->error = *place;
    *place = before;
}

/* Has the work forked, and is this the child? Its slots are its parent's. */
static bool is_child(struct ct_block *b) {
    if (b->owner == CT_OWNER_FORKED)
        (void)runtime->current();
    return b->detached || !ct_script_guest_is_open();
}

/* False: nothing more is to be done with the slot. */
static bool do_work(struct ct_block *b, struct ct_script_slot *slot, uint32_t word, uint64_t *mask) {
    uint64_t guard = b->guard_sp;
    bool guarded = b->attention & CT_ATTENTION_GUARD;
    uint32_t outer = b->script_work, working = CT_ASK_WORD(word, CT_ASK_WORKING);
    struct ct_script_work work;
    if (!change_state(slot, word, working))
        return true;
    copy_words((uint64_t *)&work, (const uint64_t *)&slot->work, sizeof work / 8);
    count_working(1);
    b->script_work = (uint32_t)(slot - shared->slots) + 1;
    ct_block_unattend(b, CT_ATTENTION_GUARD);
    ct_block_unmask(b, *mask);
    call_it(&work);
    bool child = is_child(b);
    if (!child)
        *mask = ct_block_mask(b);
    b->guard_sp = guard;
    if (guarded)
        ct_block_attend(b, CT_ATTENTION_GUARD);
    b->script_work = outer;
    if (child || state_of(slot) != working)
        return false;
    copy_words(&slot->work.result, &work.result, RESULT_WORDS);
    count_working(-1);
    slot->done++;
    __atomic_store_n(&slot->state, CT_ASK_WORD(word, CT_ASK_POSTED), __ATOMIC_RELEASE);
    ct_script_ring_bell(shared);
    return true;
}

/* ---- waiting ---- */

struct wait {
    uint64_t since, looked; /* counter values: when the time limit began; when the thread began to look */
    uint32_t extended;
    bool limited;
};

static void nap(struct ct_script_slot *slot, uint32_t word, const struct wait *w) {
    if (ct_os_is_silent() || ct_os_timestamp() - w->looked < shared->spin_counts) {
        ct_os_relax();
        return;
    }
    __atomic_store_n(&slot->sleeping, 1, __ATOMIC_SEQ_CST);
    ct_os_wait(&slot->state, word, w->limited ? NAP_US : IDLE_US);
    __atomic_store_n(&slot->sleeping, 0, __ATOMIC_RELAXED);
}

/* Is it time to go on without an answer? */
static bool is_over(const struct ct_script_slot *slot, struct wait *w) {
    uint64_t now = ct_os_timestamp();
    if (slot->extended != w->extended) {
        w->extended = slot->extended;
        w->since = now;
    }
    return !is_open() || (w->limited && now - w->since > shared->limit_counts);
}

static void give_up(struct ct_script_slot *slot, uint32_t word, struct wait *w) {
    if (CT_ASK_STATE(word) == CT_ASK_POSTED && change_state(slot, word, CT_ASK_WORD(word, CT_ASK_FREE))) {
        __atomic_fetch_add(&shared->timeouts, is_open(), __ATOMIC_RELAXED);
        return;
    }
    bool stuck = !is_open() || ct_os_timestamp() - w->since > PATIENCE * shared->limit_counts;
    if (CT_ASK_STATE(word) == CT_ASK_ANSWERING && stuck)
        (void)change_state(slot, word, CT_ASK_WORD(word, CT_ASK_ABANDONED));
}

/* True: there is an answer; the slot is still the thread's then. */
static bool wait_for_answer(struct ct_block *b, struct ct_script_slot *slot, uint32_t request, bool limited,
                            uint64_t *mask) {
    struct wait w = {.limited = limited, .extended = slot->extended};
    w.since = w.looked = ct_os_timestamp();
    for (;;) {
        uint32_t word = state_of(slot);
        if ((word ^ request) & ~0xffu)
            return false;
        switch (CT_ASK_STATE(word)) {
        case CT_ASK_ANSWERED:
            return true;
        case CT_ASK_WORK:
            if (!do_work(b, slot, word, mask))
                return false;
            w.since = w.looked = ct_os_timestamp();
            break;
        case CT_ASK_POSTED:
        case CT_ASK_ANSWERING:
            if (is_over(slot, &w))
                give_up(slot, word, &w);
            nap(slot, word, &w);
            break;
        default:
            return false;
        }
    }
}

/* ---- listeners ---- */

static void post(struct ct_script_slot *slot) {
    uint32_t i = (uint32_t)(slot - shared->slots);
    uint32_t word = state_of(slot);
    __atomic_store_n(&slot->state, CT_ASK_WORD(word, CT_ASK_POSTED), __ATOMIC_RELEASE);
    __atomic_fetch_or(&shared->posted[i / 64], 1ull << (i & 63), __ATOMIC_RELEASE);
    ct_script_ring_bell(shared);
}

static void fill(struct ct_script_slot *slot, struct ct_block *b, uint32_t kind, const struct ct_cpu_context *cpu) {
    slot->kind = kind;
    slot->tid = b->tid;
    slot->parent = work_of(b);
    slot->block = (uint64_t)b;
    slot->stack = ct_cpu_sp(cpu);
    slot->address = slot->fault = 0;
    slot->cpu_words = ct_script_cpu_words;
    slot->vectors = ct_script_cpu_vectors(cpu);
    slot->vectors_size = slot->vectors ? b->vectors.size : 0;
    copy_words(slot->cpu, (const uint64_t *)cpu, ct_script_cpu_words);
}

/* What a request is about, beside the registers. */
struct subject {
    uint32_t kind, id, depth;
    uint64_t call, function, return_address, address, fault;
};

struct reply {
    bool answered; /* not too late */
    bool changed;
};

/* Returns the number of the request; 0: there was none. */
static uint64_t ask(struct ct_block *b, struct ct_cpu_context *cpu, const struct subject *s, struct reply *reply) {
    reply->answered = reply->changed = false;
    if (!is_open())
        return 0;
    uint64_t mask = ct_block_mask(b);
    free_left(b->tid, ct_cpu_sp(cpu));
    struct ct_script_slot *slot = wait_for_slot(b);
    uint64_t number = 0;
    if (slot) {
        uint32_t word = state_of(slot);
        number = (uint64_t)word >> 8 << 16 | (uint64_t)(slot - shared->slots) << 1 | 1;
        fill(slot, b, s->kind, cpu);
        slot->id = s->id;
        slot->depth = s->depth;
        slot->call = s->call ? s->call : number;
        slot->function = s->function;
        slot->return_address = s->return_address;
        slot->address = s->address;
        slot->fault = s->fault;
        post(slot);
        reply->answered = wait_for_answer(b, slot, word, true, &mask);
        if (reply->answered) {
            reply->changed = slot->changed;
            copy_words((uint64_t *)cpu, slot->cpu, ct_script_cpu_words);
            __atomic_store_n(&slot->state, CT_ASK_WORD(word, CT_ASK_FREE), __ATOMIC_RELEASE);
        }
    }
    if (!b->detached)
        ct_block_unmask(b, mask);
    return number;
}

static void on_hook(struct ct_cpu_context *cpu, struct ct_hook_call *call, uint32_t kind) {
    struct ct_block *b = runtime->current();
    const struct subject s = {
        kind, call->hook, call->depth, call->data, (uint64_t)call->function, (uint64_t)call->return_address};
    struct reply reply;
    uint64_t number = ask(b, cpu, &s, &reply);
    if (!call->data)
        call->data = number;
}

static void on_enter(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    on_hook(cpu, call, CT_SCRIPT_ASKS_ENTER);
}

static void on_leave(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    on_hook(cpu, call, CT_SCRIPT_ASKS_LEAVE);
}

bool ct_script_ask(struct ct_cpu_context *cpu, uint32_t kind, uint32_t id, uint64_t address) {
    struct ct_block *b = ct_block_found();
    const struct subject s = {.kind = kind, .id = id, .function = address, .address = address};
    struct reply reply;
    (void)ask(b, cpu, &s, &reply);
    return reply.answered;
}

/* ---- functions of ours that the program or the kernel calls ---- */

/* Our own calls are not seen meanwhile. */
static struct reply ask_guarded(struct ct_block *b, struct ct_cpu_context *cpu, const struct subject *s) {
    bool guarded = b->attention & CT_ATTENTION_GUARD;
    uint64_t guard = b->guard_sp;
    struct reply reply;
    b->guard_sp = (uint64_t)&reply;
    ct_block_attend(b, CT_ATTENTION_GUARD);
    (void)ask(b, cpu, s, &reply);
    b->guard_sp = guard;
    if (!guarded)
        ct_block_unattend(b, CT_ATTENTION_GUARD);
    return reply;
}

/* The result is 0 when nobody serves it. */
void ct_script_on_callback(struct ct_cpu_context *cpu, uint64_t id) {
    struct ct_block *b = runtime->current();
    const struct subject s = {
        .kind = CT_SCRIPT_ASKS_CALLBACK, .id = (uint32_t)id, .return_address = ct_script_callback_return(cpu)};
    if (!b || b->detached || !ask_guarded(b, cpu, &s).answered)
        ct_cpu_set_return_value(cpu, 0);
}

/* The child of a vfork has its parent's memory, but is another process. */
static bool on_fault(struct ct_fault *fault) {
    uint64_t words[CT_SCRIPT_CPU_WORDS + 2]; /* room for a saved context */
    struct ct_cpu_context *cpu = (struct ct_cpu_context *)words;
    enum ct_fault_operation operation = 0;
    struct subject s = {.kind = CT_SCRIPT_ASKS_EXCEPTION, .fault = fault->signal};
    if (!__atomic_load_n(&shared->faults, __ATOMIC_ACQUIRE) || fault->state.pc - image < image_size ||
        (!ct_os_is_silent() && ct_os_getpid() != runtime->pid))
        return false;
    struct ct_block *b = ct_block_current();
    if (!b || b->detached)
        return false;
    if (ct_fault_access(fault, &s.address, &operation))
        s.id = operation;
    s.return_address = (uint64_t)fault->context;
    ct_fault_store(&fault->state, cpu);
    ct_script_cpu_set_vectors(cpu, ct_fault_context_vectors(fault->context));
    bool settled = ask_guarded(b, cpu, &s).changed;
    if (settled)
        ct_fault_load(cpu, &fault->state);
    return settled;
}

/* Called from outside, while every thread is stopped. */
static uint64_t watch_faults(void) {
    return (uint64_t)(int64_t)ct_fault_watch(on_fault);
}

/* ---- the worker ---- */

/* What the program's own pthread_create is asked to run: a thread that does work and nothing else. */
static void *run_worker(void *arg) {
    struct ct_block *b = runtime->current();
    (void)arg;
    if (!b || b->detached || !is_open())
        return NULL;
    __atomic_fetch_add(&runtime->inside, 1, __ATOMIC_RELAXED);
    uint64_t mask = ct_block_mask(b);
    struct ct_script_slot *slot = take_slot(CT_SCRIPT_SLOTS);
    if (slot) {
        uint32_t word = state_of(slot);
        b->guard_sp = (uint64_t)&mask;
        ct_block_attend(b, CT_ATTENTION_GUARD);
        slot->tid = b->tid;
        slot->parent = 0;
        slot->block = (uint64_t)b;
        slot->stack = (uint64_t)&slot;
        __atomic_store_n(&slot->state, CT_ASK_WORD(word, CT_ASK_POSTED), __ATOMIC_RELEASE);
        __atomic_store_n(&shared->worker, (uint32_t)(slot - shared->slots) + 1, __ATOMIC_RELEASE);
        ct_script_ring_bell(shared);
        if (wait_for_answer(b, slot, word, false, &mask))
            __atomic_store_n(&slot->state, CT_ASK_WORD(word, CT_ASK_FREE), __ATOMIC_RELEASE);
        ct_block_unattend(b, CT_ATTENTION_GUARD);
    }
    ct_block_unmask(b, mask);
    __atomic_fetch_sub(&runtime->inside, 1, __ATOMIC_RELEASE);
    return NULL;
}

struct creation {
    uint64_t create, detach;
};

/* A call without arguments. */
static void clear_work(struct ct_script_work *work, uint64_t function) {
    volatile uint64_t *words = (volatile uint64_t *)work; /* volatile: must not become a call of memset */
    for (size_t i = 0; i < sizeof *work / sizeof *words; i++)
        words[i] = 0;
    work->function = function;
}

static void create_worker(void *arg, void *vectors) {
    const struct creation *c = arg;
    uint64_t thread = 0;
    struct ct_script_work work;
    (void)vectors;
    clear_work(&work, c->create);
    work.integers[0] = (uint64_t)&thread;
    work.integers[2] = (uint64_t)&run_worker;
    ct_script_call(&work);
    shared->worker_error = (int32_t)work.result;
    if (work.result || !c->detach)
        return;
    clear_work(&work, c->detach);
    work.integers[0] = thread;
    ct_script_call(&work);
}

/* Called from outside, in a thread that waits in the kernel: pthread_create, and pthread_detach. Its calls are not
 * seen. */
static uint64_t make_worker(uint64_t create, uint64_t detach) {
    struct creation c = {create, detach};
    struct ct_block *b = runtime->current();
    if (!b || b->detached)
        return 1;
    bool guarded = b->attention & CT_ATTENTION_GUARD;
    uint64_t guard = b->guard_sp;
    __atomic_fetch_add(&runtime->inside, 1, __ATOMIC_RELAXED);
    b->guard_sp = (uint64_t)&c;
    ct_block_attend(b, CT_ATTENTION_GUARD);
    ct_hook_call_saved(runtime->vectors, create_worker, &c);
    __atomic_fetch_sub(&runtime->inside, 1, __ATOMIC_RELEASE);
    b->guard_sp = guard;
    if (!guarded)
        ct_block_unattend(b, CT_ATTENTION_GUARD);
    return 0;
}

/* ---- the entry point ---- */

__attribute__((visibility("default"), used)) uint64_t ct_script_agent_run(struct ct_boot *boot);

static void open_shared(const struct ct_boot *boot) {
    struct ct_shm_control *c = ct_agent_lane_control();
    shared = (struct ct_script_shared *)((uint64_t)c + c->extra_offset);
    shared->on_enter = (uint64_t)&on_enter;
    shared->on_leave = (uint64_t)&on_leave;
    shared->callback_entry = (uint64_t)&ct_script_callback_entry;
    shared->make_worker = (uint64_t)&make_worker;
    shared->watch_faults = (uint64_t)&watch_faults;
    image = boot->image;
    image_size = boot->text_size;
    runtime = (struct ct_runtime *)boot->runtime;
    ct_script_vectors = runtime->vectors;
}

static uint64_t join(struct ct_script_join *j) {
    j->status = ct_agent_lane_open(j->shm) ? CT_OK : CT_ERR_BAD_FILE;
    if (!j->status) {
        open_shared((const struct ct_boot *)j->boot);
        j->status = ct_script_guest_join(j);
    }
    return (uint64_t)(int64_t)j->status;
}

uint64_t ct_script_agent_run(struct ct_boot *boot) {
    if (boot->magic == CT_SCRIPT_JOIN_MAGIC)
        return join((struct ct_script_join *)boot);
    uint64_t result = ct_agent_run(boot);
    if (boot->status)
        return result;
    open_shared(boot);
    runtime->reports_stacks = 0; /* nobody reads the lane */
    ct_script_stalk_open(shared, boot);
    return result;
}
