/* SPDX-License-Identifier: Apache-2.0 */
/* See library_calls.h. */
#include "symbols/library_calls.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* In the order of strcmp. E: -1 and errno; N: NULL and errno; O: neither. The number has a bit for each text. */
#define E(name, texts) {#name, CT_FAILS_MINUS_ONE, texts},
#define N(name, texts) {#name, CT_FAILS_NULL, texts},
#define O(name, texts) {#name, CT_FAILS_OTHERWISE, texts},
/* clang-format off */
static const struct ct_library_call calls[] = {
    E(accept, 0) E(accept4, 0) E(access, 1) O(atof, 1) O(atoi, 1) O(atol, 1) O(atoll, 1) O(basename, 1) E(bind, 0)
    O(bindtextdomain, 3) N(calloc, 0) E(chdir, 1) E(chmod, 1) E(chown, 1) E(chroot, 1) E(close, 0) E(closedir, 0)
    E(connect, 0) E(creat, 1) E(creat64, 1) O(crypt, 3) O(dcgettext, 3) O(dgettext, 3) O(dirname, 1) O(dlopen, 1)
    O(dlsym, 2) O(dprintf, 2) E(dup, 0) E(dup2, 0) E(dup3, 0) E(epoll_create, 0) E(epoll_create1, 0) E(epoll_ctl, 0)
    E(epoll_wait, 0) E(eventfd, 0) E(execl, 3) E(execle, 3) E(execlp, 3) E(execv, 1) E(execve, 1) E(execveat, 2)
    E(execvp, 1) E(faccessat, 2) E(fchdir, 0) E(fchmod, 0) E(fchmodat, 2) E(fchown, 0) E(fchownat, 2) E(fclose, 0)
    E(fcntl, 0) E(fcntl64, 0) E(fdatasync, 0) N(fdopen, 2) N(fdopendir, 0) E(fflush, 0) E(flock, 0) O(fnmatch, 3)
    N(fopen, 3) N(fopen64, 3) E(fork, 0) O(fprintf, 2) O(fputs, 1) N(freopen, 3) E(fseek, 0) E(fseeko, 0) E(fstat, 0)
    E(fstat64, 0) E(fstatat, 2) E(fstatat64, 2) E(fstatfs, 0) E(fsync, 0) E(ftell, 0) E(ftello, 0) E(ftruncate, 0)
    E(ftruncate64, 0) N(get_current_dir_name, 0) O(getaddrinfo, 3) N(getcwd, 0) O(getenv, 1) O(getgrnam, 1)
    O(gethostbyname, 1) E(gethostname, 0) E(getpeername, 0) O(getpwnam, 1) E(getrlimit, 0) E(getsockname, 0)
    E(getsockopt, 0) O(gettext, 1) E(getxattr, 3) O(glob, 1) O(inet_addr, 1) O(inet_pton, 2) E(inotify_add_watch, 2)
    E(inotify_init, 0) E(inotify_init1, 0) E(ioctl, 0) E(kill, 0) E(lchown, 1) E(link, 3) E(linkat, 10) E(listen, 0)
    E(lseek, 0) E(lseek64, 0) E(lstat, 1) E(lstat64, 1) E(madvise, 0) N(malloc, 0) E(memfd_create, 1) E(mkdir, 1)
    E(mkdirat, 2) N(mkdtemp, 1) E(mkfifo, 1) E(mknod, 1) E(mkostemp, 1) E(mkstemp, 1) E(mlock, 0) E(mmap, 0)
    E(mmap64, 0) E(mount, 7) E(mprotect, 0) E(msgget, 0) E(msync, 0) E(munmap, 0) E(nanosleep, 0) E(open, 1)
    E(open64, 1) E(openat, 2) E(openat64, 2) N(opendir, 1) O(openlog, 1) E(pclose, 0) O(perror, 1) E(pipe, 0)
    E(pipe2, 0) E(poll, 0) N(popen, 3) E(ppoll, 0) E(prctl, 0) E(pread, 0) E(pread64, 0) O(printf, 1) E(ptrace, 0)
    E(putenv, 1) O(puts, 1) E(pwrite, 0) E(pwrite64, 0) E(read, 0) E(readlink, 1) E(readlinkat, 2) E(readv, 0)
    N(realloc, 0) N(reallocarray, 0) N(realpath, 1) E(recv, 0) E(recvfrom, 0) E(recvmsg, 0) O(regcomp, 2)
    O(regexec, 2) E(remove, 1) E(removexattr, 3) E(rename, 3) E(renameat, 10) E(renameat2, 10) E(rmdir, 1)
    E(sched_setaffinity, 0) O(secure_getenv, 1) E(select, 0) E(semget, 0) E(send, 0) E(sendfile, 0) E(sendmsg, 0)
    E(sendto, 0) E(setegid, 0) E(setenv, 3) E(seteuid, 0) E(setgid, 0) O(setlocale, 2) E(setrlimit, 0)
    E(setsockopt, 0) E(setuid, 0) E(setxattr, 3) E(shm_open, 1) E(shm_unlink, 1) N(shmat, 0) E(shmget, 0)
    E(shutdown, 0) E(sigaction, 0) E(sigprocmask, 0) E(socket, 0) E(socketpair, 0) E(splice, 0) O(sscanf, 3)
    E(stat, 1) E(stat64, 1) E(statfs, 1) E(statvfs, 1) E(statx, 2) O(stpcpy, 2) O(strcasecmp, 3) O(strcasestr, 3)
    O(strcat, 3) O(strchr, 1) O(strcmp, 3) O(strcoll, 3) O(strcpy, 2) O(strcspn, 3) N(strdup, 1) O(strlen, 1)
    O(strncasecmp, 3) O(strncat, 3) O(strncmp, 3) O(strncpy, 2) N(strndup, 1) O(strnlen, 1) O(strpbrk, 3)
    O(strrchr, 1) O(strspn, 3) O(strstr, 3) O(strtod, 1) O(strtof, 1) O(strtol, 1) O(strtoll, 1) O(strtoul, 1)
    O(strtoull, 1) E(symlink, 3) E(symlinkat, 5) E(syscall, 0) O(syslog, 2) E(system, 1) O(textdomain, 1)
    E(timerfd_create, 0) E(timerfd_settime, 0) N(tmpfile, 0) E(truncate, 1) E(truncate64, 1) E(umount, 1)
    E(umount2, 1) E(unlink, 1) E(unlinkat, 2) E(unsetenv, 1) E(utimensat, 2) E(utimes, 1) E(vfork, 0) O(vfprintf, 2)
    O(vprintf, 1) E(wait, 0) E(wait4, 0) E(waitpid, 0) E(write, 0) E(writev, 0)
};
/* clang-format on */
#undef E
#undef N
#undef O

static int by_name(const void *name, const void *call) {
    return strcmp(name, ((const struct ct_library_call *)call)->name);
}

/* glibc's names for its own use, and for functions that a program was built against with other options, have a prefix:
 * __open64_nocancel, __GI___read. */
const struct ct_library_call *ct_library_call(const char *name) {
    char plain[64];
    if (!strncmp(name, "__GI_", 5))
        name += 5;
    if (!strncmp(name, "__libc_", 7))
        name += 7;
    name += strspn(name, "_");
    size_t length = strlen(name), tail = strlen("_nocancel");
    if (length >= sizeof plain)
        return NULL;
    memcpy(plain, name, length + 1);
    if (length > tail && !strcmp(plain + length - tail, "_nocancel"))
        plain[length - tail] = 0;
    return bsearch(plain, calls, sizeof calls / sizeof *calls, sizeof *calls, by_name);
}

bool ct_library_is_c(const char *module) {
    const char *slash = strrchr(module, '/'), *name = slash ? slash + 1 : module;
    return !strncmp(name, "libc.", 5) || !strncmp(name, "libc-", 5) || !strncmp(name, "ld-musl", 7);
}
