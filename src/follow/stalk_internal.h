/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of following share: stalk.c (start), stalk_leave.c (end), stalk_names.c, stalk_code.c, stalk_files.c.
 * See stalk.h. */
#ifndef CT_FOLLOW_STALK_INTERNAL_H
#define CT_FOLLOW_STALK_INTERNAL_H

#include "session/recording.h"
#include "follow/stalk.h"

#ifndef CT_STALK_TARGETS /* a fuzzer defines smaller ones */
#define CT_STALK_TARGETS (1u << 17)
#define CT_STALK_BLOCKS  (1u << 20)
#define CT_STALK_CODE    (1u << 20)
#endif

/* A call's target without a symbol: a function of module 0 of the trace. */
struct ct_stalk_nameless {
    uint64_t address;
    char name[96];
};

/* Executable memory of the target. */
struct ct_stalk_map {
    uint64_t start, end;
    char name[64]; /* of a mapping without a file, such as [vdso] */
};

/* The module that was at an address when the address was first seen. */
struct ct_stalk_settled {
    uint64_t bias;
    uint32_t module;
    bool known;
};

/* Where the tables are, counted from the start of struct ct_stalk_tables. The agent reads the offsets there; we never
 * read them back, because the target can change them. */
enum {
    CT_STALK_TARGETS_AT = sizeof(struct ct_stalk_tables),
    CT_STALK_BLOCKS_AT = CT_STALK_TARGETS_AT + CT_STALK_TARGETS * sizeof(struct ct_stalk_target),
    CT_STALK_CODE_AT = CT_STALK_BLOCKS_AT + CT_STALK_BLOCKS * sizeof(struct ct_stalk_place),
    CT_STALK_LENGTHS_AT = CT_STALK_CODE_AT + CT_STALK_CODE * sizeof(struct ct_stalk_code),
    CT_STALK_TABLES_END = CT_STALK_LENGTHS_AT + CT_STALK_LENGTHS,
};

/* What is known of the tables' entries, by their index. */
struct ct_stalk_places {
    uint64_t ids[CT_STALK_TARGETS]; /* functions: a known one never changes, so that a call and its return agree */
    struct ct_stalk_settled blocks[CT_STALK_BLOCKS], code[CT_STALK_CODE];
};

struct ct_stalk {
    struct ct_stalk_tables *tables; /* in the lane */
    bool has_code;                  /* the tables of code and of its lengths exist */
    struct ct_stalk_places *places;
    uint64_t unmapped; /* ct_stalk_tables.unmapped when we last looked */
    struct ct_stalk_nameless *nameless;
    size_t nameless_count, nameless_room, nameless_written;
    struct ct_stalk_map *maps;
    size_t map_count, map_room;
    uint64_t shm;            /* address of the lane in the target */
    uint64_t boot;           /* address of struct ct_stalk_boot in the target */
    uint64_t excluded_count; /* ranges of addresses */
    uint64_t threads_before; /* threads that are followed from the start */
    uint64_t threads_refused;
};

static inline struct ct_stalk_target *ct_stalk_targets(const struct ct_stalk *s) {
    return (struct ct_stalk_target *)((uint8_t *)s->tables + CT_STALK_TARGETS_AT);
}

static inline struct ct_stalk_place *ct_stalk_blocks(const struct ct_stalk *s) {
    return (struct ct_stalk_place *)((uint8_t *)s->tables + CT_STALK_BLOCKS_AT);
}

/* Iterates over the entries of a table that can be in use. Pages that were never written are not touched. */
struct ct_stalk_walk {
    const struct ct_lane *lane;
    size_t table, size; /* offset of the table in the lane, and size of an entry */
    uint32_t next, end, count;
};
static inline struct ct_stalk_walk ct_stalk_walk_targets(const struct ct_recording *r) {
    size_t at = (size_t)((const uint8_t *)ct_stalk_targets(r->stalk) - (const uint8_t *)r->lane.control);
    return (struct ct_stalk_walk){&r->lane, at, sizeof(struct ct_stalk_target), 0, 0, CT_STALK_TARGETS};
}
static inline struct ct_stalk_walk ct_stalk_walk_blocks(const struct ct_recording *r) {
    size_t at = (size_t)((const uint8_t *)ct_stalk_blocks(r->stalk) - (const uint8_t *)r->lane.control);
    return (struct ct_stalk_walk){&r->lane, at, sizeof(struct ct_stalk_place), 0, 0, CT_STALK_BLOCKS};
}
/* *number is the index of the next entry; false: there are no more (stalk_files.c). */
bool ct_stalk_walk_on(struct ct_stalk_walk *walk, uint32_t *number);

/* What there is at an address. */
struct ct_stalk_found {
    uint32_t module; /* its number; 0: none */
    uint64_t bias;
    char path[256]; /* name of its file, without directories */
    uint64_t id;    /* the function that begins at the address or contains it; 0: none */
    bool at_start;  /* the function begins at the address */
    bool linkage;   /* the function is a stub of a linkage table */
};
struct ct_stalk_found ct_stalk_look_up(struct ct_recording *r, uint64_t address);
/* The module at an address. The first answer for a place is kept. */
struct ct_stalk_settled ct_stalk_settle(struct ct_recording *r, struct ct_stalk_settled *place, uint64_t address);
/* Does so for all code that is in the tables (stalk_code.c). */
void ct_stalk_settle_code(struct ct_recording *r);
/* Reads the executable mappings as they are now. The agent asks only about addresses outside of them. */
void ct_stalk_read_maps(struct ct_recording *r);

/* Threads of the stopped target for the agent: the wanted ones, or all. */
struct ct_stalk_lists {
    struct ct_stalk_boot_thread *threads;
    size_t *places, count;
    uint64_t (*excluded)[2];
    uint64_t threads_at, excluded_at; /* in the target */
};
int ct_stalk_list(struct ct_recording *r, struct ct_stalk_lists *l, bool all);
void ct_stalk_free_lists(struct ct_stalk_lists *l);
/* Runs the command in `boot` in the agent, and moves threads to where it wants them. */
int ct_stalk_ask(struct ct_recording *r, struct ct_stalk_lists *l, struct ct_stalk_boot *boot);

#endif
