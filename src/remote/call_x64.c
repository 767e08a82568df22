/* SPDX-License-Identifier: Apache-2.0 */
/* Calls made in another process on x86_64: the instructions, and the way back.
 *
 * After the call there is code that puts the thread back by itself: signal mask, flags, all general registers, then a
 * jump to where it was. So if we die the thread returns alone. (While we live it never gets there: we put it back from
 * outside.) All data that the code needs is beside it. So nothing is written to the thread's stack, which may be small,
 * and the kernel keeps its record of an interrupted sleep, which a return through a signal frame would erase: the
 * thread sleeps for the rest of its time. Nobody uses vector registers meanwhile.
 *
 *   0   call *%rbx            a function
 *   2   mov %rax,%r13
 *   5   jmp 9
 *   7   syscall               a system call
 *   9   rt_sigprocmask(SIG_SETMASK, &mask, NULL, 8)
 *       flags: al = OF, ah = the others; add $0x7f,%al; sahf; cld or std
 *       mov reg(%rip),reg     sixteen times
 *       jmp *pc(%rip)
 *       mask, flags, registers, pc
 *       a name for memory that is shared */
#include "remote/remote_internal.h"
#include "os/linux/registers_x64.h"

#include <errno.h>
#include <string.h>
#include <asm/unistd.h>

enum { ERESTART_RESTARTBLOCK = 516 };
enum {
    AT_FUNCTION = 0,
    AT_SYSCALL = 7,
    SYSCALL_SIZE = 2,
    AT_MASK_SET = 36,
    AT_DIRECTION = 45,
    AT_DATA = 168,
    AT_NAME = 320,
    REGISTERS = 16,
    RSP = 4
};
enum { USER_CS = 0x33, FLAG_TRAP = 1 << 8, FLAG_DIRECTION = 1 << 10, FLAG_OVERFLOW = 1 << 11 };

struct data {
    uint64_t mask, flags;
    uint64_t registers[REGISTERS]; /* in the order of their numbers */
    uint64_t pc;
};

_Static_assert(AT_DATA + sizeof(struct data) <= AT_NAME, "code and data fit");
_Static_assert(AT_NAME + sizeof CT_REMOTE_MEMFD <= CT_REMOTE_GADGET_ROOM, "the name fits");

struct emitter {
    uint8_t *bytes;
    size_t at;
};

static void put_bytes(struct emitter *out, const char *bytes, size_t size) {
    memcpy(out->bytes + out->at, bytes, size);
    out->at += size;
}

/* Puts an instruction that ends in a 4-byte distance to a member of the data. */
static void put_relative(struct emitter *out, const char *bytes, size_t size, size_t member) {
    put_bytes(out, bytes, size);
    int32_t distance = (int32_t)(AT_DATA + member) - (int32_t)(out->at + sizeof distance);
    put_bytes(out, (const char *)&distance, sizeof distance);
}

/* Without us the kernel would not repeat the call: the thread does so itself. */
static void fill_data(struct data *data, const struct saved *saved) {
    const struct ct_registers_x64 *r = ct_registers_to_x64(&saved->regs);
    uint64_t rax = r->rax;
    data->pc = ct_registers_pc(&saved->regs);
    if (ct_registers_call_size(&saved->regs))
        rax = (int64_t)r->rax == -ERESTART_RESTARTBLOCK ? __NR_restart_syscall : r->orig_rax;
    const uint64_t registers[REGISTERS] = {rax,   r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
                                           r->r8, r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};
    memcpy(data->registers, registers, sizeof registers);
    data->mask = saved->mask;
    data->flags = (r->eflags & 0xff) << 8 | (r->eflags & FLAG_OVERFLOW ? 1 : 0);
}

static void put_registers(struct emitter *out) {
    /* rax last: the flags go through it */
    for (unsigned n = REGISTERS; n-- > 0;) {
        const char load[3] = {(char)(n < 8 ? 0x48 : 0x4c), (char)0x8b, (char)(0x05 | (n & 7) << 3)};
        put_relative(out, load, sizeof load, offsetof(struct data, registers) + n * 8);
    }
}

#define PUT(out, text) put_bytes(out, text, sizeof(text) - 1)

void ct_call_write_code(struct saved *saved, uint64_t gadget) {
    struct emitter out = {saved->code, 0};
    struct data data;
    (void)gadget; /* everything is relative to pc */
    memset(saved->code, 0, sizeof saved->code);
    PUT(&out, "\xff\xd3\x49\x89\xc5\xeb\x02\x0f\x05");
    put_relative(&out, "\x48\x8d\x35", 3, offsetof(struct data, mask)); /* lea mask(%rip),%rsi */
    PUT(&out, "\xb8\x0e\x00\x00\x00\xbf\x02\x00\x00\x00\x31\xd2\x41\xba\x08\x00\x00\x00\x0f\x05");
    put_relative(&out, "\x8b\x05", 2, offsetof(struct data, flags)); /* mov flags(%rip),%eax */
    PUT(&out, "\x04\x7f\x9e\xfc");
    if (ct_registers_to_x64(&saved->regs)->eflags & FLAG_DIRECTION)
        saved->code[AT_DIRECTION] |= 1; /* std in place of cld */
    put_registers(&out);
    put_relative(&out, "\xff\x25", 2, offsetof(struct data, pc));
    fill_data(&data, saved);
    memcpy(saved->code + AT_DATA, &data, sizeof data);
    memcpy(saved->code + AT_NAME, CT_REMOTE_MEMFD, sizeof CT_REMOTE_MEMFD);
}

uint64_t ct_call_name(uint64_t gadget) {
    return gadget + AT_NAME;
}

/* Only the data after the code differs, and one bit of cld or std. */
bool ct_call_is_code(const uint8_t bytes[CT_REMOTE_GADGET_ROOM], uint64_t *pc, uint64_t *sp) {
    struct saved sample = {0};
    struct data data;
    uint8_t copy[AT_DATA];
    ct_call_write_code(&sample, 0);
    memcpy(copy, bytes, sizeof copy);
    memcpy(&data, bytes + AT_DATA, sizeof data);
    copy[AT_DIRECTION] &= (uint8_t)~1;
    *pc = data.pc;
    *sp = data.registers[RSP];
    return memcmp(copy, sample.code, sizeof copy) == 0;
}

/* The code itself jumps anywhere. */
bool ct_call_needs_near(const struct saved *saved, uint64_t gadget) {
    (void)saved, (void)gadget;
    return false;
}

bool ct_call_near_fits(const struct saved *saved, uint64_t near) {
    (void)saved, (void)near;
    return false;
}

void ct_call_write_near(const struct saved *saved, uint64_t near, uint8_t code[CT_REMOTE_NEAR]) {
    (void)saved, (void)near, (void)code;
}

bool ct_call_possible(const struct ct_registers *registers) {
    const struct ct_registers_x64 *regs = ct_registers_to_x64(registers);
    return regs->cs == USER_CS && regs->rip != 0; /* not 32-bit code, not a worker of the kernel */
}

void ct_call_registers(const struct call *call, const struct saved *saved, uint64_t gadget,
                       struct ct_registers *registers) {
    struct ct_registers_x64 *regs = ct_registers_as_x64(registers);
    *registers = saved->regs;
    regs->orig_rax = UINT64_MAX; /* nothing to repeat */
    regs->eflags &= ~(uint64_t)(FLAG_DIRECTION | FLAG_TRAP);
    regs->rdi = call->arguments[0];
    regs->rsi = call->arguments[1];
    regs->rdx = call->arguments[2];
    regs->r8 = call->arguments[4];
    regs->r9 = call->arguments[5];
    if (call->is_syscall) {
        regs->r10 = call->arguments[3];
        regs->rax = call->function;
        regs->rip = gadget + AT_SYSCALL;
    } else {
        regs->rcx = call->arguments[3];
        regs->rbx = call->function;
        regs->rsp = call->stack;
        regs->rbp = 0;
        regs->rax = 0;
        regs->rip = gadget + AT_FUNCTION;
    }
}

uint64_t ct_call_end(const struct call *call, uint64_t gadget, bool *at_exit) {
    *at_exit = call->is_syscall;
    return gadget + (call->is_syscall ? AT_SYSCALL + SYSCALL_SIZE : AT_MASK_SET);
}

bool ct_call_result(struct call *call, const struct ct_registers *regs) {
    const struct ct_registers_x64 *r = ct_registers_to_x64(regs);
    call->result = call->is_syscall ? r->rax : r->r13;
    return !call->is_syscall || !ct_registers_call_size(regs);
}
