/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: executable memory near the code it serves.
 *
 * A slab is about 4 MiB; the first twelfth of it is its header part (accounting, never executable), the rest is code.
 * Slabs of one arena form a linked list and are kept together by a reserve-then-commit allocator: address space is
 * reserved once near the served range, memory is committed slab by slab.
 * Not thread-safe: one arena has one owner. Uses no libc. */
#ifndef CT_CODE_SLAB_H
#define CT_CODE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CT_SLAB_SIZE   (4u << 20)
#define CT_SLAB_HEADER 0x56000u                        /* a twelfth, in whole pages */
#define CT_SLAB_CODE   (CT_SLAB_SIZE - CT_SLAB_HEADER) /* the largest allocation */

/* How code memory becomes writable. */
enum ct_wx_mode {
    CT_WX_AUTO,    /* the first of RWX, DUAL, PROTECT that this process is allowed to use */
    CT_WX_RWX,     /* always writable and executable: freeze and thaw do nothing */
    CT_WX_DUAL,    /* an executable view and a second, writable mapping of one memory */
    CT_WX_PROTECT, /* mprotect between thaw (rw-) and freeze (r-x) */
};

struct ct_arena;

/* Code will be at most `reach` bytes from anywhere in [start, end), as ct_machine.branch_reach. CT_ERR_OUT_OF_RANGE:
 * no address space is left there. */
int ct_arena_create(struct ct_arena **out, uint64_t start, uint64_t end, uint64_t reach, enum ct_wx_mode mode);
void ct_arena_destroy(struct ct_arena *arena);
enum ct_wx_mode ct_arena_mode(const struct ct_arena *arena);

/* Reserves `size` bytes of code, aligned; *run is where it executes, *write where to store it while thawed. */
int ct_arena_alloc(struct ct_arena *arena, size_t size, size_t align, uint64_t *run, uint8_t **write);
/* Gives back the tail of the newest allocation: a planner reserves the worst case and keeps what it used. */
void ct_arena_trim(struct ct_arena *arena, uint64_t run, size_t used);

/* A mark takes back everything allocated after it (for failed transactions). Slabs that become empty are freed. */
struct ct_arena_mark {
    void *slab;
    size_t used;
};
struct ct_arena_mark ct_arena_mark(const struct ct_arena *arena);
void ct_arena_rewind(struct ct_arena *arena, struct ct_arena_mark mark);

/* Between thaw and freeze code may be written through its `write` address, and in mode PROTECT must not be executed. */
int ct_arena_thaw(struct ct_arena *arena);
int ct_arena_freeze(struct ct_arena *arena);
/* Like thaw, for what is allocated from now on. In mode PROTECT earlier code stays executable (threads may be running
 * it) and must not be written, except by the two functions below. */
int ct_arena_thaw_fresh(struct ct_arena *arena);

/* Stores 8 aligned bytes into live code at once; threads may be running it. Works in every mode and state. In mode
 * PROTECT the store goes through a temporary writable view; the code stays executable. */
int ct_arena_store8(struct ct_arena *arena, uint64_t run, uint64_t value);
/* Stores any number of bytes, but not at once: no thread may be executing them. */
int ct_arena_write(struct ct_arena *arena, uint64_t run, const void *bytes, size_t size);

/* After a fork the child shares its code with the parent (DUAL and PROTECT): each sees the other's stores until the
 * child unshares. Every call above that changes code or allocates unshares first, so a child never changes its parent.
 * A child that must not see later stores of the parent calls this early. Does nothing in mode RWX and in the parent. */
int ct_arena_unshare(struct ct_arena *arena);

bool ct_arena_contains(const struct ct_arena *arena, uint64_t address);
size_t ct_arena_bytes_used(const struct ct_arena *arena);
size_t ct_arena_slab_count(const struct ct_arena *arena);

#endif
