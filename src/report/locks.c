/* SPDX-License-Identifier: Apache-2.0 */
/* Lock calls of a trace: see locks.h. Reads them; locks_holders.c follows the locks. */
#include "report/locks.h"
#include "base/grow.h"
#include "report/fits.h"
#include "report/locks_internal.h"
#include "report/scan.h"
#include "trace/constants.h"
#include <stdlib.h>
#include <string.h>

enum { OWNER_DEAD = 130 }; /* EOWNERDEAD: a robust mutex is locked, although its last holder has died */

static const struct {
    const char *name, *what;
    enum ct_lock_role role;
} lock_functions[] = {
    {"pthread_mutex_lock", "mutex", CT_LOCK_TAKE},
    {"pthread_mutex_timedlock", "mutex", CT_LOCK_TRY},
    {"pthread_mutex_clocklock", "mutex", CT_LOCK_TRY},
    {"pthread_mutex_trylock", "mutex", CT_LOCK_TRY},
    {"pthread_mutex_unlock", "mutex", CT_LOCK_GIVE},
    {"pthread_rwlock_rdlock", "rwlock", CT_LOCK_TAKE},
    {"pthread_rwlock_wrlock", "rwlock", CT_LOCK_TAKE},
    {"pthread_rwlock_timedrdlock", "rwlock", CT_LOCK_TRY},
    {"pthread_rwlock_timedwrlock", "rwlock", CT_LOCK_TRY},
    {"pthread_rwlock_clockrdlock", "rwlock", CT_LOCK_TRY},
    {"pthread_rwlock_clockwrlock", "rwlock", CT_LOCK_TRY},
    {"pthread_rwlock_tryrdlock", "rwlock", CT_LOCK_TRY},
    {"pthread_rwlock_trywrlock", "rwlock", CT_LOCK_TRY},
    {"pthread_rwlock_unlock", "rwlock", CT_LOCK_GIVE},
    {"pthread_spin_lock", "spinlock", CT_LOCK_TAKE},
    {"pthread_spin_trylock", "spinlock", CT_LOCK_TRY},
    {"pthread_spin_unlock", "spinlock", CT_LOCK_GIVE},
    {"pthread_cond_wait", "mutex", CT_LOCK_CONDITION},
    {"pthread_cond_timedwait", "mutex", CT_LOCK_CONDITION},
    {"pthread_cond_clockwait", "mutex", CT_LOCK_CONDITION},
    {"pthread_barrier_wait", "", CT_LOCK_WAIT},
    {"pthread_join", "", CT_LOCK_WAIT},
    {"pthread_timedjoin_np", "", CT_LOCK_WAIT},
    {"pthread_clockjoin_np", "", CT_LOCK_WAIT},
    {"sem_wait", "", CT_LOCK_WAIT},
    {"sem_timedwait", "", CT_LOCK_WAIT},
    {"sem_clockwait", "", CT_LOCK_WAIT},
    {"lll_lock_wait", "", CT_LOCK_WAIT},
    {"lll_lock_wait_private", "", CT_LOCK_WAIT},
};

/* What a function of the trace is. */
struct meaning {
    struct ct_table_key key;
    enum ct_lock_role role;
    const char *what; /* NULL: not looked up yet */
    size_t number;    /* of a lock function, from 1 on */
};

struct search {
    struct ct_locks *locks;
    struct ct_trace *trace;
    const struct ct_select *select;
    const struct ct_fits *fits;
    struct ct_frames frames;
    struct ct_table meanings;
    size_t numbers;
    struct ct_trace_detail *detail;
    struct ct_lock_op *ops;
    size_t op_count, op_room;
    size_t thread, process;
    size_t first_op; /* of the thread */
    bool wanted;     /* the thread is selected */
    bool failed;     /* out of memory */
};

/* ---- which functions are meant ---- */

/* Names in libc may begin with underscores, and end with a version. */
static void find_meaning(struct meaning *m, const char *name) {
    name += strspn(name, "_");
    size_t length = strcspn(name, "@");
    m->what = "";
    for (size_t i = 0; i < sizeof lock_functions / sizeof *lock_functions; i++)
        if (!strncmp(lock_functions[i].name, name, length) && !lock_functions[i].name[length]) {
            m->role = lock_functions[i].role;
            m->what = lock_functions[i].what;
        }
}

bool ct_locks_is_wait(const char *function) {
    struct meaning m = {0};
    find_meaning(&m, function);
    return m.role == CT_LOCK_TAKE || m.role == CT_LOCK_TRY;
}

static const struct meaning *meaning_of(struct search *s, uint64_t function) {
    static const struct meaning none;
    struct meaning *m = ct_table_get(&s->meanings, s->process, function, sizeof *m);
    const struct ct_cached_function *known =
        m && !m->what ? ct_function_cache_get(&s->locks->names, s->process, function) : NULL;
    if (!m || (!m->what && !known)) {
        s->failed = true;
        return &none;
    }
    if (!m->what)
        find_meaning(m, known->name);
    if (m->role && !m->number)
        m->number = ++s->numbers;
    return m;
}

/* ---- one call ---- */

static struct ct_lock_op *add_op(struct search *s) {
    if (!ct_grow(&s->ops, &s->op_room, s->op_count, sizeof *s->ops, 256)) {
        s->failed = true;
        return NULL;
    }
    s->ops[s->op_count] = (struct ct_lock_op){.process = s->process, .thread = s->thread};
    return &s->ops[s->op_count++];
}

/* Two gaps without a known call between them are one. */
static void add_gap(struct search *s, uint64_t time_ns, uint64_t sequence) {
    if (s->op_count == s->first_op || s->ops[s->op_count - 1].role == CT_LOCK_GAP)
        return;
    struct ct_lock_op *op = add_op(s);
    if (op)
        *op = (struct ct_lock_op){
            .role = CT_LOCK_GAP, .process = s->process, .thread = s->thread, .sequence = sequence, .began_ns = time_ns};
}

static bool read_detail(struct search *s, uint32_t number, enum ct_trace_detail_type type, uint64_t function) {
    return number != CT_TRACE_NO_DETAIL && !ct_trace_detail(s->trace, s->thread, number, s->detail) &&
           s->detail->type == type && s->detail->function_id == function;
}

static void add_known(struct search *s, const struct meaning *m, const struct ct_lock_op *call, uint64_t address,
                      uint32_t end_detail) {
    struct ct_lock_op *op = add_op(s);
    if (!op)
        return;
    *op = *call;
    op->role = m->role;
    op->what = m->what;
    op->address = address;
    op->taken = !call->open && m->role != CT_LOCK_GIVE;
    if (op->taken && m->role != CT_LOCK_CONDITION) {
        bool known = read_detail(s, end_detail, CT_TRACE_DETAIL_RETURN, m->key.function);
        uint32_t result = (uint32_t)s->detail->registers[0];
        op->taken = known ? result == 0 || result == OWNER_DEAD : m->role == CT_LOCK_TAKE;
    }
}

static void tally_call(struct search *s, const struct meaning *m, const struct ct_lock_op *call, bool known) {
    struct ct_locks *locks = s->locks;
    struct ct_lock_calls *row = ct_table_get(&locks->rows, m->number, call->caller, sizeof *row);
    if (!row) {
        s->failed = true;
        return;
    }
    row->function = ct_function_cache_get(&locks->names, s->process, m->key.function);
    row->caller = call->caller ? ct_function_cache_get(&locks->names, s->process, call->caller) : NULL;
    row->calls++;
    row->known += known;
    row->open += call->open;
    row->total_ns += call->lasted_ns;
    row->max_ns = call->lasted_ns > row->max_ns ? call->lasted_ns : row->max_ns;
    locks->calls += m->role != CT_LOCK_WAIT;
    locks->known += known && m->role != CT_LOCK_WAIT;
}

/* The part of the call in the selected time. */
static uint64_t clip_time(const struct search *s, uint64_t began_ns, uint64_t ended_ns, uint64_t lasted_ns) {
    uint64_t from = s->select->from_ns;
    if (began_ns >= from)
        return lasted_ns;
    uint64_t rest = ended_ns > from ? ended_ns - from : 0;
    return rest < lasted_ns ? rest : lasted_ns;
}

/* `ended_ns` 0: its end was lost, or its function is recorded on entry only. */
static void on_call(struct search *s, const struct ct_frame *frame, uint64_t ended_ns, uint32_t end_detail, bool open) {
    const struct meaning *m = meaning_of(s, frame->function);
    if (!m->role)
        return;
    size_t place = ct_frames_caller(&s->frames, frame);
    uint64_t caller = place == CT_NO_FRAME ? 0 : s->frames.places[place].function;
    if (caller && meaning_of(s, caller)->role) /* a part of that call */
        return;
    bool fits = s->wanted && ct_fits_call(s->fits, s->thread, frame->sequence) &&
                (ended_ns ? ended_ns : frame->began_ns) >= s->select->from_ns;
    uint64_t lasted = ended_ns ? ct_frames_lasted(&s->frames, frame, ended_ns) : 0;
    struct ct_lock_op call = {
        .open = open,
        .fits = fits,
        .process = s->process,
        .thread = s->thread,
        .sequence = frame->sequence,
        .caller = caller,
        .began_ns = frame->began_ns,
        .ended_ns = ended_ns ? ended_ns : frame->began_ns,
        .lasted_ns = clip_time(s, frame->began_ns, ended_ns, lasted),
    };
    bool known = read_detail(s, frame->detail, CT_TRACE_DETAIL_CALL, frame->function);
    uint64_t address = known ? s->detail->registers[m->role == CT_LOCK_CONDITION] : 0;
    if (fits)
        tally_call(s, m, &call, known);
    if (known && m->role != CT_LOCK_WAIT && (ended_ns || m->role == CT_LOCK_GIVE))
        add_known(s, m, &call, address, end_detail);
    else if (m->role == CT_LOCK_GIVE || m->role == CT_LOCK_CONDITION)
        add_gap(s, frame->began_ns, frame->sequence);
}

/* ---- a thread ---- */

static void on_lost(void *arg, struct ct_frame *frame) {
    on_call(arg, frame, 0, CT_TRACE_NO_DETAIL, false);
}

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    struct search *s = arg;
    const struct ct_cached_function *known = ct_function_cache_get(&s->locks->names, process, function);
    return known && known->entry_only;
}

static void on_event(struct search *s, const struct ct_trace_event *event) {
    struct ct_frame frame;
    if (event->kind == CT_TRACE_CALL) {
        if (is_entry_only(s, s->process, event->function_id)) {
            frame = (struct ct_frame){.function = event->function_id,
                                      .began_ns = event->timestamp_ns,
                                      .sequence = event->sequence,
                                      .caller = CT_NO_FRAME,
                                      .detail = event->detail};
            (void)ct_frames_entry(&s->frames, event);
            on_call(s, &frame, 0, CT_TRACE_NO_DETAIL, false);
        } else if (!ct_frames_call(&s->frames, event)) {
            s->failed = true;
        }
    } else if ((event->kind != CT_TRACE_EXCEPTION || event->function_id) && ct_frames_end(&s->frames, event, &frame)) {
        on_call(s, &frame, event->timestamp_ns, event->detail, false);
    }
}

static int read_thread(struct search *s, const struct ct_facts *facts, size_t thread) {
    struct ct_scan scan;
    struct ct_trace_event event;
    struct ct_frame frame;
    s->thread = thread;
    s->process = ct_trace_thread_at(s->trace, thread)->process;
    s->wanted = ct_select_thread(s->select, s->trace, thread);
    s->first_op = s->op_count;
    int status = ct_scan_open(&scan, &(struct ct_scan_setup){.trace = s->trace,
                                                             .facts = facts,
                                                             .thread = thread,
                                                             .to_ns = s->select->to_ns,
                                                             .frames = &s->frames,
                                                             .lost = on_lost,
                                                             .entry_only = is_entry_only,
                                                             .arg = s});
    size_t gap = status ? 0 : scan.gap;
    while (!status && !s->failed && ct_scan_next(&scan, &event)) {
        if (scan.gap != gap)
            add_gap(s, event.timestamp_ns, event.sequence);
        gap = scan.gap;
        on_event(s, &event);
    }
    uint64_t end_ns = status ? 0 : ct_scan_end(&scan);
    while (!status && ct_frames_take(&s->frames, end_ns, &frame))
        on_call(s, &frame, end_ns, CT_TRACE_NO_DETAIL, true);
    ct_scan_close(&scan);
    return status ? status : s->failed ? CT_ERR_NO_MEMORY : 0;
}

static int read_threads(struct search *s, const char *const *directories) {
    struct ct_facts facts;
    struct ct_fits *fits = NULL;
    int status = ct_facts_load(&facts, s->trace);
    if (status)
        return status;
    status = ct_fits_make(&fits, s->trace, &facts, s->select, CT_FITS_FUNCTIONS, directories);
    s->fits = fits;
    for (size_t i = 0; i < ct_trace_thread_count(s->trace) && !status; i++)
        if (ct_select_process(s->select, s->trace, ct_trace_thread_at(s->trace, i)->process))
            status = read_thread(s, &facts, i);
    s->fits = NULL;
    ct_fits_free(fits);
    ct_facts_free(&facts);
    ct_frames_free(&s->frames);
    return status;
}

/* ---- names and order ---- */

static int name_locks(struct ct_locks *locks, struct ct_trace *trace, const char *const *directories) {
    if (!locks->lock_count)
        return 0;
    struct ct_lookup *lookup = ct_lookup_create(&(struct ct_lookup_options){.directories = directories});
    struct ct_constants *constants = lookup ? ct_constants_open(trace, lookup) : NULL;
    for (size_t i = 0; constants && i < locks->lock_count; i++) {
        struct ct_lock *lock = &locks->locks[i];
        ct_constants_name(constants, lock->process, lock->address, lock->name, sizeof lock->name);
    }
    int status = constants ? 0 : CT_ERR_NO_MEMORY;
    ct_constants_close(constants);
    ct_lookup_destroy(lookup);
    return status;
}

static int by_total(const void *a, const void *b) {
    const struct ct_lock_calls *x = *(struct ct_lock_calls *const *)a, *y = *(struct ct_lock_calls *const *)b;
    if (x->total_ns != y->total_ns)
        return x->total_ns < y->total_ns ? 1 : -1;
    if (x->calls != y->calls)
        return x->calls < y->calls ? 1 : -1;
    int order = strcmp(x->function->name, y->function->name);
    return order || !x->caller || !y->caller ? order : strcmp(x->caller->name, y->caller->name);
}

static int list_functions(struct ct_locks *locks) {
    locks->functions = calloc(locks->rows.count + 1, sizeof(struct ct_lock_calls *));
    if (!locks->functions)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < locks->rows.capacity; i++)
        if (locks->rows.slots[i])
            locks->functions[locks->function_count++] = (struct ct_lock_calls *)(void *)locks->rows.slots[i];
    if (locks->function_count)
        qsort(locks->functions, locks->function_count, sizeof(struct ct_lock_calls *), by_total);
    return 0;
}

int ct_locks_find(struct ct_locks **out, struct ct_trace *trace, const struct ct_select *select,
                  const char *const *directories) {
    struct ct_locks *locks = *out = calloc(1, sizeof *locks);
    struct search s = {.locks = locks, .trace = trace, .select = select, .detail = calloc(1, sizeof *s.detail)};
    int status = locks && s.detail ? 0 : CT_ERR_NO_MEMORY;
    if (!status) {
        s.detail->size = sizeof *s.detail;
        locks->names = (struct ct_function_cache){.trace = trace, .select = select};
        status = read_threads(&s, directories);
    }
    if (!status)
        status = ct_locks_follow(locks, s.ops, s.op_count, ct_trace_thread_count(trace));
    if (!status)
        status = name_locks(locks, trace, directories);
    if (!status)
        status = list_functions(locks);
    ct_table_free(&s.meanings, NULL);
    free(s.detail);
    free(s.ops);
    if (status) {
        ct_locks_free(locks);
        *out = NULL;
    }
    return status;
}

void ct_locks_free(struct ct_locks *locks) {
    if (!locks)
        return;
    for (size_t i = 0; i < locks->lock_count; i++) {
        free(locks->locks[i].pairs);
        free(locks->locks[i].holders);
    }
    free(locks->locks);
    free(locks->order);
    free(locks->waits);
    free(locks->functions);
    ct_table_free(&locks->rows, NULL);
    ct_function_cache_free(&locks->names);
    free(locks);
}
