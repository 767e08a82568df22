/* SPDX-License-Identifier: Apache-2.0 */
/* Writing traces: every byte of the layout, failures of the disk, thousands of threads on few descriptors. */
#include "tests/tools/place_of.h"
#include "trace_util.h"
#include "isa/machine.h"
#include "trace/crc32.h"
#include "base/json_write.h"
#include <contrail/status.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static int make_session(const char *place, char *path, size_t size) {
    struct ct_place *session;
    int status = ct_trace_make_session(&session, place, CT_PLACE_NO_GROUP, path, size);
    ct_place_drop(session);
    return status;
}

static char root[200];

static int set_up(void **state) {
    (void)state;
    make_directory(root, sizeof root);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_directory(root);
    return 0;
}

/* ---- layout ---- */

static void test_crc(void **state) {
    (void)state;
    uint8_t bytes[1000];
    assert_int_equal(ct_crc32(0, "", 0), 0);
    assert_int_equal(ct_crc32(0, "123456789", 9), 0xcbf43926);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 131 + (i >> 3));
    /* In one go, in two pieces cut anywhere, and by the definition, bit by bit. */
    uint32_t whole = ct_crc32(0, bytes, sizeof bytes), slow = ~0u;
    for (size_t cut = 0; cut <= sizeof bytes; cut += 7)
        assert_int_equal(ct_crc32(ct_crc32(0, bytes, cut), bytes + cut, sizeof bytes - cut), whole);
    for (size_t i = 0; i < sizeof bytes; i++) {
        slow ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            slow = slow >> 1 ^ (slow & 1 ? 0xedb88320u : 0);
    }
    assert_int_equal(whole, ~slow);
}

/* Of this machine: main() puts it in. */
static uint8_t header_open[64] = {
    'A', 'T', 'I', '2', 1,    1,    1,    4,    /* magic, endian, version, arch, os */
    0,   0,   0,   0,   0x78, 0x56, 0x34, 0x12, /* flags, thread_id */
    3,   0,   0,   0,   0,    0,    0,    0,    /* clock_type, reserved */
    32,  0,   0,   0,   0,    0,    0,    0,    /* event_size, event_count */
    64,  0,   0,   0,   0,    0,    0,    0,    /* events_offset */
};

static uint8_t file_closed[64 + 2 * 32 + 64] = {
    /* header */
    'A', 'T', 'I', '2', 1, 1, 1, 4, 0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 3, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 2, 0, 0,
    0,                                              /* event_size, event_count */
    64, 0, 0, 0, 0, 0, 0, 0,                        /* events_offset */
    128, 0, 0, 0, 0, 0, 0, 0,                       /* footer_offset */
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* time_start_ns */
    0x09, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* time_end_ns */
    /* first event */
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* timestamp_ns */
    0x44, 0x33, 0x22, 0x11, 0xdd, 0xcc, 0xbb, 0x0a, /* function_id: symbol_index, module_id */
    0x78, 0x56, 0x34, 0x12, 1, 0, 0, 0,             /* thread_id, event_kind */
    0x05, 0x00, 0x01, 0x00, 0xff, 0xff, 0xff, 0xff, /* call_depth, detail_seq */
    /* second event */
    0x09, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x44, 0x33, 0x22, 0x11, 0xdd, 0xcc, 0xbb, 0x0a, 0x78, 0x56, 0x34,
    0x12, 2, 0, 0, 0, 0x05, 0x00, 0x01, 0x00, 0x07, 0, 0, 0,
    /* footer */
    '2', 'I', 'T', 'A', 0, 0, 0, 0,                 /* magic, crc32 (put in by the test) */
    2, 0, 0, 0, 0, 0, 0, 0,                         /* event_count */
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* time_start_ns */
    0x09, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* time_end_ns */
    64, 0, 0, 0, 0, 0, 0, 0,                        /* bytes_written */
};

static void test_layout(void **state) {
    (void)state;
    struct ct_thread_writer *writer;
    const char *path = in("%s/thread_5/index.atf", root);
    uint8_t expected[sizeof file_closed], *bytes;
    size_t size;
    assert_int_equal(ct_thread_writer_open(&writer, place_of(root), 5, 0x12345678), 0);
    bytes = load(path, &size);
    assert_int_equal(size, sizeof header_open);
    assert_memory_equal(bytes, header_open, size);
    free(bytes);

    struct atf_index_event events[2];
    events[0] = event_of(0x0102030405060708, 0x0abbccdd11223344, 0x12345678, ATF_CALL, 0x00010005);
    events[1] = event_of(0x0102030405060709, 0x0abbccdd11223344, 0x12345678, ATF_RETURN, 0x00010005);
    events[1].detail_seq = 7;
    write_events(writer, events, 2);
    assert_int_equal(ct_thread_writer_flush(writer), 0);
    assert_int_equal(ct_thread_writer_events(writer), 2);
    assert_int_equal(ct_thread_writer_bytes(writer), 128);
    bytes = load(path, &size); /* flushed: header as it was, and whole events */
    assert_int_equal(size, 128);
    assert_memory_equal(bytes, header_open, 64);
    assert_memory_equal(bytes + 64, file_closed + 64, 64);
    free(bytes);

    assert_int_equal(ct_thread_writer_close(writer), 0);
    memcpy(expected, file_closed, sizeof expected);
    uint32_t crc = ct_crc32(0, file_closed + 64, 64);
    for (int i = 0; i < 4; i++)
        expected[132 + i] = (uint8_t)(crc >> 8 * i);
    bytes = load(path, &size);
    assert_int_equal(size, sizeof expected);
    assert_memory_equal(bytes, expected, size);
    free(bytes);
}

/* A thread that recorded nothing has a whole file too. */
static void test_empty(void **state) {
    (void)state;
    struct ct_thread_writer *writer;
    size_t size;
    assert_int_equal(ct_thread_writer_open(&writer, place_of(root), 0, 1), 0);
    assert_int_equal(ct_thread_writer_close(writer), 0);
    uint8_t *bytes = load(in("%s/thread_0/index.atf", root), &size);
    assert_int_equal(size, 128);
    assert_memory_equal(bytes + 40, ((uint8_t[]){64, 0, 0, 0, 0, 0, 0, 0}), 8); /* footer_offset */
    assert_memory_equal(bytes + 64, "2ITA\0\0\0\0", 8);
    free(bytes);
}

/* A thread's files are written once. */
static void test_twice(void **state) {
    (void)state;
    struct ct_thread_writer *first, *second;
    struct atf_index_event event = sample_event(0, 0);
    assert_int_equal(ct_thread_writer_open(&first, place_of(root), 0, 7000), 0);
    write_events(first, &event, 1);
    assert_int_equal(ct_thread_writer_close(first), 0);
    assert_int_equal(ct_thread_writer_open(&second, place_of(root), 0, 7000), CT_ERR_SYSTEM);
    assert_null(second);
    struct stat status;
    assert_int_equal(stat(in("%s/thread_0/index.atf", root), &status), 0);
    assert_int_equal(status.st_size, 160);
    assert_int_equal(mkdir(in("%s/gone", root), 0700), 0);
    struct ct_place *gone = place_of(in("%s/gone", root));
    assert_int_equal(rmdir(in("%s/gone", root)), 0);
    assert_int_equal(ct_thread_writer_open(&second, gone, 0, 7000), CT_ERR_NOT_FOUND);
}

/* Detail records as other programs lay them out, built from the structures. */
static void test_detail_layout(void **state) {
    (void)state;
    struct atf_detail_header header = {
        {'A', 'T', 'D', '2'}, 1, 1, 1, 4, 0x11111111, 0x22222222, 0, 64, 0x3333, 0x4444, 0x5555, 0x6666, {0}};
    static const uint8_t header_bytes[64] = {'A',  'T',  'D',  '2',  1,    1,    1, 4, 0x11, 0x11, 0x11, 0x11,
                                             0x22, 0x22, 0x22, 0x22, 0,    0,    0, 0, /* reserved */
                                             64,   0,    0,    0,    0,    0,    0, 0, 0x33, 0x33, 0,    0,
                                             0,    0,    0,    0,    0x44, 0x44, 0, 0, 0,    0,    0,    0,
                                             0x55, 0x55, 0,    0,    0,    0,    0, 0, 0x66, 0x66};
    assert_memory_equal(&header, header_bytes, 64);
    struct atf_detail_event event = {0x01020304, ATF_DETAIL_SIGNAL, ATF_DETAIL_VECTORS, 0x05060708, 0x090a0b0c, 0x0d};
    static const uint8_t event_bytes[24] = {4, 3, 2, 1, 5, 0, 1, 0, 8, 7, 6, 5, 12, 11, 10, 9, 13};
    assert_memory_equal(&event, event_bytes, 24);
    struct atf_detail_footer footer = {{'2', 'D', 'T', 'A'}, 0x01020304, 5, 6, 7, 8, {0}};
    static const uint8_t footer_bytes[64] = {'2', 'D', 'T', 'A', 4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0, 6,
                                             0,   0,   0,   0,   0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8};
    assert_memory_equal(&footer, footer_bytes, 64);
}

/* Each part is a whole file of its own. */
static void test_parts(void **state) {
    (void)state;
    make_sample(in("%s/p", root), &(struct sample){.threads = 1, .events = 25, .part = 10});
    size_t sizes[3];
    for (int i = 0; i < 3; i++) {
        const char *name = i ? in("%s/p/thread_0/index_%d.atf", root, i + 1) : in("%s/p/thread_0/index.atf", root);
        uint8_t *bytes = load(name, &sizes[i]);
        assert_int_equal(bytes[28], i < 2 ? 10 : 5);
        struct atf_index_event first = sample_event(0, (uint64_t)i * 10);
        assert_memory_equal(bytes + 64, &first, 32);
        assert_memory_equal(bytes + 48, &first, 8); /* time_start_ns */
        free(bytes);
    }
    assert_int_equal(sizes[0], 128 + 320);
    assert_int_equal(sizes[2], 128 + 160);
    char text[500];
    assert_int_equal(verify_text(in("%s/p", root), text, sizeof text), 0);
    assert_string_equal(text, "");
}

/* ---- disks that are full, files that must not grow ---- */

/* The writer in `directory` until it fails; returns what the file holds. */
static uint64_t fill(const char *directory, int expected, int expected_errno) {
    struct ct_thread_writer *writer;
    struct atf_index_event events[500];
    size_t size;
    assert_int_equal(ct_thread_writer_open(&writer, place_of(directory), 1, 7000), 0);
    int status = 0;
    uint64_t sequence = 0;
    while (!status && sequence < 1000000) {
        for (size_t i = 0; i < 500; i++)
            events[i] = sample_event(0, sequence++);
        write_events(writer, events, 500);
        status = ct_thread_writer_flush(writer);
    }
    assert_int_equal(status, expected);
    assert_int_equal(ct_thread_writer_error(writer), expected_errno);
    uint64_t kept = ct_thread_writer_events(writer) - ct_thread_writer_dropped(writer);
    /* It stays so, also when there would be room again. */
    struct rlimit limit, unlimited;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    unlimited = limit;
    unlimited.rlim_cur = unlimited.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    write_events(writer, events, 500);
    assert_int_equal(ct_thread_writer_flush(writer), expected);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(ct_thread_writer_events(writer), sequence + 500);
    assert_int_equal(ct_thread_writer_events(writer) - ct_thread_writer_dropped(writer), kept);
    uint8_t *bytes = load(in("%s/thread_1/index.atf", directory), &size);
    assert_int_equal(size, 64 + kept * 32); /* no torn event */
    for (uint64_t i = 0; i < kept; i++) {
        struct atf_index_event event = sample_event(0, i);
        assert_memory_equal(bytes + 64 + i * 32, &event, 32);
    }
    free(bytes);
    assert_int_equal(ct_thread_writer_close(writer), expected);
    return kept;
}

/* In a child of its own: limits and mounts end with it. */
static void in_child(void (*body)(void)) {
    pid_t pid = fork();
    int status;
    assert_true(pid >= 0);
    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                    \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

#define FILE_LIMIT 100010 /* it ends inside an event */

static void limited_files(void) {
    struct rlimit limit = {FILE_LIMIT, RLIM_INFINITY};
    struct ct_json json = {0};
    CHECK(signal(SIGXFSZ, SIG_DFL) != SIG_ERR); /* it would kill us */
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    uint64_t kept = fill(root, CT_ERR_FILE_LIMIT, EFBIG);
    CHECK(kept == (FILE_LIMIT - 128) / 32); /* room for the footer is left */
    /* A manifest that does not fit leaves the old one. */
    ct_json_begin(&json, NULL, '[');
    ct_json_end(&json, ']');
    CHECK(ct_trace_write_manifest(place_of(root), &json) == 0);
    ct_json_free(&json);
    ct_json_begin(&json, NULL, '[');
    for (int i = 0; i < 20000; i++)
        ct_json_number(&json, NULL, 123456);
    ct_json_end(&json, ']');
    CHECK(ct_trace_write_manifest(place_of(root), &json) == CT_ERR_FILE_LIMIT);
    ct_json_free(&json);
    size_t size;
    uint8_t *bytes = load(in("%s/manifest.json", root), &size);
    CHECK(size == 3 && memcmp(bytes, "[]\n", 3) == 0);
    CHECK(access(in("%s/.manifest.json.new", root), F_OK) != 0);
    free(bytes);
    /* So do symbols. */
    struct ct_symbols_writer *writer;
    CHECK(ct_symbols_writer_open(&writer, place_of(root)) == 0);
    CHECK(access(in("%s/symbols", root), F_OK) != 0); /* not before it is complete */
    CHECK(ct_symbols_writer_close(writer) == 0);
    CHECK(ct_symbols_writer_open(&writer, place_of(root)) == 0);
    ct_symbols_writer_module(writer, 1, "/x", "", 0);
    for (unsigned i = 0; i < 20000; i++)
        ct_symbols_writer_function(writer, SAMPLE_FUNCTION(i), i, 1, "name", "", "");
    CHECK(ct_symbols_writer_close(writer) == CT_ERR_FILE_LIMIT);
    bytes = load(in("%s/symbols", root), &size);
    CHECK(size > 5 && memcmp(bytes + size - 3, "\t0\n", 3) == 0);
    CHECK(access(in("%s/.symbols.new", root), F_OK) != 0);
    free(bytes);
}

static void test_file_limit(void **state) {
    (void)state;
    in_child(limited_files);
    /* The file was finished although it could not grow. */
    struct ct_trace *trace;
    store(in("%s/manifest.json", root), "{\"format\":\"atf2\",\"complete\":false}", 34);
    assert_int_equal(ct_trace_open(&trace, root, NULL, 0), 0);
    assert_int_equal(ct_trace_thread_count(trace), 1);
    assert_false(ct_trace_thread_at(trace, 0)->cut);
    assert_int_equal(ct_trace_thread_at(trace, 0)->event_count, (FILE_LIMIT - 128) / 32);
    ct_trace_close(trace);
}

static bool write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return done;
}

/* Rights to mount, for a user without them, come with a user namespace. Only users that it knows can make files
 * there. */
static bool enter_own_mounts(void) {
    char users[40], groups[40];
    snprintf(users, sizeof users, "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
    snprintf(groups, sizeof groups, "%u %u 1", (unsigned)getgid(), (unsigned)getgid());
    if (unshare(CLONE_NEWNS) == 0)
        return true;
    return unshare(CLONE_NEWNS | CLONE_NEWUSER) == 0 && write_file("/proc/self/uid_map", users) &&
           write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/gid_map", groups);
}

static void full_disk(void) {
    /* A mount that nobody else sees and that ends with us. */
    if (!enter_own_mounts() || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", root, "tmpfs", 0, "size=256k") != 0)
        _exit(77);
    struct ct_trace *trace;
    struct ct_json json = {0};
    uint64_t kept = fill(root, CT_ERR_NO_SPACE, ENOSPC);
    int bad = kept < 6000 || kept > 8200;
    /* What else is written fails too, and says why. */
    struct ct_thread_writer *writer;
    char path[300];
    bad |= ct_thread_writer_open(&writer, place_of(root), 2, 7001) != CT_ERR_NO_SPACE;
    ct_json_begin(&json, NULL, '{');
    ct_json_end(&json, '}');
    bad |= (ct_trace_write_manifest(place_of(root), &json) != CT_ERR_NO_SPACE) << 1;
    ct_json_free(&json);
    bad |= (access(in("%s/manifest.json", root), F_OK) == 0) << 2;
    bad |= (ct_trace_open(&trace, root, NULL, 0) != CT_ERR_NOT_FOUND) << 3;
    int status = make_session(root, path, sizeof path);
    bad |= (status != CT_ERR_NO_SPACE && status != 0) << 4; /* a directory takes no page there */
    if (bad)
        fprintf(stderr, "bad %x, kept %llu\n", bad, (unsigned long long)kept);
    CHECK(!bad);
}

static void test_full_disk(void **state) {
    (void)state;
    in_child(full_disk);
}

/* ---- thousands of threads ---- */

static size_t open_descriptors(void) {
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 3; /* ., .., its own */
}

#define MANY 3000

static void many_threads(void) {
    static struct ct_thread_writer *writers[MANY];
    struct rlimit limit = {40, 40};
    CHECK(mkdir(in("%s/p", root), 0777) == 0);
    struct ct_place *process = place_of(in("%s/p", root)); /* one descriptor for all */
    size_t before = open_descriptors();
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (uint32_t i = 0; i < MANY; i++)
        CHECK(ct_thread_writer_open(&writers[i], process, i, 7000 + i) == 0);
    CHECK(open_descriptors() <= before + 20);
    for (uint64_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < MANY; i++) {
            for (uint64_t k = 0; k < 3; k++) {
                struct atf_index_event event = sample_event(i, round * 3 + k);
                write_events(writers[i], &event, 1);
            }
            CHECK(ct_thread_writer_flush(writers[i]) == 0);
        }
    for (uint32_t i = 0; i < MANY; i++)
        CHECK(ct_thread_writer_close(writers[i]) == 0);
    CHECK(open_descriptors() == before);
    /* Reading them all, merged, with as few. */
    make_sample(in("%s/q", root), &(struct sample){.threads = 0});
    CHECK(rename(in("%s/q/symbols", root), in("%s/p/symbols", root)) == 0);
    make_manifest(in("%s/p", root), &(struct sample){.threads = MANY, .events = 9});
    before = open_descriptors(); /* the places of the sample stay */
    struct ct_trace *trace;
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    uint64_t last = 0, count = 0;
    char text[2000];
    CHECK(verify_text(in("%s/p", root), text, sizeof text) == 0);
    CHECK(ct_trace_open(&trace, in("%s/p", root), NULL, 0) == 0);
    CHECK(ct_trace_cursor_open(&cursor, trace, 0) == 0);
    for (; ct_trace_cursor_next(cursor, &event); count++) {
        CHECK(event.timestamp_ns >= last);
        last = event.timestamp_ns;
    }
    CHECK(count == MANY * 9);
    CHECK(open_descriptors() <= before + 20);
    ct_trace_cursor_close(cursor);
    ct_trace_close(trace);
    CHECK(open_descriptors() == before);
}

static void test_many_threads(void **state) {
    (void)state;
    in_child(many_threads);
}

/* The last descriptor belongs to somebody else: ours give way, also to the manifest. */
static void no_descriptors(void) {
    struct ct_thread_writer *writers[2];
    struct ct_json json = {0};
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 64;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(ct_thread_writer_open(&writers[i], place_of(root), i, 7000 + i) == 0);
    while (open("/dev/null", O_RDONLY) >= 0) {
    }
    CHECK(errno == EMFILE);
    ct_json_begin(&json, NULL, '{');
    ct_json_end(&json, '}');
    CHECK(ct_trace_write_manifest(place_of(root), &json) == 0);
    ct_json_free(&json);
    CHECK(open("/dev/null", O_RDONLY) >= 0 && open("/dev/null", O_RDONLY) < 0);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < 2; i++) {
            struct atf_index_event event = sample_event(i, round);
            write_events(writers[i], &event, 1);
            CHECK(ct_thread_writer_flush(writers[i]) == 0);
        }
    for (uint32_t i = 0; i < 2; i++)
        CHECK(ct_thread_writer_close(writers[i]) == 0);
}

static void test_no_descriptors(void **state) {
    (void)state;
    in_child(no_descriptors);
}

/* Buffers are lent up to a limit; then a thread that commits gives its own back. */
static void test_unflushed(void **state) {
    (void)state;
    static struct ct_thread_writer *writers[MANY];
    size_t flushed = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        struct atf_index_event event = sample_event(i, 0);
        assert_int_equal(ct_thread_writer_open(&writers[i], place_of(root), i, 7000 + i), 0);
        write_events(writers[i], &event, 1);
        flushed += ct_thread_writer_bytes(writers[i]) == 96;
    }
    assert_true(flushed >= MANY - 1024); /* 16 MiB of 16 KiB each */
    assert_true(flushed < MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(ct_thread_writer_flush(writers[i]), 0);
        assert_int_equal(ct_thread_writer_bytes(writers[i]), 96);
        assert_int_equal(ct_thread_writer_close(writers[i]), 0);
    }
}

/* A busy thread is given more room, a quiet one less again. */
static void test_buffer_growth(void **state) {
    (void)state;
    struct ct_thread_writer *writer;
    struct atf_index_event event = sample_event(0, 0);
    size_t room, first, most = 0;
    assert_int_equal(ct_thread_writer_open(&writer, place_of(root), 0, 7000), 0);
    ct_thread_writer_reserve(writer, &first);
    assert_int_equal(first, (16 << 10) / 32);
    for (int i = 0; i < 10; i++) {
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        for (size_t k = 0; k < room; k++)
            to[k] = event;
        ct_thread_writer_commit(writer, room);
        most = room > most ? room : most;
    }
    assert_int_equal(most, (256 << 10) / 32);
    for (int i = 0; i < 10; i++) {
        write_events(writer, &event, 1);
        assert_int_equal(ct_thread_writer_flush(writer), 0);
    }
    ct_thread_writer_reserve(writer, &room);
    assert_int_equal(room, first);
    assert_int_equal(ct_thread_writer_close(writer), 0);
}

/* Two recordings at a time, each with its own thread, share the descriptors. */
static void *record_many(void *arg) {
    static struct ct_thread_writer *all[2][200];
    struct ct_thread_writer **writers = all[*(int *)arg];
    char directory[300];
    snprintf(directory, sizeof directory, "%s/p%d", root, *(int *)arg);
    CHECK(mkdir(directory, 0777) == 0);
    for (uint32_t i = 0; i < 200; i++)
        CHECK(ct_thread_writer_open(&writers[i], place_of(directory), i, 7000 + i) == 0);
    for (uint64_t k = 0; k < 27; k++)
        for (uint32_t i = 0; i < 200; i++) {
            size_t room;
            *ct_thread_writer_reserve(writers[i], &room) = sample_event(i, k);
            ct_thread_writer_commit(writers[i], 1);
            CHECK(ct_thread_writer_flush(writers[i]) == 0);
        }
    for (uint32_t i = 0; i < 200; i++)
        CHECK(ct_thread_writer_close(writers[i]) == 0);
    return NULL;
}

static void two_recordings(void) {
    struct rlimit limit = {40, 40};
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    char text[2000];
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, record_many, &numbers[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    make_sample(in("%s/q", root), &(struct sample){.threads = 0});
    for (int i = 0; i < 2; i++) {
        CHECK(link(in("%s/q/symbols", root), in("%s/p%d/symbols", root, i)) == 0);
        make_manifest(in("%s/p%d", root, i), &(struct sample){.threads = 200, .events = 27});
        CHECK(verify_text(in("%s/p%d", root, i), text, sizeof text) == 0);
    }
}

static void test_two_recordings(void **state) {
    (void)state;
    in_child(two_recordings);
}

/* Files are found again from another working directory. */
static void moved_directory(void) {
    static struct ct_thread_writer *writers[100];
    struct rlimit limit = {20, 20};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0 && chdir(root) == 0 && mkdir("p", 0777) == 0);
    for (uint32_t i = 0; i < 100; i++)
        CHECK(ct_thread_writer_open(&writers[i], place_of("p"), i, i) == 0);
    CHECK(chdir("/") == 0);
    for (uint32_t i = 0; i < 100; i++) {
        struct atf_index_event event = sample_event(i, 0);
        write_events(writers[i], &event, 1);
        CHECK(ct_thread_writer_flush(writers[i]) == 0);
    }
    for (uint32_t i = 0; i < 100; i++)
        CHECK(ct_thread_writer_close(writers[i]) == 0);
}

static void test_moved_directory(void **state) {
    (void)state;
    in_child(moved_directory);
}

/* ---- directories ---- */

static void test_sessions(void **state) {
    (void)state;
    char a[300], b[300], again[300], name[32];
    struct ct_place *process;
    assert_int_equal(make_session(in("%s/x/y//z/", root), a, sizeof a), 0);
    size_t stem = strlen(in("%s/x/y//z", root));
    assert_memory_equal(a + stem, "/session_", 9);
    assert_int_equal(strlen(a + stem), 24);
    /* Twice, within a second more often than not: never the same, and named after it then. */
    int suffixes = 0;
    strcpy(b, a);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(make_session(in("%s/x/y/z", root), again, sizeof again), 0);
        assert_string_not_equal(again, b);
        suffixes += strlen(again) == strlen(in("%s/x/y/z", root)) + 26;
        strcpy(b, again);
    }
    assert_true(suffixes > 0);
    assert_int_equal(ct_trace_make_process(&process, place_of(a), 77, name, sizeof name), 0);
    ct_place_drop(process);
    assert_string_equal(name, "pid_77");
    assert_int_equal(access(in("%s/pid_77", a), X_OK), 0);
    assert_int_equal(make_session(root, a, 10), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(make_session("", a, sizeof a), CT_ERR_INVALID_ARGUMENT);
    store(in("%s/file", root), "", 0);
    assert_int_equal(make_session(in("%s/file", root), a, sizeof a), CT_ERR_BAD_FILE);
    assert_int_equal(make_session(in("%s/file/below", root), a, sizeof a), CT_ERR_BAD_FILE);
    /* A root that we made goes again when nothing could be made in it. */
    assert_int_equal(make_session(in("%s/fresh", root), a, strlen(root) + 10), CT_ERR_INVALID_ARGUMENT);
    assert_int_not_equal(access(in("%s/fresh", root), F_OK), 0);
}

static void forbidden(void) {
    char path[300];
    CHECK(mkdir(in("%s/closed", root), 0500) == 0 && chmod(root, 0755) == 0);
    if (geteuid() == 0)
        CHECK(setresuid(65534, 65534, 65534) == 0);
    CHECK(make_session(in("%s/closed", root), path, sizeof path) == CT_ERR_PERMISSION_DENIED);
    CHECK(make_session(in("%s/closed/below", root), path, sizeof path) == CT_ERR_PERMISSION_DENIED);
    CHECK(make_session("/proc/contrail", path, sizeof path) != 0);
}

static void test_forbidden(void **state) {
    (void)state;
    in_child(forbidden);
}

int main(void) {
    header_open[6] = file_closed[6] = ct_machine_host()->arch;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),
        cmocka_unit_test_setup_teardown(test_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_twice, set_up, tear_down),
        cmocka_unit_test(test_detail_layout),
        cmocka_unit_test_setup_teardown(test_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_descriptors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unflushed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_buffer_growth, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_recordings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_moved_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sessions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forbidden, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
