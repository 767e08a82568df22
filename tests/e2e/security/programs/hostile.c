/* SPDX-License-Identifier: Apache-2.0 */
/* See hostile.h. */
#include "hostile.h"
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- the lane ---- */

static int maps = -1; /* one descriptor all the time: contrail gets the next one */

/* In a buffer that stays. */
static const char *read_maps(void) {
    static char text[1 << 20];
    size_t used = 0;
    ssize_t size;
    while (used < sizeof text - 1 && (size = pread(maps, text + used, sizeof text - 1 - used, (off_t)used)) > 0)
        used += (size_t)size;
    text[used] = 0;
    return text;
}

bool hostile_find_lane(struct hostile_lane *lane) {
    const char *text = read_maps(), *line = strstr(text, "/memfd:contrail");
    if (!line)
        return false;
    while (line > text && line[-1] != '\n')
        line--;
    return sscanf(line, "%lx-%lx", &lane->start, &lane->end) == 2;
}

void hostile_wait_for_lane(struct hostile_lane *lane) {
    while (!hostile_find_lane(lane))
        hostile_beat();
    hostile_beat_for(HOSTILE_SETTLE_MS);
}

struct ct_shm_control hostile_control(const struct hostile_lane *lane) {
    struct ct_shm_control control;
    if (!hostile_read(lane->start, &control, sizeof control) || control.magic != CT_SHM_MAGIC)
        hostile_end("the lane has no control block");
    return control;
}

/* ---- requests ---- */

#define LETTER 20u /* not one that the agent takes first */

static uint64_t request_place(const struct hostile_lane *lane) {
    return lane->start + CT_SHM_REQUESTS_OFFSET + LETTER * sizeof(struct ct_shm_request);
}

void hostile_requests(const struct hostile_lane *lane, const struct ct_shm_request *request) {
    struct ct_shm_request filled = *request;
    uint64_t request_futex = lane->start + offsetof(struct ct_shm_control, request_futex);
    uint32_t rings = 0;
    filled.state = CT_REQUEST_FREE;
    filled.answer = -1;
    hostile_write(request_place(lane), &filled, sizeof filled);
    hostile_write4(request_place(lane), CT_REQUEST_POSTED);
    hostile_read(request_futex, &rings, sizeof rings);
    hostile_write4(request_futex, rings + 1);
    syscall(SYS_futex, request_futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int hostile_answer(const struct hostile_lane *lane) {
    struct ct_shm_request request;
    for (int i = 0; i < 2000000 / HOSTILE_BEAT_US; i++) {
        hostile_beat();
        if (!hostile_read(request_place(lane), &request, sizeof request))
            return -1;
        if (request.state != CT_REQUEST_POSTED && request.state != CT_REQUEST_TAKEN)
            return request.answer;
    }
    return -1;
}

/* ---- life ---- */

static volatile unsigned sum;

__attribute__((noinline)) static unsigned leaf(unsigned x) {
    return sum += x;
}

void hostile_begin(void) {
    alarm(HOSTILE_LIFE_S);
    maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

void hostile_beat(void) {
    for (unsigned i = 0; i < 100; i++)
        leaf(i);
    if (write(STDOUT_FILENO, ".", 1) != 1)
        _exit(1);
    usleep(HOSTILE_BEAT_US);
}

void hostile_beat_for(unsigned milliseconds) {
    for (unsigned i = 0; i < milliseconds * 1000 / HOSTILE_BEAT_US; i++)
        hostile_beat();
}

void hostile_beat_on(void) {
    for (;;)
        hostile_beat();
}

void hostile_say(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (size < 0)
        return;
    if ((size_t)size > sizeof line - 2)
        size = sizeof line - 2;
    line[size] = '\n';
    if (write(STDERR_FILENO, line, (size_t)size + 1) < 0)
        _exit(1);
}

void hostile_end(const char *what) {
    hostile_say("ended: %s", what);
    _exit(1);
}
