/* SPDX-License-Identifier: Apache-2.0 */
/* Where calls return to that belong to no Stalker: of setjmp, and on arm64 all calls of excluded code.
 *
 * longjmp continues where setjmp returned. Excluded code may call longjmp natively; the thread would then continue
 * natively. So setjmp runs like an excluded call, with a return address of ours, and saves that one. A jump buffer may
 * outlive the Stalker, and any thread may use it. So these slots belong to no Stalker, are never freed, and check
 * whether the thread that arrives is followed now. If it is not, they jump to the application's return address.
 *
 * A slot has code (landing_<isa>.c), and the application's return address in its last 8 bytes. Owner: `lock`, taken
 * inside a Stalker's lock; a slot never changes once it is written. */
#include "stalk/landing.h"
#include "isa/machine.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/engine.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"
#include "stalk/unwind.h"

enum { SLOT = STALK_LANDING_SLOT, WORD = STALK_LANDING_AT, ROOM = STALK_RETURN_ROOM, KEYS = 2 * ROOM / SLOT };

static uint32_t lock;
static struct stalk_region region; /* a region of its own, whose copy of the helpers stays too */
static uint64_t slots, used;
static uint32_t *numbers; /* by hash of the address: 1 + index of its slot */

static uint64_t *word_of(uint64_t slot) {
    return (uint64_t *)(slot + WORD);
}

static bool make_slots(enum ct_wx_mode mode) {
    uint64_t here = (uint64_t)&ct_stalk_engine;
    uint64_t run;
    uint8_t *write;
    size_t helpers = (size_t)(ct_stalk_code_end - ct_stalk_code);
    if (slots)
        return true;
    if (!numbers && !(numbers = ct_os_alloc(KEYS * sizeof *numbers, CT_OS_READ | CT_OS_WRITE)))
        return false;
    if (!region.arena && ct_arena_create(&region.arena, here, here + 1, ct_machine_host()->branch_reach, mode) &&
        ct_arena_create(&region.arena, 0, ct_os_address_limit(), ct_os_address_limit(), mode))
        return false;
    if (ct_arena_alloc(region.arena, helpers, 64, &run, &write) ||
        ct_arena_write(region.arena, run, ct_stalk_code, helpers))
        return false;
    region.helpers = run;
    if (ct_arena_alloc(region.arena, ROOM, 64, &run, &write))
        return false;
    __atomic_store_n(&slots, run, __ATOMIC_RELEASE);
    return true;
}

static bool write_slot(uint64_t run, uint64_t address) {
    uint8_t bytes[SLOT] = {0};
    struct ct_code_buf code = {bytes, WORD, 0, run, false};
    if (!ct_stalk_put_landing(&code, &region))
        return false;
    ct_stalk_copy(bytes + WORD, &address, sizeof address);
    return !ct_arena_write(region.arena, run, bytes, sizeof bytes);
}

static uint64_t find_or_make_slot(uint64_t address) {
    size_t i = (size_t)(address * 0x9e3779b97f4a7c15ull >> 40) % KEYS;
    for (; numbers[i]; i = (i + 1) % KEYS)
        if (*word_of(slots + (numbers[i] - 1) * SLOT) == address)
            return slots + (numbers[i] - 1) * SLOT + STALK_LANDING_ENTRY;
    if (used == ROOM / SLOT || !write_slot(slots + used * SLOT, address))
        return 0;
    numbers[i] = (uint32_t)++used;
    return slots + (used - 1) * SLOT + STALK_LANDING_ENTRY;
}

uint64_t ct_stalk_landing(struct ct_stalker *s, uint64_t address) {
    if (!ct_stalk_can_land(&s->machine))
        return 0;
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) /* released below */
        ct_os_relax();
    uint64_t slot = make_slots(s->mode) ? find_or_make_slot(address) : 0;
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    return slot;
}

uint64_t ct_stalk_landing_of(uint64_t pc) {
    uint64_t start = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
    return start && pc - start < ROOM ? *word_of(pc & ~(uint64_t)(SLOT - 1)) : 0;
}

uint64_t ct_stalk_landings(void) {
    return __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
}

const struct stalk_region *ct_stalk_landing_region(uint64_t pc) {
    size_t helpers = (size_t)(ct_stalk_code_end - ct_stalk_code);
    return __atomic_load_n(&slots, __ATOMIC_ACQUIRE) && pc - region.helpers < helpers ? &region : NULL;
}

bool ct_stalk_landings_shared(void) {
    return region.arena && ct_arena_mode(region.arena) != CT_WX_RWX;
}

void ct_stalk_landings_in_child(void) {
    lock = 0;
    if (region.arena)
        (void)ct_arena_unshare(region.arena);
}
