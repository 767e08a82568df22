/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls fit a selection: one pass over the selected threads, see fits.h. */
#include "report/fits.h"
#include "base/grow.h"
#include "report/fits_skip.h"
#include "report/scan.h"
#include "report/where.h"
#include <stdlib.h>

enum { CHUNK_BITS = 1 << 15, WORD_BITS = 64 };

/* Bits by position, in chunks that exist where a bit is set. */
struct marks {
    uint64_t **chunks;
    size_t count;
};

struct ct_fits {
    struct marks *fit, *kept; /* by thread */
    size_t thread_count;
};

/* An open call. */
struct record {
    struct record *next; /* the next free one */
    const struct ct_cached_function *known;
    bool inside;    /* at or below a selected function */
    bool candidate; /* it may fit */
    bool kept;      /* a call inside it fits */
};

struct pass {
    struct ct_fits *fits;
    struct ct_trace *trace;
    const struct ct_select *select;
    enum ct_fits_words words;
    struct ct_function_cache names;
    struct ct_table memories; /* of struct ct_where_memory */
    struct ct_where_values values;
    struct ct_frames frames;
    struct record *free_records;
    struct ct_fits_skip skip;
    /* the thread that is being read */
    size_t thread;
    const struct ct_trace_thread *info;
    const struct ct_trace_event *event; /* NULL: at the end */
    bool failed;                        /* out of memory */
};

/* ---- marks ---- */

static bool set_mark(struct marks *m, uint64_t at) {
    size_t chunk = (size_t)(at / CHUNK_BITS), bit = (size_t)(at % CHUNK_BITS);
    if (!ct_grow_zeroed(&m->chunks, &m->count, chunk, sizeof *m->chunks, 16))
        return false;
    if (!m->chunks[chunk] && !(m->chunks[chunk] = calloc(CHUNK_BITS / WORD_BITS, sizeof **m->chunks)))
        return false;
    m->chunks[chunk][bit / WORD_BITS] |= UINT64_C(1) << bit % WORD_BITS;
    return true;
}

static bool has_mark(const struct marks *m, uint64_t at) {
    uint64_t chunk = at / CHUNK_BITS, bit = at % CHUNK_BITS;
    return chunk < m->count && m->chunks[chunk] && m->chunks[chunk][bit / WORD_BITS] >> bit % WORD_BITS & 1;
}

bool ct_fits_marked(const struct ct_fits *fits, size_t thread, uint64_t sequence) {
    return has_mark(&fits->fit[thread], sequence);
}

bool ct_fits_marked_kept(const struct ct_fits *fits, size_t thread, uint64_t sequence) {
    return has_mark(&fits->kept[thread], sequence);
}

/* The bits of a word from `first` up to `end`. */
static uint64_t bits_between(uint64_t first, uint64_t end) {
    uint64_t high = end < WORD_BITS ? (UINT64_C(1) << end) - 1 : UINT64_MAX;
    return high & UINT64_MAX << first;
}

static bool has_marks(const struct marks *m, uint64_t first, uint64_t end) {
    while (first < end) {
        uint64_t chunk = first / CHUNK_BITS, next = (chunk + 1) * CHUNK_BITS;
        if (chunk >= m->count)
            return false;
        if (m->chunks[chunk]) {
            uint64_t word = first / WORD_BITS * WORD_BITS;
            next = word + WORD_BITS;
            if (m->chunks[chunk][word % CHUNK_BITS / WORD_BITS] & bits_between(first - word, end - word))
                return true;
        }
        first = next;
    }
    return false;
}

bool ct_fits_between(const struct ct_fits *fits, size_t thread, uint64_t first, uint64_t end) {
    return !fits || has_marks(&fits->fit[thread], first, end);
}

static void mark_fit(struct pass *p, uint64_t sequence) {
    p->failed |= !set_mark(&p->fits->fit[p->thread], sequence);
}

static void mark_kept(struct pass *p, uint64_t sequence) {
    p->failed |= !set_mark(&p->fits->kept[p->thread], sequence);
}

/* ---- calls ---- */

static const struct ct_cached_function *function_of(struct pass *p, uint64_t id) {
    const struct ct_cached_function *known = ct_function_cache_get(&p->names, p->info->process, id);
    p->failed |= !known;
    return known;
}

static enum ct_where_answer ask(struct pass *p, const struct ct_cached_function *known, struct ct_where_call *call) {
    if (!p->select->where)
        return CT_WHERE_YES;
    call->function = known;
    call->memory = ct_table_get(&p->memories, known->key.process, known->key.function, sizeof *call->memory);
    call->thread_name = p->info->name;
    call->tid = p->info->tid;
    call->thread = p->thread;
    call->values = p->values.reader ? &p->values : NULL;
    return ct_where_fits(p->select->where, call);
}

static bool words_fit(const struct pass *p, const struct ct_cached_function *known, bool inside) {
    return p->words == CT_FITS_WHERE || (inside && known->module_fits);
}

static bool is_inside(const struct pass *p, const struct ct_cached_function *known, const struct record *caller) {
    bool below = p->words == CT_FITS_BELOW || p->words == CT_FITS_EVENTS;
    return known->function_fits || (below && caller && caller->inside);
}

static struct record *record_at(const struct pass *p, size_t place) {
    const struct ct_frame *frame = ct_frames_known(&p->frames, place);
    return frame ? frame->user : NULL;
}

static void begin_call(struct pass *p, struct ct_frame *frame, const struct ct_cached_function *known) {
    struct record *r = p->free_records;
    if (r)
        p->free_records = r->next;
    else
        r = malloc(sizeof *r);
    if (!r) {
        p->failed = true;
        return;
    }
    *r = (struct record){.known = known};
    r->inside = is_inside(p, known, record_at(p, ct_frames_caller(&p->frames, frame)));
    frame->user = r;
    if (!words_fit(p, known, r->inside))
        return;
    struct ct_where_call call = {.depth = frame->called_at, .detail = frame->detail, .end_detail = CT_TRACE_NO_DETAIL};
    r->candidate = ask(p, known, &call) != CT_WHERE_NO;
}

static void release_record(struct pass *p, struct record *r) {
    r->next = p->free_records;
    p->free_records = r;
}

/* The call has ended at this time; 0: nobody knows when. */
static void end_call(struct pass *p, const struct ct_frame *frame, uint64_t end_ns) {
    struct record *r = frame->user, *caller = record_at(p, ct_frames_caller(&p->frames, frame));
    if (!r)
        return;
    struct ct_where_call call = {
        .depth = frame->called_at,
        .ended = end_ns != 0,
        .duration_ns = ct_frames_lasted(&p->frames, frame, end_ns),
        .self_ns = frame->self_ns,
        .detail = frame->detail,
        .end_detail = p->event && p->event->kind == CT_TRACE_RETURN ? p->event->detail : CT_TRACE_NO_DETAIL,
    };
    if (r->candidate && ask(p, r->known, &call) == CT_WHERE_YES) {
        mark_fit(p, frame->sequence);
        if (p->event && end_ns)
            mark_fit(p, p->event->sequence);
        r->kept = true;
    }
    if (r->kept) {
        mark_kept(p, frame->sequence);
        if (p->event && end_ns)
            mark_kept(p, p->event->sequence);
        if (caller)
            caller->kept = true;
    }
    release_record(p, r);
}

static void on_lost(void *arg, struct ct_frame *frame) {
    end_call(arg, frame, 0);
}

static void on_entry(struct pass *p, const struct ct_cached_function *known, const struct ct_trace_event *event) {
    struct record *caller = record_at(p, ct_frames_entry(&p->frames, event));
    struct ct_where_call call = {.depth = event->depth, .detail = event->detail, .end_detail = CT_TRACE_NO_DETAIL};
    if (!words_fit(p, known, is_inside(p, known, caller)) || ask(p, known, &call) != CT_WHERE_YES)
        return;
    mark_fit(p, event->sequence);
    mark_kept(p, event->sequence);
    if (caller)
        caller->kept = true;
}

static void on_event(struct pass *p, const struct ct_trace_event *event) {
    struct ct_frame frame;
    if (event->kind == CT_TRACE_CALL) {
        const struct ct_cached_function *known = function_of(p, event->function_id);
        struct ct_frame *opened = NULL;
        if (known && known->entry_only)
            on_entry(p, known, event);
        else if (known && (opened = ct_frames_call(&p->frames, event)))
            begin_call(p, opened, known);
        else
            p->failed = true;
    } else if (event->kind == CT_TRACE_EXCEPTION && event->function_id == 0) {
        mark_kept(p, event->sequence); /* a signal */
    } else if (ct_frames_end(&p->frames, event, &frame)) {
        end_call(p, &frame, event->timestamp_ns);
    }
}

/* ---- events that are left out ---- */

static bool is_needed(void *arg, const struct ct_summary *summary, size_t span) {
    struct pass *p = arg;
    return p->failed || ct_fits_skip_needs(&p->skip, summary, span);
}

/* The end of a call that is kept gets a mark. */
static bool stays(void *arg, const struct ct_frame *frame) {
    const struct record *r = frame->user;
    (void)arg;
    return r && r->kept;
}

static void on_closed(void *arg, struct ct_frame *frame) {
    if (frame->user)
        release_record(arg, frame->user);
}

static void on_opened(void *arg, struct ct_frame *frame) {
    struct pass *p = arg;
    const struct ct_cached_function *known = function_of(p, frame->function);
    if (known)
        begin_call(p, frame, known);
}

static const struct ct_scan_spans left_out = {
    .needed = is_needed, .stays = stays, .closed = on_closed, .opened = on_opened};

/* ---- threads ---- */

static bool is_entry_only(void *arg, size_t process, uint64_t function) {
    const struct ct_cached_function *known = function_of(arg, function);
    (void)process;
    return known && known->entry_only;
}

static int read_thread(struct pass *p, const struct ct_facts *facts, size_t thread) {
    struct ct_scan scan;
    struct ct_trace_event event;
    struct ct_frame frame, *open = NULL;
    p->thread = thread;
    p->info = ct_trace_thread_at(p->trace, thread);
    p->event = NULL;
    bool skips = ct_fits_skip_begin(&p->skip, thread);
    int status = ct_scan_open(&scan, &(struct ct_scan_setup){.trace = p->trace,
                                                             .facts = facts,
                                                             .thread = thread,
                                                             .from_ns = p->select->from_ns,
                                                             .to_ns = p->select->to_ns,
                                                             .frames = &p->frames,
                                                             .lost = on_lost,
                                                             .entry_only = is_entry_only,
                                                             .spans = skips ? &left_out : NULL,
                                                             .arg = p});
    while (!status && !p->failed && (open = ct_frames_next(&p->frames, open)))
        on_opened(p, open);
    p->event = &event;
    while (!status && !p->failed && ct_scan_next(&scan, &event))
        on_event(p, &event);
    p->event = NULL;
    uint64_t end_ns = status ? 0 : ct_scan_end(&scan);
    while (!status && ct_frames_take(&p->frames, end_ns, &frame))
        end_call(p, &frame, end_ns);
    ct_scan_close(&scan);
    ct_fits_skip_end(&p->skip);
    return status ? status : p->failed ? CT_ERR_NO_MEMORY : 0;
}

static int read_threads(struct pass *p, const struct ct_facts *facts, const char *const *directories) {
    int status = 0;
    if (ct_where_needs_values(p->select->where))
        status = ct_argument_reader_open(&p->values.reader, p->trace, directories);
    for (size_t i = 0; i < p->fits->thread_count && !status; i++)
        if (ct_select_thread(p->select, p->trace, i))
            status = read_thread(p, facts, i);
    while (p->free_records) {
        struct record *next = p->free_records->next;
        free(p->free_records);
        p->free_records = next;
    }
    ct_frames_free(&p->frames);
    ct_table_free(&p->memories, NULL);
    ct_function_cache_free(&p->names);
    ct_argument_reader_close(p->values.reader);
    return status;
}

/* ---- all ---- */

static bool has_to_read(const struct ct_select *s, enum ct_fits_words words) {
    if (s->where)
        return true;
    if (words == CT_FITS_WHERE)
        return false;
    return s->functions || s->modules || s->only || s->exclude || (words == CT_FITS_EVENTS && (s->from_ns || s->to_ns));
}

int ct_fits_make(struct ct_fits **out, struct ct_trace *trace, const struct ct_facts *facts,
                 const struct ct_select *select, enum ct_fits_words words, const char *const *directories) {
    *out = NULL;
    if (!has_to_read(select, words))
        return 0;
    struct ct_fits *fits = calloc(1, sizeof *fits);
    if (!fits)
        return CT_ERR_NO_MEMORY;
    fits->thread_count = ct_trace_thread_count(trace);
    fits->fit = calloc(fits->thread_count + 1, sizeof *fits->fit);
    fits->kept = calloc(fits->thread_count + 1, sizeof *fits->kept);
    struct pass *p = calloc(1, sizeof *p);
    int status = fits->fit && fits->kept && p ? 0 : CT_ERR_NO_MEMORY;
    if (!status) {
        *p = (struct pass){.fits = fits,
                           .trace = trace,
                           .select = select,
                           .words = words,
                           .names = {.trace = trace, .select = select},
                           .values.detail = CT_TRACE_NO_DETAIL,
                           .skip = {trace, facts, select, words, &p->names}};
        status = read_threads(p, facts, directories);
    }
    free(p);
    if (status)
        ct_fits_free(fits);
    else
        *out = fits;
    return status;
}

int ct_fits_each_thread(struct ct_trace *trace, const struct ct_select *select, const char *const *directories,
                        int (*read)(void *arg, size_t thread, const struct ct_facts *facts, const struct ct_fits *fits),
                        void *arg) {
    struct ct_facts facts;
    struct ct_fits *fits = NULL;
    int status = ct_facts_load(&facts, trace);
    if (status)
        return status;
    status = ct_fits_make(&fits, trace, &facts, select, CT_FITS_WHERE, directories);
    for (size_t i = 0; i < ct_trace_thread_count(trace) && !status; i++)
        if (ct_select_thread(select, trace, i))
            status = read(arg, i, &facts, fits);
    ct_fits_free(fits);
    ct_facts_free(&facts);
    return status;
}

static void free_marks(struct marks *marks, size_t threads) {
    for (size_t i = 0; marks && i < threads; i++) {
        for (size_t k = 0; k < marks[i].count; k++)
            free(marks[i].chunks[k]);
        free(marks[i].chunks);
    }
    free(marks);
}

uint64_t ct_fits_kept(const struct ct_fits *fits) {
    uint64_t count = 0;
    for (size_t i = 0; i < fits->thread_count; i++)
        for (size_t k = 0; k < fits->kept[i].count; k++)
            for (size_t w = 0; fits->kept[i].chunks[k] && w < CHUNK_BITS / WORD_BITS; w++)
                count += (uint64_t)__builtin_popcountll(fits->kept[i].chunks[k][w]);
    return count;
}

void ct_fits_free(struct ct_fits *fits) {
    if (!fits)
        return;
    free_marks(fits->fit, fits->thread_count);
    free_marks(fits->kept, fits->thread_count);
    free(fits);
}
