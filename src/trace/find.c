/* SPDX-License-Identifier: Apache-2.0 */
/* Finds sessions, processes and threads by the names of their directories. */
#include "base/grow.h"
#include "trace/reader.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SESSION_PREFIX "session_"
#define SESSION_STAMP  15 /* YYYYMMDD_HHMMSS */
#define TWICE_S        7200
#define TWICE_MOST     256 /* sessions that are looked at */

/* Decimal, without leading zeros. */
static bool parse_number(const char *text, uint32_t *number) {
    uint64_t value = 0;
    if (!*text || (*text == '0' && text[1]))
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > UINT32_MAX)
            return false;
    }
    *number = (uint32_t)value;
    return true;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int append_number(uint32_t **numbers, size_t *count, size_t *room, uint32_t number) {
    if (!ct_grow(numbers, room, *count, sizeof **numbers, 16))
        return ENOMEM;
    (*numbers)[(*count)++] = number;
    return 0;
}

int ct_find_numbered(const char *directory, const char *prefix, uint32_t **numbers, size_t *count) {
    size_t length = strlen(prefix), room = 0;
    struct dirent *entry;
    uint32_t number;
    int error = 0;
    *numbers = NULL;
    *count = 0;
    DIR *dir = opendir(directory);
    if (!dir)
        return errno;
    while (!error && (entry = readdir(dir)))
        if (strncmp(entry->d_name, prefix, length) == 0 && parse_number(entry->d_name + length, &number))
            error = append_number(numbers, count, &room, number);
    closedir(dir);
    if (error) {
        free(*numbers);
        *numbers = NULL;
        *count = 0;
    } else if (*count) {
        qsort(*numbers, *count, sizeof **numbers, by_number);
    }
    return error;
}

bool ct_find_exists(const char *directory, const char *name) {
    struct stat status;
    char *path = ct_file_path("%s/%s", directory, name);
    bool exists = path && stat(path, &status) == 0;
    free(path);
    return exists;
}

/* ---- the newest session ---- */

/* session_YYYYMMDD_HHMMSS; _2 and so on when several were made in one second. */
static bool parse_session(const char *name, uint32_t *ordinal) {
    if (strncmp(name, SESSION_PREFIX, sizeof SESSION_PREFIX - 1) != 0)
        return false;
    const char *stamp = name + sizeof SESSION_PREFIX - 1;
    for (size_t i = 0; i < SESSION_STAMP; i++)
        if (i == 8 ? stamp[i] != '_' : stamp[i] < '0' || stamp[i] > '9')
            return false;
    *ordinal = 1;
    return !stamp[SESSION_STAMP] || (stamp[SESSION_STAMP] == '_' && parse_number(stamp + SESSION_STAMP + 1, ordinal));
}

static int compare_sessions(const char *a, const char *b) {
    uint32_t x = 0, y = 0;
    int order = memcmp(a, b, sizeof SESSION_PREFIX - 1 + SESSION_STAMP);
    parse_session(a, &x);
    parse_session(b, &y);
    return order ? order : (x > y) - (x < y);
}

/* True when the table has a line that begins with the word. Modules come first. */
static bool has_line(const char *process, const char *name, const char *word) {
    char *path = ct_file_path("%s/%s", process, name), *line = NULL;
    FILE *file = path ? fopen(path, "re") : NULL;
    size_t size = 0;
    bool found = false;
    while (file && !found && getline(&line, &size, file) >= 0)
        found = strncmp(line, word, strlen(word)) == 0;
    if (file)
        (void)fclose(file);
    free(line);
    free(path);
    return found;
}

/* Reads a manifest; NULL: it cannot be read. The tree points into *text. */
static struct ct_json_tree *read_manifest(const char *process, char **text) {
    struct ct_json_tree *manifest = NULL;
    char *path = ct_file_path("%s/manifest.json", process);
    size_t size;
    *text = NULL;
    if (!path || ct_file_load(path, CT_MANIFEST_LIMIT, text, &size) != 0 ||
        ct_json_parse(&manifest, *text, size, NULL) != 0)
        manifest = NULL;
    free(path);
    return manifest;
}

/* True when the recorder has finished the trace of a process and it has nothing to show: no event, no counts. */
static bool is_empty(const char *process) {
    char *text;
    struct ct_json_tree *manifest = read_manifest(process, &text);
    const struct ct_json_node *root = ct_json_root(manifest);
    bool empty = root && ct_json_flag(ct_json_get(root, "complete", NULL), false) &&
                 ct_json_u64(ct_json_get(root, "events", "written", NULL), 1) == 0 &&
                 !has_line(process, "blocks", "block\t") && !has_line(process, "calls", "call\t");
    ct_json_tree_free(manifest);
    free(text);
    return empty;
}

enum contents { NO_PROCESS, EMPTY, EVENTS };

static enum contents contents_of(const char *session) {
    uint32_t *pids;
    size_t count;
    enum contents found = NO_PROCESS;
    if (ct_find_numbered(session, "pid_", &pids, &count) != 0)
        return NO_PROCESS;
    for (size_t i = 0; i < count && found != EVENTS; i++) {
        char *process = ct_file_path("%s/pid_%u", session, pids[i]);
        if (process && ct_find_exists(process, "manifest.json"))
            found = is_empty(process) ? EMPTY : EVENTS;
        free(process);
    }
    free(pids);
    return found;
}

/* The newest name below `limit` (NULL: of all), malloc'ed. */
static char *newest_name(const char *root, const char *limit) {
    struct dirent *entry;
    uint32_t ordinal;
    char *best = NULL;
    DIR *dir = opendir(root);
    while (dir && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (!parse_session(name, &ordinal) || (limit && compare_sessions(name, limit) >= 0) ||
            (best && compare_sessions(name, best) <= 0))
            continue;
        free(best);
        best = strdup(name);
    }
    if (dir)
        closedir(dir);
    return best;
}

/* The newest session before `limit` with something to show, malloc'ed; NULL: none. *name becomes its name. *empty
 * becomes the newest one without, if it is NULL. */
static char *next_session(const char *root, const char *limit, char **name, char **empty) {
    *name = newest_name(root, limit);
    while (*name) {
        char *path = ct_file_path("%s/%s", root, *name);
        enum contents contents = path ? contents_of(path) : NO_PROCESS;
        if (!path || contents == EVENTS)
            return path;
        if (contents == EMPTY && !*empty)
            *empty = path;
        else
            free(path);
        char *older = newest_name(root, *name);
        free(*name);
        *name = older;
    }
    return NULL;
}

/* ---- the hour that comes twice ---- */

/* The time in a session's name, as if local time were UTC; -1: it is none. */
static int64_t named_time(const char *name) {
    struct tm at = {0};
    const char *end = strptime(name + sizeof SESSION_PREFIX - 1, "%Y%m%d_%H%M%S", &at);
    return end ? (int64_t)timegm(&at) : -1;
}

/* When the first process of a session was recorded, by the wall clock in its manifest; 0: not known. */
static uint64_t started_at(const char *session) {
    uint32_t *pids;
    size_t count;
    uint64_t first = 0;
    if (ct_find_numbered(session, "pid_", &pids, &count) != 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        char *process = ct_file_path("%s/pid_%u", session, pids[i]), *text = NULL;
        struct ct_json_tree *manifest = process ? read_manifest(process, &text) : NULL;
        const struct ct_json_node *pairs = ct_json_get(ct_json_root(manifest), "clock", "realtime", NULL);
        const struct ct_json_node *boot = ct_json_first(ct_json_first(pairs));
        uint64_t real_ns = boot ? ct_json_u64(boot->next, 0) : 0;
        if (real_ns && (!first || real_ns < first))
            first = real_ns;
        ct_json_tree_free(manifest);
        free(text);
        free(process);
    }
    free(pids);
    return first;
}

/* Names have local time, and when a clock is set back an hour comes twice. So sessions of the last two hours are
 * compared by the wall clock of their manifests too. Takes and returns a path; frees `name`. */
static char *prefer_latest(const char *root, char *best, char *name) {
    int64_t newest = named_time(name);
    uint64_t best_ns = started_at(best);
    char *empty = NULL;
    for (unsigned seen = 0; best_ns && seen < TWICE_MOST; seen++) {
        char *next, *path = next_session(root, name, &next, &empty);
        free(name);
        name = next;
        uint64_t ns = path && newest - named_time(name) <= TWICE_S ? started_at(path) : 0;
        if (!ns) {
            free(path);
            break;
        }
        if (ns > best_ns) {
            free(best);
            best = path;
            best_ns = ns;
        } else {
            free(path);
        }
    }
    free(name);
    free(empty);
    return best;
}

char *ct_find_newest_session(const char *root) {
    char *name, *empty = NULL, *path = next_session(root, NULL, &name, &empty);
    if (!path) {
        free(name);
        return empty;
    }
    free(empty);
    return prefer_latest(root, path, name);
}
