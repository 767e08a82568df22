/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of a thread on all processors: see ranges.h.
 *
 * A lock for each thread's ranges, and one for the crew, which is taken first. Slots are reused in turn: that of a
 * range is free when the owner has finished the range `slot_count` before it. */
#include "report/ranges.h"
#include <stdlib.h>

enum { EXTRA_SLOTS = 1 }; /* besides one for each worker */

struct slot {
    struct ct_range range;
    bool ready;
};

struct ct_ranges {
    struct ct_range_source source;
    struct ct_crew *crew;
    struct ct_range_reader reader; /* the owner's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ct_range_piece *pieces;
    size_t count;
    size_t next;  /* the first that nobody has taken */
    size_t owned; /* the first that the owner has not finished */
    struct slot *slots;
    size_t slot_count;
    unsigned helpers;
    bool begun; /* the owner has had its first range */
};

/* ---- counting ---- */

/* Takes a range, with the lock held. SIZE_MAX: there is none at the moment. */
static size_t take_range(struct ct_ranges *r) {
    return r->next < r->count && r->next < r->owned + r->slot_count ? r->next++ : SIZE_MAX;
}

static void count_range(struct ct_ranges *r, struct ct_range_reader *reader, size_t number) {
    struct slot *slot = &r->slots[number % r->slot_count];
    const struct ct_range_piece *piece = &r->pieces[number];
    ct_range_clear(&slot->range);
    if (piece->gap || !reader->events) {
        slot->range.first = piece->first;
        slot->range.end = piece->end;
    } else {
        ct_range_count(&slot->range, reader, piece->first, piece->end);
    }
    pthread_mutex_lock(&r->lock);
    slot->ready = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Counts ranges until all are taken. */
static void help_owner(struct ct_ranges *r) {
    struct ct_range_reader reader;
    if (ct_range_reader_open(&reader, &r->source) != 0)
        return; /* the owner does it alone */
    pthread_mutex_lock(&r->lock);
    while (r->next < r->count) {
        size_t number = take_range(r);
        if (number == SIZE_MAX) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        pthread_mutex_unlock(&r->lock);
        count_range(r, &reader, number);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    ct_range_reader_close(&reader);
}

/* ---- the crew ---- */

void ct_crew_begin(struct ct_crew *crew, unsigned size) {
    *crew = (struct ct_crew){.owners = size, .size = size};
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->changed, NULL);
}

void ct_crew_end(struct ct_crew *crew) {
    pthread_cond_destroy(&crew->changed);
    pthread_mutex_destroy(&crew->lock);
}

/* The ranges with the fewest helpers, or NULL. */
static struct ct_ranges *choose_ranges(const struct ct_crew *crew) {
    struct ct_ranges *best = NULL;
    for (size_t i = 0; i < crew->open_count; i++)
        if (!best || crew->open[i]->helpers < best->helpers)
            best = crew->open[i];
    return best;
}

/* With the crew's lock held. */
static void withdraw(struct ct_crew *crew, const struct ct_ranges *ranges) {
    for (size_t i = 0; i < crew->open_count; i++)
        if (crew->open[i] == ranges)
            crew->open[i--] = crew->open[--crew->open_count];
}

void ct_crew_leave(struct ct_crew *crew) {
    pthread_mutex_lock(&crew->lock);
    crew->owners--;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

void ct_crew_help(struct ct_crew *crew) {
    pthread_mutex_lock(&crew->lock);
    crew->owners--;
    pthread_cond_broadcast(&crew->changed);
    for (;;) {
        struct ct_ranges *ranges = choose_ranges(crew);
        if (!ranges && !crew->owners)
            break;
        if (!ranges) {
            pthread_cond_wait(&crew->changed, &crew->lock);
            continue;
        }
        ranges->helpers++;
        pthread_mutex_unlock(&crew->lock);
        help_owner(ranges);
        pthread_mutex_lock(&crew->lock);
        withdraw(crew, ranges); /* nothing is left to do there */
        ranges->helpers--;
        pthread_cond_broadcast(&crew->changed);
    }
    pthread_mutex_unlock(&crew->lock);
}

static void post(struct ct_crew *crew, struct ct_ranges *ranges) {
    pthread_mutex_lock(&crew->lock);
    if (crew->open_count < CT_CREW_MOST)
        crew->open[crew->open_count++] = ranges;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

/* ---- the owner ---- */

int ct_ranges_open(struct ct_ranges **out, const struct ct_range_source *source, struct ct_crew *crew, uint64_t first,
                   uint64_t end, uint64_t size) {
    struct ct_ranges *r = *out = calloc(1, sizeof *r);
    if (!r)
        return CT_ERR_NO_MEMORY;
    r->source = *source;
    r->crew = crew;
    r->slot_count = (crew ? crew->size : 1) + EXTRA_SLOTS;
    r->slots = calloc(r->slot_count, sizeof *r->slots);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    int status = r->slots && ct_range_cut(&r->pieces, &r->count, &r->source, first, end, size) ? 0 : CT_ERR_NO_MEMORY;
    if (!status)
        status = ct_range_reader_open(&r->reader, &r->source);
    if (status) {
        r->crew = NULL;
        ct_ranges_close(r);
        *out = NULL;
        return status;
    }
    if (crew && r->count > 1)
        post(crew, r);
    return 0;
}

const struct ct_range *ct_ranges_next(struct ct_ranges *r) {
    const struct ct_range *range = NULL;
    pthread_mutex_lock(&r->lock);
    if (r->begun) {
        r->slots[r->owned % r->slot_count].ready = false;
        r->owned++;
        pthread_cond_broadcast(&r->changed);
    }
    r->begun = true;
    while (r->owned < r->count && !r->slots[r->owned % r->slot_count].ready) {
        size_t number = take_range(r);
        if (number == SIZE_MAX) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        pthread_mutex_unlock(&r->lock);
        count_range(r, &r->reader, number);
        pthread_mutex_lock(&r->lock);
    }
    if (r->owned < r->count)
        range = &r->slots[r->owned % r->slot_count].range;
    pthread_mutex_unlock(&r->lock);
    return range;
}

/* Nobody takes a range any more; waits until nobody has one. */
static void send_helpers_away(struct ct_ranges *r) {
    pthread_mutex_lock(&r->lock);
    r->next = r->count;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_mutex_lock(&r->crew->lock);
    withdraw(r->crew, r);
    while (r->helpers)
        pthread_cond_wait(&r->crew->changed, &r->crew->lock);
    pthread_mutex_unlock(&r->crew->lock);
}

void ct_ranges_close(struct ct_ranges *r) {
    if (!r)
        return;
    if (r->crew)
        send_helpers_away(r);
    for (size_t i = 0; r->slots && i < r->slot_count; i++)
        ct_range_free(&r->slots[i].range);
    free(r->slots);
    free(r->pieces);
    ct_range_reader_close(&r->reader);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
