/* SPDX-License-Identifier: Apache-2.0 */
/* Where calls of excluded code return to, arm64; setjmp too, which longjmp returns from again.
 *
 * Such a call has an address of ours in x30, which the callee keeps where it likes; a jump buffer may outlive the
 * Stalker, and any thread may use it. So these slots belong to no Stalker, are never freed, and check whether the
 * thread that arrives is followed now. If it is not, they jump to the application's return address.
 *
 * A slot has 64 bytes; the last 8 are the application's return address. Calls return to its second word, because
 * unwinders look up the byte before (unwind.c). x16, x17 and x30 are free where a function returns. Owner: `lock`,
 * taken inside a Stalker's lock; a slot never changes once it is written. */
#include "isa/machine.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/emit_a64.h"
#include "stalk/engine.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk/unwind.h"

enum { SLOT = STALK_RETURN_SLOT, WORD = SLOT - 8, ROOM = STALK_RETURN_ROOM, KEYS = 2 * ROOM / SLOT };
_Static_assert(STALK_LANDING_WORD == WORD - 4 && STALK_LANDING_SIZE >= WORD + 8, "seen from where calls return");
_Static_assert(offsetof(struct stalk_thread, cache) == CT_THREAD_CACHE, "entry_a64.S");
_Static_assert(offsetof(struct stalk_cache, mask) == CT_CACHE_MASK, "entry_a64.S");
_Static_assert(offsetof(struct stalk_cache, return_table) == CT_CACHE_RETURNS, "entry_a64.S");
_Static_assert(CT_STALKER_FAST_CLOCK == 1 << 9, "entry_a64.S");

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
    enum { AWAY = 40, LITERAL_X30 = 0x5800001e };
    ct_a64_nop(&code);
    ct_a64_mrs_tp(&code, X17);
    ct_a64_cbz(&code, X17, run + AWAY);
    ct_a64_ldr(&code, X16, X17, 8);
    ct_a64_cbz(&code, X16, run + AWAY);
    ct_a64_ldr(&code, X30, X16, CT_AREA_OWN);
    ct_a64_eor_reg(&code, X30, X30, X17);
    ct_a64_cbnz(&code, X30, run + AWAY);
    ct_a64_put(&code, LITERAL_X30 | (WORD - 32) / 4 << 5);
    ct_a64_b(&code, ct_stalk_helper(&region, ct_stalk_landed));
    if (code.length != AWAY)
        return false;
    ct_a64_put(&code, LITERAL_X30 | (WORD - AWAY) / 4 << 5);
    ct_a64_ret(&code, X30);
    ct_stalk_copy(bytes + WORD, &address, sizeof address);
    return !code.overflow && !ct_arena_write(region.arena, run, bytes, sizeof bytes);
}

static uint64_t find_or_make_slot(uint64_t address) {
    size_t i = (size_t)(address * 0x9e3779b97f4a7c15ull >> 40) % KEYS;
    for (; numbers[i]; i = (i + 1) % KEYS)
        if (*word_of(slots + (numbers[i] - 1) * SLOT) == address)
            return slots + (numbers[i] - 1) * SLOT + 4;
    if (used == ROOM / SLOT || !write_slot(slots + used * SLOT, address))
        return 0;
    numbers[i] = (uint32_t)++used;
    return slots + (used - 1) * SLOT + 4;
}

uint64_t ct_stalk_landing(struct ct_stalker *s, uint64_t address) {
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
