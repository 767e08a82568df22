/* SPDX-License-Identifier: Apache-2.0 */
/* Links between fragments (link.c), and code for calls of excluded code and for system calls that return twice
 * (link_<isa>.c, excluded_<isa>.c). */
#ifndef CT_STALK_LINK_H
#define CT_STALK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_registers;
struct ct_stalker;
struct stalk_area;
struct stalk_cache;
struct stalk_entry;
struct stalk_exit;
struct stalk_machine;
struct stalk_region;
struct stalk_thread;

/* Links the exit: it jumps directly to the entry from now on. */
void ct_stalk_link(struct stalk_cache *c, uint32_t exit, struct stalk_entry *e);
void ct_stalk_unlink(struct stalk_cache *c, uint32_t exit);
/* Adds a target to the inline cache of an indirect branch. */
void ct_stalk_cache_target(struct stalk_cache *c, uint32_t exit, struct stalk_entry *e);
/* The branch uses the table instead of an inline cache from now on. */
void ct_stalk_take_table(struct stalk_cache *c, uint32_t exit);
/* The table leads indirect branches to the entry from now on. */
void ct_stalk_publish(struct stalk_cache *c, struct stalk_entry *e);
/* The table leads returns to the entry from now on. */
void ct_stalk_publish_return(struct stalk_cache *c, struct stalk_entry *e);

/* ---- what link.c needs of the machine (link_<isa>.c) ---- */

/* The exit's branch jumps to this code from now on, or it is a nop. */
void ct_stalk_set_exit(struct stalk_exit *e, uint64_t to);
void ct_stalk_open_exit(struct stalk_exit *e);
/* Returns where the exit's branch jumps when it leads to the entry: to a jump of its own if the entry is far. 0: out of
 * memory. */
uint64_t ct_stalk_link_target(const struct stalk_exit *e, const struct stalk_entry *entry);
/* Returns code that compares the target of an indirect branch with the last of these first. 0: out of memory, or the
 * code is too far from the branch. */
uint64_t ct_stalk_make_compares(struct stalk_cache *c, const struct stalk_exit *site,
                                const struct stalk_entry *const *targets, unsigned n);
/* Makes a way into an entry that was made without one for indirect branches, or for returns. 0: out of memory. */
uint64_t ct_stalk_make_way_in(const struct stalk_entry *e, bool returns);
/* Has the entry a way in for returns that does for all that are known now? If not, the next one that is made does. */
bool ct_stalk_return_way_fits(struct stalk_cache *c, struct stalk_entry *e);

/* ---- patches of code that threads may be running ---- */

/* Stores 4 bytes that lie within one unit that the mode can change atomically. */
void ct_stalk_patch32(struct stalk_region *r, uint64_t run, uint32_t value);
/* Stores `size` bytes that lie in one aligned word of 8. */
void ct_stalk_patch_word(struct stalk_region *r, uint64_t run, const void *bytes, size_t size);

/* ---- code by address ---- */

/* Returns code to which an excluded call returns, for the application's return address. 0: out of memory. */
uint64_t ct_stalk_return_stub(struct stalk_cache *c, uint64_t return_address);
/* Returns the place that holds the address of such code, by return address. Code of other kinds is found by an address
 * and one of these bits. The place holds 0 if the code is not made yet. NULL: out of memory. */
#define STALK_KEY_CLONE          (1ull << 63)
#define STALK_KEY_CLONE_FOLLOWED (3ull << 62)
#define STALK_KEY_CLONE_VFORK    (5ull << 61)
#define STALK_KEY_TARGET         (1ull << 62)
#define STALK_KEY_SETTER         (1ull << 61)
uint64_t *ct_stalk_stub_place(struct stalk_cache *c, uint64_t key);
/* Returns the application's return address for such code; 0: `stub` is no such code. */
uint64_t ct_stalk_return_of(const struct stalk_cache *c, uint64_t stub);
/* A copy of a system call that may return twice. The child continues at `next`, natively or through ct_stalk_child; or
 * both enter the engine (vfork.c). */
enum stalk_clone { STALK_CLONE_NATIVE, STALK_CLONE_THREAD, STALK_CLONE_VFORK };
uint64_t ct_stalk_clone_stub(struct stalk_cache *c, uint64_t next, uint64_t resume, enum stalk_clone kind);
/* A stopped thread, which has this area, is redirected to ct_stalk_begin or ct_stalk_end: these need more than pc where
 * no register leads to the area by itself. */
void ct_stalk_redirect(struct ct_registers *regs, struct stalk_area *area);
/* Where a thread goes from a hook's stub to begin at t->begin. It is followed already. */
uint64_t ct_stalk_way_in(struct stalk_thread *t);
/* The program sets its thread pointer, by which its block is found, to what is in a register (arm64). False: the thread
 * cannot be followed with that one. */
bool ct_stalk_move_block(struct stalk_thread *t, unsigned reg);
/* What this processor has. */
void ct_stalk_machine_find(struct stalk_machine *machine);
/* Does the address look like a return address, that is, is there a call before it? */
bool ct_stalk_follows_call(struct ct_stalker *s, uint64_t address);
/* ... and not like the start of a function, which may be there too? */
bool ct_stalk_is_returned_to(struct ct_stalker *s, uint64_t address);

/* From now on the exit calls excluded code, which returns through `stub`, without the engine. */
void ct_stalk_link_excluded(struct stalk_cache *c, uint32_t exit, uint64_t target, uint64_t stub);
/* From now on so do indirect branches to `target` with this return address on the stack. */
void ct_stalk_publish_excluded(struct stalk_cache *c, uint64_t target, uint64_t address, uint64_t stub);
void ct_stalk_clear_native(struct stalk_cache *c);

#endif
