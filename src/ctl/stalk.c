/* See stalk.h. */
#include "ctl/agent_image.h"
#include "ctl/inject_parts.h"
#include "ctl/stalk_internal.h"
#include "remote/frames.h"
#include <contrail/stalker.h>
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_EXCLUDED 200u
#define LEAVE_TRIES  200
#define NAME_ROOM    64u

static const struct ct_session_stalk *options_of(const struct ct_recording *r) {
    return r->session->options.stalk;
}

static size_t tables_size(void) {
    return sizeof(struct ct_stalk_tables) + CT_STALK_TARGETS * sizeof(struct ct_stalk_target) +
           CT_STALK_BLOCKS * sizeof(struct ct_stalk_place);
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
    if (x->count && x->at[x->count - 1][1] == start)
        x->at[x->count - 1][1] = end;
    else if (x->count < MAX_EXCLUDED && end > start) {
        x->at[x->count][0] = start;
        x->at[x->count++][1] = end;
    }
}

static void exclude_module(void *arg, const struct ct_target_module *m) {
    struct ranges *x = arg;
    if (m->gone)
        return;
    if (is_excluded(x, NULL, m)) {
        add_range(x, m->start, m->end);
        return;
    }
    for (size_t i = 0; i < m->function_count; i++) {
        const struct ct_target_function *f = &m->functions[i];
        if (f->size && is_excluded(x, f->name, m))
            add_range(x, m->bias + f->offset, m->bias + f->offset + f->size);
    }
}

/* ---- the way in ---- */

static bool wants_thread(const struct ct_recording *r, size_t i) {
    int which = options_of(r)->thread, tid = ct_remote_thread_tid(r->remote, i);
    return which == 0 || tid == (which < 0 ? r->pid : which);
}

static size_t list_threads(struct ct_recording *r, struct ct_stalk_boot_thread *threads, size_t *places) {
    size_t count = 0;
    for (size_t i = 0; i < ct_remote_thread_count(r->remote); i++) {
        struct ct_os_regs regs;
        if (!wants_thread(r, i) || ct_remote_get_regs(r->remote, i, &regs))
            continue;
        places[count] = i;
        threads[count++] = (struct ct_stalk_boot_thread){
            .tid = ct_remote_thread_inner_tid(r->remote, i), .gs_base = regs.gs_base, .pc = regs.pc};
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
    return status ? status : boot->status;
}

/* What the agent has said about each thread takes effect. */
static int move_threads(struct ct_recording *r, const struct ct_stalk_boot_thread *threads, const size_t *places,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct ct_os_regs regs;
        if (threads[i].status || ct_remote_get_regs(r->remote, places[i], &regs))
            continue;
        regs.pc = threads[i].pc;
        regs.gs_base = threads[i].gs_base;
        int status = ct_remote_set_regs(r->remote, places[i], &regs);
        if (status)
            return status;
    }
    return 0;
}

struct lists {
    struct ct_stalk_boot_thread *threads;
    size_t *places, count;
    uint64_t (*excluded)[2];
    uint64_t threads_at, excluded_at; /* in the target */
};

static int make_lists(struct ct_recording *r, struct lists *l, uint64_t at) {
    size_t room = ct_remote_thread_count(r->remote) + 1;
    *l = (struct lists){.threads = calloc(room, sizeof *l->threads),
                        .places = calloc(room, sizeof *l->places),
                        .excluded = calloc(MAX_EXCLUDED, sizeof *l->excluded)};
    if (!l->threads || !l->places || !l->excluded)
        return CT_ERR_NO_MEMORY;
    l->excluded_at = at;
    l->threads_at = at + MAX_EXCLUDED * sizeof *l->excluded;
    l->count = list_threads(r, l->threads, l->places);
    return 0;
}

static void free_lists(struct lists *l) {
    free(l->threads);
    free(l->places);
    free(l->excluded);
}

static int ask(struct ct_recording *r, struct lists *l, struct ct_stalk_boot *boot) {
    boot->magic = CT_STALK_BOOT_MAGIC;
    boot->pid = ct_remote_inner_pid(r->remote);
    boot->shm = (r->injection.shm + r->lane.window - 1) / r->lane.window * r->lane.window;
    boot->threads = l->threads_at;
    boot->thread_count = l->count;
    int status = ct_remote_write(r->remote, l->threads_at, l->threads, l->count * sizeof *l->threads);
    if (!status)
        status = run_agent(r, boot);
    if (!status)
        status = ct_remote_read(r->remote, l->threads_at, l->threads, l->count * sizeof *l->threads);
    return status ? status : move_threads(r, l->threads, l->places, l->count);
}

/* How many are followed now. None: that is a failure. */
static int note_threads(struct ct_recording *r, const struct lists *l) {
    int status = 0;
    for (size_t i = 0; i < l->count; i++) {
        *(l->threads[i].status ? &r->stalk->threads_refused : &r->stalk->threads_before) += 1;
        status = l->threads[i].status ? l->threads[i].status : status;
    }
    return r->stalk->threads_before ? 0 : status;
}

static int start(struct ct_recording *r) {
    const struct ct_session_stalk *o = options_of(r);
    struct lists l;
    int status = make_lists(r, &l, r->stalk->boot + 256);
    if (status)
        return status;
    struct ranges x = {.at = l.excluded, .options = &r->session->options};
    ct_recording_each_module(r, exclude_module, &x);
    struct ct_stalk_boot boot = {
        .command = CT_STALK_START,
        .mask = o->events ? o->events | CT_STALKER_TIMESTAMPS : 0,
        .follow_new_threads = o->thread == 0,
        .queue_capacity = (uint32_t)o->queue_capacity,
        .drain_interval_ms = o->drain_interval_ms,
        .trust = o->trust,
        .count_calls = o->count_calls && !(o->events & ~(uint32_t)CT_STALKER_CALL),
        .excluded = l.excluded_at,
        .excluded_count = x.count,
    };
    if (boot.count_calls)
        boot.mask = CT_STALKER_CALL;
    status = l.count ? ct_remote_write(r->remote, l.excluded_at, l.excluded, x.count * sizeof *l.excluded)
                     : ct_recording_fail(r, CT_ERR_NOT_FOUND, "process %d has no thread %d", r->pid, o->thread);
    if (!status)
        status = ask(r, &l, &boot);
    if (!status)
        status = note_threads(r, &l);
    r->stalk->excluded_count = x.count;
    free_lists(&l);
    return status;
}

static int prepare_tables(struct ct_recording *r) {
    struct ct_stalk *s = r->stalk;
    s->tables = (struct ct_stalk_tables *)((uint8_t *)r->lane.control + r->lane.control->extra_offset);
    *s->tables = (struct ct_stalk_tables){
        .target_capacity = CT_STALK_TARGETS,
        .block_capacity = CT_STALK_BLOCKS,
        .targets_offset = sizeof *s->tables,
        .blocks_offset = sizeof *s->tables + CT_STALK_TARGETS * sizeof(struct ct_stalk_target),
    };
    s->ids = calloc(CT_STALK_TARGETS, sizeof *s->ids);
    if (!s->ids)
        return CT_ERR_NO_MEMORY;
    ct_stalk_read_maps(r);
    return 0;
}

static int enter(struct ct_recording *r, struct ct_remote_error *error) {
    const struct ct_session_options *o = &r->session->options;
    struct ct_injection *in = &r->injection;
    const struct ct_injection_options options = {
        .lane = {.index_memory = o->index_memory, .lossless = true, .extra = tables_size()}};
    size_t tables = NAME_ROOM + 256 + MAX_EXCLUDED * 16 +
                    (ct_remote_thread_count(r->remote) + 4096) * sizeof(struct ct_stalk_boot_thread);
    char text[NAME_ROOM] = "contrail";
    *in = (struct ct_injection){.remote = r->remote, .plan = r->plan, .lane = &r->lane};
    r->lane.fd = -1;
    int status = ct_inject_check_gs(r->remote, error);
    if (!status)
        status = ct_inject_image(in, ct_stalk_agent_image, tables);
    if (!status)
        status = ct_remote_write(r->remote, in->tables, text, sizeof text);
    if (!status)
        status = ct_inject_shared(in, in->tables, &options);
    if (!status) {
        r->stalk->boot = in->tables + NAME_ROOM;
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
    status = enter(r, &error);
    if (!status)
        status = start(r);
    if (status && !r->error[0])
        ct_recording_fail(r, status, "%s", error.text[0] ? error.text : ct_status_text(status));
    return status;
}

/* ---- the way out ---- */

/* One round: every thread that is followed is sent out. */
static int send_out(struct ct_recording *r, uint64_t *followed) {
    struct lists l;
    struct ct_stalk_boot boot = {.command = CT_STALK_UNFOLLOW};
    int status = make_lists(r, &l, r->stalk->boot + 256);
    if (!status)
        status = ask(r, &l, &boot);
    *followed = boot.followed;
    free_lists(&l);
    return status;
}

int ct_stalk_leave(struct ct_recording *r) {
    uint64_t followed = 1;
    int status = 0;
    for (int i = 0; !status && followed && i < LEAVE_TRIES; i++) {
        status = send_out(r, &followed);
        if (status || !followed)
            break;
        (void)ct_remote_resume(r->remote); /* the engine sees to the rest, on the threads themselves */
        usleep(500u * (unsigned)(i + 1));
        status = ct_recording_stop(r);
    }
    return status ? status : followed ? CT_ERR_TIMEOUT : 0;
}

void ct_stalk_free(struct ct_recording *r) {
    struct ct_stalk *s = r->stalk;
    r->stalk = NULL;
    if (!s)
        return;
    free(s->ids);
    free(s->nameless);
    free(s->maps);
    free(s);
}
