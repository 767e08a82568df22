/* SPDX-License-Identifier: Apache-2.0 */
/* Stops a new program when its loader has mapped and relocated everything and run no constructor.
 *
 * Breakpoints cannot be used: if we died, they would kill the program. We use a system call that does nothing, in a
 * place that is executed at the right time: with us the thread stops there, without us it runs on.
 *
 *   glibc   its function for debuggers (_dl_debug_state) is empty: `getpid(); return` replaces it. It is called several
 *           times; r_debug.r_state says when all is ready. Library constructors run later, in the loader.
 *   others  (musl) run constructors in the program's own start code. The loader jumps to the entry point that the
 *           auxiliary vector names: we put there the address of our own bytes, the call and a jump to the true one.
 *   none    a static program: exec itself stops at its first instruction.
 *
 * Everything is restored before we return, in an order in which we may die after each step. */
#include "remote/loader.h"
#include "symbols/functions.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/ptrace.h>

enum { MAX_DYNAMIC = 1024, MAX_VECTOR = 8 << 20 };

struct loading {
    struct ct_remote *remote;
    uint64_t notify; /* the empty function; 0: none, so the entry point is used */
    uint8_t original[CT_LOADER_PATCH], patch[CT_LOADER_PATCH];
    uint64_t entry, entry_at; /* the true entry point, and where the vector has it */
    uint64_t code;            /* where our call and what belongs to it is */
    uint64_t mark;            /* a thread that has made our call is here */
    uint64_t debug_at;        /* where the program's dynamic section holds the address of r_debug; 0: nowhere */
    int passes;
};

/* ---- the program's dynamic section ---- */

static bool read_segment(const struct ct_remote *remote, unsigned i, Elf64_Phdr *segment) {
    uint64_t at = ct_remote_auxv(remote, AT_PHDR) + i * sizeof *segment;
    return ct_remote_read(remote, at, segment, sizeof *segment) == CT_OK;
}

static uint64_t find_dynamic(const struct ct_remote *remote) {
    Elf64_Phdr segment;
    uint64_t count = ct_remote_auxv(remote, AT_PHNUM), own = 0, dynamic = 0;
    if (ct_remote_auxv(remote, AT_PHENT) != sizeof segment)
        return 0;
    for (unsigned i = 0; i < count && read_segment(remote, i, &segment); i++) {
        if (segment.p_type == PT_PHDR)
            own = segment.p_vaddr;
        if (segment.p_type == PT_DYNAMIC)
            dynamic = segment.p_vaddr;
    }
    return own && dynamic ? dynamic + (ct_remote_auxv(remote, AT_PHDR) - own) : 0;
}

static uint64_t find_debug_slot(const struct ct_remote *remote) {
    Elf64_Dyn entry;
    uint64_t at = find_dynamic(remote);
    for (unsigned i = 0; at && i < MAX_DYNAMIC; i++, at += sizeof entry) {
        if (ct_remote_read(remote, at, &entry, sizeof entry) != CT_OK || entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_DEBUG)
            return at + offsetof(Elf64_Dyn, d_un);
    }
    return 0;
}

/* In programs without the slot, the second notification is that of the end. */
static bool is_consistent(struct loading *l) {
    struct { /* struct r_debug */
        int32_t version, padding;
        uint64_t map, notify;
        int32_t state, padding2;
    } debug;
    uint64_t at = 0;
    l->passes++;
    if (!l->debug_at)
        return l->passes >= 2;
    return ct_remote_read(l->remote, l->debug_at, &at, sizeof at) == CT_OK && at != 0 &&
           ct_remote_read(l->remote, at, &debug, sizeof debug) == CT_OK && debug.map != 0 && debug.state == 0;
}

/* ---- the loader's notification function ---- */

struct interpreter {
    const struct ct_remote *remote;
    uint64_t base;
    int fd;
};

static int open_at_base(void *arg, const struct ct_os_map *map) {
    struct interpreter *interpreter = arg;
    if (interpreter->base < map->start || interpreter->base >= map->end)
        return 0;
    interpreter->fd = ct_remote_open_mapped(interpreter->remote, map);
    return 1;
}

/* Returns the function if this is glibc's loader and nothing else begins in the bytes that we need. */
static uint64_t find_notify(const struct ct_functions *table) {
    const struct ct_func *notify = ct_functions_by_name(table, "_dl_debug_state");
    if (!notify || !ct_functions_by_name(table, "_dl_allocate_tls"))
        return 0;
    for (size_t i = 0; i < ct_functions_count(table); i++) {
        uint64_t offset = ct_functions_at(table, i)->offset;
        if (offset > notify->offset && offset < notify->offset + CT_LOADER_PATCH)
            return 0;
    }
    return notify->offset;
}

static void look_for_notify(struct loading *l, uint64_t base) {
    struct interpreter interpreter = {.remote = l->remote, .base = base, .fd = -1};
    struct ct_functions *table = NULL;
    char path[64];
    (void)ct_remote_each_map(l->remote, open_at_base, &interpreter);
    if (interpreter.fd < 0)
        return;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", interpreter.fd);
    if (ct_functions_open(&table, path) == CT_OK) {
        uint64_t offset = find_notify(table);
        l->notify = offset ? base + offset : 0;
        ct_functions_close(table);
    }
    (void)close(interpreter.fd);
    if (l->notify && ((CT_LOADER_FAR && ct_remote_find_gadget(l->remote) != CT_OK) ||
                      ct_remote_read(l->remote, l->notify, l->original, sizeof l->original) != CT_OK ||
                      !ct_loader_patch(l->original, l->notify, l->remote->gadget, l->patch)))
        l->notify = 0;
}

/* ---- the entry point in the auxiliary vector ---- */

/* The stack of a new program: count of arguments, arguments, 0, environment, 0, vector. */
static uint64_t find_entry_in_vector(const struct loading *l) {
    struct ct_registers regs;
    int zeros = 0;
    if (ct_remote_read_registers_traced(l->remote->pid, &regs) != CT_OK)
        return 0;
    uint64_t at = ct_registers_sp(&regs) + sizeof at, end = at + MAX_VECTOR, word;
    for (; at < end && ct_remote_read(l->remote, at, &word, sizeof word) == CT_OK; at += sizeof word) {
        if (zeros < 2)
            zeros += word == 0;
        else if (word == AT_NULL)
            return 0;
        else if (word == AT_ENTRY)
            return at + sizeof word;
        else
            at += sizeof word; /* skips the value */
    }
    return 0;
}

/* ---- steps ---- */

static int prepare_notify(struct loading *l) {
    uint8_t code[CT_LOADER_JUMP] = {0};
    int status = CT_OK;
    l->code = CT_LOADER_FAR ? l->remote->gadget : l->notify;
    l->mark = l->code + CT_LOADER_MARK;
    l->debug_at = find_debug_slot(l->remote);
    ct_loader_far(code);
    if (CT_LOADER_FAR)
        status = ct_remote_write(l->remote, l->code, code, CT_LOADER_FAR);
    return status == CT_OK ? ct_remote_write(l->remote, l->notify, l->patch, sizeof l->patch) : status;
}

static int prepare_mark(struct loading *l) {
    uint8_t code[CT_LOADER_JUMP];
    if (l->notify)
        return prepare_notify(l);
    int status = ct_remote_find_gadget(l->remote);
    if (status != CT_OK)
        return status;
    l->code = l->remote->gadget;
    l->entry = ct_remote_auxv(l->remote, AT_ENTRY);
    l->entry_at = find_entry_in_vector(l);
    if (!l->entry_at)
        return CT_ERR_SYSTEM;
    l->mark = l->code + CT_LOADER_MARK;
    ct_loader_jump(l->entry, code);
    status = ct_remote_write(l->remote, l->remote->gadget, code, sizeof code);
    return status == CT_OK ? ct_remote_write(l->remote, l->entry_at, &l->remote->gadget, sizeof l->remote->gadget)
                           : status;
}

/* At a stop of a system call: is it ours, at its beginning, and is everything ready? */
static bool has_arrived(struct loading *l) {
    struct __ptrace_syscall_info information;
    long size =
        ct_trace(PTRACE_GET_SYSCALL_INFO, l->remote->pid, sizeof information, (uint64_t)(uintptr_t)&information);
    if (size < 0 || information.op != PTRACE_SYSCALL_INFO_ENTRY || information.instruction_pointer != l->mark)
        return false;
    return !l->notify || is_consistent(l);
}

static int run_to_mark(struct loading *l, uint64_t deadline) {
    int pid = l->remote->pid, pass = 0, request = PTRACE_SYSCALL;
    for (;;) {
        struct stop stop;
        int status = ct_trace_status(ct_trace(request, pid, 0, (uint64_t)pass));
        if (status == CT_OK)
            status = ct_trace_wait(pid, deadline, &stop);
        if (status != CT_OK)
            return status;
        if (stop.kind == STOP_GONE)
            return CT_ERR_NOT_FOUND;
        if (stop.kind == STOP_CALL && has_arrived(l))
            return CT_OK;
        if (ct_seize_now_ms() >= deadline)
            return CT_ERR_TIMEOUT; /* one system call after another, and no end */
        if (stop.kind == STOP_EVENT && stop.number == PTRACE_EVENT_EXEC)
            return CT_ERR_SYSTEM; /* the loader executes another program, in which nothing is ours */
        pass = stop.kind == STOP_SIGNAL ? stop.number : 0;
        request = stop.kind == STOP_EVENT && stop.job_control ? PTRACE_LISTEN : PTRACE_SYSCALL;
    }
}

static int move_to(const struct loading *l, struct ct_registers *regs, uint64_t pc) {
    ct_loader_restore(l->code, regs);
    ct_remote_divert(regs, pc);
    return ct_remote_write_registers_traced(l->remote->pid, regs);
}

static bool is_in_patch(const struct loading *l, uint64_t pc) {
    uint64_t far = CT_LOADER_FAR; /* 0: none */
    return (pc > l->notify && pc < l->notify + CT_LOADER_PATCH) || pc - l->code < far;
}

static int restore_notify(struct loading *l, struct ct_registers *regs) {
    static const uint8_t zero[CT_LOADER_JUMP];
    int status = is_in_patch(l, ct_registers_pc(regs)) ? move_to(l, regs, l->notify) : CT_OK;
    if (status == CT_OK)
        status = ct_remote_write(l->remote, l->notify, l->original, sizeof l->original);
    return status == CT_OK && CT_LOADER_FAR ? ct_remote_write(l->remote, l->code, zero, CT_LOADER_FAR) : status;
}

/* The thread is in an ordinary stop. It is moved first, then the bytes are restored: in the other order it would
 * continue in the middle of other instructions. It moves to the beginning of the function, which has yet to run, or to
 * the true entry. */
static int clean_up(struct loading *l, bool arrived) {
    static const uint8_t zero[CT_LOADER_JUMP];
    struct ct_registers regs;
    int status = ct_remote_read_registers_traced(l->remote->pid, &regs);
    if (status != CT_OK)
        return status;
    if (l->notify)
        return restore_notify(l, &regs);
    if (!arrived)
        return CT_OK; /* the loader already has our address, which leads to the true entry */
    status = ct_remote_write(l->remote, l->entry_at, &l->entry, sizeof l->entry);
    if (status == CT_OK)
        status = move_to(l, &regs, l->entry);
    return status == CT_OK ? ct_remote_write(l->remote, l->remote->gadget, zero, sizeof zero) : status;
}

int ct_loader_run_traced(struct ct_remote *remote, uint64_t deadline_ms) {
    struct loading l = {.remote = remote};
    enum { GRACE_MS = 1000 };
    uint64_t base = ct_remote_auxv(remote, AT_BASE);
    if (base == 0)
        return ct_trace_settle(remote->pid, 0, deadline_ms);
    look_for_notify(&l, base);
    int status = prepare_mark(&l);
    if (status != CT_OK)
        return status;
    status = run_to_mark(&l, deadline_ms);
    if (status != CT_OK && status != CT_ERR_TIMEOUT)
        return status;
    int settled = status == CT_OK ? ct_trace_settle(remote->pid, 0, deadline_ms + GRACE_MS)
                                  : ct_trace_halt(remote->pid, deadline_ms + GRACE_MS);
    if (settled == CT_OK)
        settled = clean_up(&l, status == CT_OK);
    return status != CT_OK ? status : settled;
}
