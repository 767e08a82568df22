/* SPDX-License-Identifier: Apache-2.0 */
/* Plans a hook: which bytes of the function change, and the stub they lead to.
 *
 * Bytes to bytes: reads the scan's code, writes the stub into a buffer that will run at a given address, and lists
 * patches. Nothing is installed here. Implemented per instruction set (plan_<isa>.c). */
#ifndef CT_HOOK_PLAN_H
#define CT_HOOK_PLAN_H

#include "hook/runtime.h"
#include "hook/scan.h"
#include "hook/springboard.h"
#include "isa/isa.h"

#define CT_PATCH_MAX   12
#define CT_PATCHES_MAX 6
#define CT_TWO_JUMPS   10 /* size of a patch with two jumps, each half of it (x86_64) */
#define CT_STUB_MAX    1024

struct ct_patch {
    uint64_t at;
    uint64_t forward; /* where a thread that is here goes when the patch is removed; 0: it may stay */
    uint8_t size;
    uint8_t bytes[CT_PATCH_MAX], original[CT_PATCH_MAX];
};

/* Where the shared code is that this stub's region uses. */
struct ct_shared_code {
    uint64_t enter_record, enter_entry, enter_special, enter_listen;
    uint64_t leave_record, leave_listen;
    uint64_t enter_detail, enter_entry_detail, enter_special_detail, leave_detail;
    uint64_t sample_record, sample_detail, sample_entry, sample_entry_detail;
    uint64_t enter_record_fast, enter_entry_fast, leave_record_fast;
    uint64_t enter_detail_fast, enter_entry_detail_fast, leave_detail_fast;
};

struct ct_plan_request {
    struct ct_scan *scan; /* padding and room that springboards use is marked in it */
    const struct ct_shared_code *shared;
    bool sample;     /* only every Nth call is recorded, with what it calls; all are counted */
    bool detail;     /* registers and stack of recorded calls are captured */
    bool fast_clock; /* most events have no time of their own */
    uint64_t function, end;
    uint32_t scan_flags; /* enum ct_scan_flag */
    uint32_t number;
    enum ct_hook_action action;
    enum ct_special special;
    enum ct_hook_entry_only_reason entry_only;
    uint64_t detour; /* where calls go instead of the body (replacements); 0: none */
    uint8_t boards;  /* room for this many springboards is wanted in it, or more if functions nearby need them */
};

struct ct_plan {
    uint64_t function, stub, body;
    uint64_t place;             /* of the patch at the entry: after a landing pad */
    uint64_t word_on, word_off; /* the stub's first 8 bytes */
    struct ct_patch patches[CT_PATCHES_MAX];
    uint8_t patch_count;
    uint8_t signs; /* enum ct_signs */
    /* From `place`: this many bytes run elsewhere, and have room for springboards after the jump; 0: no room. */
    uint8_t room;
    uint64_t host; /* the function that has a springboard of this one in its room; 0: none */
    /* Instruction starts that the body covers, from `place`, and where they are in the body: to move stopped
     * threads. */
    uint8_t move_count, move_from[CT_SPRINGBOARD_MOVES];
    uint16_t move_to[CT_SPRINGBOARD_MOVES];
    struct ct_moves *whole; /* all moves, when the body is the whole function; NULL otherwise. Owned by the plan. */
};

struct ct_moves {
    uint16_t count;
    struct {
        uint16_t from, to;
    } at[];
};

/* Where a thread that is at pc goes when the function has been patched; 0: it may stay. `in_call`: pc is a system call
 * instruction that the thread is inside of, so the thread will go on after it. */
uint64_t ct_plan_moved(const struct ct_plan *plan, uint64_t pc, bool in_call);

/* Writes the stub into `out` (its address is 8-aligned). Returns the reason why the function cannot be hooked, or
 * CT_HOOK_SKIP_NONE. */
enum ct_hook_skip_reason ct_plan_hook(const struct ct_plan_request *request, struct ct_code_buf *out,
                                      struct ct_plan *plan);

/* Frees what the plan took (padding, room, memory). A host may be released before its guests: they stay as they are. */
void ct_plan_release(const struct ct_plan_request *request, struct ct_plan *plan);

/* The first 8 bytes of a stub with another action on the same function. */
uint64_t ct_plan_word(const struct ct_plan_request *request, const struct ct_plan *plan);

static inline enum ct_signs ct_scan_signs(uint32_t scan_flags) {
    if (scan_flags & CT_SCAN_SIGNS_A)
        return CT_SIGNS_A;
    return scan_flags & CT_SCAN_SIGNS_B ? CT_SIGNS_B : CT_SIGNS_NONE;
}

/* The parts of the shared code that the stub calls and leaves through (plan.c). */
uint64_t ct_plan_enter(const struct ct_plan_request *request);
uint64_t ct_plan_leave(const struct ct_plan_request *request);

void ct_shared_code_at(struct ct_shared_code *shared, uint64_t copy);

#endif
