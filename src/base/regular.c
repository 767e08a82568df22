/* SPDX-License-Identifier: Apache-2.0 */
/* See regular.h. */
#include "base/regular.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int ct_open_regular(const char *path) {
    char place[32];
    struct stat info;
    int held = open(path, O_PATH | O_CLOEXEC), file = -1;
    if (held < 0)
        return -1;
    int failed = fstat(held, &info) ? errno : S_ISREG(info.st_mode) ? 0 : EINVAL;
    if (!failed) {
        (void)snprintf(place, sizeof place, "/proc/self/fd/%d", held);
        file = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        failed = errno;
    }
    (void)close(held);
    errno = failed;
    return file;
}
