/* SPDX-License-Identifier: Apache-2.0 */
/* See stopped.h. */
#include "inject/stopped.h"
#include "remote/frames.h"

static int read_target(void *arg, uint64_t address, void *bytes, size_t size) {
    return ct_remote_read(arg, address, bytes, size);
}

static int write_target(void *arg, uint64_t address, const void *bytes, size_t size) {
    return ct_remote_write(arg, address, bytes, size);
}

struct ct_page_writer ct_stopped_writer(struct ct_remote *remote) {
    return (struct ct_page_writer){.read = read_target, .write = write_target, .arg = remote};
}

struct mover {
    uint64_t (*moved)(const void *arg, uint64_t pc, bool in_call);
    const void *arg;
};

static int move_frame(void *arg, struct ct_remote_frame *frame) {
    const struct mover *m = arg;
    uint64_t to = m->moved(m->arg, frame->pc, false);
    if (to)
        frame->pc = to;
    return 0;
}

int ct_stopped_move_threads(struct ct_remote *remote, uint64_t (*moved)(const void *arg, uint64_t pc, bool in_call),
                            const void *arg) {
    struct mover m = {moved, arg};
    for (size_t i = 0; i < ct_remote_thread_count(remote); i++) {
        struct ct_registers regs;
        int status = 0;
        if (ct_remote_get_regs(remote, i, &regs))
            continue; /* it has ended */
        uint64_t to = moved(arg, ct_registers_pc(&regs), ct_registers_call_size(&regs) != 0);
        if (to) {
            ct_registers_set_pc(&regs, to);
            status = ct_remote_set_regs(remote, i, &regs);
        }
        if (!status)
            status = ct_remote_each_frame(remote, ct_registers_sp(&regs), move_frame, &m);
        if (status < 0)
            return status;
    }
    return 0;
}
