/* SPDX-License-Identifier: Apache-2.0 */
/* Calls made in another process on arm64: the instructions, and the way back.
 *
 * As on x86_64 (call_x64.c) there is code after the call that puts the thread back by itself if we die: signal mask,
 * flags, all general registers. No instruction of this machine jumps without a register, or farther than 128 MiB. So
 * the code ends with a jump to a few bytes near the place to which the thread returns, which load the last register and
 * branch. Where nothing of the process is near (code that was generated far from all modules) that register is lost.
 *
 *   0   blr x19               a function
 *   4   mov x20, x0
 *   8   b 16
 *   12  svc #0                a system call
 *   16  rt_sigprocmask(SIG_SETMASK, &mask, NULL, 8)
 *   40  flags, sp
 *       ldr reg, value        thirty times
 *       ldr x16, near; ret x16
 *   184 two functions that sign an address
 *       mask, flags, sp, near, pc, registers
 *       ldr x16, value; b pc; value     the bytes that are near, if this is
 *       a name for memory that is shared */
#include "remote/remote_internal.h"
#include "remote/sign_a64.h"
#include "os/linux/registers_a64.h"
#include <contrail/status.h>

#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum {
    AT_FUNCTION = 0,
    AT_SYSCALL = 12,
    AT_MASK_SET = 40,
    AT_SIGN_A = 184,
    AT_SIGN_B = 204,
    AT_DATA = 224,
    AT_NEAR = AT_DATA + 36 * 8,
    AT_NAME = AT_NEAR + CT_REMOTE_NEAR,
    INSTRUCTION = 4,
    LAST = 16,     /* the register that is loaded last */
    FUNCTION = 19, /* registers that functions keep */
    RESULT = 20,
    FP = 29,
    LR = 30,
    NUMBER = 8,
};
enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };
#define FLAGS_NZCV  UINT64_C(0xf0000000)
#define FLAGS_32BIT UINT64_C(0x10)
#define FLAGS_BTYPE UINT64_C(0xc00)    /* the thread has just jumped: the next instruction must be a landing pad */
#define FLAGS_STEP  UINT64_C(0x200000) /* single step */
#define REACH       (INT64_C(1) << 27)

struct data {
    uint64_t mask, flags, sp, near, pc;
    uint64_t x[31];
};

_Static_assert(sizeof(struct data) == AT_NEAR - AT_DATA, "the data is where the code looks for it");
_Static_assert(AT_NAME + sizeof CT_REMOTE_MEMFD <= CT_REMOTE_GADGET_ROOM, "code, data and name fit");

#define LDR(reg, at, member) (0x58000000u | (uint32_t)(AT_DATA + offsetof(struct data, member) - (at)) << 3 | (reg))

static const uint32_t begin[] = {
    0xd63f0260,         0xaa0003f4, 0x14000002,      0xd4000001,                         /* blr, mov, b, svc */
    0x10000681,         0xd2800040, 0xd2800002,      0xd2800103, 0xd28010e8, 0xd4000001, /* adr x1, mask; ... */
    LDR(16, 40, flags), 0xd51b4210, LDR(16, 48, sp), 0x9100021f, /* msr nzcv, x16; mov sp, x16 */
};

/* mov x17, x0; mov x16, x1; pacia1716 (pacib1716); mov x0, x17; ret: processors without signatures do nothing */
static const uint32_t sign_a[] = {0xaa0003f1, 0xaa0103f0, 0xd503211f, 0xaa1103e0, 0xd65f03c0};
static const uint32_t sign_b[] = {0xaa0003f1, 0xaa0103f0, 0xd503215f, 0xaa1103e0, 0xd65f03c0};

static void put_code(uint8_t *code) {
    size_t at = sizeof begin;
    memcpy(code, begin, sizeof begin);
    for (unsigned n = 0; n < 31; n++) {
        uint32_t load = LDR(n, at, x) + (n * 8 << 3);
        if (n == LAST)
            continue;
        memcpy(code + at, &load, sizeof load);
        at += sizeof load;
    }
    const uint32_t end[] = {LDR(16, at, near), 0xd65f0200}; /* ret x16: no landing pad is needed */
    memcpy(code + at, end, sizeof end);
    memcpy(code + AT_SIGN_A, sign_a, sizeof sign_a);
    memcpy(code + AT_SIGN_B, sign_b, sizeof sign_b);
}

/* ---- the bytes that are near ---- */

static bool reaches(uint64_t from, uint64_t to) {
    int64_t distance = (int64_t)(to - from);
    return distance >= -REACH && distance < REACH;
}

bool ct_call_needs_near(const struct saved *saved, uint64_t gadget) {
    return !reaches(gadget, ct_registers_pc(&saved->regs));
}

bool ct_call_near_fits(const struct saved *saved, uint64_t near) {
    return reaches(near, ct_registers_pc(&saved->regs));
}

void ct_call_write_near(const struct saved *saved, uint64_t near, uint8_t code[CT_REMOTE_NEAR]) {
    uint64_t distance = ct_registers_pc(&saved->regs) - (near + INSTRUCTION);
    const uint32_t words[2] = {0x58000050, 0x14000000 | ((uint32_t)(distance >> 2) & 0x3ffffff)};
    memcpy(code, words, sizeof words);
    memcpy(code + sizeof words, &ct_registers_to_a64(&saved->regs)->x[LAST], 8);
}

/* ---- the call ---- */

void ct_call_write_code(struct saved *saved, uint64_t gadget) {
    const struct ct_registers_a64 *r = ct_registers_to_a64(&saved->regs);
    struct data data = {.mask = saved->mask, .flags = r->pstate & FLAGS_NZCV, .sp = r->sp, .pc = r->pc};
    bool is_near = !ct_call_needs_near(saved, gadget);
    data.near = is_near ? gadget + AT_NEAR : saved->near ? saved->near : r->pc;
    memcpy(data.x, r->x, sizeof data.x);
    memset(saved->code, 0, sizeof saved->code);
    put_code(saved->code);
    memcpy(saved->code + AT_DATA, &data, sizeof data);
    if (is_near)
        ct_call_write_near(saved, gadget + AT_NEAR, saved->code + AT_NEAR);
    memcpy(saved->code + AT_NAME, CT_REMOTE_MEMFD, sizeof CT_REMOTE_MEMFD);
}

uint64_t ct_call_name(uint64_t gadget) {
    return gadget + AT_NAME;
}

bool ct_call_is_code(const uint8_t bytes[CT_REMOTE_GADGET_ROOM], uint64_t *pc, uint64_t *sp) {
    struct data data;
    uint8_t code[AT_DATA];
    put_code(code);
    memcpy(&data, bytes + AT_DATA, sizeof data);
    *pc = data.pc;
    *sp = data.sp;
    return memcmp(bytes, code, sizeof code) == 0;
}

bool ct_call_possible(const struct ct_registers *regs) {
    const struct ct_registers_a64 *r = ct_registers_to_a64(regs);
    return !(r->pstate & FLAGS_32BIT) && r->pc != 0; /* not 32-bit code, not a worker of the kernel */
}

void ct_call_registers(const struct call *call, const struct saved *saved, uint64_t gadget, struct ct_registers *regs) {
    struct ct_registers_a64 *r = ct_registers_as_a64(regs);
    *regs = saved->regs;
    r->call = UINT64_MAX; /* nothing to repeat */
    r->pstate &= ~(FLAGS_BTYPE | FLAGS_STEP);
    memcpy(r->x, call->arguments, sizeof call->arguments);
    if (call->is_syscall) {
        r->x[NUMBER] = call->function;
        r->pc = gadget + AT_SYSCALL;
    } else {
        r->x[FUNCTION] = call->function;
        r->x[FP] = r->x[LR] = 0;
        r->sp = call->stack;
        r->pc = gadget + AT_FUNCTION;
    }
}

uint64_t ct_call_end(const struct call *call, uint64_t gadget, bool *at_exit) {
    *at_exit = call->is_syscall;
    return gadget + (call->is_syscall ? AT_SYSCALL + INSTRUCTION : AT_MASK_SET);
}

static bool will_repeat(uint64_t result) {
    switch (-(int64_t)result) {
    case ERESTARTSYS:
    case ERESTARTNOINTR:
    case ERESTARTNOHAND:
    case ERESTART_RESTARTBLOCK:
        return true;
    default:
        return false;
    }
}

bool ct_call_result(struct call *call, const struct ct_registers *regs) {
    const struct ct_registers_a64 *r = ct_registers_to_a64(regs);
    call->result = call->is_syscall ? r->x[0] : r->x[RESULT];
    return !call->is_syscall || !will_repeat(r->x[0]);
}

/* The function is part of the code that makes the call, so nothing of ours must be in the process for it. */
int ct_remote_sign(struct ct_remote *remote, bool key_b, uint64_t address, uint64_t sp, uint64_t *result) {
    const uint64_t arguments[6] = {address, sp};
    int status = remote->gadget ? CT_OK : ct_remote_find_gadget(remote);
    return status ? status
                  : ct_remote_call(remote, remote->gadget + (key_b ? AT_SIGN_B : AT_SIGN_A), sp, arguments, result);
}

struct keys {
    size_t thread;
    bool own;
};

static bool read_keys(const struct ct_remote *remote, size_t i, uint64_t keys[8]) {
    enum { ADDRESS_KEYS = 0x407 }; /* NT_ARM_PACA_KEYS */
    struct iovec part = {keys, 8 * sizeof *keys};
    return ct_trace(PTRACE_GETREGSET, remote->set.threads[i].tid, ADDRESS_KEYS, (uint64_t)(uintptr_t)&part) == 0;
}

/* Kernels without CONFIG_CHECKPOINT_RESTORE do not show keys: any thread may have its own. */
static int compare_keys_traced(struct ct_remote *remote, void *arg) {
    uint64_t worker[8], own[8];
    struct keys *k = arg;
    bool known = read_keys(remote, remote->worker, worker) && read_keys(remote, k->thread, own);
    k->own = k->thread != remote->worker && (!known || memcmp(worker, own, sizeof own) != 0);
    return CT_OK;
}

int ct_remote_sign_by(struct ct_remote *remote, size_t i, bool key_b, uint64_t address, uint64_t sp, uint64_t *result) {
    struct keys keys = {i, false};
    int status = ct_remote_sign(remote, key_b, address, sp, result);
    size_t worker = remote->worker;
    if (!status && i < remote->set.count)
        status = ct_tracer_run(remote, compare_keys_traced, &keys);
    if (status || !keys.own || ct_remote_choose(remote, i)) /* a thread that may not call is left as it is */
        return status;
    status = ct_remote_sign(remote, key_b, address, sp, result);
    remote->worker = worker;
    return status;
}
