/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the kernel that count nothing and report switches. See switches.h. */
#include "drain/switches_internal.h"
#include "base/grow.h"
#include <contrail/status.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_MOST   (256u << 10) /* 10,922 records: a drain pass comes before that many */
#define RING_WIDE   (1u << 20)   /* where switches of all processes come */
#define RING_LEAST  (8u << 10)
#define MANY_CPUS   16u
#define EACH_THREAD 256u /* descriptors; when more threads exist than that, whole processors are asked for first */
#define RECORD_MOST 128u

/* What we ask for in each record: sample_id of the kernel. */
struct sample_id {
    uint32_t pid, tid;
    uint64_t ns;
};

/* ---- opening ---- */

static int open_event(int tid, int cpu, bool threads_only) {
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .inherit = tid >= 0,
        .inherit_thread = tid >= 0 && threads_only,
        .exclude_kernel = 1, /* what is allowed to everybody who may look at the process */
        .exclude_hv = 1,
        .watermark = 1, /* nobody waits for it: the drain looks */
        .wakeup_watermark = UINT32_MAX,
        .sample_id_all = 1,
        .context_switch = 1,
        .use_clockid = 1,
        .clockid = CLOCK_BOOTTIME,
    };
    long fd = syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && errno == EINVAL && attr.inherit_thread) { /* a kernel before 5.13: records of children are skipped */
        attr.inherit_thread = 0;
        fd = syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    }
    return (int)fd;
}

/* An ordinary user may lock only so much memory: smaller rings are tried. */
static int map_ring(struct ct_rings *r, struct ct_ring *ring) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (;; r->ring_bytes /= 2) {
        void *pages = mmap(NULL, page + r->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
        if (pages != MAP_FAILED) {
            ring->pages = pages;
            return 0;
        }
        if ((errno != EPERM && errno != ENOMEM && errno != EAGAIN) || r->ring_bytes <= RING_LEAST)
            return errno;
    }
}

/* The first event of a processor has a ring; further ones use it. Returns 0 or an errno. */
static int add_event(struct ct_rings *r, int tid, size_t cpu) {
    struct ct_ring *ring = &r->rings[cpu];
    int fd = open_event(tid, (int)cpu, true);
    if (fd < 0)
        return errno;
    if (ring->fd < 0) {
        ring->fd = fd;
        return map_ring(r, ring);
    }
    if (!ct_grow(&r->more, &r->more_room, r->more_count, sizeof *r->more, 64)) {
        close(fd);
        return ENOMEM;
    }
    r->more[r->more_count++] = fd;
    return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) ? errno : 0;
}

/* tid -1: all threads of the machine. Processors that are switched off have no events. */
static int add_thread(struct ct_rings *r, int tid) {
    int error = 0;
    size_t used = 0;
    for (size_t cpu = 0; cpu < r->count && !error; cpu++) {
        error = add_event(r, tid, cpu);
        used += !error;
        if (error == ENODEV)
            error = 0;
    }
    return error ? error : used ? 0 : ENODEV;
}

static void close_events(struct ct_rings *r) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < r->count; i++) {
        if (r->rings[i].pages)
            (void)munmap(r->rings[i].pages, page + r->ring_bytes);
        if (r->rings[i].fd >= 0)
            close(r->rings[i].fd);
        r->rings[i] = (struct ct_ring){.fd = -1};
    }
    for (size_t i = 0; i < r->more_count; i++)
        close(r->more[i]);
    r->more_count = 0;
}

/* ---- the threads of a process ---- */

static int count_tasks(int pid) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *e; tasks && (e = readdir(tasks));)
        count += e->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

static int add_tasks(struct ct_rings *r) {
    char path[64];
    int error = 0;
    snprintf(path, sizeof path, "/proc/%d/task", r->pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return errno;
    for (const struct dirent *e; !error && (e = readdir(tasks));)
        if (e->d_name[0] != '.') {
            error = add_thread(r, atoi(e->d_name));
            error = error == ESRCH ? 0 : error; /* it has just ended */
        }
    closedir(tasks);
    return error;
}

struct ct_switches_refusal ct_switches_refusal(int error) {
    switch (error) {
    case EACCES:
    case EPERM:
        return (struct ct_switches_refusal){
            "the kernel refuses it to this user",
            "run contrail as root, or set /proc/sys/kernel/perf_event_paranoid to 2 or less (in a container, allow "
            "perf_event_open)"};
    case ENOSYS:
        return (struct ct_switches_refusal){
            "perf_event_open is not available here",
            "run contrail outside of this container, or on a kernel with CONFIG_PERF_EVENTS"};
    case EMFILE:
    case ENFILE:
        return (struct ct_switches_refusal){"the process has too many threads for our descriptors",
                                            "raise `ulimit -n`"};
    case ENOMEM:
    case EAGAIN:
        return (struct ct_switches_refusal){"no memory can be locked for it",
                                            "raise /proc/sys/kernel/perf_event_mlock_kb or `ulimit -l`"};
    default:
        return (struct ct_switches_refusal){NULL, "leave out --cpu"};
    }
}

static void explain(int error, char why[CT_SWITCHES_WHY]) {
    struct ct_switches_refusal refusal = ct_switches_refusal(error);
    if (refusal.cause)
        snprintf(why, CT_SWITCHES_WHY, "%s: %s", refusal.cause, refusal.remedy);
    else
        snprintf(why, CT_SWITCHES_WHY, "perf_event_open failed (%s): %s", strerrordesc_np(error), refusal.remedy);
}

int ct_switches_try(bool whole) {
    struct ct_ring ring = {.fd = -1};
    struct ct_rings r = {.rings = &ring, .count = 1, .ring_bytes = RING_LEAST};
    int error = add_event(&r, whole ? -1 : getpid(), 0);
    close_events(&r);
    return error;
}

int ct_rings_open(struct ct_rings *r, int pid, char why[CT_SWITCHES_WHY]) {
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    *r = (struct ct_rings){.pid = pid, .count = processors > 0 ? (size_t)processors : 1};
    bool many = r->count > MANY_CPUS;
    r->ring_bytes = many ? RING_WIDE / 4 : RING_WIDE;
    r->rings = calloc(r->count, sizeof *r->rings);
    if (!r->rings) {
        explain(ENOMEM, why);
        return CT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < r->count; i++)
        r->rings[i].fd = -1;
    int error = -1;
    if ((size_t)count_tasks(pid) * r->count > EACH_THREAD && (error = add_thread(r, -1)))
        close_events(r); /* whole processors are not allowed to everybody */
    if (error) {
        r->ring_bytes = many ? RING_MOST / 4 : RING_MOST;
        error = add_tasks(r);
    }
    if (!error)
        return 0;
    explain(error, why);
    ct_rings_close(r);
    return error == EPERM || error == EACCES ? CT_ERR_PERMISSION_DENIED : CT_ERR_UNSUPPORTED;
}

void ct_rings_close(struct ct_rings *r) {
    if (!r->rings)
        return;
    close_events(r);
    free(r->rings);
    free(r->more);
    *r = (struct ct_rings){0};
}

/* ---- reading ---- */

struct reading {
    const struct ct_rings *rings;
    uint64_t lost;
    void (*take)(void *arg, const struct ct_switch *record);
    void *arg;
};

static void take_record(struct reading *in, const uint8_t *bytes, size_t size) {
    struct perf_event_header header;
    struct sample_id id;
    uint64_t lost;
    memcpy(&header, bytes, sizeof header);
    if (header.type == PERF_RECORD_LOST && size >= sizeof header + 2 * sizeof lost) {
        memcpy(&lost, bytes + sizeof header + sizeof lost, sizeof lost);
        in->lost += lost;
    }
    bool one = header.type == PERF_RECORD_SWITCH, wide = header.type == PERF_RECORD_SWITCH_CPU_WIDE;
    if ((!one && !wide) || size < sizeof header + sizeof id)
        return;
    memcpy(&id, bytes + size - sizeof id, sizeof id); /* it is the end of each record */
    if ((int)id.pid != in->rings->pid)
        return;
    in->take(in->arg, &(struct ct_switch){
                          .ns = id.ns,
                          .pid = (int)id.pid,
                          .tid = (int)id.tid,
                          .out = header.misc & PERF_RECORD_MISC_SWITCH_OUT,
                          .preempted = header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
                      });
}

static void read_ring(struct reading *in, const struct ct_ring *ring) {
    struct perf_event_mmap_page *page = ring->pages;
    const uint8_t *data = (const uint8_t *)page + sysconf(_SC_PAGESIZE);
    uint64_t size = in->rings->ring_bytes, head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = page->data_tail;
    while (tail < head) {
        struct perf_event_header header;
        uint8_t bytes[RECORD_MOST];
        memcpy(&header, data + tail % size, sizeof header); /* records are multiples of 8: it does not wrap */
        if (header.size < sizeof header)
            break;
        size_t length = header.size < sizeof bytes ? header.size : 0;
        for (size_t i = 0; i < length; i++)
            bytes[i] = data[(tail + i) % size];
        if (length)
            take_record(in, bytes, length);
        tail += header.size;
    }
    __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

bool ct_rings_are_filling(const struct ct_rings *r) {
    for (size_t i = 0; i < r->count; i++) {
        const struct perf_event_mmap_page *page = r->rings[i].pages;
        if (page && __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE) - page->data_tail > r->ring_bytes / 4)
            return true;
    }
    return false;
}

uint64_t ct_rings_read(struct ct_rings *r, void (*take)(void *arg, const struct ct_switch *record), void *arg) {
    struct reading in = {.rings = r, .take = take, .arg = arg};
    for (size_t i = 0; i < r->count; i++)
        if (r->rings[i].pages)
            read_ring(&in, &r->rings[i]);
    return in.lost;
}
