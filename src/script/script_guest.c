/* SPDX-License-Identifier: Apache-2.0 */
/* See script_guest.h: finding the recording, joining it and leaving it.
 *
 * Everything is done under stops, and there is one tracer at a time: so recorder and guests never change the same words
 * at once. What the guest has mapped is listed in the recorder's tables, so whoever takes the recorder's hooks out
 * removes it too, also if we are killed. */
#include "script/script_guest.h"
#include "inject/agent_image.h"
#include "inject/eject.h"
#include "inject/inject_memory.h"
#include "remote/frames.h"
#include "remote/namespace.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INDEX_MEMORY (1u << 20) /* nobody writes events there */
#define OTHERS_NS    5000000000ull
#define LEAVE_NS     10000000000ull
#define PAUSE_US     2000u

/* ---- which recorder ---- */

/* Does the agent consist of this image? Its code is then what we know. */
static bool is_image(struct ct_script *s, const struct ct_boot *boot, const uint8_t *image) {
    size_t text = ct_agent_text_size(image), all = ct_agent_memory_size(image);
    uint8_t *expected = calloc(1, text > all ? text : all), *is = malloc(text);
    bool same = expected && is && boot->text_size == text && !ct_remote_read(s->remote, boot->image, is, text);
    if (same) {
        ct_agent_load(image, expected, boot->image);
        same = !memcmp(expected, is, text);
    }
    free(expected);
    free(is);
    return same;
}

static int refuse(struct ct_script *s, const struct ct_boot *boot) {
    if (is_image(s, boot, ct_script_agent_image))
        return ct_script_fail(s, CT_ERR_BUSY,
                              "process %d is scripted already: several scripts run side by side only beside a "
                              "recording; end that script, begin `contrail attach %d`, then start both",
                              s->pid, s->pid);
    if (!is_image(s, boot, ct_agent_image))
        return ct_script_fail(
            s, CT_ERR_BUSY, "process %d is recorded by another build of Contrail, or followed: end that first", s->pid);
    if (boot->by_table)
        return ct_script_fail(s, CT_ERR_UNSUPPORTED,
                              "process %d is recorded, and uses the GS register itself: end the recording first",
                              s->pid);
    return 0;
}

bool ct_script_guest_has(struct ct_script *s, uint32_t place) {
    uint64_t at =
        s->guest->recorder.runtime + offsetof(struct ct_runtime, guests) + place * sizeof(struct ct_hook_guest);
    struct ct_hook_guest guest;
    uint32_t word = 0;
    return !ct_remote_read(s->remote, at, &guest, sizeof guest) && guest.on_call &&
           !ct_remote_read(s->remote, guest.liveness, &word, sizeof word) && word && !(word & CT_SHM_OWNER_DIED);
}

static int find_place(struct ct_script *s, struct ct_script_guest *g) {
    for (g->place = 0; g->place < CT_HOOK_GUESTS; g->place++)
        if (!ct_script_guest_has(s, g->place))
            return 0;
    return ct_script_fail(s, CT_ERR_BUSY, "process %d has %d scripts beside its recording, which is the most", s->pid,
                          CT_HOOK_GUESTS);
}

int ct_script_guest_find(struct ct_script *s) {
    struct ct_ejection e;
    bool recorded = false;
    int status = ct_eject_open(&e, s->remote, &recorded);
    if (status || !recorded) {
        if (!status)
            ct_eject_close(&e);
        return CT_ERR_NOT_FOUND;
    }
    status = refuse(s, &e.boot);
    if (!status && !(s->guest = calloc(1, sizeof *s->guest)))
        status = CT_ERR_NO_MEMORY;
    if (!status) {
        s->guest->boot = e.address;
        s->guest->recorder = e.boot;
    }
    ct_eject_close(&e);
    return status;
}

void ct_script_guest_free(struct ct_script *s) {
    if (s->guest)
        free(s->guest->recorded);
    free(s->guest);
    s->guest = NULL;
}

/* ---- joining ---- */

static uint64_t code_at(uint64_t join, uint32_t i) {
    return join + offsetof(struct ct_script_join, codes) + i * sizeof(struct ct_boot_code);
}

static int write_join(struct ct_script *s, struct ct_script_guest *g) {
    const struct ct_injection *in = &s->injection;
    uint64_t codes = code_at(in->tables, 0), next;
    int status = ct_remote_read(s->remote, g->boot + offsetof(struct ct_boot, code.next), &next, sizeof next);
    struct ct_script_join join = {
        .magic = CT_SCRIPT_JOIN_MAGIC,
        .boot = g->boot,
        .shm = ct_inject_lane_at(in),
        .hooks = g->hooks,
        .hook_room = g->room,
        .place = g->place,
        .silent = g->recorder.silent || ct_remote_has_seccomp(s->remote),
        .codes = {{.map = in->shm, .map_size = in->shm_size}, {.map = in->image, .map_size = in->image_size}},
    };
    for (uint32_t i = 0; i < CT_SCRIPT_JOIN_CODES; i++)
        join.codes[i].next = i + 1 < CT_SCRIPT_JOIN_CODES ? code_at(in->tables, i + 1) : next;
    if (!status)
        status = ct_remote_write(s->remote, in->tables, &join, sizeof join);
    if (!status)
        status = ct_remote_write(s->remote, g->boot + offsetof(struct ct_boot, code.next), &codes, sizeof codes);
    if (!status)
        g->join = in->tables;
    return status;
}

/* One word makes the difference: a size. */
static int write_listed(struct ct_script *s, uint32_t i, const struct ct_script_memory *memory) {
    uint64_t at = code_at(s->guest->join, i);
    int status = 0;
    if (memory)
        status = ct_remote_write(s->remote, at + offsetof(struct ct_boot_code, map), &memory->address,
                                 sizeof memory->address);
    const uint64_t size = memory ? memory->size : 0;
    return status ? status
                  : ct_remote_write(s->remote, at + offsetof(struct ct_boot_code, map_size), &size, sizeof size);
}

void ct_script_guest_list(struct ct_script *s, struct ct_script_memory *memory) {
    bool used[CT_SCRIPT_JOIN_CODES] = {true, true};
    uint32_t i = 2;
    for (size_t k = 0; k < s->memory_count; k++)
        used[s->memory[k].listed] = true;
    while (i < CT_SCRIPT_JOIN_CODES && used[i])
        i++;
    memory->listed = i < CT_SCRIPT_JOIN_CODES && !write_listed(s, i, memory) ? i : 0;
}

void ct_script_guest_unlist(struct ct_script *s, struct ct_script_memory *memory) {
    if (memory->listed)
        (void)write_listed(s, memory->listed, NULL);
    memory->listed = 0;
}

static int run_image(struct ct_script *s) {
    const uint64_t a[6] = {s->guest->join};
    uint64_t result;
    int status = ct_remote_call(s->remote, s->injection.entry, s->injection.stack, a, &result);
    return status ? status : ct_inject_said((int32_t)result);
}

int ct_script_guest_join(struct ct_script *s) {
    struct ct_script_guest *g = s->guest;
    struct ct_injection *in = &s->injection;
    const struct ct_injection_options options = {.lane = {.index_memory = INDEX_MEMORY, .extra = CT_SCRIPT_EXTRA},
                                                 .agent = ct_script_agent_image};
    *in = (struct ct_injection){.remote = s->remote, .plan = s->plans[0].plan, .lane = &s->lane, .hook_room = 1};
    s->lane.fd = -1;
    g->room = g->recorder.hook_room;
    int status = find_place(s, g);
    if (status)
        return status;
    uint64_t head = (sizeof(struct ct_script_join) + 63) & ~63ull;
    status = ct_inject_shared(in, options.agent, head + g->room * sizeof(struct ct_script_guest_hook), &options);
    if (!status)
        status = ct_inject_image(in, options.agent);
    g->hooks = in->tables + head;
    if (!status)
        status = write_join(s, g);
    if (!status)
        status = run_image(s);
    if (!status)
        s->lane.control->reserved = s->lane.control->reserved_size = 0; /* the recorder's tables list it */
    return status ? ct_script_fail(s, status, "the script could not join the recording of process %d: %s", s->pid,
                                   ct_status_text(status))
                  : 0;
}

/* ---- the recorder's end ---- */

enum recorder { THERE, LEAVING, DEAD };

static enum recorder look(struct ct_script *s) {
    const struct ct_script_guest *g = s->guest;
    struct ct_boot boot;
    uint32_t liveness = 0, listening = 0;
    if (ct_remote_read(s->remote, g->boot, &boot, sizeof boot) || boot.magic != CT_BOOT_MAGIC ||
        boot.shm != g->recorder.shm || boot.image != g->recorder.image ||
        ct_remote_read(s->remote, boot.shm + offsetof(struct ct_shm_control, liveness), &liveness, 4) ||
        ct_remote_read(s->remote, boot.shm + offsetof(struct ct_shm_control, listening), &listening, 4))
        return LEAVING;
    if (liveness & CT_SHM_OWNER_DIED)
        return DEAD;
    return listening ? THERE : LEAVING;
}

bool ct_script_guest_is_served(struct ct_script *s) {
    return look(s) == THERE;
}

/* ---- leaving ---- */

static bool is_inside(const void *script, uint64_t pc) {
    const struct ct_script *s = script;
    const struct ct_boot *recorder = &s->guest->recorder;
    return pc - s->injection.image < s->injection.image_size || pc - recorder->image < recorder->text_size;
}

/* The recorder's agent does not call us any more. */
static int resign(struct ct_script *s) {
    const struct ct_hook_guest nobody = {NULL, NULL, 0};
    uint64_t at = s->guest->recorder.runtime + offsetof(struct ct_runtime, guests) + s->guest->place * sizeof nobody;
    return ct_remote_write(s->remote, at, &nobody, sizeof nobody);
}

/* Takes our codes out of the list of the recorder's. */
static int unlink_codes(struct ct_script *s) {
    uint64_t ours = code_at(s->guest->join, 0), last = code_at(s->guest->join, CT_SCRIPT_JOIN_CODES - 1), at, after;
    uint64_t link = s->guest->boot + offsetof(struct ct_boot, code.next);
    int status = ct_remote_read(s->remote, last + offsetof(struct ct_boot_code, next), &after, sizeof after);
    for (int i = 0; !status && i < 65536; i++) {
        status = ct_remote_read(s->remote, link, &at, sizeof at);
        if (!status && at == ours)
            return ct_remote_write(s->remote, link, &after, sizeof after);
        link = at;
        status = status ? status : at ? 0 : CT_ERR_NOT_FOUND;
    }
    return status;
}

static void unmap(struct ct_script *s) {
    const struct ct_injection *in = &s->injection;
    const uint64_t image[6] = {in->image, in->image_size}, shared[6] = {in->shm, in->shm_size};
    int64_t result;
    (void)ct_remote_syscall(s->remote, SYS_munmap, image, &result);
    (void)ct_remote_syscall(s->remote, SYS_munmap, shared, &result);
}

/* Threads that wait for us, or do work of ours, run on for a moment. */
static int leave_recorder(struct ct_script *s, bool *clean) {
    uint64_t begin = ct_clock_now();
    int status = ct_script_guest_switch_back(s);
    if (!status)
        status = resign(s);
    while (!status && !*clean && ct_clock_now() - begin < LEAVE_NS) {
        bool was;
        *clean = !__atomic_load_n(&s->shared->working, __ATOMIC_ACQUIRE) &&
                 !ct_remote_comes_to(s->remote, is_inside, s) && ct_script_unmap_memory(s);
        if (*clean)
            break;
        ct_script_go_on(s, false);
        usleep(PAUSE_US);
        status = ct_script_stop(s, &was);
        if (!status && look(s) != THERE)
            return 0;
    }
    if (!status && *clean && !(status = unlink_codes(s)))
        unmap(s);
    *clean = *clean && !status;
    return status;
}

static int stop_again(void *script) {
    bool was;
    return ct_script_stop(script, &was);
}

static void go_on(void *script) {
    ct_script_go_on(script, false);
}

static void forget_listed(struct ct_script *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->memory_count; i++)
        if (!s->memory[i].listed)
            s->memory[kept++] = s->memory[i];
    s->memory_count = kept;
}

/* The recorder takes our memory with its own. */
static int wait_for_recorder(struct ct_script *s, bool *clean) {
    uint64_t begin = ct_clock_now();
    bool was;
    enum recorder now;
    while ((now = look(s)) != DEAD && ct_clock_now() - begin < LEAVE_NS) {
        uint32_t magic;
        if (ct_remote_read(s->remote, s->guest->boot, &magic, sizeof magic) || magic != CT_BOOT_MAGIC)
            break;
        usleep(PAUSE_US);
    }
    int status = ct_script_stop(s, &was);
    if (!status && now == DEAD) {
        const struct ct_eject_turns turns = {stop_again, go_on, s};
        status = ct_eject_others(s->remote, &turns, OTHERS_NS);
    }
    forget_listed(s);
    *clean = !status && ct_clock_now() - begin < LEAVE_NS && ct_script_unmap_memory(s);
    return status;
}

int ct_script_guest_leave(struct ct_script *s, bool *clean) {
    bool was;
    *clean = false;
    if (s->shared)
        __atomic_store_n(&s->shared->open, 0, __ATOMIC_RELEASE);
    if (!s->guest->join)
        return 0;
    int status = look(s) == THERE ? ct_script_stop(s, &was) : 0;
    ct_remote_limit(s->remote, CT_SCRIPT_STILL_MS, NULL, NULL);
    if (!status && ct_remote_is_stopped(s->remote) && look(s) == THERE)
        status = leave_recorder(s, clean);
    if (!status && !*clean && look(s) != THERE) {
        ct_script_go_on(s, false);
        status = wait_for_recorder(s, clean);
    }
    ct_remote_limit(s->remote, 0, NULL, NULL);
    return status;
}
