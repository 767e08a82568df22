/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a slot where calls of excluded code return to, arm64. Such a call has an address of ours in x30, which
 * the callee keeps where it likes. Calls return to the second word, because unwinders look up the byte before
 * (unwind.c). x16, x17 and x30 are free where a function returns. */
#include "stalk/landing.h"
#include "stalk/emit_a64.h"
#include "stalk/engine.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"

_Static_assert((int)STALK_LANDING_WORD == (int)STALK_LANDING_AT - STALK_LANDING_ENTRY &&
                   (int)STALK_LANDING_SIZE == (int)STALK_LANDING_SLOT,
               "seen from where calls return");
_Static_assert(offsetof(struct stalk_thread, cache) == CT_THREAD_CACHE, "entry_a64.S");
_Static_assert(offsetof(struct stalk_cache, mask) == CT_CACHE_MASK, "entry_a64.S");
_Static_assert(offsetof(struct stalk_cache, return_table) == CT_CACHE_RETURNS, "entry_a64.S");
_Static_assert(CT_STALKER_FAST_CLOCK == 1 << 9, "entry_a64.S");

bool ct_stalk_put_landing(struct ct_code_buf *code, const struct stalk_region *r) {
    enum { AWAY = 40, LITERAL_X30 = 0x5800001e };
    ct_a64_nop(code);
    ct_a64_mrs_tp(code, X17);
    ct_a64_cbz(code, X17, code->address + AWAY);
    ct_a64_ldr(code, X16, X17, 8);
    ct_a64_cbz(code, X16, code->address + AWAY);
    ct_a64_ldr(code, X30, X16, CT_AREA_OWN);
    ct_a64_eor_reg(code, X30, X30, X17);
    ct_a64_cbnz(code, X30, code->address + AWAY);
    ct_a64_put(code, LITERAL_X30 | (STALK_LANDING_AT - 32) / 4 << 5);
    ct_a64_b(code, ct_stalk_helper(r, ct_stalk_landed));
    if (code->length != AWAY)
        return false;
    ct_a64_put(code, LITERAL_X30 | (STALK_LANDING_AT - AWAY) / 4 << 5);
    ct_a64_ret(code, X30);
    return !code->overflow;
}
