/* SPDX-License-Identifier: Apache-2.0 */
/* Stubs that record, and tell guests too: not on arm64 yet. */
#include "script/script_guest.h"

bool ct_script_switch(uint64_t stub, const struct ct_shared_code *shared, uint8_t head[CT_SCRIPT_STUB_HEAD],
                      uint64_t saved[2]) {
    (void)stub;
    (void)shared;
    (void)head;
    (void)saved;
    return false;
}

void ct_script_switch_restore(uint8_t head[CT_SCRIPT_STUB_HEAD], const uint64_t saved[2]) {
    (void)head;
    (void)saved;
}
