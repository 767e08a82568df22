/* SPDX-License-Identifier: Apache-2.0 */
/* See inject.h: the way in. */
#include "inject/inject.h"
#include "abi/boot_abi.h"
#include "inject/agent_image.h"
#include "inject/inject_memory.h"
#include "inject/stopped.h"
#include "remote/namespace.h"
#include <contrail/status.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define AGENT_STACK  (64ull << 10)
#define MORE_HOOKS   131072u /* for libraries that are loaded later */
#define FIRST_BLOCKS 32u     /* threads that get their blocks from us */

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static int explain(struct ct_remote_error *error, int status, const char *text) {
    snprintf(error->text, sizeof error->text, "%s", text);
    return status;
}

/* ---- system calls in the target ---- */

static int status_of(struct ct_injection *in, int64_t result) {
    if (result >= 0 || result < -4095)
        return 0;
    in->refusal = (int)-result;
    return result == -EEXIST ? CT_ERR_BUSY : result == -ENOMEM ? CT_ERR_NO_MEMORY : CT_ERR_SYSTEM;
}

static int make_call(struct ct_injection *in, long number, const uint64_t a[6], int64_t *result) {
    int status = ct_remote_syscall(in->remote, number, a, result);
    return status ? status : status_of(in, *result);
}

static int call_memfd(struct ct_injection *in, int64_t *fd) {
    int status = ct_remote_memfd(in->remote, MFD_CLOEXEC | MFD_ALLOW_SEALING, fd);
    return status ? status : status_of(in, *fd);
}

int ct_inject_map(struct ct_injection *in, uint64_t at, uint64_t size, int prot, int flags, int fd, uint64_t *out) {
    int64_t result;
    const uint64_t a[6] = {at, size, (uint64_t)prot, (uint64_t)flags, (uint64_t)(int64_t)fd, 0};
    int status = make_call(in, SYS_mmap, a, &result);
    if (!status)
        *out = (uint64_t)result;
    return status;
}

int ct_inject_unmap(struct ct_injection *in, uint64_t at, uint64_t size) {
    int64_t result;
    const uint64_t a[6] = {at, size};
    return make_call(in, SYS_munmap, a, &result);
}

/* ---- the agent's image and our tables ---- */

struct tables {
    uint64_t boot, stubs, regions, patches, threads, hooks, written, size; /* offsets */
    size_t thread_room, patch_count, hook_room;
};

static struct tables lay_out_tables(const struct ct_injection *in) {
    const struct ct_target_plan *p = in->plan;
    struct tables t = {.boot = 0, .thread_room = ct_remote_thread_count(in->remote)};
    t.stubs = round_up(sizeof(struct ct_boot), 64);
    t.regions = t.stubs + p->hook_count * sizeof(struct ct_boot_stub);
    t.patches = t.regions + p->region_count * sizeof(struct ct_boot_region);
    for (size_t i = 0; i < p->hook_count; i++)
        t.patch_count += p->hooks[i].plan.patch_count;
    t.threads = t.patches + t.patch_count * sizeof(struct ct_boot_patch);
    t.written = t.hooks = t.threads + t.thread_room * sizeof(struct ct_boot_thread);
    t.written += p->hook_count * sizeof(struct ct_hook_entry);
    t.hook_room = p->hook_count + MORE_HOOKS; /* untouched memory costs nothing */
    t.size = t.hooks + t.hook_room * sizeof(struct ct_hook_entry);
    return t;
}

static uint64_t image_size(const uint8_t *agent) {
    return round_up(ct_agent_memory_size(agent), ct_os_page_size());
}

int ct_inject_image(struct ct_injection *in, const uint8_t *agent) {
    uint64_t image = image_size(agent);
    int fixed = in->image_at ? MAP_FIXED : 0;
    int status = ct_inject_map(in, in->image_at, in->image_size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, &in->image);
    if (status)
        return status;
    in->stack = in->image + image + AGENT_STACK;
    in->tables = in->stack;
    in->entry = in->image + ct_agent_entry(agent);
    uint8_t *bytes = calloc(1, image);
    if (!bytes)
        return CT_ERR_NO_MEMORY;
    ct_agent_load(agent, bytes, in->image);
    status = ct_remote_write(in->remote, in->image, bytes, image);
    free(bytes);
    if (status)
        return status;
    int64_t result;
    const uint64_t a[6] = {in->image, ct_agent_text_size(agent), PROT_READ | PROT_EXEC};
    return make_call(in, SYS_mprotect, a, &result);
}

static void fill_hooks(const struct ct_target_plan *p, struct ct_hook_entry *hooks, struct ct_boot_stub *stubs,
                       uint64_t *stub_count) {
    for (size_t i = 0; i < p->hook_count; i++) {
        const struct ct_target_hook *h = &p->hooks[i];
        hooks[i] = (struct ct_hook_entry){
            .function = h->plan.function,
            .flavor = h->action,
            .special = h->special,
            .entry_only = h->entry_only != CT_HOOK_ENTRY_ONLY_NONE,
            .signs = h->plan.signs,
        };
        if (!h->service)
            stubs[(*stub_count)++] = (struct ct_boot_stub){h->plan.stub, h->plan.word_off};
    }
}

static struct ct_boot_patch *fill_patches_of(const struct ct_target_hook *h, struct ct_boot_patch *out) {
    for (unsigned k = 0; k < h->plan.patch_count; k++, out++) {
        const struct ct_patch *patch = &h->plan.patches[k];
        *out = (struct ct_boot_patch){
            .at = patch->at,
            .forward = patch->forward,
            .forward_second = patch->size == CT_TWO_JUMPS ? h->plan.body : 0, /* two jumps */
            .size = patch->size,
            .service = h->service,
        };
        memcpy(out->bytes, patch->bytes, patch->size);
        memcpy(out->original, patch->original, patch->size);
    }
    return out;
}

/* In the order in which they are written: hosts come before springboards in their bytes. They are removed from the last
 * to the first. */
static void fill_patches(const struct ct_target_plan *p, struct ct_boot_patch *out) {
    for (size_t i = 0; i < p->hook_count; i++)
        if (!p->hooks[i].plan.host)
            out = fill_patches_of(&p->hooks[i], out);
    for (size_t i = 0; i < p->hook_count; i++)
        if (p->hooks[i].plan.host)
            out = fill_patches_of(&p->hooks[i], out);
}

/* The agent makes the blocks while the process waits, and its tracer sees each of its system calls. So only the first
 * threads get blocks of their own. The others get the stray block, and make their own at their first call, as new
 * threads do. Threads that cannot do so later get them now. */
static size_t choose_blocks(const struct ct_injection *in, size_t threads, bool silent) {
    return silent || in->by_table || threads < FIRST_BLOCKS ? threads : FIRST_BLOCKS;
}

static int fill_threads(struct ct_injection *in, struct ct_boot_thread *threads) {
    for (size_t i = 0; i < in->own_blocks; i++) {
        struct ct_registers regs;
        threads[i] = (struct ct_boot_thread){.tid = ct_remote_thread_inner_tid(in->remote, i)};
        if (!ct_remote_get_regs(in->remote, i, &regs) && ct_registers_thread_base(&regs))
            threads[i].thread_pointer = ct_remote_thread_pointer(in->remote, &regs);
    }
    return 0;
}

/* ---- shared memory ---- */

/* If the process has used up its descriptors, we raise its limit by one for as long as we need it, if we may. */
static int make_memfd(struct ct_injection *in, int64_t *fd) {
    struct rlimit limit, more;
    int pid = ct_remote_pid(in->remote), status = call_memfd(in, fd);
    if (!status || *fd != -EMFILE || prlimit(pid, RLIMIT_NOFILE, NULL, &limit))
        return status;
    more = (struct rlimit){limit.rlim_cur + 1, limit.rlim_max > limit.rlim_cur ? limit.rlim_max : limit.rlim_cur + 1};
    if (prlimit(pid, RLIMIT_NOFILE, &more, NULL))
        return CT_ERR_NO_SPACE;
    status = call_memfd(in, fd);
    (void)prlimit(pid, RLIMIT_NOFILE, &limit, NULL);
    return status;
}

/* The offsets of the pools are multiples of the window. */
uint64_t ct_inject_lane_at(const struct ct_injection *in) {
    return round_up(in->shm, in->lane->window);
}

/* Makes one mapping, which is found by its name from the beginning. The part after the end of the file is for the
 * agent. */
static int reserve_shared(struct ct_injection *in, int fd) {
    struct ct_lane *lane = in->lane;
    uint64_t size = round_up(lane->size, ct_os_page_size()), whole = size + in->image_size, got;
    uint64_t at = ct_inject_find_place(in, whole, lane->window);
    lane->control->reserved = at;
    lane->control->reserved_size = whole;
    int status = at ? ct_inject_map(in, at, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, &got)
                    : CT_ERR_BUSY;
    if (!status && got == at) {
        in->shm = at;
        in->shm_size = size;
        in->image_at = at + size;
        return 0;
    }
    lane->control->reserved = lane->control->reserved_size = 0;
    if (!status) /* before Linux 4.17 */
        (void)ct_inject_unmap(in, got, whole);
    return status ? status : CT_ERR_BUSY;
}

/* If the reservation fails, the lane goes anywhere. */
static int map_lane(struct ct_injection *in, int fd) {
    if (!in->shm && !reserve_shared(in, fd))
        return 0;
    int status = 0;
    if (!in->shm) {
        in->shm_size = in->lane->size + in->lane->window;
        status =
            ct_inject_map(in, 0, in->shm_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, &in->shm);
    }
    uint64_t at = status ? 0 : ct_inject_lane_at(in);
    return status ? status
                  : ct_inject_map(in, at, in->lane->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, &at);
}

int ct_inject_shared(struct ct_injection *in, const uint8_t *agent, uint64_t tables,
                     const struct ct_injection_options *options) {
    int64_t fd, result;
    int status = make_memfd(in, &fd);
    if (status)
        return status;
    if (agent)
        in->image_size = image_size(agent) + AGENT_STACK + round_up(tables, ct_os_page_size());
    int ours = ct_remote_fetch_fd(in->remote, (int)fd);
    struct ct_lane_options lane = options->lane;
    lane.hook_room = in->hook_room;
    status = ours < 0 ? ours : ct_lane_create(in->lane, ours, &lane);
    if (!status)
        status = map_lane(in, (int)fd);
    if (!status)
        status = ct_lane_seal(in->lane);
    const uint64_t shut[6] = {(uint64_t)fd};
    (void)make_call(in, SYS_close, shut, &result);
    return status;
}

/* Called before the region is mapped. */
static void list_region(struct ct_injection *in, const struct ct_target_region *region) {
    struct ct_shm_regions *r = in->lane->regions;
    uint64_t count = in->listed;
    if (count == CT_SHM_REGIONS)
        return;
    r->list[count].start = region->address;
    r->list[count].size = region->size;
    __atomic_store_n(&r->count, ++in->listed, __ATOMIC_RELEASE);
}

/* From now on the agent's tables list everything, and the shared memory leads to them. */
static void forget_lists(struct ct_injection *in) {
    struct ct_shm_control *c = in->lane->control;
    __atomic_store_n(&in->lane->regions->count, 0, __ATOMIC_RELEASE);
    c->reserved = c->reserved_size = 0;
    in->listed = 0;
}

static int map_regions(struct ct_injection *in) {
    for (size_t i = 0; i < in->plan->region_count; i++) {
        const struct ct_target_region *r = &in->plan->regions[i];
        uint64_t at;
        list_region(in, r);
        int status = ct_inject_map(in, r->address, r->size, PROT_READ | PROT_EXEC,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, &at);
        if (!status && at != r->address) {
            (void)ct_inject_unmap(in, at, r->size);
            status = CT_ERR_BUSY;
        }
        if (status)
            return status;
        in->regions_mapped = i + 1;
        if ((status = ct_remote_write(in->remote, r->address, r->bytes, r->used)))
            return status;
    }
    return 0;
}

/* Writes into a region's shared code where it finds blocks, and switches it to the table if the program uses GS
 * itself. */
static int finish_code(struct ct_injection *in, uint64_t region, bool by_table) {
    const uint64_t literals[CT_TABLE_LITERALS / 8] = {in->table, in->stray};
    uint64_t offset, word;
    int status =
        ct_remote_write(in->remote, region + ct_both_codes_size() - sizeof literals, literals, sizeof literals);
    if (!status && CT_HOOK_LITERALS)
        status = ct_remote_write(in->remote, region + (uint64_t)(ct_hook_code_end - ct_hook_code) - sizeof literals,
                                 literals, sizeof literals);
    for (unsigned i = 0; !status && by_table && ct_switch_word(i, &offset, &word); i++)
        status = ct_remote_write(in->remote, region + offset, &word, sizeof word);
    return status;
}

static int finish_codes(struct ct_injection *in, bool by_table) {
    int status = 0;
    for (size_t i = 0; !status && i < in->plan->region_count; i++)
        status = finish_code(in, in->plan->regions[i].address, by_table);
    return status;
}

/* The agent may have switched to the table by itself. */
static int finish_more(struct ct_injection *in) {
    uint32_t by_table;
    int status = ct_remote_read(in->remote, in->boot + offsetof(struct ct_boot, by_table), &by_table, sizeof by_table);
    return status ? status : finish_codes(in, by_table);
}

/* ---- starting the agent ---- */

/* The status comes from the target's memory: anything that is not one of ours counts as a failure. */
int ct_inject_said(int32_t status) {
    return status <= 0 ? status : CT_ERR_SYSTEM;
}

static int run_agent(struct ct_injection *in, struct ct_boot *boot) {
    uint64_t result;
    const uint64_t a[6] = {in->boot};
    int status = ct_remote_write(in->remote, in->boot, boot, sizeof *boot);
    if (!status)
        status = ct_remote_call(in->remote, in->entry, in->stack, a, &result);
    if (!status)
        status = ct_remote_read(in->remote, in->boot, boot, sizeof *boot);
    return status ? status : ct_inject_said(boot->status);
}

/* Otherwise a program that asks for its handler would get our entry. */
static bool watches_actions(const struct ct_target_plan *plan) {
    for (size_t i = 0; i < plan->hook_count; i++)
        if (plan->hooks[i].special == CT_SPECIAL_SIGACTION)
            return true;
    return false;
}

static const uint8_t *agent_of(const struct ct_injection_options *options) {
    return options->agent ? options->agent : ct_agent_image;
}

static int start_agent(struct ct_injection *in, const struct tables *t, const struct ct_injection_options *options) {
    uint8_t *bytes = calloc(1, t->written);
    if (!bytes)
        return CT_ERR_NO_MEMORY;
    struct ct_boot *boot = (struct ct_boot *)bytes;
    bool silent = ct_remote_has_seccomp(in->remote);
    in->own_blocks = choose_blocks(in, t->thread_room, silent);
    *boot = (struct ct_boot){
        .magic = CT_BOOT_MAGIC,
        .version = CT_BOOT_VERSION,
        .pid = ct_remote_inner_pid(in->remote),
        .shm = ct_inject_lane_at(in),
        .hooks = in->tables + t->hooks,
        .hook_room = t->hook_room,
        .code = {.stubs = in->tables + t->stubs,
                 .regions = in->tables + t->regions,
                 .region_count = in->plan->region_count,
                 .patches = in->tables + t->patches,
                 .patch_count = t->patch_count},
        .threads = in->tables + t->threads,
        .thread_count = in->own_blocks,
        .image = in->image,
        .image_size = in->image_size,
        .text_size = ct_agent_text_size(agent_of(options)),
        .entry = in->entry,
        .stack = in->stack,
        .shm_map = in->shm,
        .shm_map_size = in->shm_size,
        .max_depth = options->max_depth,
        .get_cfa = in->plan->get_cfa,
        .silent = silent,
        .take_faults = watches_actions(in->plan),
        .by_table = in->by_table,
    };
    in->boot = in->tables + t->boot;
    fill_hooks(in->plan, (struct ct_hook_entry *)(bytes + t->hooks), (struct ct_boot_stub *)(bytes + t->stubs),
               &boot->code.stub_count);
    struct ct_boot_region *regions = (struct ct_boot_region *)(bytes + t->regions);
    for (size_t i = 0; i < in->plan->region_count; i++)
        regions[i] = (struct ct_boot_region){in->plan->regions[i].address, in->plan->regions[i].size};
    fill_patches(in->plan, (struct ct_boot_patch *)(bytes + t->patches));
    fill_threads(in, (struct ct_boot_thread *)(bytes + t->threads));
    int status = ct_remote_write(in->remote, in->tables + t->stubs, bytes + t->stubs, t->written - t->stubs);
    in->lane->control->boot = status ? 0 : in->boot;
    if (!status)
        status = run_agent(in, boot);
    in->early_thread_pointer = boot->early_thread_pointer;
    in->table = boot->table;
    in->stray = boot->stray;
    free(bytes);
    return status ? status : finish_codes(in, in->by_table);
}

/* A program that uses GS itself cannot be followed. */
int ct_inject_check_gs(struct ct_remote *remote, struct ct_remote_error *error) {
    for (size_t i = 0; i < ct_remote_thread_count(remote); i++) {
        struct ct_registers regs;
        if (!ct_remote_get_regs(remote, i, &regs) && ct_registers_block(&regs))
            return explain(
                error, CT_ERR_UNSUPPORTED,
                "the program uses the GS register itself (as Wine does), so it cannot be followed; `contrail attach` "
                "records it");
    }
    return 0;
}

/* Does the program use GS? A program that hooks itself, or is followed, has stubs in its code that another engine does
 * not know. */
static int look_at_gs(struct ct_injection *in, struct ct_remote_error *error) {
    for (size_t i = 0; i < ct_remote_thread_count(in->remote); i++) {
        struct ct_registers regs;
        uint64_t self, block = ct_remote_get_regs(in->remote, i, &regs) ? 0 : ct_registers_block(&regs);
        if (!block)
            continue;
        in->by_table = true;
        if (!ct_remote_read(in->remote, block + CT_BLOCK_SELF, &self, sizeof self) && self == block)
            return explain(error, CT_ERR_UNSUPPORTED,
                           "the program uses Contrail's hooks itself, or is followed; it cannot be recorded too");
    }
    return 0;
}

/* After a start that failed: no thread has been in our memory yet. */
static void unmap_all(struct ct_injection *in) {
    for (size_t i = 0; i < in->regions_mapped; i++)
        (void)ct_inject_unmap(in, in->plan->regions[i].address, in->plan->regions[i].size);
    if (in->shm)
        (void)ct_inject_unmap(in, in->shm, in->shm_size);
    if (in->image || in->image_at)
        (void)ct_inject_unmap(in, in->image ? in->image : in->image_at, in->image_size);
    in->image = in->image_at = 0;
}

int ct_inject(struct ct_injection *in, struct ct_remote *remote, const struct ct_target_plan *plan,
              struct ct_lane *lane, const struct ct_injection_options *options, struct ct_remote_error *error) {
    *in = (struct ct_injection){.remote = remote, .plan = plan, .lane = lane, .dormant = options->dormant};
    lane->fd = -1;
    int status = look_at_gs(in, error);
    if (status)
        return status;
    struct tables t = lay_out_tables(in);
    in->hook_room = (uint32_t)t.hook_room;
    status = ct_inject_shared(in, agent_of(options), t.size, options);
    if (!status)
        status = map_regions(in);
    if (!status)
        status = ct_inject_image(in, agent_of(options));
    if (!status)
        status = start_agent(in, &t, options);
    if (!status)
        return 0;
    unmap_all(in);
    return ct_inject_explain(in, status, error);
}

/* The tables in the child's copy name the process they belong to. */
int ct_inject_lane(struct ct_injection *in, struct ct_remote *remote, const struct ct_injection *parent,
                   struct ct_lane *lane, const struct ct_injection_options *options, struct ct_remote_error *error) {
    *in = *parent;
    in->remote = remote;
    in->lane = lane;
    lane->fd = -1;
    int32_t pid = ct_remote_inner_pid(remote);
    int status = ct_remote_write(remote, in->boot + offsetof(struct ct_boot, pid), &pid, sizeof pid);
    if (!status)
        status = ct_inject_shared(in, NULL, 0, options);
    if (!status)
        lane->control->boot = in->boot;
    return status ? ct_inject_explain(in, status, error) : 0;
}

/* ---- hooking ---- */

static int read_blocks(struct ct_injection *in, struct ct_boot_thread *threads, size_t count) {
    struct ct_boot boot;
    int status = ct_remote_read(in->remote, in->boot, &boot, sizeof boot);
    return status ? status : ct_remote_read(in->remote, boot.threads, threads, count * sizeof *threads);
}

/* Every thread gets what stubs read, before the first patch is written: with a GS of zero they would fault. */
static int equip_threads(struct ct_injection *in) {
    size_t count = ct_remote_thread_count(in->remote);
    struct ct_boot_thread *threads = malloc((count + 1) * sizeof *threads);
    struct ct_registers *regs = malloc((count + 1) * sizeof *regs);
    int status = threads && regs ? read_blocks(in, threads, in->own_blocks) : CT_ERR_NO_MEMORY;
    for (size_t i = 0; !status && i < count; i++) {
        (void)ct_remote_get_regs(in->remote, i, &regs[i]);
        if (!in->by_table)
            ct_registers_set_block(&regs[i], i < in->own_blocks ? threads[i].block : in->stray);
        if (!ct_registers_thread_base(&regs[i])) /* a static program before its first instruction */
            ct_registers_set_thread_base(&regs[i], in->early_thread_pointer);
    }
    if (!status)
        status = ct_remote_set_all_regs(in->remote, regs);
    free(threads);
    free(regs);
    return status;
}

static uint64_t moved(const void *arg, uint64_t pc, bool in_call) {
    return ct_target_plan_moved(arg, pc, in_call);
}

static bool is_as_planned(struct ct_page_writer *w, const struct ct_plan *plan) {
    for (unsigned i = 0; i < plan->patch_count; i++)
        if (!ct_page_writer_holds(w, plan->patches[i].at, plan->patches[i].original, plan->patches[i].size))
            return false;
    return true;
}

/* Is the host of this hook's springboard patched? If it is not, the springboard would be in code that runs. */
static bool has_host(struct ct_page_writer *w, const struct ct_target_plan *plan, const struct ct_target_hook *guest) {
    const struct ct_target_hook *host = ct_target_plan_hook(plan, guest->plan.host);
    for (unsigned i = 0; host && i < host->plan.patch_count; i++) {
        const struct ct_patch *p = &host->plan.patches[i];
        if (!ct_page_writer_holds(w, p->at, p->bytes, p->size))
            return false;
    }
    return host != NULL;
}

/* The order of writes: engine's own hooks, all others, and those whose springboards are in the bytes of others. */
enum stage { SERVICES, OTHERS, GUESTS };

static enum stage stage_of(const struct ct_target_hook *h) {
    return h->plan.host ? GUESTS : h->service ? SERVICES : OTHERS;
}

static int patch_all(struct ct_injection *in, enum stage stage) {
    struct ct_page_writer w = ct_stopped_writer(in->remote);
    for (size_t i = 0; i < in->plan->hook_count; i++) {
        const struct ct_target_hook *h = &in->plan->hooks[i];
        if (stage_of(h) != stage || (in->dormant && !h->service))
            continue;
        if (!is_as_planned(&w, &h->plan) || (stage == GUESTS && !has_host(&w, in->plan, h))) {
            in->changed++;
            continue;
        }
        int status = ct_page_writer_patch(&w, &h->plan, false);
        if (status)
            return status;
    }
    return ct_page_writer_flush(&w);
}

static int change_code(struct ct_injection *in) {
    int status = ct_stopped_move_threads(in->remote, moved, in->plan);
    for (enum stage stage = SERVICES; stage <= GUESTS && !status; stage++)
        status = patch_all(in, stage);
    return status;
}

int ct_inject_hooks(struct ct_injection *in, struct ct_remote_error *error) {
    int status = equip_threads(in);
    if (!status)
        forget_lists(in);
    if (!status)
        status = change_code(in);
    return status ? explain(error, status, "the process's code could not be changed") : 0;
}

/* ---- libraries that were loaded later ---- */

/* Writes the tables of one more code, in a mapping of their own. */
static int write_code(struct ct_injection *in, const struct ct_target_plan *plan, struct ct_hook_entry *hooks,
                      uint64_t next, uint64_t *at) {
    uint64_t patch_count = 0, stubs = sizeof(struct ct_boot_code);
    for (size_t i = 0; i < plan->hook_count; i++)
        patch_count += plan->hooks[i].plan.patch_count;
    uint64_t regions = stubs + plan->hook_count * sizeof(struct ct_boot_stub);
    uint64_t patches = regions + plan->region_count * sizeof(struct ct_boot_region);
    uint64_t size = round_up(patches + patch_count * sizeof(struct ct_boot_patch), ct_os_page_size());
    uint8_t *bytes = calloc(1, size);
    if (!bytes)
        return CT_ERR_NO_MEMORY;
    int status =
        ct_inject_map(in, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, at);
    if (!status) {
        struct ct_boot_code *code = (struct ct_boot_code *)bytes;
        *code = (struct ct_boot_code){.next = next,
                                      .map = *at,
                                      .map_size = size,
                                      .stubs = *at + stubs,
                                      .regions = *at + regions,
                                      .region_count = plan->region_count,
                                      .patches = *at + patches,
                                      .patch_count = patch_count};
        fill_hooks(plan, hooks, (struct ct_boot_stub *)(bytes + stubs), &code->stub_count);
        fill_patches(plan, (struct ct_boot_patch *)(bytes + patches));
        struct ct_boot_region *r = (struct ct_boot_region *)(bytes + regions);
        for (size_t i = 0; i < plan->region_count; i++)
            r[i] = (struct ct_boot_region){plan->regions[i].address, plan->regions[i].size};
        status = ct_remote_write(in->remote, *at, bytes, size);
    }
    free(bytes);
    return status;
}

/* The entries of the hooks come first, then the code, which boot then leads to, then the patches. */
static int extend_target(struct ct_injection *in, const struct ct_target_plan *plan, uint32_t first_hook) {
    struct ct_boot boot;
    uint64_t at;
    int status = ct_remote_read(in->remote, in->boot, &boot, sizeof boot);
    if (!status && first_hook + plan->hook_count > in->hook_room)
        status = CT_ERR_NO_SPACE;
    struct ct_hook_entry *hooks = calloc(plan->hook_count + 1, sizeof *hooks);
    if (!status)
        status = hooks ? write_code(in, plan, hooks, boot.code.next, &at) : CT_ERR_NO_MEMORY;
    if (!status)
        status = ct_remote_write(in->remote, boot.hooks + first_hook * sizeof *hooks, hooks,
                                 plan->hook_count * sizeof *hooks);
    if (!status)
        status = ct_remote_write(in->remote, in->boot + offsetof(struct ct_boot, code.next), &at, sizeof at);
    if (!status && plan->get_cfa && !boot.get_cfa)
        status = ct_remote_write(in->remote, boot.runtime + offsetof(struct ct_runtime, get_cfa), &plan->get_cfa, 8);
    free(hooks);
    return status;
}

int ct_inject_more(struct ct_injection *in, const struct ct_target_plan *plan, uint32_t first_hook,
                   struct ct_remote_error *error) {
    const struct ct_target_plan *before = in->plan;
    size_t regions_before = in->regions_mapped;
    in->plan = plan;
    in->regions_mapped = 0;
    int status = map_regions(in);
    if (!status)
        status = finish_more(in);
    if (!status)
        status = extend_target(in, plan, first_hook);
    for (size_t i = 0; status && i < in->regions_mapped; i++)
        (void)ct_inject_unmap(in, plan->regions[i].address, plan->regions[i].size);
    if (!status)
        status = change_code(in);
    forget_lists(in);
    in->plan = before;
    in->regions_mapped = regions_before;
    return status ? explain(error, status, "a library that was loaded later could not be hooked") : 0;
}
