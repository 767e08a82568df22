/* SPDX-License-Identifier: Apache-2.0 */
/* Stubs that record, and tell guests too, on arm64: another call at the beginning, another branch at the end (see
 * hook/stub_a64.h). */
#include "isa/a64/encode.h"
#include "script/script_guest.h"
#include <string.h>

#define LEAVE (CT_STUB_RESUME + 4)
#define IS    0xfc000000u
#define CALL  0x94000000u
#define JUMP  0x14000000u

static uint32_t word_at(const uint8_t *place) {
    uint32_t word;
    memcpy(&word, place, sizeof word);
    return word;
}

bool ct_script_switch(uint64_t stub, const struct ct_shared_code *shared, uint8_t head[CT_SCRIPT_STUB_HEAD],
                      uint64_t saved[2]) {
    uint32_t enter = ct_a64_redirect(CALL, stub, shared->enter_listen, CT_A64_REACH_B);
    uint32_t leave = ct_a64_redirect(JUMP, stub + LEAVE, shared->leave_listen, CT_A64_REACH_B);
    if ((word_at(head) & IS) != CALL || (word_at(head + LEAVE) & IS) != JUMP || !enter || !leave)
        return false;
    memcpy(&saved[0], head, sizeof saved[0]);
    memcpy(&saved[1], head + CT_STUB_RESUME, sizeof saved[1]);
    memcpy(head, &enter, sizeof enter);
    memcpy(head + LEAVE, &leave, sizeof leave);
    return true;
}

void ct_script_switch_restore(uint8_t head[CT_SCRIPT_STUB_HEAD], const uint64_t saved[2]) {
    memcpy(head, &saved[0], sizeof saved[0]);
    memcpy(head + CT_STUB_RESUME, &saved[1], sizeof saved[1]);
}
