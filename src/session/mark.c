/* SPDX-License-Identifier: Apache-2.0 */
/* See mark.h. The operand comes from another process: everything in it is checked. */
#include "session/mark.h"
#include <contrail/status.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_MS     3600000u
#define MOST_EVENTS (1ull << 32)

static bool read_number(const char **at, uint64_t most, uint64_t *out) {
    char *end;
    if (!isdigit((unsigned char)**at))
        return false;
    unsigned long long value = strtoull(*at, &end, 10);
    *at = end;
    *out = value;
    return value <= most;
}

/* Without events, time alone counts, and the other way round, unless both are given. */
struct given {
    bool pre_ms, post_ms, pre_events, post_events;
};

static bool read_roll(const char **at, struct ct_windows_rolls *rolls, struct given *given) {
    const struct {
        const char *key;
        uint64_t most, factor, *value;
        bool *given;
    } keys[] = {
        {"pre-ms=", MOST_MS, 1000000, &rolls->pre_ns, &given->pre_ms},
        {"post-ms=", MOST_MS, 1000000, &rolls->post_ns, &given->post_ms},
        {"pre-events=", MOST_EVENTS, 1, &rolls->pre_events, &given->pre_events},
        {"post-events=", MOST_EVENTS, 1, &rolls->post_events, &given->post_events},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t length = strlen(keys[i].key);
        uint64_t value;
        if (strncmp(*at, keys[i].key, length) != 0)
            continue;
        *at += length;
        if (!read_number(at, keys[i].most, &value) || (**at && **at != ' '))
            return false;
        *keys[i].value = value * keys[i].factor;
        return *keys[i].given = true;
    }
    return false;
}

static bool read_label(const char *at, char label[CT_WINDOWS_LABEL]) {
    size_t length = strlen(at);
    if (!length || length >= CT_WINDOWS_LABEL)
        return false;
    for (size_t i = 0; i < length; i++)
        if (iscntrl((unsigned char)at[i]))
            return false;
    memcpy(label, at, length + 1);
    return true;
}

static void complete(struct ct_windows_rolls *rolls, const struct given *given) {
    if (given->pre_ms && !given->pre_events)
        rolls->pre_events = 0;
    if (given->pre_events && !given->pre_ms)
        rolls->pre_ns = 0;
    if (given->post_ms && !given->post_events)
        rolls->post_events = 0;
    if (given->post_events && !given->post_ms)
        rolls->post_ns = 0;
    if (given->post_ms || given->post_events)
        rolls->post_most = 0;
}

int ct_mark_parse(const char *operand, struct ct_windows_ask *ask, char *error, size_t size) {
    struct given given = {0};
    const char *at = operand;
    while (*at && strncmp(at, "label=", 6) != 0) {
        if (!read_roll(&at, &ask->rolls, &given)) {
            snprintf(error, size, "a mark takes rolls of at most an hour, or of at most 4,294,967,296 events");
            return CT_ERR_INVALID_ARGUMENT;
        }
        at += *at == ' ';
    }
    if (*at && !read_label(at + 6, ask->label)) {
        snprintf(error, size, "a label has 1 to %u bytes, and no control characters", CT_WINDOWS_LABEL - 1);
        return CT_ERR_INVALID_ARGUMENT;
    }
    complete(&ask->rolls, &given);
    return 0;
}
