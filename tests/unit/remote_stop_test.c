/* SPDX-License-Identifier: Apache-2.0 */
/* Another process: opened, or refused with a reason; read and written; stopped and resumed without its noticing. */
#include "remote_util.h"

#include <sched.h>
#include <elf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

/* ---- refusals ---- */

static void check_refused(int pid, int status, const char *word) {
    struct ct_remote *remote = NULL;
    struct ct_remote_error error = {{0}};
    assert_int_equal(ct_remote_open(&remote, pid, &error), status);
    assert_null(remote);
    if (!strstr(error.text, word))
        print_error("%s\n", error.text);
    assert_non_null(strstr(error.text, word));
}

/* One whose name says that it stays: other processes, and many of the kernel's, may end before they are looked at
 * again. */
static int find_kernel_thread(void) {
    char name[32] = "";
    FILE *file = fopen("/proc/2/comm", "r");
    if (file && !fgets(name, sizeof name, file))
        name[0] = 0;
    if (file)
        fclose(file);
    return strcmp(name, "kthreadd\n") == 0 ? 2 : 0;
}

static void test_refusals(void **state) {
    (void)state;
    check_refused(getpid(), CT_ERR_ATTACH_FAILED, "itself");
    check_refused(0, CT_ERR_NOT_FOUND, "no process");
    check_refused(-5, CT_ERR_NOT_FOUND, "no process");
    check_refused(0x7ffffff0, CT_ERR_NOT_FOUND, "no process");
    int kernel = find_kernel_thread();
    if (kernel && geteuid() == 0)
        check_refused(kernel, CT_ERR_ATTACH_FAILED, "kernel thread");
    int pid = fork();
    if (pid == 0)
        _exit(0);
    wait_for_state(pid, "Z");
    check_refused(pid, CT_ERR_ATTACH_FAILED, "zombie");
    waitpid(pid, NULL, 0);
    check_refused(pid, CT_ERR_NOT_FOUND, "no process");
}

static void test_traced_already(void **state) {
    (void)state;
    struct target target, tracer;
    start_target(&target, "nanosleep");
    start_tracer(&tracer, target.pid);
    check_refused(target.pid, CT_ERR_BUSY, "already traced");
    assert_int_equal(end_target(&tracer, NULL), 0);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* Somebody attaches between our open and our stop. */
static void test_traced_meanwhile(void **state) {
    (void)state;
    struct target target, tracer;
    struct ct_remote_error error = {{0}};
    start_target(&target, "nanosleep");
    struct ct_remote *remote = open_remote(target.pid);
    start_tracer(&tracer, target.pid);
    assert_int_equal(ct_remote_stop(remote, LIMIT_MS, &error), CT_ERR_BUSY);
    assert_non_null(strstr(error.text, "already traced"));
    assert_false(ct_remote_is_stopped(remote));
    assert_int_equal(end_target(&tracer, NULL), 0);
    stop_remote(remote);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* One of our own kind, which will let go: it is waited for, however late it gets its turn to do so. */
static int start_ours(int pid) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    int tracer = fork();
    if (tracer == 0) {
        if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        sleep_ms(400);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return tracer;
}

static void test_traced_by_one_of_ours(void **state) {
    (void)state;
    struct target target;
    start_target(&target, "nanosleep");
    int first = start_ours(target.pid);
    struct ct_remote *remote = open_remote(target.pid);
    assert_int_equal(waitpid(first, NULL, 0), first);
    int second = start_ours(target.pid);
    stop_remote(remote);
    assert_int_equal(waitpid(second, NULL, 0), second);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

static void test_other_users_process(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    struct target target;
    start_target(&target, "nanosleep");
    int pid = fork();
    if (pid == 0) {
        struct ct_remote *remote;
        struct ct_remote_error error = {{0}};
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(1);
        int status = ct_remote_open(&remote, target.pid, &error);
        _exit(status == CT_ERR_PERMISSION_DENIED && strstr(error.text, "root") && strstr(error.text, "CAP_SYS_PTRACE")
                  ? 0
                  : 2);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* ---- memory and maps ---- */

struct found {
    uint64_t address;
    bool text, vdso;
    const struct ct_remote *remote;
    uint64_t inode;
};

static int look_at_map(void *arg, const struct ct_os_map *map) {
    struct found *found = arg;
    found->vdso |= strcmp(map->path, "[vdso]") == 0;
    if (found->address < map->start || found->address >= map->end)
        return 0;
    struct stat information;
    int fd = ct_remote_open_mapped(found->remote, map);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &information), 0);
    assert_int_equal(information.st_ino, map->inode);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    found->text = (map->prot & CT_OS_EXEC) && !(map->prot & CT_OS_WRITE);
    found->inode = map->inode;
    return 0;
}

static void test_memory(void **state) {
    (void)state;
    struct target target;
    uint8_t code[4], other[4];
    start_target(&target, "nanosleep");
    struct ct_remote *remote = open_remote(target.pid);
    struct found found = {.address = target.sum_of_six, .remote = remote};
    assert_int_equal(ct_remote_each_map(remote, look_at_map, &found), 0);
    assert_true(found.text && found.vdso);
    assert_int_equal(ct_remote_read(remote, target.sum_of_six, code, 4), CT_OK);
    assert_true(code[0] || code[1] || code[2] || code[3]);
    assert_int_equal(ct_remote_write(remote, target.sum_of_six, "\x90\x90\x90\x90", 4),
                     CT_OK); /* text is not writable */
    assert_int_equal(ct_remote_read(remote, target.sum_of_six, other, 4), CT_OK);
    assert_memory_equal(other, "\x90\x90\x90\x90", 4);
    assert_int_equal(ct_remote_read(remote, 64, other, 4), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_remote_write(remote, 64, other, 4), CT_ERR_NOT_MAPPED);
    assert_int_not_equal(ct_remote_auxv(remote, AT_ENTRY), 0);
    assert_int_equal(ct_remote_auxv(remote, 9999), 0);
    assert_int_equal(ct_remote_pid(remote), target.pid);
    assert_true(ct_remote_is_alive(remote));
    int copy = ct_remote_fetch_fd(remote, 0);
    assert_true(copy >= 0);
    assert_int_equal(ct_remote_fetch_fd(remote, 12345), CT_ERR_NOT_FOUND);
    close(copy);
    assert_int_equal(end_target(&target, NULL), 0);
    assert_false(ct_remote_is_alive(remote));
    assert_int_equal(ct_remote_read(remote, target.sum_of_six, code, 2), CT_ERR_NOT_FOUND);
    struct ct_remote_error error = {{0}};
    assert_int_equal(ct_remote_stop(remote, LIMIT_MS, &error), CT_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "ended"));
    ct_remote_close(remote);
}

/* A process that executes another program is another one. */
static void test_exec_ends_the_image(void **state) {
    (void)state;
    struct ct_remote_error error;
    int go[2];
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    int pid = fork();
    if (pid == 0) {
        char byte;
        close(go[1]);
        if (read(go[0], &byte, 1) < 0)
            _exit(1);
        execl("/bin/sleep", "sleep", "100", NULL);
        _exit(1);
    }
    close(go[0]);
    struct ct_remote *remote = open_remote(pid);
    assert_true(ct_remote_is_alive(remote));
    close(go[1]);
    for (int i = 0; i < 10000 && ct_remote_is_alive(remote); i++)
        usleep(500);
    assert_false(ct_remote_is_alive(remote));
    assert_int_equal(ct_remote_stop(remote, LIMIT_MS, &error), CT_ERR_NOT_FOUND);
    ct_remote_close(remote);
    wait_for_state(pid, "S"); /* it runs on */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- stops ---- */

static uint64_t nanoseconds(const struct timespec *time) {
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

static void check_stops(const char *mode, int times, size_t threads) {
    struct target target;
    start_target(&target, mode);
    struct ct_remote *remote = open_remote(target.pid);
    for (int i = 0; i < times; i++) {
        struct ct_registers regs;
        struct timespec begin, end;
        clock_gettime(CLOCK_BOOTTIME, &begin);
        stop_remote(remote);
        clock_gettime(CLOCK_BOOTTIME, &end);
        assert_in_range(ct_remote_stopped_since(remote), nanoseconds(&begin), nanoseconds(&end));
        size_t count = ct_remote_thread_count(remote);
        if (threads)
            assert_int_equal(count, threads);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(ct_remote_get_regs(remote, k, &regs), CT_OK);
            assert_int_equal(ct_remote_thread_inner_tid(remote, k), ct_remote_thread_tid(remote, k));
            assert_int_not_equal(ct_registers_sp(&regs), 0);
            if (ct_registers_call_size(&regs) == 0)
                continue;
            uint8_t code[2];
            assert_int_equal(ct_remote_read(remote, ct_registers_pc(&regs), code, 2), CT_OK);
            assert_memory_equal(code, "\x0f\x05", 2);
        }
        assert_int_equal(ct_remote_get_regs(remote, count, &regs), CT_ERR_INVALID_ARGUMENT);
        assert_int_equal(ct_remote_stop(remote, LIMIT_MS, NULL), CT_ERR_BAD_STATE);
        assert_int_equal(ct_remote_resume(remote), CT_OK);
        assert_int_equal(ct_remote_resume(remote), CT_ERR_BAD_STATE);
        if (i % 3 == 0)
            usleep(700);
    }
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

static void test_stop_in_calls(void **state) {
    (void)state;
    static const char *const modes[] = {"nanosleep",  "poll", "epoll", "futex", "sigtimedwait",
                                        "semtimedop", "read", "ppoll", "spin",  "signals"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        check_stops(modes[i], 40, 1);
}

static void test_stop_threads_that_come_and_go(void **state) {
    (void)state;
    check_stops("threads", 100, 0);
}

static void test_stop_many(void **state) {
    (void)state;
    check_stops("crowd", 50, 0);
}

/* Nobody runs while it is stopped, everybody afterwards. */
static void test_stopped_means_stopped(void **state) {
    (void)state;
    struct target target;
    char path[64];
    start_target(&target, "crowd");
    struct ct_remote *remote = open_remote(target.pid);
    stop_remote(remote);
    assert_int_equal(ct_remote_thread_count(remote), 9);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(state_of(ct_remote_thread_tid(remote, i)), 't');
        snprintf(path, sizeof path, "/proc/%d/task/%d", target.pid, ct_remote_thread_tid(remote, i));
        assert_int_equal(access(path, F_OK), 0);
    }
    ct_remote_close(remote); /* resumes */
    wait_for_state(target.pid, "RS");
    assert_int_equal(end_target(&target, NULL), 0);
}

struct ranges {
    uint64_t start[4096], size[4096];
    size_t count;
};

static int note_range(void *arg, const struct ct_os_map *map) {
    struct ranges *r = arg;
    if (r->count < 4096) {
        r->start[r->count] = map->start;
        r->size[r->count++] = map->end - map->start;
    }
    return 0;
}

/* What is mapped where the tracer had its stack is like any other memory (AddressSanitizer looks). */
static void test_memory_after_the_tracer(void **state) {
    (void)state;
    static struct ranges ranges;
    struct target target;
    start_target(&target, "crowd");
    struct ct_remote *remote = open_remote(target.pid);
    stop_remote(remote);
    ct_os_each_map(note_range, &ranges);
    ct_remote_close(remote);
    size_t gone = 0;
    for (size_t i = 0; i < ranges.count; i++) {
        void *at = mmap((void *)ranges.start[i], ranges.size[i], PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at != (void *)ranges.start[i])
            continue;
        memset(at, 1, ranges.size[i]);
        munmap(at, ranges.size[i]);
        gone++;
    }
    assert_true(gone > 0);
    assert_int_equal(end_target(&target, NULL), 0);
}

static void test_main_thread_has_ended(void **state) {
    (void)state;
    struct target target;
    start_target(&target, "leaderless");
    wait_for_state(target.pid, "Z");
    struct ct_remote *remote = open_remote(target.pid);
    for (int i = 0; i < 5; i++) {
        stop_remote(remote);
        assert_int_equal(ct_remote_thread_count(remote), 1);
        assert_int_not_equal(ct_remote_thread_tid(remote, 0), target.pid);
        assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid);
        ct_remote_resume(remote);
    }
    assert_true(ct_remote_is_alive(remote));
    assert_true(ct_remote_fetch_fd(remote, 0) < 0); /* opening it again might do something: it is no memory */
    stop_remote(remote);
    uint64_t name = ct_remote_auxv(remote, AT_SYSINFO_EHDR); /* any text */
    int memory = (int)remote_syscall(remote, SYS_memfd_create, name, 0, 0), copy = ct_remote_fetch_fd(remote, memory);
    assert_true(memory >= 0 && copy >= 0);
    close(copy);
    ct_remote_resume(remote);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

static void test_job_control(void **state) {
    (void)state;
    struct target target;
    start_target(&target, "nanosleep");
    kill(target.pid, SIGSTOP);
    wait_for_state(target.pid, "T");
    struct ct_remote *remote = open_remote(target.pid);
    for (int i = 0; i < 3; i++) {
        stop_remote(remote);
        assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid);
        ct_remote_resume(remote);
        wait_for_state(target.pid, "T");
        sleep_ms(5);
        assert_int_equal(state_of(target.pid), 'T');
    }
    stop_remote(remote);
    kill(target.pid, SIGCONT); /* comes while we hold it */
    ct_remote_resume(remote);
    wait_for_state(target.pid, "RS");
    stop_remote(remote);
    kill(target.pid, SIGSTOP);
    assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid);
    ct_remote_resume(remote);
    wait_for_state(target.pid, "T");
    kill(target.pid, SIGCONT);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* Signals sent before, during and after stops all arrive, each once. */
static void test_signals(void **state) {
    (void)state;
    static const char *const modes[] = {"spin", "signals"}; /* calls would rightly end with EINTR */
    for (size_t m = 0; m < 2; m++) {
        struct target target;
        int handled, sent = 0;
        union sigval value = {0};
        start_target(&target, modes[m]);
        struct ct_remote *remote = open_remote(target.pid);
        for (int i = 0; i < 30; i++) {
            sent += sigqueue(target.pid, SIGRTMIN, value) == 0;
            stop_remote(remote);
            sent += sigqueue(target.pid, SIGRTMIN, value) == 0;
            assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), target.pid);
            sent += sigqueue(target.pid, SIGRTMIN, value) == 0;
            ct_remote_resume(remote);
        }
        ct_remote_close(remote);
        assert_int_equal(end_target(&target, &handled), 0);
        assert_int_equal(handled, sent);
    }
}

static void test_killed_while_stopped(void **state) {
    (void)state;
    struct target target;
    uint64_t none[6] = {0};
    int64_t result;
    start_target(&target, "crowd");
    struct ct_remote *remote = open_remote(target.pid);
    stop_remote(remote);
    kill(target.pid, SIGKILL);
    for (int i = 0; i < 10000 && ct_remote_is_alive(remote); i++)
        usleep(500);
    assert_int_equal(ct_remote_syscall(remote, SYS_getpid, none, &result), CT_ERR_NOT_FOUND);
    assert_false(ct_remote_is_alive(remote));
    ct_remote_resume(remote);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), -SIGKILL);
}

/* ---- registers ---- */

static void test_registers(void **state) {
    (void)state;
    struct target target;
    struct ct_registers regs, again;
    start_target(&target, "nanosleep");
    struct ct_remote *remote = open_remote(target.pid);
    stop_remote(remote);
    assert_int_equal(ct_remote_get_regs(remote, 0, &regs), CT_OK);
    again = regs;
    ct_registers_set_block(&again, 0x123456789000);
    assert_int_equal(ct_remote_set_regs(remote, 0, &again), CT_OK);
    ct_registers_set_block(&again, UINT64_MAX);
    assert_int_equal(ct_remote_set_regs(remote, 0, &again), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_remote_set_regs(remote, 1, &again), CT_ERR_INVALID_ARGUMENT);
    ct_remote_resume(remote);
    sleep_ms(10);
    stop_remote(remote);
    assert_int_equal(ct_remote_get_regs(remote, 0, &again), CT_OK);
    assert_true(ct_registers_block(&again) == 0x123456789000);
    assert_true(ct_registers_thread_base(&again) == ct_registers_thread_base(&regs));
    ct_registers_set_block(&again, 0);
    assert_int_equal(ct_remote_set_regs(remote, 0, &again), CT_OK);
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

#ifdef __x86_64__
enum { CALL_SIZE = 2 };
static const uint8_t call_and_jump[8] = {0x0f, 0x05, 0xff, 0x25, 0, 0, 0, 0}; /* syscall; jmp *0(%rip) */

static bool is_in_call(struct ct_remote *remote, const struct ct_registers *regs) {
    (void)remote;
    return ct_registers_call_size(regs) == CALL_SIZE;
}
#else
enum { CALL_SIZE = 4 };
static const uint32_t call_and_jump[4] = {0xd4000001, 0x58000070, 0xd61f0200}; /* svc; ldr x16, . + 12; br x16 */

/* The kernel has forgotten that there was a call: only the instruction shows it. */
static bool is_in_call(struct ct_remote *remote, const struct ct_registers *regs) {
    uint32_t word;
    return ct_remote_read(remote, ct_registers_pc(regs), &word, sizeof word) == CT_OK && word == call_and_jump[0];
}
#endif

/* A thread in a call, moved onto a copy of the instruction and what follows it. */
static void test_move_a_thread_in_a_call(void **state) {
    (void)state;
    struct target target;
    struct ct_registers regs;
    start_target(&target, "epoll");
    struct ct_remote *remote = open_remote(target.pid);
    do {
        ct_remote_resume(remote);
        usleep(300);
        stop_remote(remote);
        assert_int_equal(ct_remote_get_regs(remote, 0, &regs), CT_OK);
    } while (!is_in_call(remote, &regs));
    uint64_t map[6] = {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};
    int64_t copy;
    assert_int_equal(ct_remote_syscall(remote, SYS_mmap, map, &copy), CT_OK);
    uint8_t code[sizeof call_and_jump + 8];
    uint64_t back = ct_registers_pc(&regs) + CALL_SIZE;
    memcpy(code, call_and_jump, sizeof call_and_jump);
    memcpy(code + sizeof call_and_jump, &back, 8);
    assert_int_equal(ct_remote_write(remote, (uint64_t)copy, code, sizeof code), CT_OK);
    ct_registers_set_pc(&regs, (uint64_t)copy);
    assert_int_equal(ct_remote_set_regs(remote, 0, &regs), CT_OK);
    assert_int_equal(ct_remote_get_regs(remote, 0, &regs), CT_OK);
    assert_true(ct_registers_pc(&regs) == (uint64_t)copy && is_in_call(remote, &regs));
    ct_remote_close(remote);
    assert_int_equal(end_target(&target, NULL), 0);
}

/* ---- namespaces ---- */

static void run_in_namespace(const char *path, int ready) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        _exit(77);
    int pid = fork();
    if (pid == 0) {
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        mount("tmpfs", "/mnt", "tmpfs", 0, NULL);
        int from = open(path, O_RDONLY), to = open("/mnt/inner", O_CREAT | O_WRONLY, 0700);
        char buffer[65536];
        for (ssize_t size; (size = read(from, buffer, sizeof buffer)) > 0;)
            if (write(to, buffer, (size_t)size) != size)
                _exit(1);
        close(to);
        execl("/mnt/inner", "/mnt/inner", "nanosleep", NULL);
        _exit(1);
    }
    if (write(ready, &pid, sizeof pid) != sizeof pid)
        _exit(1);
    int status;
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int find_inner(void *arg, const struct ct_os_map *map) {
    struct found *found = arg;
    if (strcmp(map->path, "/mnt/inner") != 0)
        return 0;
    int fd = ct_remote_open_mapped(found->remote, map);
    assert_true(fd >= 0);
    close(fd);
    struct ct_os_map by_name = *map;
    by_name.start++; /* no such link: the name has to do */
    fd = ct_remote_open_mapped(found->remote, &by_name);
    assert_true(fd >= 0);
    close(fd);
    by_name.inode++; /* another file of that name is refused */
    assert_true(ct_remote_open_mapped(found->remote, &by_name) < 0);
    found->text = true;
    return 0;
}

static char told;

static void *wait_until_told(void *fds) {
    while (read(((int *)fds)[0], &told, 1) < 0)
        ;
    _exit(0);
}

static int count_maps(void *arg, const struct ct_os_map *map) {
    (void)map;
    ++*(int *)arg;
    return 0;
}

/* The process was opened before its main thread ended. */
static void test_main_thread_ends_meanwhile(void **state) {
    (void)state;
    int end[2], leave[2], before = 0, after = 0, gone = 0;
    assert_int_equal(pipe(end), 0);
    assert_int_equal(pipe(leave), 0);
    int pid = fork();
    if (pid == 0) {
        pthread_t thread;
        char byte;
        if (pthread_create(&thread, NULL, wait_until_told, end) || read(leave[0], &byte, 1) != 1)
            _exit(1);
        (void)syscall(SYS_exit, 0);
    }
    struct ct_remote *remote = open_remote(pid);
    assert_int_equal(ct_remote_each_map(remote, count_maps, &before), 0);
    assert_int_equal(write(leave[1], "", 1), 1);
    wait_for_state(pid, "Z");
    assert_int_equal(ct_remote_each_map(remote, count_maps, &after), 0);
    assert_true(before > 0 && after > 0);
    assert_int_equal(write(end[1], "", 1), 1);
    waitpid(pid, NULL, 0);
    assert_int_equal(ct_remote_each_map(remote, count_maps, &gone), CT_ERR_NOT_FOUND);
    assert_int_equal(gone, 0);
    ct_remote_close(remote);
    for (int i = 0; i < 2; i++) {
        close(end[i]);
        close(leave[i]);
    }
}

static void test_other_namespaces(void **state) {
    (void)state;
    int in[2], out[2], tell[2], inner = 0, status;
    assert_int_equal(pipe(in) | pipe(out) | pipe2(tell, O_CLOEXEC), 0);
    int outer = fork();
    if (outer == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        run_in_namespace(target_path, tell[1]);
    }
    close(in[0]);
    close(out[1]);
    close(tell[1]);
    if (read(tell[0], &inner, sizeof inner) != sizeof inner) { /* not allowed here */
        waitpid(outer, &status, 0);
        skip();
    }
    char line[128] = "";
    char children[64];
    assert_true(read(out[0], line, sizeof line - 1) > 0); /* it runs */
    snprintf(children, sizeof children, "/proc/%d/task/%d/children", outer, outer);
    FILE *file = fopen(children, "r");
    assert_int_equal(fscanf(file, "%d", &inner), 1);
    fclose(file);
    struct ct_remote *remote = open_remote(inner);
    struct found found = {.remote = remote};
    assert_int_equal(ct_remote_each_map(remote, find_inner, &found), 0);
    assert_true(found.text);
    stop_remote(remote);
    assert_int_equal(ct_remote_thread_tid(remote, 0), inner);
    assert_int_equal(ct_remote_thread_inner_tid(remote, 0), 1);
    assert_int_equal(remote_syscall(remote, SYS_gettid, 0, 0, 0), 1);
    ct_remote_close(remote);
    close(in[1]);
    waitpid(outer, &status, 0);
    assert_int_equal(status, 0);
    close(out[0]);
    close(tell[0]);
}

/* A kernel that does not have what shows registers: the tracer, which inherits the filter, finds none. */
static void forbid_registers(void) {
#if defined(__x86_64__)
    enum { REQUEST = PTRACE_GETREGS, SET = 0, FAILS = ENOSYS };
#else
    enum { REQUEST = PTRACE_GETREGSET, SET = 0x401 /* NT_ARM_TLS */, FAILS = EINVAL };
#endif
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REQUEST, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SET, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | FAILS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static int refused_without_registers(int pid) {
    struct ct_remote *remote;
    struct ct_remote_error error = {{0}};
    char *argv[] = {(char *)target_path, NULL};
    const struct ct_remote_spawn what = {.path = target_path, .argv = argv};
    forbid_registers();
    bool good = ct_remote_open(&remote, pid, &error) == CT_OK &&
                ct_remote_stop(remote, LIMIT_MS, &error) == CT_ERR_UNSUPPORTED &&
                strstr(error.text, "does not show the registers of threads") && !ct_remote_is_stopped(remote);
    if (good)
        ct_remote_close(remote);
    good = good && ct_remote_spawn(&remote, &what, LIMIT_MS, &error) == CT_ERR_UNSUPPORTED &&
           strstr(error.text, "does not show the registers of threads; it runs on unrecorded");
    if (!good)
        fprintf(stderr, "%s\n", error.text);
    return !good;
}

static void test_no_registers(void **state) {
    (void)state;
    struct target target;
    int status;
    start_target(&target, "nanosleep");
    int pid = fork();
    if (pid == 0)
        _exit(refused_without_registers(target.pid));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(end_target(&target, NULL), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_traced_already),
        cmocka_unit_test(test_traced_meanwhile),
        cmocka_unit_test(test_traced_by_one_of_ours),
        cmocka_unit_test(test_other_users_process),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_exec_ends_the_image),
        cmocka_unit_test(test_stop_in_calls),
        cmocka_unit_test(test_stop_threads_that_come_and_go),
        cmocka_unit_test(test_stop_many),
        cmocka_unit_test(test_stopped_means_stopped),
        cmocka_unit_test(test_memory_after_the_tracer),
        cmocka_unit_test(test_main_thread_has_ended),
        cmocka_unit_test(test_main_thread_ends_meanwhile),
        cmocka_unit_test(test_job_control),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_killed_while_stopped),
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_move_a_thread_in_a_call),
        cmocka_unit_test(test_other_namespaces),
        cmocka_unit_test(test_no_registers),
    };
    if (argc < 2)
        return 2;
    target_path = argv[1];
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ct_remote_never_vfork = true; /* the same with a thread as the tracer */
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    return failed;
}
