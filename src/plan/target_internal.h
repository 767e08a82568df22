/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a target plan in the making. Private to src/plan.
 *
 * In order: maps and modules (target_modules.c, their data in target_data.c), what is known about each module's code
 * (target_image.c: loaded from the cache by target_cache.c, or analysed by target_analyse.c), addresses for stubs
 * (target_region.c), hooks (target_hooks.c). target_plan.c puts these together. It runs the expensive parts on several
 * threads, each with one module at a time. */
#ifndef CT_PLAN_TARGET_INTERNAL_H
#define CT_PLAN_TARGET_INTERNAL_H

#include "plan/debug_root.h"
#include "plan/target_plan.h"
#include "hook/scan.h"
#include "symbols/functions.h"
#include <elf.h>
#include <pthread.h>

enum { CT_TARGET_HEAD = 4096 }; /* bytes that are read of a file or mapping at once */

static inline uint64_t ct_target_round(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}

/* ---- threads ---- */

struct ct_target_pool;
typedef void ct_target_task(struct ct_target_pool *pool, void *arg, size_t n);

/* Has the user given up? The thread that runs the pool asks; tasks check `over` and end soon. */
struct ct_target_cancel {
    bool (*given_up)(void *arg); /* NULL: the user never gives up */
    void *arg;
    bool over;
};

/* Runs the task for each n of `order`, roughly in that order, on one thread per processor. Returns when all tasks are
 * done. A task may add others. */
void ct_target_pool_run(ct_target_task *run, void *arg, const size_t *order, size_t count,
                        struct ct_target_cancel *cancel);
void ct_target_pool_add(struct ct_target_pool *pool, ct_target_task *run, void *arg, size_t n);
unsigned ct_target_pool_threads(void);

/* ---- maps ---- */

struct ct_target_maps {
    struct ct_os_map *items; /* sorted by start; we own the paths */
    size_t count, capacity;
};

int ct_target_maps_read(struct ct_target_maps *maps, struct ct_remote *remote);
/* Adds a range that is also taken; it may overlap others. Call ct_target_maps_sort afterwards. */
int ct_target_maps_add(struct ct_target_maps *maps, uint64_t start, uint64_t end);
void ct_target_maps_sort(struct ct_target_maps *maps);
void ct_target_maps_free(struct ct_target_maps *maps);

/* ---- images: what does not depend on where a module is loaded ---- */

/* Addresses in an image are the module's own, without a bias. A file of the cache holds exactly these bytes. Offsets
 * count from the start of the image. A valid image (ct_target_image_valid) can be used without further checks. */
struct ct_target_image {
    char magic[8];
    uint64_t checksum; /* of everything after it */
    uint64_t tool;     /* the build of the tool that made it */
    uint64_t size;
    uint64_t file_size; /* of the module's file */
    uint64_t debug_id;  /* of the debug files it was made with; 0: none */
    uint64_t bias;      /* the image is valid for this bias only; UINT64_MAX: for any */
    uint64_t table_hash;
    uint64_t get_cfa;    /* offset of _Unwind_GetCFA; 0: none */
    uint64_t code_bytes; /* of its executable sections, without linkage stubs */
    uint64_t functions, function_count;
    uint64_t names, names_size;
    uint64_t texts, text_count;
    uint32_t return_map, walks, libc; /* struct ct_function_facts */
    uint32_t described;               /* types of its functions are known: it has debug information */
    char build_id[136];
};

struct ct_image_function {
    uint64_t offset, size;
    uint32_t name; /* offset in names */
    uint32_t flags, scan_flags, reserved;
};

/* An executable segment. */
struct ct_image_text {
    uint64_t start, end;
    uint64_t hash; /* of its bytes in memory at the time of the analysis */
    uint64_t first_function, function_count;
    uint64_t landing, foreign, referenced; /* bit maps as in struct ct_scan */
    uint64_t loops, loop_count;
};

struct ct_image_loop {
    uint64_t branch;
    uint32_t function; /* index among the text's functions */
    uint8_t length, disp_size, reserved[2];
};

static inline const void *ct_image_at(const struct ct_target_image *image, uint64_t offset) {
    return (const uint8_t *)image + offset;
}
static inline size_t ct_image_map_words(const struct ct_image_text *text) {
    return (size_t)(text->end - text->start) / 64 + 2;
}

uint64_t ct_target_hash(const void *bytes, size_t size, uint64_t seed);
/* Identifies this build of the tool. */
uint64_t ct_target_tool(void);

/* ---- modules ---- */

struct ct_target_segment {
    uint64_t start, end; /* run addresses */
    uint64_t offset;     /* of `start` in the file */
    uint64_t file_end;   /* run address where the file's contents end */
    uint32_t flags;      /* PF_* */
    /* What the scan may read: the file's bytes, or our own copy (target_data.c). */
    uint8_t *bytes;
    bool copied;
    uint8_t *state; /* of the copy's pieces, which are filled under the source's mutex; NULL: it is complete */
};

/* The complete local copy of an executable segment. */
struct ct_target_text {
    uint64_t start, end; /* run addresses */
    uint8_t *code;
    uint64_t hash;
};

struct ct_target_source {
    struct ct_remote *remote;
    char *path;
    uint64_t inode, bias, start, end;
    char build_id[136];
    uint64_t debug_id; /* from ct_debug_identity; it differs when functions are guessed */
    bool guess;        /* functions (target_guess.h) */
    bool unread;       /* the code has not been read: an image is taken by build-id and size alone */
    void *file;        /* mapped; NULL: the image was read from memory */
    size_t file_size;
    uint8_t *memory_image;
    size_t memory_image_size;
    const bool *cancelled; /* by the user, during the analysis */
    struct ct_target_segment *segments;
    size_t segment_count;
    struct ct_target_text *texts;
    size_t text_count;
    /* The result: `image` points to image_mapped or image_made. */
    const struct ct_target_image *image;
    void *image_mapped, *image_made;
    size_t image_size;
    int status;                          /* of its analysis */
    struct ct_target_analysis *analysis; /* under way */
    pthread_mutex_t mutex;
};

/* Where the module's debug files may be, and which of them exist. `root` is memory for the result. */
struct ct_debug_search ct_target_debug_search(const struct ct_target_source *s, char root[CT_DEBUG_ROOT_TEXT]);
void ct_target_debug_identify(struct ct_target_source *s);

/* All modules with a file, the program first. */
int ct_target_sources_find(struct ct_target_source **out, size_t *count, struct ct_remote *remote,
                           const struct ct_target_maps *maps, const struct ct_target_plan_options *options);
/* Reads the executable segments. */
int ct_target_source_read(struct ct_target_source *s);
/* Frees what only the analysis and planning need. */
void ct_target_source_drop_code(struct ct_target_source *s);
void ct_target_source_free(struct ct_target_source *s);
/* Bytes of readable segments, for ct_scan.read, after ct_target_source_prepare. Any thread may ask for them. */
int ct_target_source_prepare(struct ct_target_source *s);
void ct_target_source_drop_data(struct ct_target_source *s);
const uint8_t *ct_target_source_bytes(void *source, uint64_t address, size_t size);

/* Makes source->image_made in parts. ct_target_analyse_begin returns their number. Each is then run once, by any
 * thread; the last one to end finishes the analysis. source->status is the result. */
size_t ct_target_analyse_begin(struct ct_target_source *s, unsigned threads);
void ct_target_analyse_part(struct ct_target_source *s, size_t part);
bool ct_target_image_valid(const struct ct_target_image *image, size_t size);
/* Is this valid image one of exactly this code? */
bool ct_target_image_fits(const struct ct_target_image *image, const struct ct_target_source *s);

/* ---- cache ---- */

struct ct_place;

/* Sets source->image and image_mapped; returns false if no image fits. */
bool ct_target_cache_load(struct ct_place *cache, struct ct_target_source *s);
/* Does not store an image that is larger than the whole cache may be. Returns false if it was not stored. */
bool ct_target_cache_store(struct ct_place *cache, uint64_t limit, const struct ct_target_source *s);
/* Removes files until the cache has at most `limit` bytes: first those of other builds, then those least recently
 * used. */
void ct_target_cache_prune(struct ct_place *cache, uint64_t limit);

/* ---- stub memory ---- */

/* Returns an address at which `size` bytes can be mapped within reach of all of [start, end); 0: there is none. */
uint64_t ct_target_gap_find(const struct ct_target_maps *maps, uint64_t program_end, uint64_t start, uint64_t end,
                            uint64_t reach, uint64_t size);

/* A region that is being planned: shared code, a slot for each module, and hooks that did not fit into their slot. */
struct ct_target_arena {
    uint64_t start, end; /* the modules that it serves */
    uint64_t address;    /* 0: no address was free */
    uint64_t size;       /* of the address space that it may use */
    uint64_t used;
    uint8_t *bytes; /* `size` of them */
    struct ct_shared_code shared;
};

/* ---- hooks ---- */

struct ct_target_work {
    struct ct_target_source *source;
    struct ct_target_module *module;
    const struct ct_target_filter *filter;
    const struct ct_target_plan_options *options;
    bool detail, fast_clock;
    bool names_only;
    bool reads_code;                    /* see hook/known.h */
    bool no_unwinder;                   /* in the whole target: libc loads one when needed */
    struct ct_target_arena *arena;      /* NULL: names only */
    uint64_t slot, slot_end, slot_used; /* offsets in the arena */
    struct ct_scan *scans;              /* one per text */
    uint64_t **patched;                 /* for each text, one bit per byte: a patch covers it */
    struct ct_target_hook *hooks;       /* room for all functions of the module */
    size_t hook_count;
    bool *leftover; /* by function: it did not fit into the slot */
    size_t leftover_count;
    struct ct_target_late *late; /* functions that find no room for a springboard before all others are planned */
    size_t late_count, late_capacity;
    int status;
};

/* An estimate of the stub memory that a module needs, in bytes. */
uint64_t ct_target_slot_size(const struct ct_target_image *image);
/* Fills in the module's functions and plans hooks into its slot. Hook numbers are not final. */
void ct_target_hooks_plan(struct ct_target_work *work);
/* Plans the remaining hooks at the end of the arena and sorts all. Modules of one arena must not do this at the same
 * time. */
void ct_target_hooks_plan_rest(struct ct_target_work *work);
void ct_target_work_free(struct ct_target_work *work);

#endif
