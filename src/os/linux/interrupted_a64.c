/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that our stop has ended with -EINTR, on arm64 (seize.h).
 *
 * Before it stops a thread, the kernel steps back over the instruction of a call that it will repeat, and forgets that
 * there was one: such a thread looks as if it had not made its call yet, and needs nothing. Some calls end with -EINTR
 * instead (epoll_pwait, rt_sigtimedwait, semtimedop, sockets with time limits, ...), and the program would see that
 * although no signal came. They are repeated by us. The first argument was in the register that has the result now. The
 * kernel has a copy. Some kernels show it of threads that are in a call, so the number of the call is put there for a
 * moment. For others a thread is looked at before it is stopped: then the register still has the argument. If we die
 * meanwhile the program sees -EINTR, as it would without this file.
 *
 * A signal with a handler that is pending when the thread stops, or right before it resumes, ends the call as it
 * should; one that comes in the moment between that look and the thread's going on does not. A signal without a
 * handler, which an untraced thread would not have noticed, ends no call. */
#include "interrupted_a64.h"
#include "syscall.h"

#include <linux/elf.h>
#include <linux/ptrace.h>
#include <linux/uio.h>

#define SVC UINT32_C(0xd4000001)

enum { NUMBER = 8 };

static bool ends_early(uint64_t call) {
    static const uint16_t calls[] = {__NR_epoll_pwait,
                                     __NR_rt_sigtimedwait,
                                     __NR_semtimedop,
                                     __NR_semop,
                                     __NR_recvfrom,
                                     __NR_recvmsg,
                                     __NR_sendto,
                                     __NR_sendmsg,
                                     __NR_recvmmsg,
                                     __NR_sendmmsg,
                                     __NR_accept,
                                     __NR_accept4,
                                     __NR_connect,
                                     __NR_io_getevents,
                                     __NR_read,
                                     __NR_readv,
                                     __NR_write,
                                     __NR_writev,
                                     __NR_close,
                                     441 /* epoll_pwait2 */,
                                     426 /* io_uring_enter */};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == call)
            return true;
    return false;
}

static bool is_after_call(int tid, const struct ct_registers_a64 *a) {
    uint64_t word = 0;
    return (int64_t)a->x[0] == -EINTR && !failed(syscall4(__NR_ptrace, PTRACE_PEEKDATA, tid, a->pc - 4, &word)) &&
           (uint32_t)word == SVC && ends_early(a->x[NUMBER]);
}

static const char *skip_to(const char *text, const char *title) {
    for (; *text; text++) {
        unsigned i = 0;
        while (title[i] && text[i] == title[i])
            i++;
        if (!title[i])
            return text + i;
    }
    return text;
}

/* A number in hexadecimal digits, with 0x or without. */
static uint64_t hexadecimal(const char *text) {
    uint64_t value = 0;
    text += text[0] == '0' && text[1] == 'x' ? 2 : 0;
    for (;; text++) {
        unsigned digit = *text >= '0' && *text <= '9'   ? (unsigned)(*text - '0')
                         : *text >= 'a' && *text <= 'f' ? (unsigned)(*text - 'a' + 10)
                                                        : 16;
        if (digit > 15)
            return value;
        value = value << 4 | digit;
    }
}

/* Is there a signal that a handler waits for? `stopped`: the one that the thread has stopped for, which is not pending
 * any more; 0: none. */
static bool has_signal(int tid, int stopped) {
    char text[2048];
    if (!read_task_file(tid, tid, "status", text, sizeof text))
        return true;
    uint64_t pending = hexadecimal(skip_to(text, "\nSigPnd:\t")) | hexadecimal(skip_to(text, "\nShdPnd:\t"));
    uint64_t next = pending & ~hexadecimal(skip_to(text, "\nSigBlk:\t"));
    if (stopped > 0)
        next |= UINT64_C(1) << (stopped - 1);
    return next & hexadecimal(skip_to(text, "\nSigCgt:\t"));
}

static uint64_t count_sleeps(const char *status) {
    const char *digit = skip_to(status, "\nvoluntary_ctxt_switches:\t");
    uint64_t count = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        count = count * 10 + (uint64_t)(*digit - '0');
    return count;
}

/* "NUMBER 0xFIRST ... 0xSIXTH 0xSP 0xPC"; false: it runs, or is in no call. */
static bool read_call(int pid, int tid, struct seize_call *call) {
    char text[256];
    uint64_t *const fields[] = {&call->arguments[0], &call->arguments[1], &call->arguments[2], &call->arguments[3],
                                &call->arguments[4], &call->arguments[5], &call->sp,           &call->pc};
    const char *at = text;
    call->number = -1;
    if (!read_task_file(pid, tid, "syscall", text, sizeof text) || text[0] < '0' || text[0] > '9')
        return false;
    int64_t number = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (*at - '0');
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        at = skip_to(at, " ");
        *fields[i] = hexadecimal(at);
    }
    call->number = number;
    return true;
}

void ct_interrupted_note(int pid, struct seize_thread *thread) {
    char text[2048];
    struct seize_call *call = &thread->before;
    if (!read_call(pid, thread->tid, call))
        return;
    if (ends_early((uint64_t)call->number) && read_task_file(pid, thread->tid, "status", text, sizeof text))
        call->sleeps = count_sleeps(text);
    else
        call->number = -1;
}

static long set_call(int tid, int32_t call) {
    struct iovec part = {&call, sizeof call};
    return syscall4(__NR_ptrace, PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &part);
}

/* The kernel's copy. Newer kernels (Debian's 6.1.0-56) show what the register has now. */
static bool ask_kernel(int tid, const struct ct_registers_a64 *a, uint64_t *first) {
    struct seize_call call;
    bool is_read = !failed(set_call(tid, (int32_t)a->x[NUMBER])) && read_call(tid, tid, &call);
    (void)set_call(tid, -1);
    *first = call.arguments[0];
    return is_read && *first != a->x[0];
}

/* What was noted, if it is the same call: the thread has gone to sleep once since, for our stop. */
static bool ask_note(int tid, const struct seize_call *call, const struct ct_registers_a64 *a, uint64_t *first) {
    char text[2048];
    bool same = call->number == (int64_t)a->x[NUMBER] && call->sp == a->sp && call->pc == a->pc;
    for (unsigned i = 1; i < 6; i++)
        same = same && call->arguments[i] == a->x[i];
    *first = call->arguments[0];
    return same && read_task_file(tid, tid, "status", text, sizeof text) && count_sleeps(text) - call->sleeps <= 1;
}

/* close must not be repeated: the descriptor is free, and its number may be in use again by now. */
bool ct_interrupted_undo(const struct seize_thread *thread, struct ct_registers_a64 *a) {
    uint64_t first = 0;
    int tid = thread->tid, signal = thread->signal;
    if (!is_after_call(tid, a) || has_signal(tid, signal))
        return false;
    if (a->x[NUMBER] == __NR_close) {
        a->x[0] = signal ? a->x[0] : 0;
        return !signal;
    }
    if (!ask_kernel(tid, a, &first) && !ask_note(tid, &thread->before, a, &first))
        return false;
    a->x[0] = first;
    a->pc -= 4;
    return true;
}

bool ct_interrupted_redo(int tid, struct ct_registers_a64 *a) {
    if (!has_signal(tid, 0))
        return false;
    a->x[0] = (uint64_t)-EINTR;
    a->pc += 4;
    return true;
}
