/* What is known about the threads of this process without stopping them (stop.c does that). */
#include "os/os.h"
#include "syscall.h"
#include <asm/stat.h>

int ct_os_gettid(void) {
    return (int)syscall0(__NR_gettid);
}

int ct_os_getpid(void) {
    return (int)syscall0(__NR_getpid);
}

bool ct_os_thread_alive(int tid) {
    return tid > 0 && syscall3(__NR_tgkill, ct_os_getpid(), tid, 0) == 0;
}

bool ct_os_single_threaded(void) {
    struct stat task;
    long status = syscall4(__NR_newfstatat, AT_FDCWD, "/proc/self/task", &task, 0);
    return status == 0 && task.st_nlink == 3; /* a directory has two links, and one for each folder in it */
}
