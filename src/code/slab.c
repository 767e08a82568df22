/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs and arenas (slab.h).
 *
 * Layout of a slab: [header part | code part]. The header part is private memory, rw-; the code part is, by mode,
 *   RWX      private, rwx
 *   DUAL     shared, r-x, and rw- in a second view
 *   PROTECT  shared, r-x when frozen and rw- when thawed; stores into live code go through a view made for the moment
 * Slabs fill a region (reserved address space) from its start; a new region is made when it is full. So the newest slab
 * is always the last one committed of the newest region, and slabs are given back in the reverse order.
 *
 * Invariants: only the newest slab grows; in DUAL and PROTECT no page is writable and executable at any moment; shared
 * code is made private before the child of a fork changes it (the owner word is wiped by the fork). */
#include "code/slab.h"

#include <contrail/status.h>
#include "code/gap.h"
#include "os/os.h"

#define REGION_SIZE   (64ull << 20)
#define REGION_SHARE  16 /* of what is within reach */
#define READ_EXEC     (CT_OS_READ | CT_OS_EXEC)
#define READ_WRITE    (CT_OS_READ | CT_OS_WRITE)
#define RESERVE_TRIES 16

struct region {
    uint64_t start;
    size_t size;
};

/* At the start of every slab's header part. */
struct slab {
    struct slab *previous;
    struct region region;
    uint64_t run;   /* the code part, where it executes */
    uint8_t *write; /* and where it is written */
    size_t used;
    size_t writable_from; /* PROTECT, while thawed: code before this offset stays executable */
};

enum state { FROZEN, THAWED, THAWED_FRESH };

/* At the start of the first slab's header part. */
struct ct_arena {
    struct slab first;
    struct slab *newest;
    struct ct_gap_request near;
    enum ct_wx_mode mode;
    enum state state;
    size_t slabs;
    uint64_t newest_run; /* the newest allocation, for trim */
    uint64_t *owner;     /* in a page of its own: 1, and 0 in the child of a fork */
};

_Static_assert(sizeof(struct ct_arena) <= CT_SLAB_HEADER / 2, "the first header part holds arena and owner word");
_Static_assert(CT_SLAB_HEADER >= CT_SLAB_SIZE / 12, "a twelfth");

/* ---- regions ---- */

static int reserve_sized(struct ct_gap_request *near, struct region *region) {
    int status = CT_ERR_BUSY;
    for (int i = 0; i < RESERVE_TRIES && status == CT_ERR_BUSY; i++) {
        uint64_t at;
        status = ct_gap_find(near, &at);
        if (status == CT_OK)
            status = ct_os_reserve_at(at, near->size); /* busy: another thread was faster, search again */
        if (status == CT_OK)
            *region = (struct region){at, near->size};
    }
    return status;
}

/* Prefers room for heap and stack to a large region, and a large region to a small one. */
static int reserve_region(struct ct_gap_request *near, struct region *region) {
    static const uint64_t rooms[] = {1ull << 30, 64ull << 20, 1ull << 20};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        near->room = rooms[i];
        for (near->size = REGION_SIZE; near->size >= CT_SLAB_SIZE; near->size /= 2) {
            if (near->size > near->reach / REGION_SHARE)
                continue; /* others need room within reach, too */
            int status = reserve_sized(near, region);
            if (status != CT_ERR_OUT_OF_RANGE)
                return status;
        }
    }
    return CT_ERR_OUT_OF_RANGE;
}

/* ---- slabs ---- */

static uint64_t slab_base(const struct slab *slab) {
    return slab->run - CT_SLAB_HEADER;
}

static int commit_code(enum ct_wx_mode mode, uint64_t run, uint8_t **write) {
    void *rw = (void *)run;
    int status;
    switch (mode) {
    case CT_WX_RWX:
        status = ct_os_commit(run, CT_SLAB_CODE, READ_WRITE | CT_OS_EXEC);
        break;
    case CT_WX_DUAL:
        status = ct_os_commit_dual(run, CT_SLAB_CODE, &rw);
        break;
    default:
        status = ct_os_commit_shared(run, CT_SLAB_CODE, READ_EXEC);
        break;
    }
    *write = rw;
    return status;
}

/* Commits the memory of a slab at `base`. Its other fields are zero. */
static int commit_slab(enum ct_wx_mode mode, uint64_t base, struct slab **out) {
    uint8_t *write = NULL;
    int status = ct_os_commit(base, CT_SLAB_HEADER, READ_WRITE);
    if (status == CT_OK)
        status = commit_code(mode, base + CT_SLAB_HEADER, &write);
    if (status != CT_OK) {
        (void)ct_os_decommit(base, CT_SLAB_SIZE);
        return status;
    }
    struct slab *slab = (struct slab *)base;
    slab->run = base + CT_SLAB_HEADER;
    slab->write = write;
    *out = slab;
    return CT_OK;
}

/* The slab must be the last committed one of its region. */
static void release_slab(enum ct_wx_mode mode, struct slab *slab) {
    uint64_t base = slab_base(slab);
    struct region region = slab->region;
    if (mode == CT_WX_DUAL)
        (void)ct_os_free(slab->write, CT_SLAB_CODE);
    if (base == region.start)
        (void)ct_os_free((void *)region.start, region.size);
    else
        (void)ct_os_decommit(base, CT_SLAB_SIZE);
}

/* Mode PROTECT: sets the protection that the arena's state asks for. */
static int protect_slab(const struct ct_arena *arena, const struct slab *slab) {
    size_t executable = arena->state == FROZEN ? CT_SLAB_CODE : slab->writable_from;
    int status = CT_OK;
    if (executable > 0)
        status = ct_os_protect((void *)slab->run, executable, READ_EXEC);
    if (status == CT_OK && executable < CT_SLAB_CODE)
        status = ct_os_protect((void *)(slab->run + executable), CT_SLAB_CODE - executable, READ_WRITE);
    return status;
}

static int add_slab(struct ct_arena *arena) {
    struct region region = arena->newest->region;
    uint64_t base = slab_base(arena->newest) + CT_SLAB_SIZE;
    bool full = base + CT_SLAB_SIZE > region.start + region.size;
    if (full) {
        int status = reserve_region(&arena->near, &region);
        if (status != CT_OK)
            return status;
        base = region.start;
    }
    struct slab *slab = NULL;
    int status = commit_slab(arena->mode, base, &slab);
    if (status != CT_OK)
        goto give_back;
    slab->previous = arena->newest;
    slab->region = region;
    if (arena->mode == CT_WX_PROTECT && arena->state != FROZEN) {
        status = protect_slab(arena, slab);
        if (status != CT_OK)
            goto release;
    }
    arena->newest = slab;
    arena->slabs++;
    return CT_OK;
release:
    release_slab(arena->mode, slab);
    return status;
give_back:
    if (full)
        (void)ct_os_free((void *)region.start, region.size);
    return status;
}

static struct slab *slab_of(const struct ct_arena *arena, uint64_t address) {
    struct slab *slab = arena->newest;
    while (slab && (address < slab->run || address - slab->run >= slab->used))
        slab = slab->previous;
    return slab;
}

/* ---- arenas ---- */

static int set_up_owner(struct ct_arena *arena) {
    size_t page = ct_os_page_size();
    arena->owner = (uint64_t *)(arena->first.run - page);
    *arena->owner = 1;
    return arena->mode == CT_WX_RWX ? CT_OK : ct_os_wipe_on_fork(arena->owner, page);
}

/* The only way to find out whether the process may use a mode is to use it. */
static int try_mode(struct ct_arena *arena) {
    if (arena->mode != CT_WX_PROTECT)
        return CT_OK;
    int status = ct_arena_thaw(arena);
    return status == CT_OK ? ct_arena_freeze(arena) : status;
}

static int create_in(struct ct_arena **out, struct region region, struct ct_gap_request near, enum ct_wx_mode mode) {
    struct slab *slab;
    int status = commit_slab(mode, region.start, &slab);
    if (status != CT_OK)
        return status;
    struct ct_arena *arena = (struct ct_arena *)slab;
    arena->first.region = region;
    arena->newest = &arena->first;
    arena->near = near;
    arena->mode = mode;
    arena->slabs = 1;
    status = set_up_owner(arena);
    if (status == CT_OK)
        status = try_mode(arena);
    if (status == CT_OK) {
        *out = arena;
        return CT_OK;
    }
    if (mode == CT_WX_DUAL)
        (void)ct_os_free(slab->write, CT_SLAB_CODE);
    (void)ct_os_decommit(region.start, CT_SLAB_SIZE);
    return status;
}

int ct_arena_create(struct ct_arena **out, uint64_t start, uint64_t end, uint64_t reach, enum ct_wx_mode mode) {
    if (!out || start > end || mode > CT_WX_PROTECT)
        return CT_ERR_INVALID_ARGUMENT;
    struct ct_gap_request near = {.start = start, .end = end, .reach = reach};
    struct region region;
    int status = reserve_region(&near, &region);
    if (status != CT_OK)
        return status;
    if (mode != CT_WX_AUTO) {
        status = create_in(out, region, near, mode);
    } else {
        status = CT_ERR_PERMISSION_DENIED;
        for (enum ct_wx_mode m = CT_WX_RWX; m <= CT_WX_PROTECT && status != CT_OK; m++)
            status = create_in(out, region, near, m);
    }
    if (status != CT_OK)
        (void)ct_os_free((void *)region.start, region.size);
    return status;
}

void ct_arena_destroy(struct ct_arena *arena) {
    if (!arena)
        return;
    enum ct_wx_mode mode = arena->mode; /* the arena is freed with its first slab */
    for (struct slab *slab = arena->newest, *previous; slab; slab = previous) {
        previous = slab->previous;
        release_slab(mode, slab);
    }
}

enum ct_wx_mode ct_arena_mode(const struct ct_arena *arena) {
    return arena->mode;
}

int ct_arena_unshare(struct ct_arena *arena) {
    if (*arena->owner == 1 || arena->mode == CT_WX_RWX)
        return CT_OK;
    bool dual = arena->mode == CT_WX_DUAL;
    for (struct slab *slab = arena->newest; slab; slab = slab->previous) {
        int status = ct_os_unshare(slab->run, CT_SLAB_CODE, slab->used, READ_EXEC, dual ? slab->write : NULL);
        if (status == CT_OK && !dual && arena->state != FROZEN)
            status = protect_slab(arena, slab);
        if (status != CT_OK)
            return status;
    }
    *arena->owner = 1;
    return CT_OK;
}

/* ---- allocation ---- */

static size_t align_up(size_t value, size_t align) {
    return (value + align - 1) & ~(align - 1);
}

int ct_arena_alloc(struct ct_arena *arena, size_t size, size_t align, uint64_t *run, uint8_t **write) {
    if (size == 0 || align == 0 || (align & (align - 1)) != 0 || align > ct_os_page_size())
        return CT_ERR_INVALID_ARGUMENT;
    if (size > CT_SLAB_CODE)
        return CT_ERR_NO_SPACE;
    int status = ct_arena_unshare(arena);
    if (status == CT_OK && align_up(arena->newest->used, align) > CT_SLAB_CODE - size)
        status = add_slab(arena);
    if (status != CT_OK)
        return status;
    struct slab *slab = arena->newest;
    size_t at = align_up(slab->used, align); /* the code part itself is page-aligned */
    slab->used = at + size;
    *run = arena->newest_run = slab->run + at;
    *write = slab->write + at;
    return CT_OK;
}

void ct_arena_trim(struct ct_arena *arena, uint64_t run, size_t used) {
    struct slab *slab = arena->newest;
    size_t end = run - slab->run + used;
    if (run == arena->newest_run && run >= slab->run && end <= slab->used)
        slab->used = end;
}

struct ct_arena_mark ct_arena_mark(const struct ct_arena *arena) {
    return (struct ct_arena_mark){arena->newest, arena->newest->used};
}

void ct_arena_rewind(struct ct_arena *arena, struct ct_arena_mark mark) {
    while (arena->newest != mark.slab && arena->newest->previous) {
        struct slab *slab = arena->newest;
        arena->newest = slab->previous;
        arena->slabs--;
        release_slab(arena->mode, slab);
    }
    struct slab *newest = arena->newest;
    size_t used = mark.used < newest->used ? mark.used : newest->used;
    if (arena->mode == CT_WX_PROTECT && arena->state == THAWED_FRESH && used < newest->writable_from)
        used = newest->writable_from; /* the mark is older than the thaw: what follows must be writable */
    newest->used = used;
    arena->newest_run = 0;
}

/* ---- writing ---- */

static int set_state(struct ct_arena *arena, enum state state) {
    arena->state = state;
    if (arena->mode != CT_WX_PROTECT)
        return CT_OK;
    int status = ct_arena_unshare(arena);
    for (struct slab *slab = arena->newest; slab && status == CT_OK; slab = slab->previous)
        status = protect_slab(arena, slab);
    return status;
}

/* What may have been written since the last thaw. */
static void sync_written(const struct ct_arena *arena) {
    for (const struct slab *slab = arena->newest; slab && arena->state != FROZEN; slab = slab->previous)
        if (slab->writable_from < slab->used)
            ct_os_sync_code(slab->run + slab->writable_from, slab->used - slab->writable_from);
}

int ct_arena_thaw(struct ct_arena *arena) {
    sync_written(arena);
    for (struct slab *slab = arena->newest; slab; slab = slab->previous)
        slab->writable_from = 0;
    return set_state(arena, THAWED);
}

int ct_arena_thaw_fresh(struct ct_arena *arena) {
    struct slab *newest = arena->newest;
    sync_written(arena);
    if (arena->mode == CT_WX_PROTECT) /* live code and fresh code must not share a page */
        newest->used = align_up(newest->used, ct_os_page_size());
    for (struct slab *slab = newest->previous; slab; slab = slab->previous)
        slab->writable_from = CT_SLAB_CODE;
    newest->writable_from = newest->used;
    return set_state(arena, THAWED_FRESH);
}

int ct_arena_freeze(struct ct_arena *arena) {
    sync_written(arena);
    return set_state(arena, FROZEN);
}

/* Returns where [run, run + size) can be written now. In mode PROTECT that is a view; release it with close_view. */
static int open_view(struct ct_arena *arena, uint64_t run, size_t size, uint8_t **write, void **view,
                     size_t *view_size) {
    *view = NULL;
    int status = ct_arena_unshare(arena);
    if (status != CT_OK)
        return status;
    struct slab *slab = slab_of(arena, run);
    if (!slab || size > slab->used - (run - slab->run))
        return CT_ERR_INVALID_ARGUMENT;
    *write = slab->write + (run - slab->run);
    if (arena->mode != CT_WX_PROTECT)
        return CT_OK;
    uint64_t start = run & ~(uint64_t)(ct_os_page_size() - 1);
    *view_size = align_up(run + size - start, ct_os_page_size());
    status = ct_os_view(start, *view_size, view);
    if (status == CT_OK)
        *write = (uint8_t *)*view + (run - start);
    return status;
}

static void close_view(void *view, size_t size) {
    if (view)
        (void)ct_os_free(view, size);
}

int ct_arena_store8(struct ct_arena *arena, uint64_t run, uint64_t value) {
    uint8_t *write;
    void *view;
    size_t view_size;
    if (run % sizeof value != 0)
        return CT_ERR_INVALID_ARGUMENT;
    int status = open_view(arena, run, sizeof value, &write, &view, &view_size);
    if (status != CT_OK)
        return status;
    __atomic_store_n((uint64_t *)(void *)write, value, __ATOMIC_RELEASE);
    ct_os_sync_code(run, sizeof value);
    close_view(view, view_size);
    return CT_OK;
}

int ct_arena_write(struct ct_arena *arena, uint64_t run, const void *bytes, size_t size) {
    uint8_t *write;
    void *view;
    size_t view_size;
    int status = open_view(arena, run, size, &write, &view, &view_size);
    if (status != CT_OK)
        return status;
    for (size_t i = 0; i < size; i++)
        ((volatile uint8_t *)write)[i] = ((const uint8_t *)bytes)[i];
    ct_os_sync_code(run, size);
    close_view(view, view_size);
    return CT_OK;
}

/* ---- questions ---- */

bool ct_arena_contains(const struct ct_arena *arena, uint64_t address) {
    return slab_of(arena, address) != NULL;
}

size_t ct_arena_bytes_used(const struct ct_arena *arena) {
    size_t used = 0;
    for (const struct slab *slab = arena->newest; slab; slab = slab->previous)
        used += slab->used;
    return used;
}

size_t ct_arena_slab_count(const struct ct_arena *arena) {
    return arena->slabs;
}
