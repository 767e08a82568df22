/* SPDX-License-Identifier: Apache-2.0 */
/* See stalk_tables.h. Output goes to stderr: stdout belongs to the program. */
#include "cli/stalk_tables.h"
#include "cli/call_counts.h"
#include "cli/message.h"
#include "cli/stalk_blocks.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP    30

#define PREFIX "pid_"

/* Directories of a session's processes; that of the first process comes first. */
struct processes {
    char **directories;
    size_t count;
};

static int is_process(const struct dirent *entry) {
    return !strncmp(entry->d_name, PREFIX, strlen(PREFIX));
}

static bool add_process(struct processes *p, const char *session, const char *name) {
    if (asprintf(&p->directories[p->count], "%s/%s", session, name) < 0)
        return false;
    p->count++;
    return true;
}

static int list_processes(struct processes *p, const char *first) {
    char session[PATH_MAX];
    struct dirent **entries = NULL;
    const char *slash = strrchr(first, '/');
    snprintf(session, sizeof session, "%.*s", (int)(slash - first), first);
    int count = scandir(session, &entries, is_process, versionsort);
    *p = (struct processes){.directories = calloc((size_t)(count < 0 ? 0 : count) + 1, sizeof(char *))};
    bool good = p->directories && add_process(p, session, slash + 1);
    for (int i = 0; i < count; i++) {
        good = good && (!strcmp(entries[i]->d_name, slash + 1) || add_process(p, session, entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
    if (!good)
        ct_message_error("%s cannot be read (out of memory)", session);
    return !good;
}

static void free_processes(struct processes *p) {
    for (size_t i = 0; i < p->count; i++)
        free(p->directories[i]);
    free(p->directories);
}

/* ---- calls ---- */

static int print_summary(const struct processes *p) {
    struct ct_call_counts c = {0};
    int failed = 0;
    char text[CT_TEXT_SIZE], all[CT_TEXT_SIZE];
    for (size_t i = 0; i < p->count; i++) {
        int error = ct_call_counts_add(&c, p->directories[i]);
        if (error)
            ct_message_error("%s/" CT_CALLS_FILE " cannot be read (%s)", p->directories[i], strerror(error));
        failed |= error != 0;
    }
    ct_call_counts_sort(&c);
    fprintf(stderr, "%15s  FUNCTION (%s calls of %zu functions)\n", "CALLS", ct_text_count(all, c.calls), c.count);
    for (size_t i = 0; i < c.count && i < TOP; i++) {
        fprintf(stderr, "%15s  ", ct_text_count(text, c.list[i].count));
        ct_message_print(stderr, c.list[i].name);
        fputs("\n", stderr);
    }
    if (c.count > TOP)
        fprintf(stderr, "%15s  and %zu more\n", "...", c.count - TOP);
    ct_call_counts_free(&c);
    return failed;
}

/* ---- blocks ---- */

/* FILE for the first process, FILE.PID for each other. */
static int write_coverage(const struct ct_blocks *blocks, const struct processes *p, size_t i, const char *file) {
    char path[PATH_MAX];
    if (i == 0)
        return ct_blocks_write_coverage(blocks, file);
    snprintf(path, sizeof path, "%s.%s", file, strrchr(p->directories[i], '/') + 1 + strlen(PREFIX));
    return ct_blocks_write_coverage(blocks, path);
}

static int show_blocks(const struct processes *p, size_t i, const struct ct_stalk_wishes *wishes) {
    struct ct_blocks blocks;
    int failed = ct_blocks_load(&blocks, p->directories[i]);
    if (!failed && wishes->coverage)
        failed = write_coverage(&blocks, p, i, wishes->coverage);
    if (!failed && wishes->disasm && p->count > 1)
        fprintf(stderr, "\nprocess %s\n", strrchr(p->directories[i], '/') + 1 + strlen(PREFIX));
    if (!failed && wishes->disasm)
        failed = ct_blocks_print(&blocks, p->directories[i]);
    ct_blocks_free(&blocks);
    return failed;
}

int ct_stalk_tables_show(const char *directory, const struct ct_stalk_wishes *wishes) {
    struct processes p;
    int failed = list_processes(&p, directory);
    if (!failed && wishes->summary)
        failed = print_summary(&p);
    for (size_t i = 0; i < p.count && (wishes->coverage || wishes->disasm); i++)
        failed |= show_blocks(&p, i, wishes);
    free_processes(&p);
    return failed;
}
