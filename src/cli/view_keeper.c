/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the levels of root's traces: see view_keeper.h. */
#include "cli/view_keeper.h"
#include "cli/beside.h"
#include "cli/rights.h"
#include "view/levels.h"
#include "view/view.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAST_BYTES (2 * CT_LEVELS_EVENTS / 100) /* index files with fewer have few events, however well packed */

struct ct_view_keeper {
    struct ct_beside traces[CT_VIEW_TRACES];
    int count;
    pid_t process;
    int to; /* it reads from here which files are complete */
    struct ct_view_keep keep;
};

struct message {
    uint8_t trace, file;
};

/* ---- the process that keeps its user ---- */

static void keep_files(struct ct_view_keeper *k, int from) {
    const struct ct_rights rights = {geteuid(), getegid(), false};
    struct message m;
    for (int i = SIGHUP; i <= SIGTERM; i++) /* it ends when the server has ended */
        (void)signal(i, SIG_IGN);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    ct_rights_drop(&rights, false);
    while (read(from, &m, sizeof m) == sizeof m) {
        struct ct_beside *trace = m.trace < k->count ? &k->traces[m.trace] : NULL;
        if (trace && m.file < trace->count && trace->files[m.file].place)
            ct_beside_keep(trace, &trace->files[m.file]);
    }
    for (int i = 0; i < k->count; i++)
        ct_beside_end(&k->traces[i]);
}

/* ---- the server ---- */

static int file_for(void *arg, size_t trace, const char *process, uint32_t thread) {
    struct ct_view_keeper *k = arg;
    const struct ct_beside_file *file =
        trace < (size_t)k->count ? ct_beside_find(&k->traces[trace], process, thread) : NULL;
    return file ? fcntl(file->fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static void complete(void *arg, size_t trace, const char *process, uint32_t thread) {
    struct ct_view_keeper *k = arg;
    const struct ct_beside_file *file = ct_beside_find(&k->traces[trace], process, thread);
    const struct message m = {(uint8_t)trace, file ? (uint8_t)(file - k->traces[trace].files) : UINT8_MAX};
    (void)!write(k->to, &m, sizeof m);
}

static bool fork_keeper(struct ct_view_keeper *k) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    k->process = fork();
    if (k->process == 0) {
        close(ends[1]);
        keep_files(k, ends[0]);
        _exit(0);
    }
    close(ends[0]);
    k->to = ends[1];
    if (k->process < 0)
        close(ends[1]);
    return k->process > 0;
}

struct ct_view_keeper *ct_view_keeper_start(const char *const *traces, int count) {
    struct ct_view_keeper *k = calloc(1, sizeof *k);
    size_t files = 0;
    for (int i = 0; k && i < count; i++, k->count++) {
        ct_beside_make(&k->traces[i], traces[i], CT_LEVELS_FILE, LEAST_BYTES);
        files += k->traces[i].count;
    }
    if (k && files && fork_keeper(k)) {
        k->keep = (struct ct_view_keep){file_for, complete, k};
        return k;
    }
    for (int i = 0; k && i < k->count; i++)
        ct_beside_end(&k->traces[i]);
    free(k);
    return NULL;
}

const struct ct_view_keep *ct_view_keeper_keep(struct ct_view_keeper *k) {
    return k ? &k->keep : NULL;
}

void ct_view_keeper_end(struct ct_view_keeper *k) {
    if (!k)
        return;
    close(k->to);
    while (waitpid(k->process, NULL, 0) < 0 && errno == EINTR)
        ;
    free(k);
}
