/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves names through a cache. Version 2 (-DVERSION=2) compares the pointers of names instead of their texts: each
 * request has its own copy of the name, so that the cache never hits. */
#include <stdio.h>
#include <string.h>

#ifndef VERSION
#define VERSION 1
#endif

enum { REQUESTS = 20000, NAMES = 8 };

struct entry {
    const char *key;
    char name[32];
    unsigned value;
};

static struct entry cache[NAMES];

static __attribute__((noinline)) unsigned resolve_name(const char *name) {
    unsigned hash = 5381;
    for (int i = 0; i < 20; i++)
        for (const char *at = name; *at; at++)
            hash = hash * 33 + (unsigned char)*at;
    return hash;
}

static __attribute__((noinline)) struct entry *find_entry(const char *name) {
    for (int i = 0; i < NAMES; i++)
        if (VERSION == 1 ? !strcmp(cache[i].name, name) : cache[i].key == name)
            return &cache[i];
    return NULL;
}

static __attribute__((noinline)) void put_entry(const char *name, unsigned value) {
    static int next;
    struct entry *entry = &cache[next++ % NAMES];
    entry->key = name;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->value = value;
}

static __attribute__((noinline)) unsigned look_up(const char *name) {
    struct entry *entry = find_entry(name);
    if (entry)
        return entry->value;
    unsigned value = resolve_name(name);
    put_entry(name, value);
    return value;
}

int main(void) {
    static char copies[REQUESTS][16];
    unsigned sum = 0;
    for (int i = 0; i < REQUESTS; i++) {
        snprintf(copies[i], sizeof copies[i], "host%d", i % NAMES);
        sum += look_up(copies[i]);
    }
    printf("%u\n", sum);
    return 0;
}
