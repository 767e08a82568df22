/* See eject.h. */
#include "ctl/eject.h"
#include "abi/shm_abi.h"
#include "ctl/stopped.h"
#include "remote/frames.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define MAX_PATCHES (1u << 22)
#define MAX_REGIONS 65536u
#define MAX_CODES   65536u

/* ---- finding ---- */

/* A thread's GS leads to its block, that to the runtime, and that to the tables. */
static uint64_t find_boot(struct ct_remote *remote) {
    for (size_t i = 0; i < ct_remote_thread_count(remote); i++) {
        struct ct_os_regs regs;
        struct ct_runtime runtime;
        uint64_t self = 0, at = 0;
        if (ct_remote_get_regs(remote, i, &regs) || !regs.gs_base)
            continue;
        if (ct_remote_read(remote, regs.gs_base + CT_BLOCK_SELF, &self, 8) || self != regs.gs_base ||
            ct_remote_read(remote, self + offsetof(struct ct_block, runtime), &at, 8) ||
            ct_remote_read(remote, at, &runtime, sizeof runtime))
            continue;
        return runtime.boot;
    }
    return 0;
}

/* Appends a table of the target to one of ours. */
static int read_table(struct ct_remote *remote, uint64_t from, uint64_t more, uint64_t max, size_t size, void **table,
                      uint64_t *count) {
    if (more > max || *count > max)
        return CT_ERR_BAD_FILE;
    uint8_t *grown = realloc(*table, (*count + more) * size + 1);
    if (!grown)
        return CT_ERR_NO_MEMORY;
    *table = grown;
    int status = more ? ct_remote_read(remote, from, grown + *count * size, more * size) : 0;
    if (!status)
        *count += more;
    return status;
}

static int add_code(struct ct_ejection *e, const struct ct_boot_code *code) {
    struct ct_boot_region own = {code->map, code->map_size};
    void *patches = e->patches, *regions = e->regions, *maps = e->maps;
    int status = read_table(e->remote, code->patches, code->patch_count, MAX_PATCHES, sizeof *e->patches, &patches,
                            &e->patch_count);
    e->patches = patches;
    if (!status)
        status = read_table(e->remote, code->regions, code->region_count, MAX_REGIONS, sizeof *e->regions, &regions,
                            &e->region_count);
    e->regions = regions;
    if (status || !own.size)
        return status;
    maps = realloc(e->maps, (e->map_count + 1) * sizeof own);
    if (!maps)
        return CT_ERR_NO_MEMORY;
    e->maps = maps;
    e->maps[e->map_count++] = own;
    return 0;
}

/* The recorder's drain thread holds a robust mutex in the shared memory. A child that a recorded process has forked carries
 * hooks, but its parent is the one that is recorded. */
static bool is_recorded(struct ct_remote *remote, const struct ct_boot *boot) {
    uint32_t word = 0;
    if (boot->pid != ct_remote_inner_pid(remote) ||
        ct_remote_read(remote, boot->shm + offsetof(struct ct_shm_control, liveness), &word, sizeof word))
        return false;
    return word && !(word & CT_SHM_OWNER_DIED);
}

int ct_eject_open(struct ct_ejection *e, struct ct_remote *remote, bool *recorded) {
    return ct_eject_open_at(e, remote, find_boot(remote), recorded);
}

int ct_eject_open_at(struct ct_ejection *e, struct ct_remote *remote, uint64_t boot, bool *recorded) {
    *e = (struct ct_ejection){.remote = remote, .address = boot};
    *recorded = false;
    if (!e->address)
        return CT_ERR_NOT_FOUND;
    int status = ct_remote_read(remote, e->address, &e->boot, sizeof e->boot);
    if (status)
        return status;
    if (e->boot.magic != CT_BOOT_MAGIC || e->boot.version != CT_BOOT_VERSION)
        return CT_ERR_UNSUPPORTED;
    *recorded = is_recorded(remote, &e->boot);
    status = add_code(e, &e->boot.code);
    for (uint64_t next = e->boot.code.next, n = 0; !status && next; n++) {
        struct ct_boot_code code;
        status = n < MAX_CODES ? ct_remote_read(remote, next, &code, sizeof code) : CT_ERR_BAD_FILE;
        if (!status)
            status = add_code(e, &code);
        next = code.next;
    }
    if (status)
        ct_eject_close(e);
    return status;
}

void ct_eject_close(struct ct_ejection *e) {
    free(e->patches);
    free(e->regions);
    free(e->maps);
    *e = (struct ct_ejection){0};
}

/* ---- entry bytes ---- */

/* Where a thread goes that stands on a springboard which is taken away. */
static uint64_t forwarded(const void *arg, uint64_t pc, bool in_call) {
    const struct ct_ejection *e = arg;
    (void)in_call;
    for (uint64_t i = 0; i < e->patch_count; i++) {
        const struct ct_boot_patch *p = &e->patches[i];
        if (p->at == pc && p->forward)
            return p->forward;
        if (p->forward_second && p->at + CT_PATCH_MAX / 2 == pc)
            return p->forward_second;
    }
    return 0;
}

/* Taken back is only what is ours. A module that is gone must not keep the others from being restored. */
static int restore(struct ct_ejection *e, bool services) {
    struct ct_page_writer w = ct_stopped_writer(e->remote);
    int result = 0;
    for (uint64_t i = 0; i < e->patch_count; i++) {
        const struct ct_boot_patch *p = &e->patches[i];
        if (p->service != services || p->size > sizeof p->bytes || !ct_page_writer_holds(&w, p->at, p->bytes, p->size))
            continue;
        int status = ct_page_writer_put(&w, p->at, p->original, p->size);
        result = result ? result : status;
    }
    int status = ct_page_writer_flush(&w);
    return result ? result : status;
}

/* What is left to take back are services: as long as there are stubs' addresses on stacks, unwinders must know of them. */
static void keep_services(struct ct_ejection *e) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < e->patch_count; i++)
        if (e->patches[i].service)
            e->patches[count++] = e->patches[i];
    e->patch_count = count;
}

int ct_eject_hooks(struct ct_ejection *e) {
    int status = ct_stopped_move_threads(e->remote, forwarded, e);
    if (!status)
        status = restore(e, false);
    if (!status)
        keep_services(e);
    return status;
}

/* ---- return addresses ---- */

/* What the shadow stacks know: a return through `slot` to the stub's `resume` is really one to `ret`. */
struct known_return {
    uint64_t slot, resume, ret;
};

struct known_returns {
    struct known_return *at;
    size_t count, capacity;
    bool failed; /* not everything is known, or somebody is in the middle of something: our code must stay */
};

static void add_entries(struct known_returns *known, const struct ct_shadow *e, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (e[i].slot <= CT_SLOT_LAST || e[i].slot == UINT64_MAX)
            continue;
        if (known->count == known->capacity) {
            size_t capacity = known->capacity ? known->capacity * 2 : 256;
            struct known_return *at = realloc(known->at, capacity * sizeof *at);
            if (!at) {
                known->failed = true;
                return;
            }
            known->at = at;
            known->capacity = capacity;
        }
        known->at[known->count++] =
            (struct known_return){(e[i].slot + 7) & ~7ull, e[i].stub + CT_AFTER_TO_RESUME, e[i].ret};
    }
}

static void add_remote(struct known_returns *known, struct ct_remote *remote, uint64_t from, size_t count) {
    struct ct_shadow *entries = malloc(count * sizeof *entries + 1);
    if (!entries || ct_remote_read(remote, from, entries, count * sizeof *entries))
        known->failed = true;
    else
        add_entries(known, entries, count);
    free(entries);
}

static void collect(struct known_returns *known, struct ct_remote *remote, const struct ct_runtime *rt) {
    static struct ct_block block; /* large */
    uint64_t at = (uint64_t)rt->blocks;
    while (at && !known->failed) {
        if (ct_remote_read(remote, at, &block, sizeof block)) {
            known->failed = true;
            return;
        }
        known->failed |= block.in_use && (block.attention & (CT_ATTENTION_GUARD | CT_ATTENTION_SHARED));
        if (block.in_use && block.top > block.base)
            add_remote(known, remote, (uint64_t)block.base, (size_t)(block.top - block.base));
        at = (uint64_t)block.next;
    }
    if (rt->parked_count)
        add_remote(known, remote, (uint64_t)rt->parked, CT_PARKED_CAPACITY);
    known->failed |= rt->parked_count > CT_PARKED_CAPACITY / 4 * 3; /* some may have been evicted */
}

static int by_slot(const void *a, const void *b) {
    const struct known_return *x = a, *y = b;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* A chain of tail calls has one slot and several stubs, each leading to the next. */
static uint64_t real_return(const struct known_return *group, size_t count, uint64_t value) {
    for (size_t steps = 0; steps <= count; steps++) {
        size_t i = 0;
        while (i < count && group[i].resume != value)
            i++;
        if (i == count)
            break;
        value = group[i].ret;
    }
    return value;
}

static void put_right(struct ct_remote *remote, const struct known_returns *known) {
    for (size_t i = 0, n; i < known->count; i += n) {
        uint64_t value, real;
        for (n = 1; i + n < known->count && known->at[i + n].slot == known->at[i].slot;)
            n++;
        if (ct_remote_read(remote, known->at[i].slot, &value, sizeof value))
            continue; /* a coroutine's stack that is no more */
        real = real_return(&known->at[i], n, value);
        if (real != value)
            (void)ct_remote_write(remote, known->at[i].slot, &real, sizeof real);
    }
}

static bool bare_stacks(const struct ct_ejection *e) {
    struct ct_runtime runtime;
    struct known_returns known = {0};
    if (ct_remote_read(e->remote, e->boot.runtime, &runtime, sizeof runtime))
        return false;
    collect(&known, e->remote, &runtime);
    if (!known.failed && known.count) {
        qsort(known.at, known.count, sizeof *known.at, by_slot);
        put_right(e->remote, &known);
    }
    free(known.at);
    return !known.failed;
}

/* ---- who is inside ---- */

static bool is_ours(const void *ejection, uint64_t pc) {
    const struct ct_ejection *e = ejection;
    if ((pc >= e->boot.image && pc < e->boot.image + e->boot.text_size) || forwarded(e, pc, false))
        return true;
    for (uint64_t i = 0; i < e->region_count; i++)
        if (pc >= e->regions[i].start && pc < e->regions[i].start + e->regions[i].size)
            return true;
    return false;
}

/* Return addresses are put right only when nobody is inside a stub: who is has yet to read, or to write, one. Afterwards nobody
 * comes back: whoever would has an entry on a shadow stack. */
bool ct_eject_settle(struct ct_ejection *e) {
    return !ct_remote_comes_to(e->remote, is_ours, e) && bare_stacks(e) && !restore(e, true);
}

/* ---- nothing of ours stays ---- */

static int release_threads(struct ct_ejection *e) {
    for (size_t i = 0; i < ct_remote_thread_count(e->remote); i++) {
        struct ct_os_regs regs;
        if (ct_remote_get_regs(e->remote, i, &regs))
            continue;
        regs.gs_base = 0;
        if (regs.fs_base == e->boot.early_thread_pointer)
            regs.fs_base = 0;
        int status = ct_remote_set_regs(e->remote, i, &regs);
        if (status)
            return status;
    }
    return 0;
}

static int unmap(struct ct_ejection *e, uint64_t at, uint64_t size) {
    int64_t result;
    const uint64_t a[6] = {at, size};
    return size ? ct_remote_syscall(e->remote, SYS_munmap, a, &result) : 0;
}

/* The agent itself gives the thread blocks back. */
static int end_agent(struct ct_ejection *e) {
    uint64_t result;
    const uint64_t a[6] = {e->address};
    struct ct_boot boot = e->boot;
    boot.command = CT_BOOT_END;
    int status = ct_remote_write(e->remote, e->address, &boot, sizeof boot);
    return status ? status : ct_remote_call(e->remote, boot.entry, boot.stack, a, &result);
}

int ct_eject_memory(struct ct_ejection *e) {
    int status = release_threads(e);
    if (!status)
        status = end_agent(e);
    for (uint64_t i = 0; !status && i < e->region_count; i++)
        status = unmap(e, e->regions[i].start, e->regions[i].size);
    if (!status)
        status = unmap(e, e->boot.shm_map, e->boot.shm_map_size);
    for (uint64_t i = 0; !status && i < e->map_count; i++)
        status = unmap(e, e->maps[i].start, e->maps[i].size);
    return status ? status : unmap(e, e->boot.image, e->boot.image_size);
}
