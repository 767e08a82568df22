/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the program that it is loaded into (LD_PRELOAD), from its constructors to its end.
 *
 * STALK_EVENTS: none (default), summary, or names of events, `time` and `fast` (clock), with commas; STALK_TRUST,
 * STALK_MEMORY: numbers; STALK_INLINE: entries of inline caches; STALK_CHILDREN: new threads too; STALK_EXCLUDE: a
 * module; STALK_REPORT: a file that gets a line of counters at the end. */
#include <contrail/stalker.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ct_stalker *stalker;
static unsigned long events;

static void receive(void *user, int tid, const struct ct_stalker_event *list, size_t count) {
    (void)user, (void)tid, (void)list;
    __atomic_add_fetch(&events, count, __ATOMIC_RELAXED);
}

static void summarize(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count) {
    (void)user, (void)tid;
    for (size_t i = 0; i < count; i++)
        __atomic_add_fetch(&events, counts[i].count, __ATOMIC_RELAXED);
}

static void report(void) {
    const char *path = getenv("STALK_REPORT");
    struct ct_stalker_statistics s = {.size = sizeof s};
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    ct_stalker_statistics(stalker, &s);
    fprintf(file,
            "following %d blocks %lu instructions %lu entries %lu lookups %lu links %lu changed %lu signals %lu events "
            "%lu\n",
            ct_stalker_is_following(stalker, 0), (unsigned long)s.blocks, (unsigned long)s.instructions,
            (unsigned long)s.entries, (unsigned long)s.lookups, (unsigned long)s.links, (unsigned long)s.changed,
            (unsigned long)s.signals, events);
    fclose(file);
}

static void read_events(struct ct_stalker_sink *sink, const char *text) {
    char copy[128], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", text);
    sink->on_receive = receive;
    while ((name = strsep(&rest, ","))) {
        int bit = ct_stalker_event_of(name);
        if (!strcmp(name, "summary")) {
            sink->on_receive = NULL;
            sink->on_call_summary = summarize;
        } else if (!strcmp(name, "time")) {
            sink->mask |= CT_STALKER_TIMESTAMPS;
        } else if (!strcmp(name, "fast")) {
            sink->mask |= CT_STALKER_FAST_CLOCK;
        } else if (bit > 0) {
            sink->mask |= (uint32_t)bit;
        }
    }
}

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 0) : otherwise;
}

__attribute__((constructor)) static void begin(void) {
    struct ct_stalker_options options = {.size = sizeof options,
                                         .memory = (enum ct_stalker_memory)number("STALK_MEMORY", 0),
                                         .follow_children = getenv("STALK_CHILDREN") != NULL,
                                         .inline_cache_entries = (int)number("STALK_INLINE", 0)};
    struct ct_stalker_sink sink = {.size = sizeof sink};
    const char *wanted = getenv("STALK_EVENTS");
    if (wanted)
        read_events(&sink, wanted);
    int status = ct_stalker_create(&stalker, &options);
    if (!status)
        status = ct_stalker_set_trust_threshold(stalker, (int)number("STALK_TRUST", 1));
    if (!status && getenv("STALK_EXCLUDE"))
        status = ct_stalker_exclude_module(stalker, getenv("STALK_EXCLUDE"));
    atexit(report);
    if (!status)
        status = ct_stalker_follow_me(stalker, NULL, sink.mask || sink.on_call_summary ? &sink : NULL);
    if (status)
        fprintf(stderr, "cannot follow: %s\n", ct_status_text(status));
}
