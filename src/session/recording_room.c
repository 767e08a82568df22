/* SPDX-License-Identifier: Apache-2.0 */
/* Makes lanes fit into what limits leave to a target. Our memory is charged to the target: a memory cgroup that is full
 * kills it, and without free address space its own calls fail. So we take at most half of what is free. Lanes become
 * smaller for that; if even small ones do not fit, the process is left alone. Runs on the thread that leads the
 * recording, before the target is stopped. */
#include "session/recording_room.h"
#include "drain/room.h"
#include "os/os.h"
#include "session/recording.h"
#include <stdio.h>
#include <unistd.h>

#define MIB        (1ull << 20)
#define LEAST_LANE MIB
enum {
    BASE_MIB = 4,          /* agent, its tables, blocks of a few threads */
    STALK_MIB = 24,        /* translated code, and its tables */
    SPACE_MIB = 16,        /* address space of agent and tables */
    BLOCK_MIB = 9,         /* address space of a thread's block with its shadow stack */
    STALK_SPACE_MIB = 320, /* address space of regions for translated code, of which little is used */
    LEAST_TASKS = 8,       /* four of ours, and some for the program */
    FEW_TASKS = 32,        /* each recorded child needs three more of ours */
};

/* Stubs, and the pages that become private because of patches. */
static uint64_t charged_by_plan(const struct ct_target_plan *plan) {
    uint64_t bytes = 0, last = 0, page_size = ct_os_page_size();
    for (size_t i = 0; i < plan->region_count; i++)
        bytes += plan->regions[i].used;
    for (size_t i = 0; i < plan->hook_count; i++) {
        uint64_t page = plan->hooks[i].plan.function / page_size;
        bytes += page == last ? 0 : page_size;
        last = page;
    }
    return bytes;
}

/* A forked child shares the rest with its parent. */
static uint64_t charged_beside_lanes(const struct ct_recording *r) {
    if (r->origin == CT_ORIGIN_FORK)
        return MIB;
    return (r->session->options.stalk ? STALK_MIB * MIB : charged_by_plan(r->plan)) + BASE_MIB * MIB;
}

static size_t scaled(size_t lane, uint64_t all, uint64_t room) {
    uint64_t size = (uint64_t)((double)lane / (double)all * (double)room) / MIB * MIB;
    return lane == 0 ? 0 : size < LEAST_LANE ? LEAST_LANE : size;
}

static void note_limit(struct ct_recording *r, const char *text) {
    if (r->origin <= CT_ORIGIN_ATTACH)
        snprintf(r->session->note, sizeof r->session->note, "%s", text);
}

/* The program's limit counts our threads too: the program must not lack any because of us. */
static int check_tasks(struct ct_recording *r) {
    char text[320];
    uint64_t left = ct_room_tasks("", r->pid, getpid());
    if (left < LEAST_TASKS)
        return ct_recording_fail(
            r, CT_ERR_NO_THREADS,
            "the program may start only %llu more processes and threads (ulimit -u, or pids.max of "
            "the container), and contrail's own would use them up: raise the limit; it runs on "
            "unrecorded",
            (unsigned long long)left);
    if (left >= FEW_TASKS)
        return 0;
    snprintf(
        text, sizeof text,
        "the program may start only %llu more processes and threads (ulimit -u, or pids.max of the container), and "
        "contrail's own count among them: raise the limit, or use --no-children, so that it gets what it needs",
        (unsigned long long)left);
    note_limit(r, text);
    return 0;
}

static int refuse_memory(struct ct_recording *r, uint64_t left, uint64_t needed) {
    return ct_recording_fail(
        r, CT_ERR_NO_MEMORY,
        "the memory limit of its cgroup leaves %llu MiB to process %d, of which recording takes at "
        "most half, and it needs %llu MiB: raise the limit, or record less with --only and a smaller "
        "--index-mem",
        (unsigned long long)(left / MIB), r->pid, (unsigned long long)(needed / MIB + 1));
}

/* Lanes are mapped with a gap beside each chunk. */
static uint64_t mapped_bytes(const struct ct_recording *r, const struct ct_lane_options *lane) {
    uint64_t bytes = 2 * ((uint64_t)lane->index_memory + lane->detail_memory) + lane->extra + SPACE_MIB * MIB;
    if (r->session->options.stalk)
        return bytes + STALK_SPACE_MIB * MIB;
    for (size_t i = 0; i < r->plan->region_count; i++)
        bytes += r->plan->regions[i].size;
    return bytes + BLOCK_MIB * MIB * ct_room_threads("", r->pid);
}

/* At the start, the program still has as much as we take. (A forked child inherits our part from its parent.) */
static int check_address_space(struct ct_recording *r, const struct ct_lane_options *lane) {
    uint64_t left = ct_room_address_space("", r->pid);
    uint64_t needed = left == CT_ROOM_UNLIMITED || r->origin == CT_ORIGIN_FORK ? 0 : mapped_bytes(r, lane);
    if (needed <= left / 2)
        return 0;
    return ct_recording_fail(
        r, CT_ERR_NO_MEMORY,
        "the limit of its address space (ulimit -v) leaves %llu MiB to process %d, of which recording takes at most "
        "half, "
        "and it needs %llu MiB: raise the limit, or use a smaller --index-mem and --detail-mem; it runs on unrecorded",
        (unsigned long long)(left / MIB), r->pid, (unsigned long long)(needed / MIB + 1));
}

int ct_recording_fit(struct ct_recording *r, struct ct_lane_options *lane) {
    char text[320];
    uint64_t left = ct_room_memory("", r->pid), beside = charged_beside_lanes(r);
    uint64_t lanes = (uint64_t)lane->index_memory + lane->detail_memory;
    int status = check_tasks(r);
    if (!status)
        status = check_address_space(r, lane);
    if (status)
        return status;
    if (left == CT_ROOM_UNLIMITED || lanes + beside <= left / 2)
        return 0;
    uint64_t least = LEAST_LANE * (lane->detail_memory ? 2 : 1);
    if (lanes <= least || beside + least > left / 2)
        return refuse_memory(r, left, beside + (lanes < least ? lanes : least));
    uint64_t room = left / 2 - beside;
    lane->index_memory = scaled(lane->index_memory, lanes, room);
    lane->detail_memory = scaled(lane->detail_memory, lanes, room);
    snprintf(
        text, sizeof text,
        "the memory limit of its cgroup leaves %llu MiB, so --index-mem is %llu MiB%s; events may be lost where they "
        "come fast",
        (unsigned long long)(left / MIB), (unsigned long long)(lane->index_memory / MIB),
        lane->detail_memory ? " and --detail-mem as small" : "");
    note_limit(r, text);
    return 0;
}
