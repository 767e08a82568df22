/* SPDX-License-Identifier: Apache-2.0 */
/* See stalk.h. */
#include "follow/stalk_internal.h"
#include "inject/agent_image.h"
#include "inject/inject_memory.h"
#include "inject/redirect.h"
#include "remote/namespace.h"
#include "session/follower.h"
#include "session/recording_install.h"
#include "session/recording_leave.h"
#include "session/recording_room.h"
#include <contrail/stalker.h>
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_EXCLUDED 16000u /* the Stalker takes a few more */

static const struct ct_session_stalk *options_of(const struct ct_recording *r) {
    return r->session->options.stalk;
}

static bool writes_code(const struct ct_recording *r) {
    return options_of(r)->events & (CT_STALKER_BLOCK | CT_STALKER_EXEC | CT_STALKER_COMPILE);
}

static size_t tables_size(const struct ct_recording *r) {
    return writes_code(r) ? CT_STALK_TABLES_END : CT_STALK_CODE_AT;
}

/* ---- what is not followed ---- */

struct ranges {
    uint64_t (*at)[2];
    size_t count;
    const struct ct_session_options *options;
};

static bool is_excluded(const struct ranges *x, const char *function, const struct ct_target_module *m) {
    for (const char *const *glob = x->options->exclude; glob && *glob; glob++)
        if (function ? ct_policy_fits("", *glob, function, m->path) : ct_policy_fits_module(*glob, m->path))
            return true;
    return false;
}

static void add_range(struct ranges *x, uint64_t start, uint64_t end) {
    if (end <= start)
        return;
    if (x->count && x->count <= MAX_EXCLUDED && x->at[x->count - 1][1] == start)
        x->at[x->count - 1][1] = end;
    else if (x->count++ < MAX_EXCLUDED) {
        x->at[x->count - 1][0] = start;
        x->at[x->count - 1][1] = end;
    }
}

/* Is it this name, of any version? */
static bool is_named(const char *name, const char *wanted) {
    size_t length = strlen(wanted);
    return !strncmp(name, wanted, length) && (!name[length] || name[length] == '@');
}

/* Code of the C library that calls the program, or that makes or ends threads and processes. If it were excluded,
 * nothing would be followed, or the last events would be lost. */
static bool leads_back(const char *name) {
    static const char *const names[] = {
        "__libc_start_main",
        "__libc_start_call_main",
        "call_init",
        "_dl_init",
        "_dl_start_user",
        "start_thread",
        "pthread_create",
        "create_thread",
        "__clone_internal",
        "__clone3",
        "__clone",
        "clone",
        "clone3",
        "exit",
        "__run_exit_handlers",
        "_exit",
        "_Exit",
        "__GI__exit",
        "fork",
        "__libc_fork",
        "__fork",
        "_Fork",
        "vfork",
        "__vfork",
        "execve",
        "execveat",
        "fexecve",
        "execv",
        "execl",
        "execle",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (*name == *names[i] && is_named(name, names[i]))
            return true;
    return false;
}

static bool has_ways_back(const struct ct_target_module *m) {
    for (size_t i = 0; i < m->function_count; i++)
        if (leads_back(m->functions[i].name))
            return true;
    return false;
}

/* The loader's resolver of lazy bindings, for one: it ends in a jump to the function that was called. */
static bool has_odd_entry(const struct ct_target_function *f) {
    return f->skip == CT_HOOK_SKIP_ODD_ENTRY;
}

/* Excludes all of the module except the functions of leads_back(). Most of these have no names in a stripped library,
 * so a library that has some keeps its nameless functions too: excluded code that calls them runs natively anyway. */
static void exclude_whole(struct ranges *x, const struct ct_target_module *m) {
    uint64_t start = m->start;
    bool has_some = has_ways_back(m);
    for (size_t i = 0; i < m->function_count; i++) {
        const struct ct_target_function *f = &m->functions[i];
        if (!leads_back(f->name) && !has_odd_entry(f) && (*f->name || !has_some))
            continue;
        add_range(x, start, m->bias + f->offset);
        start = m->bias + f->offset + f->size;
    }
    add_range(x, start, m->end);
}

static void exclude_module(void *arg, const struct ct_target_module *m) {
    struct ranges *x = arg;
    if (m->gone || !x->options->exclude || !*x->options->exclude)
        return;
    if (is_excluded(x, NULL, m)) {
        exclude_whole(x, m);
        return;
    }
    for (size_t i = 0; i < m->function_count; i++) {
        const struct ct_target_function *f = &m->functions[i];
        if (f->size && !leads_back(f->name) && !has_odd_entry(f) && is_excluded(x, f->name, m))
            add_range(x, m->bias + f->offset, m->bias + f->offset + f->size);
    }
}

/* Functions that the agent must know. Those of the unwinder all come from the first module that has them; the functions
 * after them in the list come from any module. */
static void find_functions(void *arg, const struct ct_target_module *m) {
    enum { UNWINDERS = 6 };
    static const char *const names[CT_STALK_FUNCTIONS] = {
#define CT_STALK_FUNCTION_NAME(name, text) text,
        CT_STALK_FUNCTION_LIST(CT_STALK_FUNCTION_NAME)
#undef CT_STALK_FUNCTION_NAME
    };
    uint64_t *functions = arg, found[CT_STALK_FUNCTIONS] = {0};
    for (size_t i = 0; !m->gone && i < m->function_count; i++)
        for (size_t k = 0; k < CT_STALK_FUNCTIONS; k++) {
            const char *name = m->functions[i].name;
            if (*name == *names[k] && is_named(name, names[k]))
                found[k] = m->bias + m->functions[i].offset;
        }
    bool unwinder = found[0] && !functions[0];
    for (size_t k = 0; k < CT_STALK_FUNCTIONS; k++)
        if (k < UNWINDERS ? unwinder : !functions[k])
            functions[k] = found[k];
}

/* ---- starting to follow ---- */

static bool wants_thread(const struct ct_recording *r, size_t i) {
    int which = options_of(r)->thread, tid = ct_remote_thread_tid(r->remote, i);
    bool main = which < 0 || r->origin == CT_ORIGIN_EXEC; /* after an exec the main thread is meant */
    return which == 0 || tid == (main ? r->pid : which);
}

static size_t list_threads(struct ct_recording *r, bool all, struct ct_stalk_boot_thread *threads, size_t *places) {
    size_t count = 0;
    for (size_t i = 0; i < ct_remote_thread_count(r->remote); i++) {
        struct ct_registers regs;
        if ((!all && !wants_thread(r, i)) || ct_remote_get_regs(r->remote, i, &regs))
            continue;
        places[count] = i;
        threads[count++] = (struct ct_stalk_boot_thread){.tid = ct_remote_thread_inner_tid(r->remote, i),
                                                         .block = ct_registers_block(&regs),
                                                         .pc = ct_registers_pc(&regs)};
    }
    return count;
}

static int run_agent(struct ct_recording *r, struct ct_stalk_boot *boot) {
    uint64_t result;
    const uint64_t a[6] = {r->stalk->boot};
    int status = ct_remote_write(r->remote, r->stalk->boot, boot, sizeof *boot);
    if (!status)
        status = ct_remote_call(r->remote, r->injection.entry, r->injection.stack, a, &result);
    if (!status)
        status = ct_remote_read(r->remote, r->stalk->boot, boot, sizeof *boot);
    return status ? status : ct_inject_said(boot->status);
}

/* Applies what the agent answered for each thread. */
static int move_threads(struct ct_recording *r, const struct ct_stalk_boot_thread *threads, const size_t *places,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct ct_registers regs;
        if (threads[i].status || ct_remote_get_regs(r->remote, places[i], &regs))
            continue;
        int status = 0;
        if (threads[i].pc != ct_registers_pc(&regs))
            status = ct_inject_redirect(r->remote, &regs, threads[i].block);
        ct_registers_set_pc(&regs, threads[i].pc);
        ct_registers_set_block(&regs, threads[i].block);
        if (!status)
            status = ct_remote_set_regs(r->remote, places[i], &regs);
        if (status)
            return status;
    }
    return 0;
}

int ct_stalk_list(struct ct_recording *r, struct ct_stalk_lists *l, bool all) {
    size_t room = ct_remote_thread_count(r->remote) + 1;
    *l = (struct ct_stalk_lists){.threads = calloc(room, sizeof *l->threads),
                                 .places = calloc(room, sizeof *l->places),
                                 .excluded = calloc(MAX_EXCLUDED, sizeof *l->excluded)};
    if (!l->threads || !l->places || !l->excluded)
        return CT_ERR_NO_MEMORY;
    l->excluded_at = r->stalk->boot + 256;
    l->threads_at = l->excluded_at + MAX_EXCLUDED * sizeof *l->excluded;
    l->count = list_threads(r, all, l->threads, l->places);
    return 0;
}

void ct_stalk_free_lists(struct ct_stalk_lists *l) {
    free(l->threads);
    free(l->places);
    free(l->excluded);
}

int ct_stalk_ask(struct ct_recording *r, struct ct_stalk_lists *l, struct ct_stalk_boot *boot) {
    boot->magic = CT_STALK_BOOT_MAGIC;
    boot->pid = ct_remote_inner_pid(r->remote);
    boot->shm = r->stalk->shm;
    boot->threads = l->threads_at;
    boot->thread_count = l->count;
    int status = ct_remote_write(r->remote, l->threads_at, l->threads, l->count * sizeof *l->threads);
    if (!status)
        status = run_agent(r, boot);
    if (!status)
        status = ct_remote_read(r->remote, l->threads_at, l->threads, l->count * sizeof *l->threads);
    return status ? status : move_threads(r, l->threads, l->places, l->count);
}

/* Counts the threads that are followed now. It is an error if there are none. */
static int note_threads(struct ct_recording *r, const struct ct_stalk_lists *l) {
    int status = 0;
    for (size_t i = 0; i < l->count; i++) {
        *(l->threads[i].status ? &r->stalk->threads_refused : &r->stalk->threads_before) += 1;
        status = l->threads[i].status ? l->threads[i].status : status;
    }
    return r->stalk->threads_before ? 0 : status;
}

static int start_following(struct ct_recording *r) {
    const struct ct_session_stalk *o = options_of(r);
    struct ct_stalk_lists l;
    int status = ct_stalk_list(r, &l, false);
    if (status)
        return status;
    struct ranges x = {.at = l.excluded, .options = &r->session->options};
    ct_recording_each_module(r, exclude_module, &x);
    struct ct_stalk_boot boot = {
        .command = CT_STALK_START,
        .mask = o->events ? o->events | (o->fast_clock ? CT_STALKER_FAST_CLOCK : CT_STALKER_TIMESTAMPS) : 0,
        .follow_new_threads = o->thread == 0,
        .queue_capacity = (uint32_t)o->queue_capacity,
        .drain_interval_ms = o->drain_interval_ms,
        .trust = o->trust,
        .count_blocks = o->count_blocks,
        .count_calls = o->count_calls && !(o->events & ~(uint32_t)CT_STALKER_CALL),
        .excluded = l.excluded_at,
        .excluded_count = x.count,
    };
    ct_recording_each_module(r, find_functions, boot.functions);
    if (boot.count_calls)
        boot.mask = CT_STALKER_CALL;
    if (!l.count)
        status = ct_recording_fail(r, CT_ERR_NOT_FOUND, "process %d has no thread %d; `contrail threads %d` lists them",
                                   r->pid, o->thread, r->pid);
    else if (x.count > MAX_EXCLUDED)
        status = ct_recording_fail(r, CT_ERR_NO_SPACE,
                                   "--exclude matches functions in %zu places, and at most %u are possible; exclude "
                                   "modules, or fewer functions",
                                   x.count, MAX_EXCLUDED);
    else
        status = ct_remote_write(r->remote, l.excluded_at, l.excluded, x.count * sizeof *l.excluded);
    if (!status)
        status = ct_stalk_ask(r, &l, &boot);
    if (!status)
        status = note_threads(r, &l);
    r->stalk->excluded_count = x.count;
    ct_stalk_free_lists(&l);
    return status;
}

/* Most of this memory is never touched. calloc would clear all of it for each child if it reused memory of this
 * size. */
static bool make_places(struct ct_stalk *s) {
    void *at =
        mmap(NULL, sizeof *s->places, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    s->places = at == MAP_FAILED ? NULL : at;
    return s->places;
}

static int prepare_tables(struct ct_recording *r) {
    struct ct_stalk *s = r->stalk;
    s->tables = (struct ct_stalk_tables *)r->lane.extra;
    s->has_code = writes_code(r);
    *s->tables = (struct ct_stalk_tables){
        .target_capacity = CT_STALK_TARGETS,
        .block_capacity = CT_STALK_BLOCKS,
        .targets_offset = CT_STALK_TARGETS_AT,
        .blocks_offset = CT_STALK_BLOCKS_AT,
    };
    if (s->has_code) {
        s->tables->code_offset = CT_STALK_CODE_AT;
        s->tables->lengths_offset = CT_STALK_LENGTHS_AT;
        s->tables->code_capacity = CT_STALK_CODE;
    }
    s->shm = ct_inject_lane_at(&r->injection);
    s->tables->pid = ct_remote_inner_pid(r->remote);
    s->tables->stack = r->injection.stack;
    s->tables->boot = s->boot;
    s->tables->shm = r->injection.shm;
    s->tables->shm_size = r->injection.shm_size;
    s->tables->image = r->injection.image;
    s->tables->image_size = r->injection.image_size;
    /* Last: a recorder that comes after us trusts the rest. */
    __atomic_store_n(&s->tables->entry, r->injection.entry, __ATOMIC_RELEASE);
    if (!make_places(s))
        return CT_ERR_NO_MEMORY;
    ct_stalk_read_maps(r);
    return 0;
}

static struct ct_injection_options lane_options(const struct ct_recording *r) {
    return (struct ct_injection_options){
        .lane = {.index_memory = r->session->options.index_memory, .lossless = true, .extra = tables_size(r)}};
}

static int enter_process(struct ct_recording *r, struct ct_remote_error *error) {
    struct ct_injection *in = &r->injection;
    struct ct_injection_options options = lane_options(r);
    size_t tables =
        256 + MAX_EXCLUDED * 16 + (ct_remote_thread_count(r->remote) + 4096) * sizeof(struct ct_stalk_boot_thread);
    *in = (struct ct_injection){.remote = r->remote, .plan = r->plan, .lane = &r->lane};
    r->lane.fd = -1;
    int status = ct_inject_check_gs(r->remote, error);
    if (!status && ct_remote_has_seccomp(r->remote)) /* the filter may kill the process for such a call */
        status =
            ct_recording_fail(r, CT_ERR_PERMISSION_DENIED,
                              "process %d has a seccomp filter that forbids system calls that following needs, or that "
                              "cannot be read here; `contrail attach` records it without such calls",
                              r->pid);
    if (!status)
        status = ct_recording_fit(r, &options.lane);
    if (!status)
        status = ct_inject_shared(in, ct_stalk_agent_image, tables, &options);
    if (!status)
        status = ct_inject_image(in, ct_stalk_agent_image);
    if (status && !error->text[0] && !r->error[0])
        return ct_inject_explain(in, status, error);
    if (!status) {
        r->stalk->boot = in->tables;
        status = prepare_tables(r);
    }
    return status;
}

int ct_stalk_install(struct ct_recording *r) {
    struct ct_remote_error error = {""};
    int status = ct_recording_stop(r);
    if (status)
        return status;
    if (!(r->stalk = calloc(1, sizeof *r->stalk)))
        return CT_ERR_NO_MEMORY;
    ct_recording_begin_names(r);
    status = enter_process(r, &error);
    if (!status)
        status = ct_recording_end_names(r);
    if (!status)
        status = start_following(r);
    if (status == CT_ERR_SYSTEM && !error.text[0] && !r->error[0])
        return ct_recording_fail(
            r, CT_ERR_ATTACH_FAILED,
            "the code that was injected into process %d failed: the process changes its memory meanwhile, or "
            "forbids system calls that following needs; it continues, and is not followed",
            r->pid);
    if (status && !r->error[0])
        ct_recording_fail(r, status, "%s", error.text[0] ? error.text : ct_status_text(status));
    return status;
}

/* The child already has the agent and translated code. It excludes what its parent excluded. */
int ct_stalk_install_forked(struct ct_recording *r, struct ct_recording *parent) {
    struct ct_injection_options options = lane_options(r);
    struct ct_injection *in = &r->injection;
    int status = ct_recording_fit(r, &options.lane);
    if (status)
        return status;
    if (!(r->stalk = calloc(1, sizeof *r->stalk)))
        return CT_ERR_NO_MEMORY;
    *in = parent->injection;
    in->remote = r->remote;
    in->lane = &r->lane;
    r->lane.fd = -1;
    r->stalk->boot = parent->stalk->boot;
    r->stalk->excluded_count = parent->stalk->excluded_count;
    r->stalk->threads_before = 1;
    status = ct_inject_shared(in, NULL, 0, &options);
    if (!status)
        status = prepare_tables(r);
    if (status)
        return ct_recording_fail(r, status, "a child process cannot get the memory that following needs (%s)",
                                 ct_status_text(status));
    (void)ct_recording_update_modules(r); /* the parent may have just loaded some */
    return 0;
}

void ct_stalk_free(struct ct_recording *r) {
    struct ct_stalk *s = r->stalk;
    r->stalk = NULL;
    if (!s)
        return;
    if (s->places)
        munmap(s->places, sizeof *s->places);
    free(s->nameless);
    free(s->maps);
    free(s);
}

/* ---- for sessions ---- */

static void join_drain(const struct ct_recording *r, struct ct_drain *drain) {
    if (!r->stalk)
        return;
    drain->every_pass = ct_stalk_every_pass;
    drain->code = ct_stalk_code_event;
    drain->resolve = ct_stalk_resolve;
    drain->explain = ct_stalk_explain;
}

const struct ct_follower ct_follower = {
    .plan = ct_stalk_plan,
    .install = ct_stalk_install,
    .install_forked = ct_stalk_install_forked,
    .join_drain = join_drain,
    .modules_leave = ct_stalk_settle_all,
    .leave = ct_stalk_leave,
    .clean_after = ct_stalk_clean_after,
    .free = ct_stalk_free,
    .put_symbols = ct_stalk_put_symbols,
    .has_new_symbols = ct_stalk_has_new_symbols,
    .put_manifest = ct_stalk_put,
    .write_tables = ct_stalk_write_tables,
    .put_statistics = ct_stalk_statistics,
};
