/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as the kernel lists them: number, name, state. Nothing is stopped, so a thread may end meanwhile. */
#include "base/grow.h"
#include "inspect/process.h"
#include "os/os.h"
#include <contrail/status.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ssize_t read_file(int pid, int tid, const char *name, char *buffer, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, buffer, size - 1);
    close(fd);
    if (length >= 0)
        buffer[length] = 0;
    return length;
}

/* "tid (name) S ...": the name may contain anything, so the last parenthesis counts. */
bool ct_process_task(int pid, int tid, struct ct_process_task *out) {
    char text[512];
    if (read_file(pid, tid, "stat", text, sizeof text) <= 0)
        return false;
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || close[1] != ' ')
        return false;
    *out = (struct ct_process_task){.tid = tid, .state = close[2]};
    size_t length = (size_t)(close - open - 1);
    if (length > sizeof out->name - 1)
        length = sizeof out->name - 1;
    memcpy(out->name, open + 1, length);
    return true;
}

static int by_tid(const void *a, const void *b) {
    const struct ct_process_task *x = a, *y = b;
    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int add_task(struct ct_process_task **list, size_t *count, size_t *capacity,
                    const struct ct_process_task *task) {
    if (!ct_grow(list, capacity, *count, sizeof **list, 16))
        return CT_ERR_NO_MEMORY;
    (*list)[(*count)++] = *task;
    return 0;
}

int ct_process_tasks(int pid, struct ct_process_task **out, size_t *count) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *directory = opendir(path);
    if (!directory)
        return errno == ENOENT ? CT_ERR_NOT_FOUND : CT_ERR_SYSTEM;
    struct ct_process_task *list = NULL, task;
    size_t capacity = 0;
    int status = 0;
    *count = 0;
    for (struct dirent *entry; !status && (entry = readdir(directory));) {
        int tid = atoi(entry->d_name);
        if (tid > 0 && !ct_os_is_kernel_worker(pid, tid) && ct_process_task(pid, tid, &task))
            status = add_task(&list, count, &capacity, &task);
    }
    closedir(directory);
    if (!status && *count == 0)
        status = CT_ERR_NOT_FOUND;
    if (status) {
        free(list);
        return status;
    }
    qsort(list, *count, sizeof *list, by_tid);
    *out = list;
    return 0;
}
