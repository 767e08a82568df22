/* What is known about the threads of this process without stopping them (stop.c does that). */
#include "os/os.h"
#include "os/thread.h"
#include "syscall.h"
#include <asm/stat.h>
#include <linux/prctl.h>

int ct_os_gettid(void) {
    return (int)syscall0(__NR_gettid);
}

int ct_os_getpid(void) {
    return (int)syscall0(__NR_getpid);
}

void ct_os_thread_name(char name[16]) {
    name[0] = 0;
    if (!ct_os_is_silent())
        (void)syscall2(__NR_prctl, PR_GET_NAME, name);
}

void ct_os_sleep_us(unsigned microseconds) {
    struct __kernel_timespec time = {microseconds / 1000000, (microseconds % 1000000) * 1000};
    (void)syscall4(__NR_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, 0);
}

/* The kernel sets the mask and takes it back: nothing is left blocked, whatever happens meanwhile. */
void ct_os_sleep_masked_us(unsigned microseconds) {
    struct __kernel_timespec time = {microseconds / 1000000, (microseconds % 1000000) * 1000};
    uint64_t all = ~0ull;
    (void)syscall6(__NR_ppoll, 0, 0, (long)&time, (long)&all, sizeof all, 0);
}

void ct_os_wake(uint32_t *word) {
    (void)syscall3(__NR_futex, word, FUTEX_WAKE, 0x7fffffff);
}

bool ct_os_thread_alive(int tid) {
    return ct_os_is_silent() || (tid > 0 && syscall3(__NR_tgkill, ct_os_getpid(), tid, 0) == 0);
}

bool ct_os_single_threaded(void) {
    struct stat task;
    long status = syscall4(__NR_newfstatat, AT_FDCWD, "/proc/self/task", &task, 0);
    return status == 0 && task.st_nlink == 3; /* a directory has two links, and one for each folder in it */
}
