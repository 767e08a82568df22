/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, maps, poke and peek. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "contrail/status.h"
#include "os/os.h"

/* ---- helpers ---- */

struct find {
    uint64_t address;
    struct ct_os_map map;
    char path[4096];
    int found;
};

static int find_map(void *arg, const struct ct_os_map *map) {
    struct find *find = arg;
    if (find->address < map->start || find->address >= map->end)
        return 0;
    find->map = *map;
    snprintf(find->path, sizeof find->path, "%s", map->path);
    find->found = 1;
    return 1;
}

static struct find map_of(const void *address) {
    struct find find = {.address = (uint64_t)(uintptr_t)address};
    ct_os_each_map(find_map, &find);
    return find;
}

static uint64_t free_place(size_t size) {
    void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    munmap(at, size);
    return (uint64_t)(uintptr_t)at;
}

static int count_fds(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* mov eax, value; ret */
static void write_function(uint8_t *at, uint32_t value) {
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

static int call_at(uint64_t address) {
    int (*function)(void);
    memcpy(&function, &address, sizeof function);
    return function();
}

/* Runs `body` in a child process; its result is the exit status. */
static int in_child(int (*body)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- memory ---- */

static void test_alloc(void **state) {
    (void)state;
    size_t size = 3 * ct_os_page_size();
    assert_int_equal(ct_os_page_size(), sysconf(_SC_PAGESIZE));
    uint8_t *p = ct_os_alloc(size, CT_OS_READ | CT_OS_WRITE);
    assert_non_null(p);
    p[size - 1] = 1;
    assert_int_equal(ct_os_protect(p, size, CT_OS_READ), CT_OK);
    assert_int_equal(map_of(p).map.prot, CT_OS_READ);
    assert_int_equal(ct_os_free(p, size), CT_OK);
    assert_int_equal(map_of(p).found, 0);
    assert_null(ct_os_alloc((size_t)1 << 62, CT_OS_READ));
}

static void test_alloc_large(void **state) {
    (void)state;
    size_t size = 3 * (size_t)CT_OS_LARGE;
    uint8_t *p = ct_os_alloc_large(size, CT_OS_READ | CT_OS_WRITE);
    assert_non_null(p);
    assert_int_equal((uint64_t)p % CT_OS_LARGE, 0);
    for (size_t i = 0; i < size; i += CT_OS_LARGE / 2)
        assert_int_equal(p[i]++, 0);
    assert_int_equal(ct_os_free(p, size), CT_OK);
    assert_int_equal(map_of(p).found, 0);
    assert_null(ct_os_alloc_large((size_t)1 << 62, CT_OS_READ));
}

static void test_reserve_never_replaces(void **state) {
    (void)state;
    size_t page = ct_os_page_size();
    uint64_t at = free_place(4 * page);
    assert_int_equal(ct_os_reserve_at(at, 4 * page), CT_OK);
    assert_int_equal(map_of((void *)at).map.prot, 0);
    assert_int_equal(ct_os_reserve_at(at + page, page), CT_ERR_BUSY);
    assert_int_equal(ct_os_reserve_at(at - page, 2 * page), CT_ERR_BUSY);
    assert_int_equal(ct_os_commit(at + page, page, CT_OS_READ | CT_OS_WRITE), CT_OK);
    memset((void *)(at + page), 7, page);
    assert_int_equal(map_of((void *)at).map.prot, 0);
    assert_int_equal(map_of((void *)(at + 2 * page)).map.prot, 0);
    assert_int_equal(ct_os_decommit(at + page, page), CT_OK);
    assert_int_equal(map_of((void *)(at + page)).map.prot, 0);
    assert_int_equal(ct_os_free((void *)at, 4 * page), CT_OK);
}

static void check_dual(size_t size) {
    uint64_t at = free_place(size);
    void *rw = NULL;
    int fds = count_fds();
    assert_int_equal(ct_os_reserve_at(at, size), CT_OK);
    assert_int_equal(ct_os_commit_dual(at, size, &rw), CT_OK);
    assert_int_equal(count_fds(), fds);
    write_function((uint8_t *)rw + 100, 42);
    assert_int_equal(call_at(at + 100), 42);
    assert_int_equal(map_of((void *)at).map.prot, CT_OS_READ | CT_OS_EXEC);
    assert_int_equal(map_of(rw).map.prot, CT_OS_READ | CT_OS_WRITE);
    ct_os_free((void *)at, size);
    ct_os_free(rw, size);
}

static void test_dual(void **state) {
    (void)state;
    check_dual(64 * ct_os_page_size());
}

/* A filter that refuses one system call with EPERM. */
static int forbid(int number) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int dual_from_file(void) {
    size_t size = 64 * ct_os_page_size();
    uint64_t at = free_place(size);
    void *rw = NULL;
    if (forbid(SYS_mremap) != 0)
        return 1;
    if (ct_os_reserve_at(at, size) != CT_OK || ct_os_commit_dual(at, size, &rw) != CT_OK)
        return 2;
    write_function((uint8_t *)rw + 100, 43);
    struct find map = map_of((void *)at);
    return call_at(at + 100) != 43 ? 3 : strncmp(map.path, "/memfd:", 7) != 0 ? 4 : !map.map.deleted ? 5 : 0;
}

/* Without the file the limit cannot hurt, with it we must not try: SIGXFSZ would kill the program. */
static int dual_with_file_limit(void) {
    struct rlimit limit = {1, 1};
    size_t size = 64 * ct_os_page_size();
    uint64_t at = free_place(size);
    void *rw = NULL;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || ct_os_reserve_at(at, size) != CT_OK)
        return 1;
    if (ct_os_commit_dual(at, size, &rw) != CT_OK)
        return 2;
    if (forbid(SYS_mremap) != 0)
        return 3;
    at += size;
    if (ct_os_reserve_at(free_place(size), size) != CT_OK)
        return 4;
    at = free_place(size);
    if (ct_os_reserve_at(at, size) != CT_OK || ct_os_commit_dual(at, size, &rw) != CT_ERR_PERMISSION_DENIED)
        return 5;
    return map_of((void *)at).map.prot == 0 ? 0 : 6;
}

static void test_dual_fallbacks(void **state) {
    (void)state;
    assert_int_equal(in_child(dual_from_file), 0);
    assert_int_equal(in_child(dual_with_file_limit), 0);
}

static void test_view(void **state) {
    (void)state;
    size_t page = ct_os_page_size();
    uint64_t at = free_place(8 * page);
    void *rw;
    assert_int_equal(ct_os_reserve_at(at, 8 * page), CT_OK);
    assert_int_equal(ct_os_commit_shared(at, 8 * page, CT_OS_READ | CT_OS_EXEC), CT_OK);
    assert_int_equal(ct_os_view(at + 3 * page, page, &rw), CT_OK);
    write_function(rw, 11);
    assert_int_equal(call_at(at + 3 * page), 11);
    assert_int_equal(map_of((void *)(at + 3 * page)).map.prot, CT_OS_READ | CT_OS_EXEC);
    ct_os_free(rw, page);
    assert_int_equal(call_at(at + 3 * page), 11);
    ct_os_free((void *)at, 8 * page);
}

static uint64_t shared_code;
static void *shared_rw;
static size_t shared_size;

static int unshare_and_write(void) {
    if (ct_os_unshare(shared_code, shared_size, shared_size, CT_OS_READ | CT_OS_EXEC, shared_rw) != CT_OK)
        return 1;
    if (call_at(shared_code) != 1)
        return 2;
    write_function(shared_rw, 2);
    return call_at(shared_code) == 2 ? 0 : 3;
}

static int write_shared(void) {
    write_function(shared_rw, 3);
    return 0;
}

static void test_fork_shares_until_unshared(void **state) {
    (void)state;
    shared_size = 16 * ct_os_page_size();
    shared_code = free_place(shared_size);
    assert_int_equal(ct_os_reserve_at(shared_code, shared_size), CT_OK);
    assert_int_equal(ct_os_commit_dual(shared_code, shared_size, &shared_rw), CT_OK);
    write_function(shared_rw, 1);
    assert_int_equal(in_child(unshare_and_write), 0);
    assert_int_equal(call_at(shared_code), 1);
    assert_int_equal(in_child(write_shared), 0);
    assert_int_equal(call_at(shared_code), 3); /* what ct_os_unshare is for */
    ct_os_free((void *)shared_code, shared_size);
    ct_os_free(shared_rw, shared_size);
}

static volatile int spin_stop, spin_wrong;

static void *spin_in_shared(void *arg) {
    (void)arg;
    while (!spin_stop)
        spin_wrong |= call_at(shared_code) != 1;
    return NULL;
}

static void test_unshare_under_running_threads(void **state) {
    (void)state;
    pthread_t thread;
    shared_size = 16 * ct_os_page_size();
    shared_code = free_place(shared_size);
    assert_int_equal(ct_os_reserve_at(shared_code, shared_size), CT_OK);
    assert_int_equal(ct_os_commit_dual(shared_code, shared_size, &shared_rw), CT_OK);
    write_function(shared_rw, 1);
    spin_stop = spin_wrong = 0;
    pthread_create(&thread, NULL, spin_in_shared, NULL);
    for (int i = 0; i < 200; i++)
        assert_int_equal(ct_os_unshare(shared_code, shared_size, 64, CT_OS_READ | CT_OS_EXEC, shared_rw), CT_OK);
    spin_stop = 1;
    pthread_join(thread, NULL);
    assert_int_equal(spin_wrong, 0);
    write_function(shared_rw, 9);
    assert_int_equal(call_at(shared_code), 9); /* both views moved together */
    ct_os_free((void *)shared_code, shared_size);
    ct_os_free(shared_rw, shared_size);
}

static uint64_t *wiped;

static int wiped_is_zero(void) {
    return *wiped == 0 ? 0 : 1;
}

static void test_wipe_on_fork(void **state) {
    (void)state;
    size_t page = ct_os_page_size();
    wiped = ct_os_alloc(page, CT_OS_READ | CT_OS_WRITE);
    *wiped = 5;
    assert_int_equal(in_child(wiped_is_zero), 1);
    assert_int_equal(ct_os_wipe_on_fork(wiped, page), CT_OK);
    assert_int_equal(in_child(wiped_is_zero), 0);
    assert_int_equal(*wiped, 5);
    ct_os_free(wiped, page);
}

/* ---- poke and peek ---- */

static __attribute__((noinline, aligned(16))) int poked(void) {
    __asm__ volatile("");
    return 1234567;
}

static void test_poke_text(void **state) {
    (void)state;
    uint8_t before[6], patch[6];
    uint64_t at = (uint64_t)(uintptr_t)poked;
    int fds = count_fds();
    assert_int_equal(ct_os_peek(at, before, sizeof before), CT_OK);
    assert_int_equal(poked(), 1234567);
    write_function(patch, 99);
    assert_int_equal(ct_os_poke(at, patch, sizeof patch), CT_OK);
    assert_int_equal(call_at(at), 99);
    assert_int_equal(map_of(poked).map.prot & CT_OS_WRITE, 0);
    struct ct_os_poker poker;
    assert_int_equal(ct_os_poke_open(&poker), CT_OK);
    for (uint32_t i = 0; i < 100; i++) {
        write_function(patch, i);
        assert_int_equal(ct_os_poke_at(&poker, at, patch, sizeof patch), CT_OK);
        assert_int_equal(call_at(at), (int)i);
    }
    assert_int_equal(ct_os_poke_at(&poker, at, before, sizeof before), CT_OK);
    ct_os_poke_close(&poker);
    assert_int_equal(poked(), 1234567);
    assert_int_equal(count_fds(), fds);
}

static void check_bad_access(void) {
    size_t page = ct_os_page_size();
    uint8_t bytes[16] = {0};
    uint8_t *p = ct_os_alloc(2 * page, CT_OS_READ | CT_OS_WRITE);
    ct_os_free(p + page, page);
    uint64_t edge = (uint64_t)(uintptr_t)p + page;
    assert_int_equal(ct_os_peek(edge - 16, bytes, 16), CT_OK);
    assert_int_equal(ct_os_peek(edge - 15, bytes, 16), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_os_peek(edge, bytes, 1), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_os_peek(0, bytes, 8), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_os_peek(~0ull - 4, bytes, 8), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_os_poke(edge - 15, bytes, 16), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_os_poke(edge, bytes, 1), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_os_poke(0, bytes, 1), CT_ERR_NOT_MAPPED);
    ct_os_free(p, page);
}

static void test_bad_access(void **state) {
    (void)state;
    check_bad_access();
}

static int bad_access_filtered(void) {
    if (forbid(SYS_process_vm_readv) != 0)
        return 1;
    check_bad_access();
    return 0;
}

static void test_peek_without_process_vm_readv(void **state) {
    (void)state;
    assert_int_equal(in_child(bad_access_filtered), 0);
}

/* ---- maps ---- */

struct compare {
    FILE *file;
    uint64_t last_end;
    int lines, wrong, heap, stack;
};

/* Every line as the libc reads it. */
static int compare_map(void *arg, const struct ct_os_map *map) {
    struct compare *c = arg;
    char line[8192], perms[5];
    unsigned long start, end, offset, inode;
    int path = 0;
    if (!fgets(line, sizeof line, c->file))
        return ++c->wrong;
    line[strcspn(line, "\n")] = 0;
    sscanf(line, "%lx-%lx %4s %lx %*s %lu %n", &start, &end, perms, &offset, &inode, &path);
    char text[8192];
    snprintf(text, sizeof text, "%s%s", map->path, map->deleted ? " (deleted)" : "");
    c->wrong += start != map->start || end != map->end || offset != map->offset || inode != map->inode;
    c->wrong += strcmp(text, line + path) != 0 || map->shared != (perms[3] == 's') || map->start < c->last_end;
    c->wrong += (map->prot & CT_OS_READ) != (perms[0] == 'r' ? CT_OS_READ : 0);
    c->wrong += (map->prot & CT_OS_WRITE) != (perms[1] == 'w' ? CT_OS_WRITE : 0);
    c->wrong += (map->prot & CT_OS_EXEC) != (perms[2] == 'x' ? CT_OS_EXEC : 0);
    c->heap += map->role == CT_OS_MAP_HEAP;
    c->stack += map->role == CT_OS_MAP_STACK;
    c->last_end = map->end;
    c->lines++;
    return 0;
}

static void test_maps_equal_the_text(void **state) {
    (void)state;
    enum { N = 300 };
    size_t page = ct_os_page_size();
    void *pages[N];
    for (int i = 0; i < N; i++) { /* many lines of their own: alternate protections do not merge */
        pages[i] = ct_os_alloc((1 + (size_t)i % 3) * page, CT_OS_READ);
        ct_os_protect(pages[i], page, i % 2 ? CT_OS_READ | CT_OS_WRITE : 0);
    }
    static char buffer[1 << 20]; /* the stdio buffer must not change the maps between the two readings */
    struct compare c = {.file = fopen("/proc/self/maps", "r")};
    setvbuf(c.file, buffer, _IOFBF, sizeof buffer);
    assert_int_equal(ct_os_each_map(compare_map, &c), 0);
    char rest[64];
    assert_null(fgets(rest, sizeof rest, c.file));
    fclose(c.file);
    assert_int_equal(c.wrong, 0);
    assert_true(c.lines > N);
    assert_int_equal(c.stack, 1);
    for (int i = 0; i < N; i++)
        ct_os_free(pages[i], (1 + (size_t)i % 3) * page);
}

static int stop_at_third(void *arg, const struct ct_os_map *map) {
    (void)map;
    return ++*(int *)arg == 3 ? 77 : 0;
}

static void test_maps_stop(void **state) {
    (void)state;
    int calls = 0, fds = count_fds();
    assert_int_equal(ct_os_each_map(stop_at_third, &calls), 77);
    assert_int_equal(calls, 3);
    assert_int_equal(count_fds(), fds);
}

static void check_odd_name(const char *name, int unlink_it) {
    char path[1024], directory[] = "/tmp/maps-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    char *full = realpath(directory, NULL);
    snprintf(path, sizeof path, "%s/%s", full, name);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (unlink_it)
        unlink(path);
    struct find find = map_of(p);
    assert_int_equal(find.found, 1);
    assert_string_equal(find.path, path);
    assert_int_equal(find.map.deleted, unlink_it);
    assert_true(find.map.shared);
    munmap(p, 4096);
    close(fd);
    unlink(path);
    rmdir(directory);
    free(full);
}

static void test_maps_odd_names(void **state) {
    (void)state;
    char longest[250];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    check_odd_name("two  words", 0);
    check_odd_name("new\nline\n", 0);
    check_odd_name(" leading and trailing ", 1);
    check_odd_name("[heap]", 0);
    check_odd_name("7f00-8000 r-xp", 1);
    check_odd_name(longest, 1);
}

static void test_limits(void **state) {
    (void)state;
    int local = 0;
    assert_true((uint64_t)(uintptr_t)&local < ct_os_address_limit());
    assert_int_equal(ct_os_heap_end(), (uint64_t)(uintptr_t)sbrk(0));
}

static void test_ids(void **state) {
    (void)state;
    assert_int_equal(ct_os_getpid(), getpid());
    assert_int_equal(ct_os_gettid(), syscall(SYS_gettid));
    assert_true(ct_os_thread_alive(ct_os_gettid()));
    assert_false(ct_os_thread_alive(1)); /* a process, but not a thread of ours */
    assert_false(ct_os_thread_alive(0));
    assert_false(ct_os_thread_alive(-1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_alloc_large),
        cmocka_unit_test(test_reserve_never_replaces),
        cmocka_unit_test(test_dual),
        cmocka_unit_test(test_dual_fallbacks),
        cmocka_unit_test(test_view),
        cmocka_unit_test(test_fork_shares_until_unshared),
        cmocka_unit_test(test_unshare_under_running_threads),
        cmocka_unit_test(test_wipe_on_fork),
        cmocka_unit_test(test_poke_text),
        cmocka_unit_test(test_bad_access),
        cmocka_unit_test(test_peek_without_process_vm_readv),
        cmocka_unit_test(test_maps_equal_the_text),
        cmocka_unit_test(test_maps_stop),
        cmocka_unit_test(test_maps_odd_names),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
