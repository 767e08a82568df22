/* SPDX-License-Identifier: Apache-2.0 */
/* stalktab offsets|capacity: changes what the tables of a followed process say about themselves.
 *
 * offsets: they begin far outside. capacity: there are very many translated blocks, and code was unmapped, so that all
 * of them are to be looked at. */
#include "hostile.h"
#include "abi/stalk_abi.h"
#include <string.h>

#define FAR 0x414141410000ull

static uint64_t tables;

#define SET(field, value)                                                                                              \
    do {                                                                                                               \
        __typeof__(((struct ct_stalk_tables *)0)->field) word = (value);                                               \
        hostile_write(tables + offsetof(struct ct_stalk_tables, field), &word, sizeof word);                           \
    } while (0)

static void move_tables(void) {
    SET(targets_offset, FAR);
    SET(blocks_offset, FAR);
}

static void enlarge_tables(uint64_t round) {
    SET(code_offset, 0);
    SET(code_capacity, UINT32_MAX);
    SET(code_count, 1ull << 40);
    SET(unmapped, round + 1);
    if (round == 0)
        SET(asked, (uintptr_t)&enlarge_tables);
}

int main(int argc, char **argv) {
    struct hostile_lane lane;
    if (argc != 2)
        hostile_end("usage: stalktab offsets|capacity");
    hostile_begin();
    hostile_wait_for_lane(&lane);
    tables = lane.start + hostile_control(&lane).extra_offset;
    for (uint64_t round = 0;; round++) {
        if (!strcmp(argv[1], "offsets"))
            move_tables();
        else
            enlarge_tables(round);
        if (round == 0)
            hostile_say("attacked");
        hostile_beat_for(20);
    }
}
