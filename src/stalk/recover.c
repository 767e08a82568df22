/* SPDX-License-Identifier: Apache-2.0 */
/* From a place in translated code to the program's state.
 *
 * Where the copy of an instruction begins, registers are the program's, and the pieces of the fragment give the
 * instruction's address. Our own code in between (lower_<isa>.c, entry_<isa>.S) is simulated, instruction by
 * instruction (recover_<isa>.c), until such a place is reached; so nothing is done twice or left half done. This runs
 * on the thread itself, in a signal handler or in the engine. */
#include "stalk/recover.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/memory.h"
#include "stalk/thread.h"
#include "stalk/unwind.h"

#define MOST_STEPS 256

/* ---- pieces ---- */

struct position {
    uint64_t original; /* address of the piece's instruction, or of the next one */
    uint64_t piece;    /* where the piece's code begins */
    bool program;      /* the piece stands for an instruction */
};

/* False: pc is before or after the pieces. */
static bool find_piece(const struct stalk_fragment *f, uint64_t pc, struct position *p) {
    p->original = f->first.address;
    p->piece = f->pieces_code;
    for (unsigned i = 0; i < f->piece_count; i++) {
        const struct stalk_piece *piece = &f->pieces[i];
        if (pc >= p->piece && pc < p->piece + piece->code) {
            p->program = piece->original != 0;
            return true;
        }
        p->original += piece->original;
        p->piece += piece->code;
    }
    return false;
}

/* ---- helpers ---- */

/* The thread was about to enter the engine: finds where the program wants to go. True: r->pc is the program's. */
static bool resolve_entry(struct stalk_thread *t, struct stalk_regs *r) {
    uint32_t kind = t->area->reason & 0xf0000000, index = t->area->reason & 0x0fffffff;
    switch (kind) {
    case CT_REASON_EXIT:
    case CT_REASON_CHANGED:
        r->pc = ((struct stalk_exit *)ct_stalk_item(&t->cache->exits, index))->target;
        return true;
    case CT_REASON_MISS:
    case CT_REASON_SITE:
        r->pc = t->area->target;
        return true;
    case CT_REASON_LANDED:
        r->pc = t->area->target;
        return true;
    case CT_REASON_LAND:
        ct_stalk_pass_on(r->gpr, t->land);
        ct_stalk_area_leave(t->area);
        r->pc = ct_stalk_functions[STALK_RESUME];
        return true;
    case CT_REASON_BEGIN:
        ct_stalk_begun(t);
        r->pc = t->begin;
        return true;
    case CT_REASON_END:
        ct_recover_redirected(t, r);
        ct_stalk_area_back(t);
        r->pc = t->begin;
        return false;
    case CT_REASON_FULL:
        ct_stalk_events_drain(t, false);
        break;
    case CT_REASON_VFORKED:
    case CT_REASON_BACK:
        r->pc = t->vfork.resume;
        return false;
    default:
        break;
    }
    r->pc = t->area->target;
    return false;
}

/* pc is in the copied assembly. True: r->pc is the program's. *later: it is in the engine. */
static bool in_helpers(struct stalk_thread *t, const struct stalk_region *region, struct stalk_regs *r, bool *later) {
    const uint8_t *at = ct_stalk_code + (r->pc - region->helpers);
    *later = false;
    if (at >= ct_stalk_switch && at < ct_stalk_restore) {
        *later = true;
        return false;
    }
    if (at >= ct_stalk_restore) {
        ct_recover_saved(t, r, STALK_REGISTERS_SAVED);
        r->pc = t->area->resume;
        return false;
    }
    if (at >= ct_stalk_enter) {
        ct_recover_saved(t, r, at > ct_stalk_saved ? STALK_REGISTERS_SAVED : STALK_REGISTERS_CURRENT);
        return resolve_entry(t, r);
    }
    if (!ct_recover_step(t, r))
        *later = true;
    return false;
}

/* ---- recovery ---- */

static bool in_chunk(const struct stalk_cache *c, uint64_t pc) {
    for (const struct stalk_chunk *chunk = c->chunks; chunk; chunk = chunk->next)
        if (pc - chunk->run < chunk->used)
            return true;
    return false;
}

/* pc is in the code of a fragment. True: r->pc is the program's. */
static bool in_fragment(struct stalk_thread *t, const struct stalk_fragment *f, struct stalk_regs *r, bool fault) {
    struct position p;
    bool found = find_piece(f, r->pc, &p);
    if (found && p.program && r->pc == p.piece) {
        ct_recover_unit(t, f, r);
        r->pc = p.original;
        return true;
    }
    if (found && fault) {
        ct_recover_undo(t, r, p.piece);
        ct_recover_unit(t, f, r);
        r->pc = p.original;
        return true;
    }
    if (ct_recover_step(t, r))
        return false;
    if (found && p.program) {
        ct_recover_undo(t, r, p.piece);
        ct_recover_unit(t, f, r);
    }
    r->pc = p.original; /* code of a transformer: as if it had not begun */
    return true;
}

static enum stalk_place recover(struct stalk_thread *t, struct stalk_regs *r, bool fault) {
    bool inside = false;
    for (unsigned steps = 0; steps < MOST_STEPS; steps++) {
        const struct stalk_region *region = ct_stalk_region_at(t, r->pc);
        if (region) {
            bool later;
            inside = true;
            if (in_helpers(t, region, r, &later))
                return STALK_CLEAN;
            if (later)
                return STALK_LATER;
            continue;
        }
        const struct stalk_fragment *f = ct_stalk_fragment_at(t->cache, r->pc);
        uint64_t landing = ct_stalk_landing_of(r->pc);
        if (landing) {
            r->pc = landing;
            return STALK_CLEAN;
        }
        if (f) {
            inside = true;
            if (in_fragment(t, f, r, fault))
                return STALK_CLEAN;
        } else if (in_chunk(t->cache, r->pc) && fault) { /* a branch to excluded code that has no valid stack */
            ct_recover_saved(t, r, STALK_REGISTERS_SCRATCH);
            r->pc = t->area->target;
            return STALK_CLEAN;
        } else if (in_chunk(t->cache, r->pc)) {
            inside = true;
            uint64_t call = ct_recover_cloning_call(r->pc);
            if (call)
                r->pc = call;
            if (call || !ct_recover_step(t, r))
                return STALK_CLEAN;
        } else {
            return inside ? STALK_CLEAN : STALK_ELSEWHERE;
        }
        fault = false;
    }
    return STALK_CLEAN;
}

enum stalk_place ct_stalk_recover(struct stalk_thread *t, struct stalk_regs *r, bool fault) {
    enum stalk_place place = recover(t, r, fault);
    ct_recover_done(t, r, place);
    return place;
}
