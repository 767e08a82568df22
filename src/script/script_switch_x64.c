/* SPDX-License-Identifier: Apache-2.0 */
/* Stubs that record, and tell guests too, on x86_64: another call at the beginning, another jump at the end (see
 * hook/stub_x64.h). */
#include "script/script_guest.h"
#include <string.h>

#define CALL 0xe8
#define JUMP 0xe9
#define SIZE 5u

static void lead(uint8_t *place, uint64_t next, uint64_t target) {
    int32_t distance = (int32_t)(target - next);
    memcpy(place + 1, &distance, sizeof distance);
}

bool ct_script_switch(uint64_t stub, const struct ct_shared_code *shared, uint8_t head[CT_SCRIPT_STUB_HEAD],
                      uint64_t saved[2]) {
    if (head[0] != CALL || head[CT_STUB_RESUME] != JUMP)
        return false;
    saved[0] = saved[1] = 0;
    memcpy(&saved[0], head, sizeof saved[0]);
    memcpy(&saved[1], head + CT_STUB_RESUME, SIZE);
    lead(head, stub + SIZE, shared->enter_listen);
    lead(head + CT_STUB_RESUME, stub + CT_STUB_RESUME + SIZE, shared->leave_listen);
    return true;
}

void ct_script_switch_restore(uint8_t head[CT_SCRIPT_STUB_HEAD], const uint64_t saved[2]) {
    memcpy(head, &saved[0], sizeof saved[0]);
    memcpy(head + CT_STUB_RESUME, &saved[1], SIZE);
}
