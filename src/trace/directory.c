/* Directories of a recording, and the manifest in them. mkdir is the lock: whoever made the directory owns it. */
#include "trace/file.h"
#include "trace/writer.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SAME_SECOND_LIMIT 10000

static int is_directory(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Returns 0 or an errno; *made: the last component is ours. */
static int make_path(char *path, int *made) {
    *made = 0;
    for (char *slash = path;;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        if (mkdir(path, 0777) == 0)
            *made = !slash;
        else if (errno == EEXIST || errno == EROFS || errno == EACCES || errno == EISDIR) {
            /* A parent that exists may be somewhere we must not write. */
            int error = errno;
            if (!is_directory(path))
                return error == EEXIST ? ENOTDIR : error;
        } else
            return errno;
        if (!slash)
            return 0;
        *slash = '/';
    }
}

/* Returns 0 or an errno. */
static int make_named(const char *root, char *path, size_t size) {
    char name[32];
    time_t now = time(NULL);
    struct tm local;
    if (!localtime_r(&now, &local) || !strftime(name, sizeof name, "session_%Y%m%d_%H%M%S", &local))
        return EINVAL;
    for (unsigned n = 1; n < SAME_SECOND_LIMIT; n++) {
        char suffix[16] = "";
        if (n > 1)
            snprintf(suffix, sizeof suffix, "_%u", n);
        int length = snprintf(path, size, "%s/%s%s", root, name, suffix);
        if (length < 0 || (size_t)length >= size)
            return ENAMETOOLONG;
        if (mkdir(path, 0777) == 0)
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

int ct_trace_make_session(const char *root, char *path, size_t size) {
    int made = 0;
    if (!root || !*root || !size)
        return CT_ERR_INVALID_ARGUMENT;
    char *copy = strdup(root);
    if (!copy)
        return CT_ERR_NO_MEMORY;
    size_t length = strlen(copy);
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = 0;
    int error = make_path(copy, &made);
    if (!error)
        error = make_named(copy, path, size);
    if (error && made)
        rmdir(copy);
    free(copy);
    errno = error;
    return ct_file_status(error);
}

#define MAX_PROGRAMS 100000 /* that one process executes in turn */

int ct_trace_make_process(const char *session, int pid, char *path, size_t size) {
    int error = EEXIST;
    for (int turn = 1; error == EEXIST && turn < MAX_PROGRAMS; turn++) {
        int length = turn == 1 ? snprintf(path, size, "%s/pid_%d", session, pid)
                               : snprintf(path, size, "%s/pid_%d_%d", session, pid, turn);
        if (length < 0 || (size_t)length >= size)
            error = ENAMETOOLONG;
        else
            error = mkdir(path, 0777) != 0 ? errno : 0;
    }
    errno = error;
    return ct_file_status(error);
}

int ct_trace_write_manifest(const char *directory, const struct ct_json *json) {
    size_t done;
    int error = 0;
    if (json->failed)
        return CT_ERR_NO_MEMORY;
    char *path = ct_file_path("%s/manifest.json", directory);
    char *fresh = ct_file_path("%s/.manifest.json.new", directory);
    int fd = path && fresh ? ct_file_open_plain(fresh, O_WRONLY | O_CREAT | O_TRUNC) : -ENOMEM;
    if (fd < 0) {
        error = -fd;
    } else {
        error = ct_file_write(fd, json->text, json->length, 0, 1, &done);
        if (!error)
            error = ct_file_write(fd, "\n", 1, json->length, 0, &done);
        if (close(fd) != 0 && !error)
            error = errno;
        if (!error && rename(fresh, path) != 0)
            error = errno;
        if (error)
            unlink(fresh);
    }
    free(path);
    free(fresh);
    errno = error;
    return ct_file_status(error);
}
