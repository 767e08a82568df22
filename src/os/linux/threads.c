/* SPDX-License-Identifier: Apache-2.0 */
/* What can be known about the threads of this process without stopping them (stop.c stops them). */
#include "os/os.h"
#include "os/thread.h"
#include "syscall.h"
#include <asm/stat.h>
#include <linux/prctl.h>
#include <linux/utsname.h>

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

/* Sleeps with ppoll. The kernel keeps one record per thread of how an interrupted sleep continues, and nanosleep drops
 * it. We may sleep in a thread that has yet to continue a sleep of the program (the Stalker takes it over in the middle
 * of one): that sleep would end with EINTR. */
static void sleep_with(unsigned microseconds, const uint64_t *mask) {
    struct __kernel_timespec time = {microseconds / 1000000, (microseconds % 1000000) * 1000};
    (void)syscall6(__NR_ppoll, 0, 0, (long)&time, (long)mask, sizeof *mask, 0);
}

void ct_os_sleep_us(unsigned microseconds) {
    sleep_with(microseconds, NULL);
}

/* The kernel sets the mask and restores it: nothing stays blocked, whatever happens meanwhile. */
void ct_os_sleep_masked_us(unsigned microseconds) {
    const uint64_t all = ~0ull;
    sleep_with(microseconds, &all);
}

void ct_os_wake(uint32_t *word) {
    (void)syscall3(__NR_futex, word, FUTEX_WAKE, 0x7fffffff);
}

void ct_os_wait(uint32_t *word, uint32_t value, unsigned microseconds) {
    struct __kernel_timespec time = {microseconds / 1000000, (microseconds % 1000000) * 1000};
    (void)syscall4(__NR_futex, word, FUTEX_WAIT, value, &time);
}

bool ct_os_thread_alive(int tid) {
    return ct_os_is_silent() || (tid > 0 && syscall3(__NR_tgkill, ct_os_getpid(), tid, 0) == 0);
}

bool ct_os_process_alive(int pid) {
    return ct_os_is_silent() || (pid > 0 && syscall2(__NR_kill, pid, 0) == 0);
}

bool ct_os_single_threaded(void) {
    struct stat task;
    long status = syscall4(__NR_newfstatat, AT_FDCWD, "/proc/self/task", &task, 0);
    return status == 0 && task.st_nlink == 3; /* a directory has two links, and one for each directory in it */
}

/* ---- threads that the kernel runs for a process ---- */

enum { IO_WORKER = 0x10, USER_WORKER = 0x4000 }; /* flags of the kernel: PF_... */

/* "6.1.0-13" is 601. */
static unsigned version_of(const char *text) {
    unsigned part[2] = {0, 0};
    for (unsigned i = 0; i < 2 && *text >= '0' && *text <= '9'; i++, text += *text == '.')
        while (*text >= '0' && *text <= '9')
            part[i] = part[i] * 10 + (unsigned)(*text++ - '0');
    return part[0] * 100 + part[1];
}

/* Before these versions the flags meant something else, which a program's own thread can have. A worker's name does not
 * help: a new one has the name of the thread that made it. */
static unsigned long worker_flags(void) {
    struct new_utsname names;
    names.release[0] = 0;
    (void)syscall1(__NR_uname, &names);
    unsigned version = version_of(names.release);
    return version >= 604 ? IO_WORKER | USER_WORKER : version >= 512 ? IO_WORKER : 0;
}

/* "tid (name) state parent group session terminal foreground flags". The name may contain anything, so the last
 * parenthesis counts. */
static unsigned long flags_of(const char *text) {
    const char *at = text, *close = text;
    for (; *at; at++)
        close = *at == ')' ? at : close;
    for (int spaces = 0; *close && spaces < 7; close++)
        spaces += *close == ' ';
    unsigned long flags = 0;
    while (*close >= '0' && *close <= '9')
        flags = flags * 10 + (unsigned long)(*close++ - '0');
    return flags;
}

bool ct_os_is_kernel_worker(int pid, int tid) {
    char text[512];
    return read_task_file(pid, tid, "stat", text, sizeof text) && (flags_of(text) & worker_flags());
}
