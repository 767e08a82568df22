/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the summaries at the end of a recording. A trace holds what the target wrote, and the recorder may be root: so
 * there are two processes, as in `export`. One creates the files, with the user's rights, and reads nothing. The other
 * gives up its rights, reads the trace and writes to descriptors (docs/TRUST.md, "Readers"). */
#include "cli/summaries.h"
#include "cli/rights.h"
#include "cli/signals.h"
#include "trace/reader.h"
#include "trace/summary.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_THREADS 64                       /* of a session */
#define MOST_EVENTS  (UINT64_C(100) << 20)    /* of all of them: some seconds */
#define LEAST_BYTES  (CT_SUMMARY_LEAST / 100) /* index files with fewer have few events, however well they are packed */

/* A thread that may get one. */
struct item {
    struct ct_place *place; /* its directory */
    char process[256];      /* name of its process's directory */
    uint32_t id;
    int fd; /* a new file in it */
};

struct list {
    struct item items[MOST_THREADS];
    size_t count;
    char fresh[64]; /* name of the new files */
};

/* ---- the files ---- */

static uint64_t index_bytes(struct ct_place *place) {
    DIR *list = ct_place_list(place, ".");
    struct dirent *entry;
    struct stat status;
    uint64_t bytes = 0;
    while (list && (entry = readdir(list)))
        if (!strncmp(entry->d_name, "index", 5) && !fstatat(dirfd(list), entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
            bytes += (uint64_t)status.st_size;
    if (list)
        closedir(list);
    return bytes;
}

static void add_thread(struct list *list, const char *directory, const char *process, uint32_t id) {
    struct item *item = &list->items[list->count];
    char *path = ct_file_path("%s/thread_%u", directory, id);
    *item = (struct item){.id = id, .fd = -1};
    snprintf(item->process, sizeof item->process, "%s", process);
    if (path && ct_place_open(&item->place, path, 0, CT_PLACE_NO_GROUP) == 0) {
        if (ct_place_is_closed(item->place) && index_bytes(item->place) >= LEAST_BYTES)
            item->fd = ct_summary_create(item->place, list->fresh);
        if (item->fd >= 0)
            list->count++;
        else
            ct_place_drop(item->place);
    }
    free(path);
}

static void find_threads(struct list *list, const char *session) {
    DIR *processes = opendir(session);
    struct dirent *entry;
    while (processes && (entry = readdir(processes))) {
        uint32_t *ids = NULL;
        size_t count = 0;
        char *directory = !strncmp(entry->d_name, "pid_", 4) ? ct_file_path("%s/%s", session, entry->d_name) : NULL;
        if (directory && ct_find_numbered(directory, "thread_", &ids, &count) != 0)
            count = 0;
        for (size_t i = 0; i < count && list->count < MOST_THREADS; i++)
            add_thread(list, directory, entry->d_name, ids[i]);
        free(ids);
        free(directory);
    }
    if (processes)
        closedir(processes);
}

/* Files that were filled get their name; the others go. */
static void finish_files(struct list *list) {
    for (size_t i = 0; i < list->count; i++) {
        struct item *item = &list->items[i];
        struct stat status;
        bool filled = fstat(item->fd, &status) == 0 && status.st_size != 0;
        if (close(item->fd) != 0 || !filled || ct_place_replace(item->place, list->fresh, CTS_FILE) != 0)
            (void)ct_place_remove(item->place, list->fresh);
        ct_place_drop(item->place);
    }
}

/* ---- the reader ---- */

static void summarize_thread(const struct list *list, struct ct_trace *trace, const struct ct_facts *facts,
                             size_t thread, uint64_t *left) {
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, thread);
    const char *directory = ct_trace_process_at(trace, info->process)->directory, *name = strrchr(directory, '/');
    for (size_t i = 0; i < list->count; i++) {
        const struct item *item = &list->items[i];
        if (item->id != info->id || strcmp(item->process, name ? name + 1 : directory) != 0 ||
            info->event_count > *left)
            continue;
        *left -= info->event_count;
        (void)ct_summary_write(trace, thread, facts, item->fd);
    }
}

static void read_trace(const struct list *list, const char *session) {
    char *traces[] = {(char *)session};
    struct ct_rights rights = ct_rights_to_read(traces, 1);
    struct ct_trace *trace;
    struct ct_facts facts;
    uint64_t left = MOST_EVENTS;
    ct_rights_drop(&rights, false);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (ct_trace_open(&trace, session, NULL, 0) == 0 && ct_facts_load(&facts, trace) == 0)
        for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
            summarize_thread(list, trace, &facts, i, &left);
    _exit(0);
}

static void wait_for_reader(pid_t reader) {
    int fd = (int)syscall(SYS_pidfd_open, reader, 0);
    while (waitpid(reader, NULL, WNOHANG) == 0) {
        struct pollfd end = {fd, POLLIN, 0};
        if (ct_signals_any())
            (void)kill(reader, SIGKILL);
        poll(&end, fd >= 0, fd >= 0 ? 100 : 10);
    }
    if (fd >= 0)
        close(fd);
}

void ct_summaries_make(const char *session) {
    struct list list = {.count = 0};
    snprintf(list.fresh, sizeof list.fresh, "." CTS_FILE ".%d", (int)getpid());
    find_threads(&list, session);
    if (list.count) {
        fflush(NULL);
        pid_t reader = fork();
        if (reader == 0)
            read_trace(&list, session);
        if (reader > 0)
            wait_for_reader(reader);
    }
    finish_files(&list);
}
