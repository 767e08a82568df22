/* SPDX-License-Identifier: Apache-2.0 */
/* Raw Linux system calls: no errno (results are >= 0 or -E...), no cancellation points, no thread-local storage.
 *
 * Includes kernel headers only: those of libc may pull in definitions that need its library. */
#ifndef CT_OS_LINUX_SYSCALL_H
#define CT_OS_LINUX_SYSCALL_H

#include "base/digits.h"
#include <asm/errno.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/time.h>
#include <linux/uio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <contrail/status.h>
#include "syscall_arch.h"

/* New in Linux 4.14, 4.17 and 6.3: older headers lack them; the code that uses them handles older kernels. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define syscall0(n)             syscall6(n, 0, 0, 0, 0, 0, 0)
#define syscall1(n, a)          syscall6(n, (long)(a), 0, 0, 0, 0, 0)
#define syscall2(n, a, b)       syscall6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define syscall3(n, a, b, c)    syscall6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define syscall4(n, a, b, c, d) syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

static inline long sys_open(const char *path, int flags) {
    return syscall4(__NR_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

static inline void sys_close(long fd) {
    (void)syscall1(__NR_close, fd);
}

static inline long sys_read(long fd, void *buffer, size_t size) {
    return syscall3(__NR_read, fd, buffer, size);
}

static inline long sys_mmap(uint64_t address, size_t size, int prot, int flags, long fd) {
    return syscall6(__NR_mmap, (long)address, (long)size, prot, flags, fd, 0);
}

static inline long sys_munmap(uint64_t address, size_t size) {
    return syscall2(__NR_munmap, address, size);
}

static inline long sys_mprotect(uint64_t address, size_t size, int prot) {
    return syscall3(__NR_mprotect, address, size, prot);
}

/* With old_size 0, on shared memory: makes a second mapping of the same pages. */
static inline long sys_mremap(uint64_t from, size_t old_size, size_t new_size, int flags, uint64_t to) {
    return syscall6(__NR_mremap, (long)from, (long)old_size, (long)new_size, flags, (long)to, 0);
}

/* Converts the result of a failed call to a status of contrail/status.h. */
static inline int status_of(long result) {
    if (result >= 0)
        return CT_OK;
    switch (-result) {
    case EPERM:
    case EACCES:
        return CT_ERR_PERMISSION_DENIED;
    case ENOMEM:
        return CT_ERR_NO_MEMORY;
    case EINVAL:
        return CT_ERR_INVALID_ARGUMENT;
    case EEXIST:
        return CT_ERR_BUSY;
    case EFAULT:
        return CT_ERR_NOT_MAPPED;
    case ENOSYS:
        return CT_ERR_UNSUPPORTED;
    default:
        return CT_ERR_SYSTEM;
    }
}

static inline bool failed(long result) {
    return result < 0 && result > -4096;
}

/* ---- text, for paths below /proc ---- */

static inline char *put_text(char *at, const char *text) {
    while (*text)
        *at++ = *text++;
    *at = 0;
    return at;
}

static inline char *put_number(char *at, unsigned long value) {
    char digits[CT_DIGITS];
    for (size_t i = ct_digits(digits, value); i < CT_DIGITS; i++)
        *at++ = digits[i];
    *at = 0;
    return at;
}

/* Reads the beginning of /proc/PID/task/TID/NAME as text. Returns its length, or 0. The path must fit in `size` too. */
static inline long read_task_file(int pid, int tid, const char *name, char *text, size_t size) {
    char *end = put_number(put_text(text, "/proc/"), (unsigned long)pid);
    put_text(put_text(put_number(put_text(end, "/task/"), (unsigned long)tid), "/"), name);
    long fd = sys_open(text, O_RDONLY);
    if (failed(fd))
        return 0;
    long length = sys_read(fd, text, size - 1);
    sys_close(fd);
    length = length > 0 ? length : 0;
    text[length] = 0;
    return length;
}

#endif
