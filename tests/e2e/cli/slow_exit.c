/* SPDX-License-Identifier: Apache-2.0 */
/* Takes long to end: its memory is gone while the kernel still closes its files. It has not become another program. */
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (int i = 0; i < 60000; i++)
        if (epoll_create1(0) < 0)
            break;
    usleep((useconds_t)getpid() % 200 * 1000); /* so that the end comes at any time of the recorder's looks */
    return 3;
}
