/* What the hostile programs share: a heartbeat, the lane that contrail has mapped into them, and writing to it.
 *
 * Each program does one kind of harm to whoever records it, and must go on working itself: hostile_beat() leaves a byte in standard
 * output every few milliseconds. Standard error has a line "attacked" once the harm is done, so that no test passes because
 * nothing happened. Writes go through the kernel: what is not mapped any more, or not writable, is no crash of ours. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "abi/shm_abi.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hostile_lane {
    uint64_t start, end;
};

/* The first mapping of contrail's shared memory. False: there is none now. */
bool hostile_find_lane(struct hostile_lane *lane);
/* Beats until there is one, and until recording has begun. */
void hostile_wait_for_lane(struct hostile_lane *lane);

bool hostile_write(uint64_t at, const void *bytes, size_t size);
bool hostile_read(uint64_t at, void *bytes, size_t size);
bool hostile_write4(uint64_t at, uint32_t value);
bool hostile_write8(uint64_t at, uint64_t value);
/* A copy of the control block; ends the program when it cannot be read. */
struct ct_shm_control hostile_control(const struct hostile_lane *lane);

/* Fills the letter and rings the bell. */
void hostile_post(const struct hostile_lane *lane, const struct ct_shm_letter *letter);
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

/* Microseconds between two numbers that a test could wait for. */
#define HOSTILE_BEAT_US   5000
#define HOSTILE_LIFE_S    240
#define HOSTILE_SETTLE_MS 300 /* from the mapping to the first events */

#endif
