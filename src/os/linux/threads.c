/* What is known about the threads of this process without stopping them (stop.c does that). */
#include "os/os.h"
#include "syscall.h"

int ct_os_gettid(void) {
    return (int)syscall0(__NR_gettid);
}

int ct_os_getpid(void) {
    return (int)syscall0(__NR_getpid);
}

bool ct_os_thread_alive(int tid) {
    return tid > 0 && syscall3(__NR_tgkill, ct_os_getpid(), tid, 0) == 0;
}
