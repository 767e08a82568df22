/* SPDX-License-Identifier: Apache-2.0 */
/* Switches from one form of the shared code to the other: see runtime.h. No state; freestanding. */
#include "hook/runtime.h"

bool ct_switch_word(unsigned i, uint64_t *offset, uint64_t *word) {
    const uint8_t *from, *to;
#define ENTRY(number, name)                                                                                            \
    case number:                                                                                                       \
        from = ct_hook_##name;                                                                                         \
        to = ct_table_##name;                                                                                          \
        break
    switch (i) {
        ENTRY(0, enter_record);
        ENTRY(1, enter_entry);
        ENTRY(2, enter_special);
        ENTRY(3, enter_listen);
        ENTRY(4, leave_record);
        ENTRY(5, leave_listen);
        ENTRY(6, enter_detail);
        ENTRY(7, enter_entry_detail);
        ENTRY(8, enter_special_detail);
        ENTRY(9, leave_detail);
        ENTRY(10, enter_record_fast);
        ENTRY(11, enter_entry_fast);
        ENTRY(12, leave_record_fast);
        ENTRY(13, enter_detail_fast);
        ENTRY(14, enter_entry_detail_fast);
        ENTRY(15, leave_detail_fast);
        ENTRY(16, sample_record);
        ENTRY(17, sample_detail);
        ENTRY(18, sample_entry);
        ENTRY(19, sample_entry_detail);
    default:
        return false;
    }
#undef ENTRY
    *offset = (uint64_t)(from - ct_hook_code);
    uint64_t target = ct_table_code_offset() + (uint64_t)(to - ct_table_code);
    *word = ct_switch_jump(*(const uint64_t *)from, target - *offset);
    return true;
}
