/* SPDX-License-Identifier: Apache-2.0 */
/* The C half of the harness: signals, single steps and vector state. See exec_run.h. */
#include "exec_run.h"

#include <cpuid.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ucontext.h>

_Static_assert(offsetof(struct exec_state, flags) == 128, "exec_run_x64.S");
_Static_assert(offsetof(struct exec_state, exit) == 136, "exec_run_x64.S");
_Static_assert(offsetof(struct exec_state, xsave) == 192, "exec_run_x64.S");
_Static_assert(sizeof(struct exec_state) == 192 + EXEC_XSAVE_SIZE, "exec_run_x64.S");

#define TRAP_FLAG 0x100
#define EXIT_SIZE 32 /* of each exit in exec_run_x64.S */

void exec_enter(const struct exec_state *in, uint64_t entry);
extern char exec_exits[], exec_leave_fault[];
extern struct exec_state exec_result;
extern uint32_t exec_xsave_mask;
uint32_t exec_xsave_mask;

static exec_step *step_function;
static void *step_arg;

/* The parts of an XSAVE image that we use, by component number: 0 x87, 1 SSE, 2 AVX, 5-7 AVX-512. */
static struct { uint32_t offset, size; } part[8];

static const uint8_t gpr_places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                       REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* A hypervisor that interrupts a step may lose the bit that says so; the kernel then calls it a breakpoint. int3 has
 * SI_KERNEL. */
static bool is_step(int signal, const siginfo_t *info) {
    return signal == SIGTRAP && (info->si_code == TRAP_TRACE || info->si_code == TRAP_BRKPT);
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (step_function && is_step(signal, info)) {
        uint64_t pc = (uint64_t)regs[REG_RIP];
        bool left = pc - exec_exit_address(0) < EXIT_SIZE * EXEC_EXITS;
        if (left || !step_function(step_arg, &pc, (uint64_t)regs[REG_RSP]))
            regs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        regs[REG_RIP] = (greg_t)pc;
        return;
    }
    for (unsigned i = 0; i < 16; i++)
        exec_result.gpr[i] = (uint64_t)regs[gpr_places[i]];
    exec_result.flags = (uint64_t)regs[REG_EFL] & ~0x10000ull; /* resume flag: the processor's own */
    exec_result.pc = (uint64_t)regs[REG_RIP];
    exec_result.signal = (uint64_t)signal;
    regs[REG_RIP] = (greg_t)(uintptr_t)exec_leave_fault;
    regs[REG_EFL] = 0x202;
}

static void find_vector_state(void) {
    uint32_t a, b, c, d, low, high;
    __cpuid_count(0xd, 0, a, b, c, d);
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    exec_xsave_mask = low & 0xe7;
    part[0].size = 160;
    part[1].offset = 160;
    part[1].size = 256;
    for (unsigned i = 2; i < 8; i++) {
        if (!(exec_xsave_mask & 1u << i))
            continue;
        __cpuid_count(0xd, i, a, b, c, d);
        part[i].offset = b;
        part[i].size = a;
        if (a + b > EXEC_XSAVE_SIZE)
            abort();
    }
}

void exec_init(void) {
    find_vector_state();
    size_t size = 256 << 10;
    stack_t stack = {.ss_size = size};
    stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL))
        abort();
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

uint64_t exec_exit_address(unsigned n) {
    return (uint64_t)(uintptr_t)exec_exits + EXIT_SIZE * (uint64_t)n;
}

void exec_run(const struct exec_state *in, uint64_t entry, struct exec_state *out, exec_step *step, void *arg) {
    static struct exec_state stepped;
    step_function = step;
    step_arg = arg;
    memset(&exec_result, 0, sizeof exec_result);
    if (step) {
        stepped = *in;
        stepped.flags |= TRAP_FLAG;
        in = &stepped;
    }
    exec_enter(in, entry);
    exec_result.flags &= ~(uint64_t)TRAP_FLAG;
    *out = exec_result;
}

void exec_random_vectors(struct exec_state *state, uint64_t (*next)(void)) {
    memset(state->xsave, 0, sizeof state->xsave);
    for (unsigned i = 0; i < 8; i++) {
        if (i == 0) { /* eight registers of 10 bytes, 16 apart */
            for (unsigned r = 0; r < 8; r++) {
                uint64_t v[2] = {next(), next() & 0xffff};
                memcpy(state->xsave + 32 + 16 * r, v, sizeof v);
            }
            continue;
        }
        for (unsigned at = 0; at < part[i].size; at += 8) {
            uint64_t v = next();
            memcpy(state->xsave + part[i].offset + at, &v, sizeof v);
        }
    }
    uint16_t control = 0x37f;
    memcpy(state->xsave, &control, sizeof control);
    state->xsave[4] = (uint8_t)next();                     /* which x87 registers are in use */
    uint32_t mxcsr = 0x1f80 | (uint32_t)(next() & 0xe040); /* all exceptions masked, any rounding */
    memcpy(state->xsave + 24, &mxcsr, sizeof mxcsr);
    uint64_t present = exec_xsave_mask;
    memcpy(state->xsave + 512, &present, sizeof present);
}

int exec_compare_vectors(const struct exec_state *a, const struct exec_state *b) {
    for (unsigned i = 1; i < 8; i++)
        if (memcmp(a->xsave + part[i].offset, b->xsave + part[i].offset, part[i].size))
            return 1;
    /* control, status, tags; then MXCSR; then the registers */
    return memcmp(a->xsave, b->xsave, 5) || memcmp(a->xsave + 24, b->xsave + 24, 4) ||
           memcmp(a->xsave + 32, b->xsave + 32, 128);
}
