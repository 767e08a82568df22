/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the summaries at the end of a recording, by a process that has given up its rights (beside.h). */
#include "cli/summaries.h"
#include "cli/beside.h"
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

#define MOST_EVENTS (UINT64_C(100) << 20)    /* of all of them: some seconds */
#define LEAST_BYTES (CT_SUMMARY_LEAST / 100) /* index files with fewer have few events, however well they are packed */

/* ---- the reader ---- */

static void summarize_thread(struct ct_beside *beside, struct ct_trace *trace, const struct ct_facts *facts,
                             size_t thread, uint64_t *left) {
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, thread);
    struct ct_beside_file *file =
        ct_beside_find(beside, ct_trace_process_at(trace, info->process)->directory, info->id);
    if (!file || info->event_count > *left)
        return;
    *left -= info->event_count;
    (void)ct_summary_write(trace, thread, facts, file->fd);
}

static void read_trace(struct ct_beside *beside, const char *session) {
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
            summarize_thread(beside, trace, &facts, i, &left);
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

/* Files that were filled get their name; the others go. */
static void keep_filled(struct ct_beside *beside) {
    struct stat status;
    for (size_t i = 0; i < beside->count; i++)
        if (fstat(beside->files[i].fd, &status) == 0 && status.st_size != 0)
            ct_beside_keep(beside, &beside->files[i]);
    ct_beside_end(beside);
}

void ct_summaries_make(const char *session) {
    struct ct_beside beside;
    ct_beside_make(&beside, session, CTS_FILE, LEAST_BYTES);
    if (beside.count) {
        fflush(NULL);
        pid_t reader = fork();
        if (reader == 0)
            read_trace(&beside, session);
        if (reader > 0)
            wait_for_reader(reader);
    }
    keep_filled(&beside);
}
