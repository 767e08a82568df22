/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of a recording, and the manifest in them. Creating is the lock: the process that created a directory owns
 * it. */
#include "base/json_write.h"
#include "trace/file.h"
#include "trace/writer.h"
#include <contrail/status.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAME_SECOND_LIMIT 10000
#define FRESH             ".manifest.json.new" /* becomes the manifest when it is complete */

/* Returns 0 or an errno. */
static int make_named(struct ct_place **out, struct ct_place *root, char *name, size_t size) {
    time_t now = time(NULL);
    struct tm local;
    char time_text[32];
    if (!localtime_r(&now, &local) || !strftime(time_text, sizeof time_text, "session_%Y%m%d_%H%M%S", &local))
        return EINVAL;
    for (unsigned n = 1; n < SAME_SECOND_LIMIT; n++) {
        snprintf(name, size, n > 1 ? "%s_%u" : "%s", time_text, n);
        int error = ct_place_make(out, root, name);
        if (error != EEXIST)
            return error;
    }
    return EEXIST;
}

int ct_trace_make_session(struct ct_place **out, const char *root, gid_t group, char *path, size_t size) {
    struct ct_place *place = NULL;
    char name[64];
    *out = NULL;
    if (!root || !*root)
        return CT_ERR_INVALID_ARGUMENT;
    size_t length = strlen(root);
    while (length > 1 && root[length - 1] == '/')
        length--;
    int error = length + sizeof name >= size ? ENAMETOOLONG : ct_place_open(&place, root, CT_PLACE_MAKE, group);
    if (!error)
        error = make_named(out, place, name, sizeof name);
    if (error && place)
        ct_place_unmake(place);
    if (!error)
        snprintf(path, size, "%.*s/%s", (int)length, root, name);
    ct_place_drop(place);
    errno = error;
    return ct_file_status(error);
}

#define MAX_PROGRAMS 100000 /* programs that one process executes one after the other */

int ct_trace_make_process(struct ct_place **out, struct ct_place *session, int pid, char *name, size_t size) {
    int error = EEXIST;
    *out = NULL;
    for (int turn = 1; error == EEXIST && turn < MAX_PROGRAMS; turn++) {
        snprintf(name, size, turn == 1 ? "pid_%d" : "pid_%d_%d", pid, turn);
        error = ct_place_make_directory(session, name);
    }
    if (!error)
        error = ct_place_below(out, session, name);
    errno = error;
    return ct_file_status(error);
}

int ct_trace_write_manifest(struct ct_place *process, const struct ct_json *json) {
    size_t done;
    if (json->failed)
        return CT_ERR_NO_MEMORY;
    int fd = ct_file_open_fresh(process, FRESH), error = fd < 0 ? -fd : 0;
    if (!error)
        error = ct_file_write(fd, json->text, json->length, 0, 1, &done);
    if (!error)
        error = ct_file_write(fd, "\n", 1, json->length, 0, &done);
    if (fd >= 0 && close(fd) != 0 && !error)
        error = errno;
    if (!error)
        error = ct_place_replace(process, FRESH, "manifest.json");
    if (error)
        (void)ct_place_remove(process, FRESH);
    errno = error;
    return ct_file_status(error);
}
