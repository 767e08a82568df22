/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile target against the drain, the requests and the tables of following: it writes what it likes, where it
 * likes, when it likes into the memory that it shares with the recorder. Nothing may crash, hang, eat memory or disk
 * without bound, or touch a process that is not the target's.
 *
 * The input is the target's program (enum operation). It runs on the drain thread, before each pass; what it does
 * `later` happens in the middle of one, right before the recorder loads from the shared memory for the n-th time. As a
 * libFuzzer target (scripts/fuzz-hostile.sh), or alone: replays the files and directories given as arguments. */
#include "session/children.h"
#include "follow/stalk_internal.h"
#include "abi/event.h"
#include "hostile.h"
#include "hostile_requests.h"
#include "os/thread.h"
#include "remote/namespace.h"
#include "remote/program.h"
#include <contrail/stalker.h>
#include <ftw.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    DETAIL = 1,      /* what the first byte says: detail is captured, */
    ALWAYS = 2,      /* and all of it kept; */
    STALK = 4,       /* the target is followed; */
    LOSSLESS = 8,    /* threads wait; */
    PACKED = 16,     /* the other format of index files; */
    PRE_EVENTS = 32, /* pre-rolls are counted in events; */
    TABLES = 64,     /* tables of following are written at the end, */
    EARLY = 128      /* and the first operations come before they are set up */
};

enum operation {
    PASS,
    WRITE,
    CHUNK,
    THREAD,
    SEGMENT,
    LETTER,
    LOOK,
    TIME,
    MARK,
    CODE,
    LATER,
    AGAIN,
    GENERATIONS,
    SCRIBBLE,
    SIGNAL,
    OPERATIONS
};

enum {
    MEMORY = 256 << 10,
    HOOKS = 64,
    STACK = 64,
    LATERS = 8,
    SPACING = 32,
    NEAR = 32,
    GUARD = 16 << 20,
    MOST_PASSES = 100,
    MOST_LOOKS = 16,
    FEW_THREADS = 80
};

#define LANE_AT (1ull << 40) /* in the target */

struct region {
    uint64_t offset, item, count;
};

struct location {
    uint64_t offset;
    unsigned width;
};

struct later {
    struct location where;
    uint64_t value;
    uint32_t after, every; /* loads; every 0: once */
    bool near;             /* only those from where it is to be are counted */
};

static struct {
    struct ct_session *session;
    struct ct_shared_plan shared;
    struct ct_target_plan plan;
    struct ct_clock clock;
    uint64_t ids[HOOKS];
    int target, victim;
    char root[64];
} fixed; /* from input to input */

static struct {
    struct hostile_input in;
    struct ct_recording *r;
    uint8_t *view; /* as the target has it mapped */
    size_t size;
    uint64_t extra;
    struct region regions[16];
    unsigned region_count;
    uint8_t flags;
    bool started, over;
    sem_t done;
    uint64_t stamp, numbers[256];
    unsigned passes, looks;
    struct later later[LATERS];
    unsigned later_count;
    uint64_t made_before;
    pthread_t scribbler;
    struct location scribbled;
    uint64_t scribbles[2];
    int scribbling;
} w;

/* ---- what the recorder asks of other parts ---- */

static bool is_confirmed(int pid, int tid) {
    return pid == fixed.target && tid == fixed.target;
}

int __wrap_ct_remote_open(struct ct_remote **out, int pid, struct ct_remote_error *error);
int __wrap_ct_remote_open(struct ct_remote **out, int pid, struct ct_remote_error *error) {
    if (!is_confirmed(pid, pid))
        hostile_fail("a process is opened that is not the target's");
    *out = NULL;
    snprintf(error->text, sizeof error->text, "not now");
    return CT_ERR_PERMISSION_DENIED;
}

int __wrap_ct_remote_follow_exec(struct ct_remote **out, int pid, int tid, const struct ct_remote_exec *exec,
                                 unsigned limit_ms, struct ct_remote_error *error);
int __wrap_ct_remote_follow_exec(struct ct_remote **out, int pid, int tid, const struct ct_remote_exec *exec,
                                 unsigned limit_ms, struct ct_remote_error *error) {
    (void)limit_ms;
    if (!is_confirmed(pid, tid))
        hostile_fail("a program is followed that is not the target's");
    *out = NULL;
    snprintf(error->text, sizeof error->text, "not now");
    if (!exec->is_meant(exec->arg))
        return CT_ERR_NOT_FOUND;
    exec->ready(exec->arg);
    return CT_ERR_SPAWN_FAILED;
}

void __wrap_ct_program_look(int pid, int directory, const char *name, struct ct_program_kind *kind);
void __wrap_ct_program_look(int pid, int directory, const char *name, struct ct_program_kind *kind) {
    (void)directory;
    if (!is_confirmed(pid, pid) || !memchr(name, 0, PATH_MAX))
        hostile_fail("a program is looked at that is not the target's");
    *kind = (struct ct_program_kind){0};
}

int __wrap_ct_remote_read(const struct ct_remote *remote, uint64_t address, void *bytes, size_t size);
int __wrap_ct_remote_read(const struct ct_remote *remote, uint64_t address, void *bytes, size_t size) {
    (void)remote;
    if (address < 4096 || address >> 47)
        return CT_ERR_SYSTEM;
    memset(bytes, (int)address, size);
    return 0;
}

int __wrap_ct_remote_each_map(struct ct_remote *remote, int (*each)(void *arg, const struct ct_os_map *map), void *arg);
int __wrap_ct_remote_each_map(struct ct_remote *remote, int (*each)(void *arg, const struct ct_os_map *map),
                              void *arg) {
    const struct ct_os_map maps[] = {
        {.start = 0x400000, .end = 0x500000, .prot = CT_OS_READ | CT_OS_EXEC, .path = "/bin/target"},
        {.start = 0x7fff0000, .end = 0x7fff1000, .prot = CT_OS_READ | CT_OS_EXEC, .path = "[vdso]"},
    };
    int result = 0;
    (void)remote;
    for (size_t i = 0; !result && i < sizeof maps / sizeof maps[0]; i++)
        result = each(arg, &maps[i]);
    return result;
}

/* What the kernel says: the target has the memory mapped, nobody else. */
int __real_ct_os_each_map_of(int pid, int (*each)(void *arg, const struct ct_os_map *map), void *arg);
int __wrap_ct_os_each_map_of(int pid, int (*each)(void *arg, const struct ct_os_map *map), void *arg);
int __wrap_ct_os_each_map_of(int pid, int (*each)(void *arg, const struct ct_os_map *map), void *arg) {
    struct stat memory;
    if (pid != fixed.target || fstat(w.r->lane.fd, &memory))
        return __real_ct_os_each_map_of(pid, each, arg);
    const struct ct_os_map map = {.start = LANE_AT,
                                  .end = LANE_AT + w.size,
                                  .inode = memory.st_ino,
                                  .prot = CT_OS_READ | CT_OS_WRITE,
                                  .shared = true,
                                  .path = "/memfd:contrail (deleted)"};
    return each(arg, &map);
}

int __wrap_ct_remote_inner_pid(const struct ct_remote *remote);
int __wrap_ct_remote_inner_pid(const struct ct_remote *remote) {
    (void)remote;
    return fixed.target;
}

int __wrap_ct_recording_update_modules(struct ct_recording *r);
int __wrap_ct_recording_update_modules(struct ct_recording *r) {
    (void)r;
    return 0;
}

/* ---- writing to the shared memory ---- */

static void add_region(uint64_t offset, uint64_t item, uint64_t count) {
    if (offset + item <= w.size && count)
        w.regions[w.region_count++] = (struct region){offset, item, count};
}

static void list_regions(const struct ct_lane *lane) {
    const uint8_t *base = (const uint8_t *)lane->control;
    add_region(0, CT_SHM_REQUESTS_OFFSET, 1);
    add_region(128, 64, 1); /* liveness */
    add_region(CT_SHM_REQUESTS_OFFSET, sizeof(struct ct_shm_request), CT_SHM_REQUESTS);
    add_region(CT_SHM_MARKS_OFFSET, sizeof(struct ct_shm_mark), CT_SHM_MARKS);
    add_region(CT_SHM_MORE_MARKS_OFFSET, sizeof(struct ct_shm_more_marks), CT_TRIGGER_BITS);
    add_region((uint64_t)((uint8_t *)lane->threads - base), sizeof(struct ct_shm_thread), 256);
    add_region((uint64_t)((uint8_t *)lane->chunks - base), sizeof(struct ct_shm_chunk), lane->chunk_count);
    add_region((uint64_t)((uint8_t *)lane->queue - base), 64, CT_SHM_QUEUE_SIZE(lane->queue_room) / 64);
    add_region((uint64_t)((uint8_t *)ct_lane_events(lane, 0) - base), 2 * lane->chunk_bytes, lane->chunk_count);
    if (lane->segment_count) {
        add_region((uint64_t)((uint8_t *)lane->segments - base), sizeof(struct ct_shm_segment), lane->segment_count);
        add_region((uint64_t)(ct_lane_detail_chunk(lane, 0) - base), 2 * CT_SHM_DETAIL_CHUNK, lane->detail_chunk_count);
    }
    if (!w.extra)
        return;
    uint64_t targets = w.extra + sizeof(struct ct_stalk_tables);
    uint64_t blocks = targets + CT_STALK_TARGETS * sizeof(struct ct_stalk_target);
    uint64_t code = blocks + CT_STALK_BLOCKS * sizeof(struct ct_stalk_place);
    add_region(w.extra, offsetof(struct ct_stalk_tables, ranges), 1);
    add_region(targets, sizeof(struct ct_stalk_target), CT_STALK_TARGETS);
    add_region(blocks, sizeof(struct ct_stalk_place), CT_STALK_BLOCKS);
    add_region(code, sizeof(struct ct_stalk_code), CT_STALK_CODE);
    add_region(code + CT_STALK_CODE * sizeof(struct ct_stalk_code), 4096, CT_STALK_LENGTHS / 4096);
}

static struct location read_location(void) {
    const struct region *r = &w.regions[hostile_u8(&w.in) % w.region_count];
    uint64_t index = hostile_u16(&w.in) % r->count, within = hostile_u16(&w.in) % r->item;
    struct location where = {r->offset + index * r->item, 1u << hostile_u8(&w.in) % 4};
    where.offset += within / where.width * where.width;
    where.offset = where.offset < w.size - 8 ? where.offset : w.size - 8;
    return where;
}

static void put(struct location where, uint64_t value) {
    uint8_t *at = w.view + where.offset;
    switch (where.width) {
    case 1:
        __atomic_store_n(at, (uint8_t)value, __ATOMIC_SEQ_CST);
        break;
    case 2:
        __atomic_store_n((uint16_t *)at, (uint16_t)value, __ATOMIC_SEQ_CST);
        break;
    case 4:
        __atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_SEQ_CST);
        break;
    default:
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_SEQ_CST);
    }
}

static void *seen(const void *ours) {
    return w.view + ((const uint8_t *)ours - (const uint8_t *)w.r->lane.control);
}

/* ---- in the middle of things ---- */

static void loaded(uint64_t offset) {
    for (unsigned i = 0; i < w.later_count; i++) {
        struct later *l = &w.later[i];
        if (!l->after || (l->near && offset / NEAR != l->where.offset / NEAR) || --l->after)
            continue;
        put(l->where, l->value);
        l->after = l->every;
    }
}

static void do_later(bool again) {
    uint16_t after = hostile_u16(&w.in);
    struct later l = {.near = after >> 15, .after = after % (after >> 15 ? 64 : 4096) + 1u};
    l.where = read_location();
    l.value = hostile_value(&w.in);
    if (again)
        l.every = l.after = (l.after + SPACING) & ~(SPACING - 1u);
    if (w.later_count < LATERS)
        w.later[w.later_count++] = l;
}

static void *scribble(void *arg) {
    (void)arg;
    for (unsigned i = 0; __atomic_load_n(&w.scribbling, __ATOMIC_ACQUIRE); i++)
        put(w.scribbled, w.scribbles[i & 1]);
    return NULL;
}

static void stop_scribbling(void) {
    if (!w.scribbling)
        return;
    __atomic_store_n(&w.scribbling, 0, __ATOMIC_RELEASE);
    pthread_join(w.scribbler, NULL);
}

static void do_scribble(void) {
    stop_scribbling();
    w.scribbled = read_location();
    w.scribbles[0] = hostile_value(&w.in);
    w.scribbles[1] = hostile_value(&w.in);
    w.scribbling = 1;
    if (pthread_create(&w.scribbler, NULL, scribble, NULL))
        w.scribbling = 0;
}

/* ---- what an agent would do ---- */

static void do_thread(void) {
    uint8_t slot = hostile_u8(&w.in), generation = hostile_u8(&w.in), state = hostile_u8(&w.in) % 5;
    struct ct_shm_control *c = (struct ct_shm_control *)w.view;
    struct ct_shm_thread *t = seen(&w.r->lane.threads[slot]);
    t->generation = generation;
    t->tid = state == 4 ? (int32_t)hostile_u32(&w.in) : fixed.target;
    memset(t->name, slot, sizeof t->name);
    if (c->thread_high <= slot)
        c->thread_high = slot + 1u;
    __atomic_store_n(&t->state, state == 4 ? CT_THREAD_ALIVE : state, __ATOMIC_RELEASE);
}

static void fill(uint32_t chunk, uint32_t count, uint32_t hook, uint8_t kinds) {
    static const uint8_t kind_of[8] = {CT_EVENT_CALL, CT_EVENT_RETURN, CT_EVENT_ENTRY,    CT_EVENT_EXCEPTION,
                                       CT_EVENT_VOID, CT_EVENT_BLOCK,  CT_EVENT_COMPILED, CT_EVENT_PART};
    struct ct_event *events = seen(ct_lane_events(&w.r->lane, chunk));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kind = kind_of[i & 1 ? kinds >> 4 & 7 : kinds & 7];
        events[i].hook = hook + (kinds & 8 ? i : 0);
        events[i].kind = kind | (kinds & 128 ? (uint32_t)++w.numbers[255] * CT_TAG_STEP : 0);
        __atomic_store_n(&events[i].timestamp, w.stamp++, __ATOMIC_RELEASE);
    }
}

static void submit(uint32_t chunk, uint8_t slot, uint64_t number, uint8_t state, uint32_t depth) {
    struct ct_shm_chunk *c = seen(&w.r->lane.chunks[chunk]);
    uint32_t generation = c->generation + 1;
    *c = (struct ct_shm_chunk){
        .word = c->word,
        .number = number,
        .thread = slot,
        .thread_generation = ((struct ct_shm_thread *)seen(&w.r->lane.threads[slot]))->generation,
        .depth = depth,
        .generation = generation,
        .exhausted = depth & 3,
    };
    __atomic_store_n(&c->word, CT_CHUNK_WORD(state, 0, generation), __ATOMIC_RELEASE);
}

static void do_chunk(void) {
    uint32_t chunk = hostile_u8(&w.in) % w.r->lane.chunk_count;
    uint8_t slot = hostile_u8(&w.in), ahead = hostile_u8(&w.in);
    uint8_t state = hostile_u8(&w.in) % 6, kinds = hostile_u8(&w.in);
    uint32_t count = hostile_u16(&w.in) % (ct_lane_capacity(&w.r->lane) + 1), hook = hostile_u32(&w.in);
    w.numbers[slot] += 1u + ahead;
    fill(chunk, count, hook, kinds);
    submit(chunk, slot, w.numbers[slot], state, (uint32_t)hostile_value(&w.in));
}

/* Threads that come in the same place, one after the other, without the one before having ended. */
static void do_generations(void) {
    uint8_t slot = hostile_u8(&w.in), count = hostile_u8(&w.in);
    struct ct_shm_thread *t = seen(&w.r->lane.threads[slot]);
    for (uint32_t i = 0; i < count && i < w.r->lane.chunk_count; i++) {
        t->generation++;
        t->state = CT_THREAD_ALIVE;
        fill(i, 4, i, 0);
        submit(i, slot, 1, CT_CHUNK_FULL, 0);
    }
}

static void put_record(uint8_t *at, uint32_t tag, uint32_t hook, uint8_t slot) {
    const struct ct_lane *lane = &w.r->lane;
    const struct ct_shm_thread *t = seen(&lane->threads[slot]);
    struct ct_shm_detail *record = (struct ct_shm_detail *)at;
    record->stamp = w.stamp++;
    record->tag = tag;
    record->hook = hook;
    if ((tag & CT_TAG_KIND) != CT_EVENT_RETURN)
        record->call.stack_size = hostile_value(&w.in);
    record->check = record->stamp * (uint64_t)(int64_t)CT_DETAIL_MIX ^ (tag | (uint64_t)hook << 32) ^ lane->detail_key ^
                    CT_SHM_DETAIL_OWNER(slot, t->generation);
}

static void do_segment(void) {
    const struct ct_lane *lane = &w.r->lane;
    uint8_t which = hostile_u8(&w.in), slot = hostile_u8(&w.in), state = hostile_u8(&w.in) % 4;
    uint8_t count = hostile_u8(&w.in) % 32, step = hostile_u8(&w.in);
    uint32_t number = hostile_u16(&w.in), chunk, chunks;
    if (!lane->segment_count)
        return;
    uint32_t segment = which % lane->segment_count;
    struct ct_shm_segment *s = seen(&lane->segments[segment]);
    ct_lane_segment(lane, segment, &chunk, &chunks);
    uint8_t *at = seen(ct_lane_detail_chunk(lane, chunk));
    for (uint32_t i = 0, offset = 0; i < count && offset + 256 <= CT_SHM_DETAIL_CHUNK; i++) {
        put_record(at + offset, (number + i) * CT_TAG_STEP | (i & 1 ? CT_EVENT_RETURN : CT_EVENT_CALL), i, slot);
        offset += step ? step & ~7u : 176;
    }
    s->thread = slot;
    s->thread_generation = ((struct ct_shm_thread *)seen(&lane->threads[slot]))->generation;
    s->serial = number;
    s->turns = step & 1 ? chunks : 0;
    s->begin = w.stamp;
    __atomic_store_n(&s->word, CT_SEGMENT_WORD(state, slot), __ATOMIC_RELEASE);
}

static int32_t read_pid(void) {
    uint8_t who = hostile_u8(&w.in);
    return who % 4 == 0 ? fixed.victim : who % 4 == 1 ? fixed.target : who % 4 == 2 ? 1 : (int32_t)hostile_u32(&w.in);
}

static void do_letter(void) {
    struct ct_shm_request *l =
        (struct ct_shm_request *)(w.view + CT_SHM_REQUESTS_OFFSET) + hostile_u8(&w.in) % CT_SHM_REQUESTS;
    l->kind = hostile_u8(&w.in) % 5;
    l->pid = read_pid();
    l->tid = read_pid();
    l->argument = hostile_value(&w.in);
    l->directory = (int32_t)hostile_value(&w.in);
    uint8_t state = hostile_u8(&w.in) % 6;
    __atomic_store_n(&l->state, state == 5 ? CT_REQUEST_FILLED_BY(l->tid) : state, __ATOMIC_RELEASE);
}

/* The request thread looks; child threads that he has started come to their end. */
static void do_look(void) {
    hostile_requests_look(w.r);
    while (ct_children_active(fixed.session))
        usleep(50);
}

static void do_mark(void) {
    struct ct_shm_control *c = (struct ct_shm_control *)w.view;
    uint8_t bit = hostile_u8(&w.in), slot = hostile_u8(&w.in);
    if (bit & 128) {
        struct ct_shm_more_marks *more = (struct ct_shm_more_marks *)(w.view + CT_SHM_MORE_MARKS_OFFSET) + bit % 16;
        more->first = w.stamp - hostile_u8(&w.in);
        more->last = w.stamp;
        more->thread = slot;
        more->count = hostile_value(&w.in);
        return;
    }
    struct ct_shm_mark *m = (struct ct_shm_mark *)(w.view + CT_SHM_MARKS_OFFSET) + c->mark_next % CT_SHM_MARKS;
    *m = (struct ct_shm_mark){.stamp = w.stamp, .thread = slot, .hook = bit, .number = hostile_u16(&w.in)};
    __atomic_store_n(&m->serial, ++c->mark_next, __ATOMIC_RELEASE);
}

/* An entry of the table of code, and one of calls. */
static void do_code(void) {
    uint32_t number = hostile_u16(&w.in) % CT_STALK_TARGETS;
    uint64_t start = hostile_value(&w.in), lengths = hostile_value(&w.in);
    uint32_t size = (uint32_t)hostile_value(&w.in), insns = (uint32_t)hostile_value(&w.in);
    if (!w.extra)
        return;
    uint8_t *targets = w.view + w.extra + sizeof(struct ct_stalk_tables);
    uint8_t *blocks = targets + CT_STALK_TARGETS * sizeof(struct ct_stalk_target);
    uint8_t *code = blocks + CT_STALK_BLOCKS * sizeof(struct ct_stalk_place);
    ((struct ct_stalk_target *)targets)[number] = (struct ct_stalk_target){start, lengths, 1};
    ((struct ct_stalk_place *)blocks)[number] = (struct ct_stalk_place){start, start + size, 1};
    ((struct ct_stalk_code *)code)[number] = (struct ct_stalk_code){start, size, insns, lengths};
    struct ct_stalk_tables *t = (struct ct_stalk_tables *)(w.view + w.extra);
    t->code_count = number + 1u;
    t->asked = size & 1;
}

static void do_signal(void) {
    struct ct_signal_record record = {.tid = fixed.target, .signal = 11, .counter = w.stamp, .register_count = 18};
    if (hostile_u8(&w.in) & 1)
        strcpy(record.mark, "signal");
    (void)ct_drain_signal(&w.r->drain, &record);
}

/* ---- the program ---- */

/* One operation; false: a pass is due. */
static bool step(void) {
    switch ((enum operation)(hostile_u8(&w.in) % OPERATIONS)) {
    case WRITE: {
        struct location where = read_location();
        put(where, hostile_value(&w.in));
        break;
    }
    case CHUNK:
        do_chunk();
        break;
    case THREAD:
        do_thread();
        break;
    case SEGMENT:
        do_segment();
        break;
    case LETTER:
        do_letter();
        break;
    case LOOK:
        if (w.started && w.looks++ < MOST_LOOKS)
            do_look();
        break;
    case TIME:
        hostile_advance(hostile_u16(&w.in) * 1000000ull);
        break;
    case MARK:
        do_mark();
        break;
    case CODE:
        do_code();
        break;
    case LATER:
    case AGAIN:
        do_later(w.in.at[-1] % OPERATIONS == AGAIN);
        break;
    case GENERATIONS:
        do_generations();
        break;
    case SCRIBBLE:
        do_scribble();
        break;
    case SIGNAL:
        if (w.started)
            do_signal();
        break;
    default:
        return false;
    }
    return true;
}

/* Processes and threads that the kernel has made. */
static uint64_t count_made(void) {
    char line[256];
    unsigned long long made = 0;
    FILE *file = fopen("/proc/stat", "re");
    while (file && !made && fgets(line, sizeof line, file))
        (void)sscanf(line, "processes %llu", &made);
    if (file)
        fclose(file);
    return made;
}

/* What must hold after a pass, whatever the target does: it has one thread, and some may be seen twice. */
static void check(void) {
    static uint16_t open_of[1 << 14];
    size_t count = 0;
    memset(open_of, 0, sizeof open_of);
    for (const struct ct_drain_thread *t = w.r->drain.threads; t; t = t->next, count++)
        if (t->writer && ++open_of[t->slot] > 1)
            hostile_fail("two threads at a time have the same place");
    if (count > FEW_THREADS && count > FEW_THREADS + count_made() - w.made_before)
        hostile_fail("more threads than the kernel has made");
}

/* The drain thread takes no signals; a fault would end us without a word. */
static void begin(void) {
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGBUS);
    sigaddset(&faults, SIGABRT);
    pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
    w.started = true;
}

/* For ct_drain.every_pass: on the drain thread. */
static bool play(void *recording) {
    struct ct_recording *r = recording;
    if (!w.started)
        begin();
    check();
    while (w.in.at < w.in.end && step())
        ;
    if ((w.in.at >= w.in.end || ++w.passes >= MOST_PASSES) && !w.over) {
        uint64_t one = 1;
        w.over = true;
        (void)!write(r->drain.stop_fd, &one, sizeof one);
        sem_post(&w.done);
    }
    return w.flags & STALK ? ct_stalk_every_pass(r) : false;
}

/* ---- before and after ---- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_root(void) {
    nftw(fixed.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void prepare(void) {
    const char *root = getenv("TMPDIR");
    if (fixed.session)
        return;
    snprintf(fixed.root, sizeof fixed.root, "%.30s/contrail-fuzz-XXXXXX",
             root                            ? root
             : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp");
    fixed.target = hostile_bystander();
    fixed.victim = hostile_bystander();
    if (!mkdtemp(fixed.root) || fixed.target < 0 || fixed.victim < 0)
        hostile_fail("no directory, or no processes");
    atexit(remove_root);
    const struct ct_session_options options = {.size = sizeof options, .output = fixed.root, .index_memory = MEMORY};
    if (ct_session_create(&fixed.session, &options))
        hostile_fail("no session");
    fixed.session->stalk.events = CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_BLOCK | CT_STALKER_COMPILE;
    fixed.shared = (struct ct_shared_plan){.plan = &fixed.plan, .users = 1};
    for (uint64_t i = 0; i < HOOKS; i++)
        fixed.ids[i] = i + 1;
    ct_clock_start(&fixed.clock);
    usleep(2000);
    ct_clock_calibrate(&fixed.clock);
}

/* What the recorder must not touch lies on both sides of its mapping. */
static void guard(const struct ct_lane *lane, bool on) {
    uint8_t *sides[2] = {(uint8_t *)lane->control - GUARD, (uint8_t *)lane->control + ((lane->size + 4095) & ~4095ul)};
    static bool set[2];
    for (int i = 0; i < 2; i++)
        if (on)
            set[i] = mmap(sides[i], GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                          -1, 0) == sides[i];
        else if (set[i])
            munmap(sides[i], GUARD);
}

static int make_lane(struct ct_lane *lane, const struct ct_lane_options *options) {
    int fd = memfd_create("contrail", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ct_lane_create(lane, fd, options))
        hostile_fail("no shared memory");
    w.size = lane->size;
    w.extra = options->extra ? lane->size - options->extra : 0;
    w.view = mmap(NULL, lane->size, PROT_READ | PROT_WRITE, MAP_SHARED, lane->fd, 0);
    if (w.view == MAP_FAILED)
        hostile_fail("no view of it");
    guard(lane, true);
    list_regions(lane);
    hostile_watch(lane->control, lane->size, loaded);
    return 0;
}

/* The target has the memory from here on, before the recorder has set up the rest. */
int __wrap_ct_inject_shared(struct ct_injection *in, const uint8_t *agent, uint64_t tables,
                            const struct ct_injection_options *options);
int __wrap_ct_inject_shared(struct ct_injection *in, const uint8_t *agent, uint64_t tables,
                            const struct ct_injection_options *options) {
    (void)agent, (void)tables;
    int status = make_lane(in->lane, &options->lane);
    while (w.flags & EARLY && w.in.at < w.in.end && step())
        ;
    return status;
}

static void nothing(void *arg) {
    (void)arg;
}

static void trigger_text(void *arg, uint32_t id, char *text, size_t size) {
    (void)arg;
    snprintf(text, size, "trigger %u", id);
}

static void set_up_lane(struct ct_recording *r) {
    static struct ct_stalk no_stalk;
    static struct ct_recording parent = {.stalk = &no_stalk, .injection = {.tables = 0x10000, .shm = LANE_AT}};
    r->injection = (struct ct_injection){.lane = &r->lane, .shm = LANE_AT};
    if (w.flags & STALK) {
        r->session->options.stalk = &r->session->stalk;
        if (ct_stalk_install_forked(r, &parent))
            hostile_fail("not set up");
        return;
    }
    r->session->options.stalk = NULL;
    const struct ct_lane_options options = {
        .index_memory = MEMORY,
        .lossless = w.flags & LOSSLESS,
        .detail_memory = w.flags & DETAIL ? 1 << 20 : 0,
        .stack_bytes = STACK,
        .detail_rate = 100,
        .hook_room = HOOKS,
    };
    (void)make_lane(&r->lane, &options);
}

static void set_up_drain(struct ct_recording *r) {
    const struct ct_windows_options windows = {
        .detail = w.flags & ALWAYS ? CT_SESSION_DETAIL_ALWAYS : CT_SESSION_DETAIL_MARKED,
        .rolls = {.pre_ns = 1000000000,
                  .post_ns = 1000000000,
                  .pre_events = w.flags & PRE_EVENTS ? 5 : 0,
                  .post_events = w.flags & PRE_EVENTS ? 5 : 0},
        .grows = w.flags & PRE_EVENTS,
    };
    bool stalk = w.flags & STALK;
    ct_windows_init(&r->windows, &windows);
    ct_windows_start(&r->windows, ct_clock_now());
    snprintf(r->trace.directory, sizeof r->trace.directory, "%s/trace", fixed.root);
    if (mkdir(r->trace.directory, 0700) || ct_place_open(&r->trace.place, r->trace.directory, 0, CT_PLACE_NO_GROUP))
        hostile_fail("no directory");
    r->drain = (struct ct_drain){
        .lane = &r->lane,
        .clock = &r->clock,
        .function_ids = fixed.ids,
        .hook_count = HOOKS,
        .place = r->trace.place,
        .pid = fixed.target,
        .inner_pid = fixed.target,
        .hands = 3,
        .format = {.encoding = w.flags & PACKED ? CT_SESSION_FORMAT_PACKED : CT_SESSION_FORMAT_ATF2},
        .every_second = nothing,
        .windows = &r->windows,
        .every_pass = play,
        .on_pass_arg = r,
        .trigger_text = trigger_text,
        .resolve = stalk ? ct_stalk_resolve : NULL,
        .resolve_arg = r,
        .code = stalk ? ct_stalk_code_event : NULL,
    };
}

static void set_up(const uint8_t *data, size_t size) {
    memset(&w, 0, sizeof w);
    w.in = (struct hostile_input){data, data + size};
    w.flags = hostile_u8(&w.in);
    w.stamp = ct_os_timestamp() - 1000000;
    w.made_before = count_made();
    sem_init(&w.done, 0, 0);
    hostile_reset_time();
    if (!(w.r = ct_recording_create(fixed.session, CT_ORIGIN_ATTACH)))
        hostile_fail("no memory");
    w.r->pid = fixed.target;
    w.r->clock = fixed.clock;
    hostile_requests_open(w.r);
    ct_recording_share(w.r, &fixed.shared);
    set_up_lane(w.r);
    set_up_drain(w.r);
}

static void tear_down(void) {
    struct ct_lane lane = w.r->lane;
    struct ct_session_statistics statistics = {.size = sizeof statistics};
    (void)ct_drain_finish(&w.r->drain);
    stop_scribbling();
    hostile_watch(NULL, 0, NULL);
    ct_recording_statistics(w.r, &statistics);
    if (w.flags & TABLES)
        (void)ct_stalk_write_tables(w.r);
    hostile_requests_close(w.r);
    ct_recording_destroy(w.r);
    guard(&lane, false);
    munmap(w.view, w.size);
    sem_destroy(&w.done);
    char path[sizeof fixed.root + 8];
    snprintf(path, sizeof path, "%s/trace", fixed.root);
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const unsigned hostile_operations = OPERATIONS, hostile_cases = 200;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    prepare();
    set_up(data, size);
    if (ct_drain_start(&w.r->drain))
        hostile_fail("no drain");
    while (sem_wait(&w.done))
        ;
    tear_down();
    return 0;
}
