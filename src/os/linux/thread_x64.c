/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread on Linux/x86_64. */
#include "os/thread.h"
#include "os/os.h"
#include "syscall.h"
#include <asm/prctl.h>
#include <linux/auxvec.h>

/* x87, SSE, AVX, and the three AVX-512 components. Callbacks do not change PKRU and AMX tiles. */
#define VECTOR_FEATURES 0xe7u

uint64_t ct_os_thread_pointer(void) {
    uint64_t value;
    __asm__ volatile("mov %%fs:0, %0" : "=r"(value));
    return value;
}

int ct_os_set_block(void *block) {
    return ct_os_is_silent() || syscall2(__NR_arch_prctl, ARCH_SET_GS, block) ? CT_ERR_SYSTEM : 0;
}

void *ct_os_block(void) {
    void *self;
    __asm__ volatile("mov %%gs:%c1, %0" : "=r"(self) : "i"(CT_OS_BLOCK_SELF));
    return self;
}

/* The seventh word. glibc rotates and mangles it with a secret from the thread control block, so that it is not a valid
 * address; musl stores it as it is. */
uint64_t ct_os_jump_target(uint64_t jump_buffer) {
    uint64_t word = *(const uint64_t *)(jump_buffer + 48), secret; /* longjmp itself will read it */
    if (word < CT_ADDRESS_LIMIT && !(word & 7))
        return word;
    __asm__ volatile("mov %%fs:0x30, %0" : "=r"(secret));
    return (word >> 17 | word << 47) ^ secret;
}

uint64_t ct_os_get_block(void) {
    uint64_t value = 0;
    return syscall2(__NR_arch_prctl, ARCH_GET_GS, &value) ? 0 : value;
}

void ct_os_learn_jumps(void) {
}

bool ct_os_inherits_block(void) {
    return true;
}

void ct_os_forget_block(uint64_t thread_pointer) {
    (void)thread_pointer;
}

bool ct_os_sets_bases(uint64_t call) {
    return call == __NR_arch_prctl;
}

bool ct_os_takes_block(uint64_t code) {
    return (uint32_t)code == ARCH_SET_GS;
}

bool ct_os_has_thread_pointer(void) {
    uint64_t value = 0;
    return !syscall2(__NR_arch_prctl, ARCH_GET_FS, &value) && value;
}

bool ct_os_has_gsbase(void) {
    uint64_t pairs[64];
    long fd = sys_open("/proc/self/auxv", O_RDONLY);
    if (failed(fd))
        return false;
    long size = sys_read((int)fd, pairs, sizeof pairs);
    (void)sys_close((int)fd);
    for (unsigned i = 0; size > 0 && i + 2 <= (unsigned long)size / sizeof pairs[0] && pairs[i]; i += 2)
        if (pairs[i] == AT_HWCAP2)
            return pairs[i + 1] & 2;
    return false;
}

/* A signal frame: the restorer's address, then a ucontext (flags, link, stack, registers). */
#define FRAME_RSP      (8 + 40 + 15 * 8)
#define FRAME_RIP      (8 + 40 + 16 * 8)
#define FRAME_SEGMENTS (8 + 40 + 18 * 8)
#define USER_SEGMENTS  0x002b000000000033ull /* cs and ss of 64-bit programs; gs and fs are zero */

/* mov $15, %rax or %eax; syscall: rt_sigreturn */
static bool is_restorer(uint64_t address) {
    static const uint8_t wide[9] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    static const uint8_t narrow[7] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
    uint8_t code[sizeof wide];
    unsigned i = 0, k = 0;
    if (ct_os_peek(address, code, sizeof code))
        return false;
    while (i < sizeof wide && code[i] == wide[i])
        i++;
    while (k < sizeof narrow && code[k] == narrow[k])
        k++;
    return i == sizeof wide || k == sizeof narrow;
}

bool ct_os_signal_frame_at(uint64_t at, uint64_t end, struct ct_os_signal_frame *frame) {
    if (end - at < FRAME_SEGMENTS + 8 || *(const uint64_t *)(at + FRAME_SEGMENTS) != USER_SEGMENTS ||
        !is_restorer(*(const uint64_t *)at))
        return false;
    frame->pc = (uint64_t *)(at + FRAME_RIP);
    frame->sp = *(const uint64_t *)(at + FRAME_RSP);
    return true;
}

void ct_os_relax(void) {
    __asm__ volatile("pause");
}

static void cpuid(uint32_t leaf, uint32_t sub, uint32_t out[4]) {
    __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(sub));
}

bool ct_os_vectors(struct ct_vectors *vectors) {
    uint32_t r[4];
    vectors->size = vectors->parts = 0;
    cpuid(1, 0, r);
    if (!(r[2] & (1u << 27))) /* OSXSAVE */
        return false;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    vectors->parts = low & VECTOR_FEATURES;
    uint64_t size = 512 + 64;
    for (uint32_t component = 2; component < 8; component++) {
        if (!(vectors->parts & (1u << component)))
            continue;
        cpuid(0xd, component, r);
        if (r[1] + r[0] > size)
            size = r[1] + r[0];
    }
    vectors->size = (size + 63) & ~63ull;
    return true;
}

uint64_t ct_os_timestamp(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
