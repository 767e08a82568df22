/* SPDX-License-Identifier: Apache-2.0 */
/* What the hostile programs share: a heartbeat, the lane that contrail has mapped into them, and writing to it.
 *
 * Each program does one kind of harm to its recorder, and must go on working itself: hostile_beat() leaves a byte
 * in standard output every few milliseconds. Standard error has a line "attacked" once the harm is done, so that no
 * test passes because nothing happened. Writes go through the kernel: what is not mapped any more, or not writable, is
 * no crash of ours. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "abi/shm_abi.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Microseconds between two beats; when a program ends by itself; from the mapping to the first events. */
#define HOSTILE_BEAT_US   5000
#define HOSTILE_LIFE_S    240
#define HOSTILE_SETTLE_MS 300

struct hostile_lane {
    uint64_t start, end;
};

/* The first mapping of contrail's shared memory. False: there is none now. */
bool hostile_find_lane(struct hostile_lane *lane);
/* Beats until there is one, and until recording has begun. */
void hostile_wait_for_lane(struct hostile_lane *lane);

/* Without a call: a program that has broken the agent in itself must keep away from functions that are hooked. */
#define HOSTILE_INLINE static inline __attribute__((always_inline))

HOSTILE_INLINE long hostile_call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

HOSTILE_INLINE bool hostile_copy(long number, uint64_t at, void *bytes, size_t size) {
    struct iovec ours = {bytes, size}, theirs = {(void *)(uintptr_t)at, size};
    long self = hostile_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return hostile_call(number, self, (long)&ours, 1, (long)&theirs, 1, 0) == (long)size;
}

HOSTILE_INLINE bool hostile_write(uint64_t at, const void *bytes, size_t size) {
    return hostile_copy(SYS_process_vm_writev, at, (void *)(uintptr_t)bytes, size);
}

HOSTILE_INLINE bool hostile_read(uint64_t at, void *bytes, size_t size) {
    return hostile_copy(SYS_process_vm_readv, at, bytes, size);
}

HOSTILE_INLINE bool hostile_write4(uint64_t at, uint32_t value) {
    return hostile_write(at, &value, sizeof value);
}

HOSTILE_INLINE bool hostile_write8(uint64_t at, uint64_t value) {
    return hostile_write(at, &value, sizeof value);
}

HOSTILE_INLINE void hostile_sleep(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    hostile_call(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
}

/* A copy of the control block; ends the program when it cannot be read. */
struct ct_shm_control hostile_control(const struct hostile_lane *lane);

/* Fills the request and rings the request_futex. */
void hostile_requests(const struct hostile_lane *lane, const struct ct_shm_request *request);
/* What became of it: its answer, or -1 when none comes within two seconds. */
int hostile_answer(const struct hostile_lane *lane);

/* Some calls, a byte in standard output, a sleep. */
void hostile_beat(void);
void hostile_beat_for(unsigned milliseconds);
/* Nobody is left behind when a test is killed. */
void hostile_begin(void);
/* A line in standard error, which makes no difference to what is recorded of the C library's streams. */
__attribute__((format(printf, 1, 2))) void hostile_say(const char *format, ...);
_Noreturn void hostile_end(const char *what);
_Noreturn void hostile_beat_on(void);

/* The same without a call. */
HOSTILE_INLINE _Noreturn void hostile_beat_silently(void) {
    for (;;) {
        const char byte = '.';
        hostile_call(SYS_write, STDOUT_FILENO, (long)&byte, 1, 0, 0, 0);
        hostile_sleep(HOSTILE_BEAT_US);
    }
}

#endif
