/* SPDX-License-Identifier: Apache-2.0 */
/* See eject.h. */
#include "inject/eject_internal.h"
#include "abi/shm_abi.h"
#include "inject/recorder.h"
#include "inject/stopped.h"
#include "base/grow.h"
#include "hook/fault.h"
#include "remote/frames.h"
#include "remote/namespace.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* Limits for all codes together: a patch for each function, a region for each range of memory with stubs. */
#define MAX_PATCHES (1u << 21)
#define MAX_REGIONS 65536u
#define MAX_CODES   65536u
#define RESTORER    0x04000000u /* SA_RESTORER */

/* ---- finding ---- */

struct boot_search {
    struct ct_remote *remote;
    uint64_t boot;
    bool other_version;
};

/* A recorder that was killed while it injected may have left a name for tables that do not exist yet; eject_left.h
 * handles that. */
static int look_for_boot(void *arg, const struct ct_os_map *map) {
    struct boot_search *s = arg;
    struct ct_shm_control control;
    uint32_t magic;
    if (!ct_recorder_is_memory(map) || map->offset || ct_remote_read(s->remote, map->start, &control, sizeof control) ||
        control.magic != CT_SHM_MAGIC)
        return 0;
    s->other_version |= control.version != CT_SHM_VERSION;
    if (control.version != CT_SHM_VERSION || !control.boot ||
        ct_remote_read(s->remote, control.boot, &magic, sizeof magic) || magic != CT_BOOT_MAGIC)
        return 0;
    s->boot = control.boot;
    return 1;
}

/* Appends a table of the target to one of ours. */
static int read_table(struct ct_remote *remote, uint64_t from, uint64_t more, uint64_t max, size_t size, void **table,
                      uint64_t *count) {
    if (more > max - *count)
        return CT_ERR_BAD_FILE;
    if (!more)
        return 0;
    uint8_t *grown = realloc(*table, (*count + more) * size);
    if (!grown)
        return CT_ERR_NO_MEMORY;
    *table = grown;
    int status = ct_remote_read(remote, from, grown + *count * size, more * size);
    if (!status)
        *count += more;
    return status;
}

static int add_code(struct ct_ejection *e, const struct ct_boot_code *code) {
    struct ct_boot_region own = {code->map, code->map_size};
    void *patches = e->patches, *regions = e->regions;
    int status = read_table(e->remote, code->patches, code->patch_count, MAX_PATCHES, sizeof *e->patches, &patches,
                            &e->patch_count);
    e->patches = patches;
    if (!status)
        status = read_table(e->remote, code->regions, code->region_count, MAX_REGIONS, sizeof *e->regions, &regions,
                            &e->region_count);
    e->regions = regions;
    if (status || !own.size)
        return status;
    if (!ct_grow(&e->maps, &e->map_room, e->map_count, sizeof own, 64))
        return CT_ERR_NO_MEMORY;
    e->maps[e->map_count++] = own;
    return 0;
}

/* The child of a recorded process has hooks too, but only its parent is recorded. */
static bool is_recorded(struct ct_remote *remote, const struct ct_boot *boot) {
    return boot->pid == ct_remote_inner_pid(remote) && ct_recorder_is_alive(remote, boot->shm);
}

static int by_start(const void *a, const void *b) {
    const struct ct_boot_region *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

int ct_eject_tidy(struct ct_boot_region *regions, uint64_t *count) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < *count; i++)
        if (regions[i].size > UINT64_MAX - regions[i].start)
            return CT_ERR_BAD_FILE;
    if (*count)
        qsort(regions, *count, sizeof *regions, by_start);
    for (uint64_t i = 0; i < *count; i++) {
        struct ct_boot_region *last = kept ? &regions[kept - 1] : NULL;
        if (!regions[i].size)
            continue;
        if (!last || regions[i].start > last->start + last->size)
            regions[kept++] = regions[i];
        else if (regions[i].start + regions[i].size > last->start + last->size)
            last->size = regions[i].start + regions[i].size - last->start;
    }
    *count = kept;
    return 0;
}

static int by_pc(const void *a, const void *b) {
    const struct ct_eject_forward *x = a, *y = b;
    return x->pc < y->pc ? -1 : x->pc > y->pc;
}

/* Finds where threads on springboards that are removed continue. Where a patch is not in place (a hook that was taken
 * out for its cost, code that had changed), a thread may be in the function's own instructions: it stays there. */
static int make_forwards(struct ct_ejection *e) {
    struct ct_eject_forward *forwards = malloc((2 * e->patch_count + 1) * sizeof *forwards);
    struct ct_page_writer w = ct_stopped_writer(e->remote);
    uint64_t count = 0;
    if (!forwards)
        return CT_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < e->patch_count; i++) {
        const struct ct_boot_patch *p = &e->patches[i];
        bool leads = (p->forward || p->forward_second) && p->size <= sizeof p->bytes;
        if (!leads || !ct_page_writer_holds(&w, p->at, p->bytes, p->size))
            continue;
        if (p->forward)
            forwards[count++] = (struct ct_eject_forward){p->at, p->forward};
        if (p->forward_second)
            forwards[count++] = (struct ct_eject_forward){p->at + CT_TWO_JUMPS / 2, p->forward_second};
    }
    qsort(forwards, count, sizeof *forwards, by_pc);
    free(e->forwards);
    e->forwards = forwards;
    e->forward_count = count;
    return 0;
}

int ct_eject_open(struct ct_ejection *e, struct ct_remote *remote, bool *recorded) {
    struct boot_search s = {.remote = remote};
    int found = ct_remote_each_map(remote, look_for_boot, &s);
    *e = (struct ct_ejection){.remote = remote};
    *recorded = false;
    if (found < 0)
        return found;
    return s.other_version && !s.boot ? CT_ERR_UNSUPPORTED : ct_eject_open_at(e, remote, s.boot, recorded);
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
        next = status ? 0 : code.next;
    }
    if (!status)
        status = ct_eject_tidy(e->regions, &e->region_count);
    if (!status)
        status = make_forwards(e);
    if (status)
        ct_eject_close(e);
    return status == CT_ERR_NOT_MAPPED ? CT_ERR_BAD_FILE : status;
}

void ct_eject_close(struct ct_ejection *e) {
    free(e->patches);
    free(e->regions);
    free(e->maps);
    free(e->forwards);
    free(e->blocks);
    *e = (struct ct_ejection){0};
}

/* ---- entry bytes ---- */

static uint64_t forwarded(const void *arg, uint64_t pc, bool in_call) {
    const struct ct_ejection *e = arg;
    const struct ct_eject_forward wanted = {.pc = pc}, *found = NULL;
    (void)in_call;
    if (e->forward_count)
        found = bsearch(&wanted, e->forwards, e->forward_count, sizeof wanted, by_pc);
    return found ? found->to : 0;
}

/* Restores only patches that are ours, from the last to the first: each is removed before what it leads to. A module
 * that is gone must not keep the others from being restored. But if the time is over, the result is unknown. */
static int restore_patches(struct ct_ejection *e, bool services) {
    struct ct_page_writer w = ct_stopped_writer(e->remote);
    int result = 0;
    for (uint64_t i = e->patch_count; i-- > 0;) {
        const struct ct_boot_patch *p = &e->patches[i];
        if (p->service != services || p->size > sizeof p->bytes || !ct_page_writer_holds(&w, p->at, p->bytes, p->size))
            continue;
        int status = ct_page_writer_put(&w, p->at, p->original, p->size);
        result = result ? result : status;
    }
    int status = ct_page_writer_flush(&w);
    if (ct_remote_is_over(e->remote))
        return CT_ERR_TIMEOUT;
    return result ? result : status;
}

/* Only services are left to restore: as long as stubs' addresses are on stacks, unwinders must know about them. */
static int keep_services(struct ct_ejection *e) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < e->patch_count; i++)
        if (e->patches[i].service)
            e->patches[count++] = e->patches[i];
    e->patch_count = count;
    return make_forwards(e);
}

int ct_eject_hooks(struct ct_ejection *e) {
    int status = ct_stopped_move_threads(e->remote, forwarded, e);
    if (!status)
        status = restore_patches(e, false);
    return status ? status : keep_services(e);
}

/* ---- threads inside our code ---- */

static bool is_in_region(const struct ct_ejection *e, uint64_t pc) {
    uint64_t low = 0, high = e->region_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (e->regions[middle].start + e->regions[middle].size <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->region_count && pc >= e->regions[low].start;
}

/* In memory of the other codes: only that of a script beside the recording has instructions. */
static bool is_in_map(const struct ct_ejection *e, uint64_t pc) {
    for (uint64_t i = 0; i < e->map_count; i++)
        if (pc - e->maps[i].start < e->maps[i].size)
            return true;
    return false;
}

static bool is_ours(const void *ejection, uint64_t pc) {
    const struct ct_ejection *e = ejection;
    return pc - e->boot.image < e->boot.text_size || forwarded(e, pc, false) || is_in_region(e, pc) || is_in_map(e, pc);
}

/* ---- handlers of faults ---- */

static int call_sigaction(struct ct_ejection *e, int signal, uint64_t new, uint64_t old) {
    int64_t result;
    const uint64_t a[6] = {(uint64_t)signal, new, old, 8};
    int status = ct_remote_syscall(e->remote, SYS_rt_sigaction, a, &result);
    return status ? status : result ? CT_ERR_SYSTEM : 0;
}

/* Gives the signals back to the program's own handlers. A process that forbids this call to itself also refused when
 * its handlers were to be replaced. */
static int restore_handlers(struct ct_ejection *e) {
    struct ct_boot_faults faults;
    uint64_t now[4], room = e->boot.faults + offsetof(struct ct_boot_faults, room);
    if (!e->boot.faults || ct_remote_read(e->remote, e->boot.faults, &faults, sizeof faults))
        return 0;
    for (int signal = 1; signal < CT_BOOT_SIGNALS; signal++) {
        if (!(CT_FAULT_WATCHED >> signal & 1) || call_sigaction(e, signal, 0, room) ||
            ct_remote_read(e->remote, room, now, sizeof now) || !faults.entry || now[0] != faults.entry)
            continue;
        now[0] = faults.handlers[signal];
        now[1] ^= faults.changed[signal];
        if (faults.changed[signal] & RESTORER)
            now[2] = 0;
        int status = ct_remote_write(e->remote, room, now, sizeof now);
        if (!status)
            status = call_sigaction(e, signal, room, 0);
        if (status)
            return status;
    }
    return ct_remote_is_over(e->remote) ? CT_ERR_TIMEOUT : 0;
}

/* Is a function of the program under way that returns to our code (work of a script)? Such a thread need not have an
 * entry on a shadow stack. */
static bool is_called_from(const struct ct_ejection *e) {
    uint32_t inside = 0;
    uint64_t at = e->boot.runtime ? e->boot.runtime + offsetof(struct ct_runtime, inside) : 0;
    return at && !ct_remote_read(e->remote, at, &inside, sizeof inside) && inside;
}

/* Return addresses are restored only if no thread is inside a stub: such a thread has yet to read or write one.
 * Afterwards no thread returns to our code: one that would has an entry on a shadow stack. */
int ct_eject_settle(struct ct_ejection *e, bool *settled) {
    *settled = false;
    if (is_called_from(e))
        return ct_remote_is_over(e->remote) ? CT_ERR_TIMEOUT : 0;
    if (ct_remote_comes_to(e->remote, is_ours, e))
        return ct_remote_is_over(e->remote) ? CT_ERR_TIMEOUT : 0;
    int status = ct_eject_bare_stacks(e, settled);
    if (!status && *settled)
        status = restore_patches(e, true);
    if (!status && *settled)
        status = restore_handlers(e);
    *settled = *settled && !status;
    return status;
}

/* ---- removing our memory ---- */

/* The register may be the program's own. */
static bool is_block(struct ct_ejection *e, uint64_t at) {
    uint64_t self;
    return at && !ct_remote_read(e->remote, at + CT_BLOCK_SELF, &self, sizeof self) && self == at;
}

static int release_threads(struct ct_ejection *e) {
    size_t count = ct_remote_thread_count(e->remote);
    struct ct_registers *regs = malloc((count + 1) * sizeof *regs);
    if (!regs)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        (void)ct_remote_get_regs(e->remote, i, &regs[i]);
        if (is_block(e, ct_registers_block(&regs[i])))
            ct_registers_set_block(&regs[i], 0);
        if (ct_registers_thread_base(&regs[i]) == e->boot.early_thread_pointer)
            ct_registers_set_thread_base(&regs[i], 0);
    }
    int status = ct_remote_set_all_regs(e->remote, regs);
    free(regs);
    return status;
}

static int unmap(struct ct_ejection *e, uint64_t at, uint64_t size) {
    int64_t result;
    const uint64_t a[6] = {at, size};
    return size ? ct_remote_syscall(e->remote, SYS_munmap, a, &result) : 0;
}

static int unmap_all(struct ct_ejection *e, const struct ct_boot_region *regions, uint64_t count) {
    int status = 0;
    for (uint64_t i = 0; !status && i < count; i++)
        status = unmap(e, regions[i].start, regions[i].size);
    return status;
}

/* Everything is done from outside: code in the target that claims to be the agent may be the program's own, and a call
 * would run it without the program's seccomp filters. */
int ct_eject_memory(struct ct_ejection *e) {
    const uint64_t none = 0;
    int status = release_threads(e);
    /* If we die in the middle, the next one must not look for blocks: some are gone, and no thread needs them. */
    if (!status)
        status = ct_remote_write(e->remote, e->address + offsetof(struct ct_boot, runtime), &none, sizeof none);
    if (!status)
        status = unmap_all(e, e->blocks, e->block_count);
    if (!status)
        status = unmap_all(e, e->regions, e->region_count);
    if (!status)
        status = unmap(e, e->boot.shm_map, e->boot.shm_map_size);
    if (!status)
        status = unmap_all(e, e->maps, e->map_count);
    return status ? status : unmap(e, e->boot.image, e->boot.image_size);
}
