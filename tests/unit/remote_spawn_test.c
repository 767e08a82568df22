/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that we start: stopped before their first constructor, whatever they are linked with; the same as without us
 * in all that they can see; refused with a reason; running on when we die. Arguments: remote_target, then builds of
 * remote_start. */
#include "isa/machine.h"
#include "remote_util.h"

#include <dirent.h>
#include <elf.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char **starts; /* builds of remote_start, up to a NULL */
static char directory[] = "/tmp/remote_spawn_XXXXXX";

static const char *in_directory(const char *name) {
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", directory, name);
    return path[turn];
}

/* Descriptor 3 of what we start, read from the other end. */
struct reader {
    int fd;
    int saved;
};

static void open_reader(struct reader *reader) {
    int fds[2];
    assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    reader->fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 100);
    reader->saved = fcntl(3, F_DUPFD_CLOEXEC, 100);
    int write_end = fcntl(fds[1], F_DUPFD_CLOEXEC, 100);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(dup2(write_end, 3), 3);
    close(write_end);
}

/* The program has it now; nobody else. */
static void close_writer(struct reader *reader) {
    close(3);
    if (reader->saved >= 0) {
        dup2(reader->saved, 3);
        close(reader->saved);
    }
}

static const char *read_all(struct reader *reader) {
    static char text[256];
    ssize_t size = read(reader->fd, text, sizeof text - 1);
    text[size > 0 ? size : 0] = 0;
    return text;
}

static struct ct_remote *spawn(const char *path, char *const *argv) {
    struct ct_remote *remote = NULL;
    struct ct_remote_error error = {{0}};
    struct ct_remote_spawn what = {.path = path, .argv = argv};
    int status = ct_remote_spawn(&remote, &what, LIMIT_MS, &error);
    if (status != CT_OK)
        print_error("%s\n", error.text);
    assert_int_equal(status, CT_OK);
    return remote;
}

static int wait_status(int pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* ---- where it stops ---- */

static int count_libraries(void *arg, const struct ct_os_map *map) {
    *(int *)arg += strstr(map->path, "libc") != NULL;
    return 0;
}

static void check_start(char *path) {
    struct reader reader;
    char *argv[] = {path, NULL, NULL};
    open_reader(&reader);
    struct ct_remote *remote = spawn(path, argv);
    close_writer(&reader);
    struct ct_registers regs;
    uint8_t code[8];
    int libraries = 0;
    assert_true(ct_remote_is_stopped(remote) && ct_remote_is_alive(remote));
    assert_int_equal(ct_remote_thread_count(remote), 1);
    assert_int_equal(ct_remote_thread_tid(remote, 0), ct_remote_pid(remote));
    assert_int_equal(ct_remote_get_regs(remote, 0, &regs), CT_OK);
    assert_int_equal(ct_registers_call_size(&regs), 0);
    assert_int_equal(ct_remote_read(remote, ct_registers_pc(&regs), code, sizeof code), CT_OK);
    assert_memory_not_equal(code, "\xb8\x27\x00\x00\x00\x0f\x05", 7); /* what we had put there is gone */
    assert_string_equal(read_all(&reader), "");
    (void)ct_remote_each_map(remote, count_libraries, &libraries);
    if (ct_remote_auxv(remote, AT_BASE) != 0)
        assert_true(libraries > 0); /* the loader has been at work */
    else
        assert_true(ct_registers_pc(&regs) == ct_remote_auxv(remote, AT_ENTRY));
    assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), ct_remote_pid(remote));
    int pid = ct_remote_pid(remote);
    assert_int_equal(ct_remote_resume(remote), CT_OK);
    int status = wait_status(pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    assert_string_equal(read_all(&reader), "constructor\nmain\n");
    close(reader.fd);
    assert_false(ct_remote_is_alive(remote));
    ct_remote_close(remote);
}

static void test_stops_before_constructors(void **state) {
    (void)state;
    for (size_t i = 0; starts[i]; i++)
        check_start(starts[i]);
}

/* Stopped, resumed, and stopped again later; killed by a signal of its own; killed by us while it is stopped. */
static void test_afterwards(void **state) {
    (void)state;
    struct reader reader;
    char argument[] = "x", *argv[] = {starts[0], argument, NULL};
    open_reader(&reader);
    struct ct_remote *remote = spawn(starts[0], argv);
    int pid = ct_remote_pid(remote);
    ct_remote_close(remote);
    int status = wait_status(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    remote = spawn(starts[0], argv);
    pid = ct_remote_pid(remote);
    kill(pid, SIGKILL);
    status = wait_status(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ct_remote_close(remote);
    close_writer(&reader);
    close(reader.fd);
    char mode[] = "crowd", path[256], *target_argv[] = {path, mode, NULL};
    snprintf(path, sizeof path, "%s", target_path);
    int in[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    int saved = fcntl(0, F_DUPFD_CLOEXEC, 100), out = fcntl(1, F_DUPFD_CLOEXEC, 100);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fflush(stdout);
    dup2(in[0], 0);
    dup2(null, 1);
    remote = spawn(path, target_argv);
    dup2(saved, 0);
    dup2(out, 1);
    close(saved);
    close(out);
    close(null);
    close(in[0]);
    ct_remote_resume(remote);
    for (int i = 0; i < 5; i++) {
        sleep_ms(10);
        stop_remote(remote);
        assert_int_equal(remote_syscall(remote, SYS_getpid, 0, 0, 0), ct_remote_pid(remote));
        ct_remote_resume(remote);
    }
    close(in[1]);
    assert_int_equal(wait_status(ct_remote_pid(remote)), 0);
    ct_remote_close(remote);
}

/* ---- what it can see ---- */

/* Everything that a shell script can find out about itself, with and without us. */
static void write_file(const char *path, const char *text, mode_t mode) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static const char *run_and_read(const char *path, char *const *argv, bool traced) {
    static char text[2][4096];
    char *to = text[traced];
    int fds[2], status;
    size_t size = 0;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    int saved = fcntl(1, F_DUPFD_CLOEXEC, 100);
    fflush(stdout);
    dup2(fds[1], 1);
    if (traced) {
        struct ct_remote *remote = spawn(path, argv);
        int pid = ct_remote_pid(remote);
        ct_remote_close(remote);
        dup2(saved, 1);
        close(fds[1]);
        for (ssize_t n; (n = read(fds[0], to + size, 4095 - size)) > 0;)
            size += (size_t)n;
        status = wait_status(pid);
    } else {
        int pid = fork();
        if (pid == 0) {
            execv(path, argv);
            _exit(1);
        }
        dup2(saved, 1);
        close(fds[1]);
        for (ssize_t n; (n = read(fds[0], to + size, 4095 - size)) > 0;)
            size += (size_t)n;
        status = wait_status(pid);
    }
    to[size] = 0;
    close(saved);
    close(fds[0]);
    assert_int_equal(status, 0);
    return to;
}

static void test_sees_nothing(void **state) {
    (void)state;
    const char *script = in_directory("look");
    char *argv[] = {"look", "one", "two words", NULL};
    write_file(script,
               "#!/bin/sh\n"
               "echo \"$0 $# $1/$2\"; ls /proc/self/fd; grep -E '^(Sig[BICP]|Shd|Tracer|Seccomp|NoNew|Cap)' "
               "/proc/self/status\n"
               "ulimit -a; umask; pwd; env | grep -v '^_=' | sort | cksum; cat /proc/self/oom_score_adj "
               "/proc/self/personality\n"
               "trap '' 2; ps -o pgid=,sid=,tty= -p $$ 2>/dev/null | sed 's/^ *//'\n",
               0755);
    char path[256];
    snprintf(path, sizeof path, "%s", script);
    signal(SIGHUP, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    const char *without = run_and_read(path, argv, false), *with = run_and_read(path, argv, true);
    signal(SIGHUP, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    assert_non_null(strstr(without, "TracerPid:\t0"));
    assert_string_equal(with, without);
}

/* Through env: what runs, and with which arguments, is the same; but it is the interpreter that we have in hand. */
static void check_env(const char *name, const char *first_line, const char *program) {
    char path[256], text[512], link[64], *argv[] = {"name", "one", "two words", NULL};
    snprintf(path, sizeof path, "%s", in_directory(name));
    snprintf(text, sizeof text, "%s\necho $0 $# \"$2\"; tr '\\0' ':' < /proc/$$/cmdline; cat /proc/$$/comm\n",
             first_line);
    write_file(path, text, 0755);
    const char *without = run_and_read(path, argv, false), *with = run_and_read(path, argv, true);
    assert_non_null(strstr(without, "two words"));
    assert_string_equal(with, without);
    struct ct_remote *remote = spawn(path, argv);
    int pid = ct_remote_pid(remote);
    snprintf(link, sizeof link, "/proc/%d/comm", pid);
    FILE *file = fopen(link, "r");
    char comm[32] = "";
    assert_non_null(fgets(comm, sizeof comm, file));
    fclose(file);
    comm[strcspn(comm, "\n")] = 0;
    assert_string_equal(comm, program);
    kill(pid, SIGKILL);
    ct_remote_close(remote);
    (void)wait_status(pid);
}

static void test_env_scripts(void **state) {
    (void)state;
    check_env("env_plain", "#!/usr/bin/env sh", "sh");
    check_env("env_words", "#!/usr/bin/env -S sh -e", "sh");
    check_env("env_assignment", "#!/usr/bin/env -S A=b sh -e", "env_assignment"); /* too much for us: env itself */
}

static void do_nothing(int number) {
    (void)number;
}

/* A caller with handlers and a mask of its own says what its parent gave it. */
static void test_given_signals(void **state) {
    (void)state;
    char grep[] = "grep", pattern[] = "^Sig[BI]", file_name[] = "/proc/self/status", path[256];
    snprintf(path, sizeof path, "%s", in_directory("signals"));
    char *argv[] = {grep, pattern, file_name, NULL};
    struct ct_remote *remote = NULL;
    struct ct_remote_spawn what = {.path = "grep",
                                   .argv = argv,
                                   .set_signals = true,
                                   .signal_mask = 1 << (SIGUSR1 - 1),
                                   .ignored_signals = 1 << (SIGINT - 1)};
    signal(SIGINT, do_nothing);
    fflush(stdout);
    int saved = fcntl(1, F_DUPFD_CLOEXEC, 100), to = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    dup2(to, 1);
    assert_int_equal(ct_remote_spawn(&remote, &what, LIMIT_MS, NULL), CT_OK);
    dup2(saved, 1);
    close(saved);
    close(to);
    signal(SIGINT, SIG_DFL);
    int pid = ct_remote_pid(remote);
    ct_remote_close(remote);
    assert_int_equal(wait_status(pid), 0);
    unsigned long long blocked = 0, ignored = 0;
    FILE *file = fopen(path, "r");
    assert_int_equal(fscanf(file, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    fclose(file);
    assert_int_equal(blocked, 1 << (SIGUSR1 - 1));
    assert_int_equal(ignored, 1 << (SIGINT - 1));
}

static size_t count_descriptors(void) {
    size_t count = 0;
    DIR *list = opendir("/proc/self/fd");
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

static void test_leaves_nothing_open(void **state) {
    (void)state;
    char name[] = "true", *argv[] = {name, NULL};
    size_t before = count_descriptors();
    for (int i = 0; i < 5; i++) {
        struct ct_remote *remote = spawn("true", argv);
        int pid = ct_remote_pid(remote);
        ct_remote_close(remote);
        assert_int_equal(wait_status(pid), 0);
    }
    struct ct_remote *remote;
    struct ct_remote_spawn what = {.path = "/nonexistent", .argv = argv};
    assert_int_not_equal(ct_remote_spawn(&remote, &what, LIMIT_MS, NULL), CT_OK);
    assert_int_equal(count_descriptors(), before);
}

/* ---- refusals ---- */

static void check_refused(const char *path, int status, const char *word) {
    struct ct_remote *remote = NULL;
    struct ct_remote_error error = {{0}};
    char name[] = "name", *argv[] = {name, NULL};
    struct ct_remote_spawn what = {.path = path, .argv = argv};
    int result = ct_remote_spawn(&remote, &what, LIMIT_MS, &error);
    if (result != status || !strstr(error.text, word))
        print_error("%s: %d %s\n", path, result, error.text);
    assert_int_equal(result, status);
    assert_non_null(strstr(error.text, word));
    assert_null(remote);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

/* A copy of a program with some bytes of its header changed. */
static void write_variant(const char *from, const char *to, size_t offset, const void *bytes, size_t size) {
    static char content[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0755);
    assert_true(in >= 0 && out >= 0);
    ssize_t count = read(in, content, sizeof content);
    assert_true(count > 64);
    memcpy(content + offset, bytes, size);
    assert_int_equal(write(out, content, (size_t)count), count);
    close(in);
    close(out);
}

/* A program as Android's are: no more of it is there than is looked at. */
static void write_bionic(const char *path) {
    static const char linker[] = "/system/bin/linker64";
    struct {
        Elf64_Ehdr elf;
        Elf64_Phdr segment;
        char linker[sizeof linker];
    } file = {.elf = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                      .e_type = ET_DYN,
                      .e_machine = ct_machine_host()->elf,
                      .e_version = EV_CURRENT,
                      .e_phoff = sizeof(Elf64_Ehdr),
                      .e_ehsize = sizeof(Elf64_Ehdr),
                      .e_phentsize = sizeof(Elf64_Phdr),
                      .e_phnum = 1},
              .segment = {.p_type = PT_INTERP, .p_offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr)}};
    memcpy(file.linker, linker, sizeof linker);
    int out = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0755);
    assert_true(out >= 0);
    assert_int_equal(write(out, &file, sizeof file), sizeof file);
    close(out);
}

static void test_refusals(void **state) {
    (void)state;
    bool is_arm = ct_machine_host() == &ct_machine_a64;
    uint16_t other = is_arm ? EM_X86_64 : EM_AARCH64, i386 = EM_386, arm = EM_ARM, object = ET_REL;
    check_refused("no-such-program-anywhere", CT_ERR_NOT_FOUND, "PATH");
    check_refused("./no/such", CT_ERR_NOT_FOUND, "no file");
    check_refused("", CT_ERR_NOT_FOUND, "empty");
    check_refused(directory, CT_ERR_SPAWN_FAILED, "directory");
    check_refused("/dev/null", CT_ERR_SPAWN_FAILED, "regular");
    write_file(in_directory("plain"), "echo hi\n", 0644);
    check_refused(in_directory("plain"), CT_ERR_PERMISSION_DENIED, "chmod +x");
    write_file(in_directory("script"), "echo hi\n", 0755);
    check_refused(in_directory("script"), CT_ERR_SPAWN_FAILED, "interpreter line");
    write_file(in_directory("empty"), "", 0755);
    check_refused(in_directory("empty"), CT_ERR_SPAWN_FAILED, "empty");
    write_file(in_directory("binary"), "\x01\x02\x03\x04 no program\n", 0755);
    check_refused(in_directory("binary"), CT_ERR_SPAWN_FAILED, "neither");
    write_file(in_directory("orphan"), "#!/nonexistent/interpreter -x\n", 0755);
    check_refused(in_directory("orphan"), CT_ERR_NOT_FOUND, "/nonexistent/interpreter");
    write_file(in_directory("lost"), "#!/usr/bin/env no-such-interpreter\n", 0755);
    check_refused(in_directory("lost"), CT_ERR_NOT_FOUND, "no-such-interpreter");
    write_file(in_directory("nobody"), "#! \n", 0755);
    check_refused(in_directory("nobody"), CT_ERR_SPAWN_FAILED, "names no interpreter");
    char loop[300];
    snprintf(loop, sizeof loop, "#!%s/loop\n", directory);
    write_file(in_directory("loop"), loop, 0755);
    check_refused(in_directory("loop"), CT_ERR_SPAWN_FAILED, "too many");
    write_variant(starts[0], in_directory("other"), offsetof(Elf64_Ehdr, e_machine), &other, sizeof other);
    check_refused(in_directory("other"), CT_ERR_UNSUPPORTED, is_arm ? "an x86_64 program" : "an arm64 program");
    write_variant(starts[0], in_directory("arm"), offsetof(Elf64_Ehdr, e_machine), &arm, sizeof arm);
    check_refused(in_directory("arm"), CT_ERR_UNSUPPORTED, "a 32-bit arm program");
    write_bionic(in_directory("android"));
    check_refused(in_directory("android"), CT_ERR_UNSUPPORTED, "Bionic");
    write_variant(starts[0], in_directory("old"), offsetof(Elf64_Ehdr, e_machine), &i386, sizeof i386);
    check_refused(in_directory("old"), CT_ERR_UNSUPPORTED, "32-bit program");
    write_variant(starts[0], in_directory("object"), offsetof(Elf64_Ehdr, e_type), &object, sizeof object);
    check_refused(in_directory("object"), CT_ERR_SPAWN_FAILED, "no program");
    write_file(in_directory("short"), "\177ELF", 0755);
    check_refused(in_directory("short"), CT_ERR_UNSUPPORTED, "an incomplete ELF");
}

static void test_refused_privileges(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    char path[256];
    snprintf(path, sizeof path, "%s", in_directory("setuid"));
    write_variant(starts[0], path, 0, "\177ELF", 4);
    assert_int_equal(chmod(directory, 0755) | chmod(path, 04755), 0);
    int pid = fork();
    if (pid == 0) {
        struct ct_remote *remote;
        struct ct_remote_error error = {{0}};
        char *argv[] = {path, NULL};
        struct ct_remote_spawn what = {.path = path, .argv = argv};
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(1);
        int status = ct_remote_spawn(&remote, &what, LIMIT_MS, &error);
        _exit(status == CT_ERR_SPAWN_FAILED && strstr(error.text, "setuid") && strstr(error.text, "root") ? 0 : 2);
    }
    assert_int_equal(wait_status(pid), 0);
}

static void test_ends_while_loading(void **state) {
    (void)state;
    struct ct_remote *remote = NULL;
    struct ct_remote_error error = {{0}};
    char name[] = "true", *argv[] = {name, NULL}, preload[] = "LD_TRACE_LOADED_OBJECTS=1", *envp[] = {preload, NULL};
    struct ct_remote_spawn what = {.path = "true", .argv = argv, .envp = envp};
    fflush(stdout);
    int saved = fcntl(1, F_DUPFD_CLOEXEC, 100), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, 1);
    int status = ct_remote_spawn(&remote, &what, LIMIT_MS, &error);
    dup2(saved, 1);
    close(saved);
    close(null);
    assert_int_equal(status, CT_ERR_SPAWN_FAILED);
    assert_non_null(strstr(error.text, "exit code 0 while it was being loaded"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* No time at all: it runs on as if nothing had been. */
static void test_timeout(void **state) {
    (void)state;
    for (size_t i = 0; starts[i]; i++) {
        struct ct_remote *remote = NULL;
        struct ct_remote_error error = {{0}};
        struct reader reader;
        char *argv[] = {starts[i], NULL};
        struct ct_remote_spawn what = {.path = starts[i], .argv = argv};
        open_reader(&reader);
        int result = ct_remote_spawn(&remote, &what, 0, &error), status = 0;
        close_writer(&reader);
        if (result == CT_OK) /* it was faster */
            ct_remote_close(remote);
        else
            assert_int_equal(result, CT_ERR_TIMEOUT);
        assert_true(waitpid(-1, &status, 0) > 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
        assert_string_equal(read_all(&reader), "constructor\nmain\n");
        close(reader.fd);
    }
}

/* ---- death ---- */

static void await_death(int code) {
    while (steps_left <= 0)
        pause(); /* the kill is on its way */
    _exit(code);
}

/* False: the controller came to its end before. */
static bool spawn_and_die(char *path, int n, bool alone) {
    struct reader reader;
    int status = 0;
    bool died = false;
    open_reader(&reader);
    int child = fork();
    if (child == 0) {
        char *argv[] = {path, NULL};
        struct ct_remote *remote = NULL;
        struct ct_remote_spawn what = {.path = path, .argv = argv};
        die_at(n, alone);
        if (ct_remote_spawn(&remote, &what, LIMIT_MS, NULL) != CT_OK)
            await_death(1);
        uint64_t none[6] = {0};
        int64_t result = 0;
        if (ct_remote_syscall(remote, SYS_getpid, none, &result) != CT_OK || result != ct_remote_pid(remote))
            await_death(2);
        ct_remote_close(remote);
        await_death(0);
    }
    close_writer(&reader);
    bool ended = false;
    for (int pid; (pid = waitpid(-1, &status, 0)) > 0;) { /* what it has left is ours now: we are the subreaper */
        if (pid == child) {
            died = WIFSIGNALED(status);
            assert_true(died || status == 0);
        } else if (WIFEXITED(status) && WEXITSTATUS(status) == 42) {
            ended = true; /* the program */
        } else {
            /* the tracer; SIGALRM: what it had to complete took it too long */
            assert_true(status == 0 || WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGALRM);
        }
    }
    assert_true(ended);
    assert_string_equal(read_all(&reader), "constructor\nmain\n");
    close(reader.fd);
    return died;
}

static void test_death_at_each_step(void **state) {
    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (size_t i = 0; starts[i]; i++) {
        int steps = 1;
        while (spawn_and_die(starts[i], steps, steps % 2))
            steps += steps < 40 ? 1 : 3; /* in the middle there is nothing but the loader's own calls */
        assert_true(steps > 10);
        for (int last = steps; last > steps - 45 && last > 0; last--)
            (void)spawn_and_die(starts[i], last, last % 4 >= 2);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stops_before_constructors),
        cmocka_unit_test(test_afterwards),
        cmocka_unit_test(test_sees_nothing),
        cmocka_unit_test(test_given_signals),
        cmocka_unit_test(test_env_scripts),
        cmocka_unit_test(test_leaves_nothing_open),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refused_privileges),
        cmocka_unit_test(test_ends_while_loading),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_death_at_each_step),
    };
    if (argc < 3 || !mkdtemp(directory))
        return 2;
    target_path = argv[1];
    starts = argv + 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ct_remote_never_vfork = true; /* the same with a thread as the tracer */
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0 || failed;
}
