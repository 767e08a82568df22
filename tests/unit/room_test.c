/* SPDX-License-Identifier: Apache-2.0 */
/* What limits leave to a process, read from trees of files like those of real machines. */
#include "drain/room.h"
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#define MIB (1ull << 20)
enum { PID = 77, SELF = 78 };

static char root[] = "/tmp/room_test.XXXXXX";

static int delete (const char *path, const struct stat *info, int type, struct FTW *place) {
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

static int begin(void **state) {
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    return nftw(root, delete, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + sizeof root; (at = strchr(at, '/')); at++) {
        *at = 0;
        (void)mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

#define SECOND "30 20 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define GROUP  "sys/fs/cgroup/a/b/"

static void put_second(void) {
    put("proc/77/cgroup", "0::/a/b\n");
    put("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" SECOND);
    put(GROUP "memory.max", "104857600\n");
    put(GROUP "memory.high", "max\n");
    put(GROUP "memory.current", "62914560\n");
    put(GROUP "memory.stat", "anon 41943040\nfile 20971520\ninactive_file 10485760\nactive_file 10485760\n");
}

static void test_version_2(void **state) {
    (void)state;
    put_second();
    assert_int_equal(ct_room_memory(root, PID), 50 * MIB); /* 100 - (60 - 10) */
    put(GROUP "memory.high", "73400320\n");
    assert_int_equal(ct_room_memory(root, PID), 20 * MIB);
    put("sys/fs/cgroup/a/memory.max", "68157440\n"); /* a group above has less */
    put("sys/fs/cgroup/a/memory.current", "62914560\n");
    assert_int_equal(ct_room_memory(root, PID), 5 * MIB);
    put("sys/fs/cgroup/a/memory.current", "99999999\n");
    assert_int_equal(ct_room_memory(root, PID), 0);
}

static void test_no_limit(void **state) {
    (void)state;
    assert_true(ct_room_memory(root, PID) == CT_ROOM_UNLIMITED); /* nothing can be read */
    put_second();
    put(GROUP "memory.max", "max\n");
    assert_true(ct_room_memory(root, PID) == CT_ROOM_UNLIMITED);
    put("proc/77/cgroup", "0::/../other\n"); /* outside of what we see */
    assert_true(ct_room_memory(root, PID) == CT_ROOM_UNLIMITED);
}

/* Both versions are mounted: memory is the first one's. */
static void test_version_1(void **state) {
    (void)state;
    put("proc/77/cgroup", "5:pids:/\n4:cpu,memory:/box\n0::/x\n");
    put("proc/self/mountinfo", "31 30 0:27 / /c/pids rw - cgroup cgroup rw,pids\n"
                               "32 30 0:28 / /c/memory rw - cgroup cgroup rw,cpu,memory\n" SECOND);
    put("c/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("c/memory/memory.usage_in_bytes", "1\n");
    put("c/memory/box/memory.limit_in_bytes", "41943040\n");
    put("c/memory/box/memory.usage_in_bytes", "31457280\n");
    put("c/memory/box/memory.stat", "inactive_file 0\ntotal_inactive_file 1048576\n");
    assert_int_equal(ct_room_memory(root, PID), 11 * MIB);
}

/* Without a cgroup namespace a container sees long paths, and what lies below one of them. */
static void test_in_a_container(void **state) {
    (void)state;
    put_second();
    put("proc/77/cgroup", "0::/docker/1234/a/b\n");
    put("proc/self/mountinfo", "30 20 0:26 /docker/1234 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    assert_int_equal(ct_room_memory(root, PID), 50 * MIB);
    put("proc/77/cgroup", "0::/docker/999\n");
    assert_true(ct_room_memory(root, PID) == CT_ROOM_UNLIMITED);
}

static void test_address_space(void **state) {
    (void)state;
    assert_true(ct_room_address_space(root, PID) == CT_ROOM_UNLIMITED);
    assert_int_equal(ct_room_threads(root, PID), 1);
    put("proc/77/status", "Name:\tx\nVmPeak:\t  9999999 kB\nVmSize:\t   20480 kB\nThreads:\t5\n");
    put("proc/77/limits", "Max address space         104857600            unlimited            bytes\n");
    assert_int_equal(ct_room_address_space(root, PID), 80 * MIB);
    assert_int_equal(ct_room_threads(root, PID), 5);
    put("proc/77/limits", "Max address space         1048576            unlimited            bytes\n");
    assert_int_equal(ct_room_address_space(root, PID), 0);
    put("proc/77/limits", "Max address space         unlimited            unlimited            bytes\n");
    assert_true(ct_room_address_space(root, PID) == CT_ROOM_UNLIMITED);
}

static void test_tasks(void **state) {
    (void)state;
    put("proc/77/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nThreads:\t5\nCapEff:\t0000000000000000\n");
    put("proc/78/status", "Uid:\t1000\t0\t0\t0\nThreads:\t10\n");
    put("proc/79/status", "Uid:\t1001\t1001\t1001\t1001\nThreads:\t900\n");
    put("proc/77/limits",
        "Limit   Soft Limit   Hard Limit   Units\nMax processes             100        200      processes\n");
    assert_int_equal(ct_room_tasks(root, PID, SELF), 85);
    put("proc/79/status", "Uid:\t1000\t1000\t1000\t1000\nThreads:\t900\n");
    assert_int_equal(ct_room_tasks(root, PID, SELF), 0);
    put("proc/77/limits", "Max processes             unlimited  unlimited processes\n");
    assert_true(ct_room_tasks(root, PID, SELF) == CT_ROOM_UNLIMITED);
    put("proc/77/limits", "Max processes             100        200      processes\n");
    put("proc/77/status", "Uid:\t1000\t1000\t1000\t1000\nThreads:\t5\nCapEff:\t0000000001000000\n"); /* SYS_RESOURCE */
    assert_true(ct_room_tasks(root, PID, SELF) == CT_ROOM_UNLIMITED);
    put("proc/78/status", "Uid:\t1001\t0\t0\t0\nThreads:\t10\n"); /* we do not count */
    put("proc/77/status", "Uid:\t1000\t1000\t1000\t1000\nThreads:\t5\nCapEff:\t0000000000000000\n");
    assert_true(ct_room_tasks(root, PID, SELF) == CT_ROOM_UNLIMITED);
    put("proc/77/status", "Uid:\t0\t0\t0\t0\nThreads:\t5\nCapEff:\t0000000000000000\n");
    assert_true(ct_room_tasks(root, PID, SELF) == CT_ROOM_UNLIMITED);
}

static void test_tasks_of_a_group(void **state) {
    (void)state;
    put_second();
    put("proc/78/cgroup", "0::/a/b\n");
    put(GROUP "pids.max", "100\n");
    put(GROUP "pids.current", "60\n");
    assert_int_equal(ct_room_tasks(root, PID, SELF), 40);
    put(GROUP "pids.max", "max\n");
    assert_true(ct_room_tasks(root, PID, SELF) == CT_ROOM_UNLIMITED);
    put(GROUP "pids.max", "100\n");
    put("proc/78/cgroup", "0::/a\n"); /* we do not count there */
    assert_true(ct_room_tasks(root, PID, SELF) == CT_ROOM_UNLIMITED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_version_2, begin, end),
        cmocka_unit_test_setup_teardown(test_no_limit, begin, end),
        cmocka_unit_test_setup_teardown(test_version_1, begin, end),
        cmocka_unit_test_setup_teardown(test_in_a_container, begin, end),
        cmocka_unit_test_setup_teardown(test_address_space, begin, end),
        cmocka_unit_test_setup_teardown(test_tasks, begin, end),
        cmocka_unit_test_setup_teardown(test_tasks_of_a_group, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
