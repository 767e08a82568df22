/* SPDX-License-Identifier: Apache-2.0 */
/* See wall.h. */
#include "trace/wall.h"
#include "base/grow.h"
#include "base/json_read.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000ull

/* ---- loading ---- */

static int by_boot(const void *a, const void *b) {
    const struct ct_wall_pair *x = a, *y = b;
    return x->boot_ns < y->boot_ns ? -1 : x->boot_ns > y->boot_ns;
}

static int read_pairs(struct ct_wall *w, size_t *room, const struct ct_json_node *list) {
    for (const struct ct_json_node *item = ct_json_first(list); item; item = item->next) {
        const struct ct_json_node *boot = ct_json_first(item), *real = boot ? boot->next : NULL;
        struct ct_wall_pair pair = {ct_json_u64(boot, 0), ct_json_u64(real, 0),
                                    (int32_t)ct_json_i64(real ? real->next : NULL, 0)};
        if (!pair.boot_ns || pair.real_ns < pair.boot_ns || abs(pair.offset_s) > 86400)
            continue;
        if (!ct_grow(&w->pairs, room, w->count, sizeof *w->pairs, 16))
            return CT_ERR_NO_MEMORY;
        w->pairs[w->count++] = pair;
    }
    return 0;
}

int ct_wall_load(struct ct_wall *w, const struct ct_trace *trace) {
    size_t room = 0;
    int status = 0;
    *w = (struct ct_wall){0};
    for (size_t i = 0; i < ct_trace_process_count(trace) && !status; i++) {
        const char *text = ct_trace_process_at(trace, i)->manifest;
        struct ct_json_tree *tree = NULL;
        if (!text || ct_json_parse(&tree, text, strlen(text), NULL))
            continue;
        status = read_pairs(w, &room, ct_json_get(ct_json_root(tree), "clock", "realtime", NULL));
        ct_json_tree_free(tree);
    }
    if (status)
        ct_wall_free(w);
    else if (w->count)
        qsort(w->pairs, w->count, sizeof *w->pairs, by_boot);
    return status;
}

void ct_wall_free(struct ct_wall *w) {
    free(w->pairs);
    *w = (struct ct_wall){0};
}

/* ---- printing ---- */

/* The last pair before a time, or the first one. */
static const struct ct_wall_pair *pair_at(const struct ct_wall *w, uint64_t boot_ns) {
    size_t low = 0, high = w->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->pairs[middle].boot_ns <= boot_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return &w->pairs[low ? low - 1 : 0];
}

uint64_t ct_wall_real(const struct ct_wall *w, uint64_t boot_ns) {
    if (!w->count)
        return 0;
    const struct ct_wall_pair *pair = pair_at(w, boot_ns);
    return boot_ns + (pair->real_ns - pair->boot_ns);
}

void ct_wall_text(const struct ct_wall *w, uint64_t boot_ns, char text[CT_WALL_TEXT]) {
    text[0] = 0;
    if (!w->count)
        return;
    const struct ct_wall_pair *pair = pair_at(w, boot_ns);
    uint64_t real = ct_wall_real(w, boot_ns);
    time_t local = (time_t)(real / SECOND_NS) + pair->offset_s;
    struct tm tm;
    unsigned offset = (unsigned)abs(pair->offset_s) / 60;
    if (!gmtime_r(&local, &tm) || !strftime(text, CT_WALL_TEXT, "%Y-%m-%dT%H:%M:%S", &tm)) {
        text[0] = 0;
        return;
    }
    size_t length = strlen(text);
    snprintf(text + length, CT_WALL_TEXT - length, ".%09llu%c%02u:%02u", (unsigned long long)(real % SECOND_NS),
             pair->offset_s < 0 ? '-' : '+', offset / 60 % 100, offset % 60);
}

/* ---- reading ---- */

/* The digits after a point, as nanoseconds. */
static const char *read_fraction(const char *at, uint64_t *ns) {
    uint64_t unit = SECOND_NS;
    *ns = 0;
    if (*at != '.' && *at != ',')
        return at;
    for (at++; isdigit((unsigned char)*at); at++) {
        unit /= 10;
        *ns += unit * (uint64_t)(*at - '0');
    }
    return at;
}

/* NULL: it is none. */
static const char *read_offset(const char *at, int32_t *offset_s) {
    unsigned hours, minutes;
    int length = 0;
    if (!*at)
        return at;
    if (*at == 'Z' || *at == 'z') {
        *offset_s = 0;
        return at + 1;
    }
    if ((*at != '+' && *at != '-') || (sscanf(at + 1, "%2u:%2u%n", &hours, &minutes, &length) != 2 &&
                                       sscanf(at + 1, "%2u%2u%n", &hours, &minutes, &length) != 2))
        return NULL;
    *offset_s = (int32_t)(hours * 3600 + minutes * 60) * (*at == '-' ? -1 : 1);
    return at + 1 + length;
}

static bool is_time(const struct tm *tm) {
    return tm->tm_mon >= 0 && tm->tm_mon < 12 && tm->tm_mday >= 1 && tm->tm_mday <= 31 && tm->tm_hour >= 0 &&
           tm->tm_hour < 24 && tm->tm_min >= 0 && tm->tm_min < 60 && tm->tm_sec >= 0 && tm->tm_sec <= 60;
}

/* False: not a time. */
static bool read_time(const char *text, const struct ct_wall_pair *first, uint64_t *real_ns) {
    time_t local = (time_t)(first->real_ns / SECOND_NS) + first->offset_s;
    int32_t offset = first->offset_s;
    struct tm tm = {0}, day;
    int length = 0;
    uint64_t ns = 0;
    if (!gmtime_r(&local, &day))
        return false;
    const char *at = text;
    if (sscanf(at, "%4d-%2d-%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &length) == 3 && length) {
        at += length;
        if (*at != 'T' && *at != 't' && *at != ' ')
            return false;
        at++;
        tm.tm_year -= 1900;
        tm.tm_mon--;
    } else {
        tm = (struct tm){.tm_year = day.tm_year, .tm_mon = day.tm_mon, .tm_mday = day.tm_mday};
    }
    length = 0;
    if (sscanf(at, "%2d:%2d%n", &tm.tm_hour, &tm.tm_min, &length) != 2 || !length)
        return false;
    at += length;
    length = 0;
    if (*at == ':' && (sscanf(at + 1, "%2d%n", &tm.tm_sec, &length) != 1 || !length))
        return false;
    at = read_offset(read_fraction(at + (length ? length + 1 : 0), &ns), &offset);
    if (!at || *at || !is_time(&tm))
        return false;
    time_t seconds = timegm(&tm) - offset;
    *real_ns = (uint64_t)seconds * SECOND_NS + ns;
    return seconds > 0;
}

/* When the clock was set back a time was there twice: the first one is taken. When it was set forward, a time that
 * never was is that of the step. */
int ct_clock_parse_wall(const struct ct_wall *w, const char *text, uint64_t *boot_ns) {
    uint64_t real;
    if (!w->count)
        return CT_ERR_NOT_FOUND;
    if (!read_time(text, &w->pairs[0], &real))
        return CT_ERR_INVALID_ARGUMENT;
    for (size_t i = 0; i < w->count; i++) {
        uint64_t ahead = w->pairs[i].real_ns - w->pairs[i].boot_ns;
        uint64_t boot = real > ahead ? real - ahead : 0;
        uint64_t end = i + 1 < w->count ? w->pairs[i + 1].boot_ns : UINT64_MAX;
        if (boot >= end)
            continue;
        *boot_ns = i && boot < w->pairs[i].boot_ns ? w->pairs[i].boot_ns : boot;
        return 0;
    }
    return CT_ERR_INVALID_ARGUMENT;
}
