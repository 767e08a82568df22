/* A fragment being made: what translate.c (policy) and lower_<isa>.c (code) share. Lives on the engine's stack. */
#ifndef CT_STALK_BUILD_H
#define CT_STALK_BUILD_H

#include "isa/host.h"
#include "stalk/cache.h"
#include "stalk/section.h"
#include "stalk/thread.h"
#include "stalk/translate.h"
#include CT_HOST_HEADER(insn)

enum {
    BUILD_PIECES = STALK_MAX_INSNS * 4 + 64,
    BUILD_LITERALS = STALK_MAX_EXITS + 8,
    BUILD_TARGETS = 8,  /* of branches within a critical section */
    STALK_SHADOW = 128, /* bytes of a block that is compared before it runs */
};

/* What an instruction means for the block it stands in. */
enum stalk_flow {
    FLOW_NEXT,   /* goes on */
    FLOW_BRANCH, /* goes on in a new block, or elsewhere */
    FLOW_END,    /* never goes on here */
    FLOW_REFUSE, /* cannot be followed */
};

/* A way in, beside that of direct branches. */
enum stalk_way_in { NO_WAY_IN, WAY_IN_INDIRECT, WAY_IN_RETURN };

struct stalk_build {
    struct stalk_thread *thread;
    struct stalk_cache *cache;
    struct stalk_region *region;
    struct ct_code_buf out;
    uint64_t start, pc, limit; /* of the original: first byte, next, end of the mapping, or of the shadow */
    unsigned shadow_size;      /* 0: the code is not compared, and read where it is */
    uint8_t shadow[STALK_SHADOW];
    bool single;           /* one block only */
    enum stalk_way_in way; /* that is made at once */
    unsigned insns;
    uint64_t way_in; /* its run address */
    size_t cold_bytes;
    uint64_t block; /* start of the current block */
    size_t piece_from, body;
    unsigned piece_count, exit_count, literal_count, entry_count;
    uint32_t callouts;
    uint32_t block_site;             /* of the current block; 0: none */
    uint8_t end_kind;                /* enum ct_stalker_end, of the current block */
    size_t full_branch, full_resume; /* place for events ran out: where the branch is, where it goes on; 0: none open */
    struct stalk_section section;    /* description NULL: there is none in this fragment */
    uint32_t section_from, section_to; /* its code */
    unsigned section_target_count;
    uint64_t section_targets[BUILD_TARGETS];
    struct stalk_piece pieces[BUILD_PIECES];
    struct {
        uint64_t target;
        uint32_t patch;
        uint8_t kind;
    } exits[STALK_MAX_EXITS];
    struct {
        uint32_t at;
        uint64_t value;
    } literals[BUILD_LITERALS];
    struct {
        uint64_t address;
        uint32_t code, pieces;
    } entries[STALK_MAX_EXITS];
};

/* ---- lower_<isa>.c ---- */

int ct_lower_decode(const struct stalk_build *b, struct stalk_insn *insn);
/* The way in, and the start of the body. */
void ct_lower_begin(struct stalk_build *b);
/* Records that a block is entered. */
void ct_lower_block_event(struct stalk_build *b, uint32_t site);
/* Writes one instruction. */
enum stalk_flow ct_lower_insn(struct stalk_build *b, const struct stalk_insn *insn);
/* What the flow will be, without writing anything. */
enum stalk_flow ct_lower_flow(const struct stalk_insn *insn);
void ct_lower_jump(struct stalk_build *b, uint64_t target, uint8_t kind);
void ct_lower_callout(struct stalk_build *b, uint32_t callout);
/* Code of a transformer's own. */
void ct_lower_count(struct stalk_build *b, const uint64_t *counter);
void ct_lower_bytes(struct stalk_build *b, const void *bytes, size_t size);
/* Everything that lies behind the body. Gives every exit its number. */
int ct_lower_finish(struct stalk_build *b, struct stalk_fragment *f);
void ct_lower_describe(const struct stalk_insn *insn, struct ct_stalker_insn *out);

/* ---- check_<isa>.c ---- */

/* The code may change at any time: it is read once, and compared with that whenever it is executed. */
void ct_check_take_shadow(struct stalk_build *b);
/* Writes what compares it, if there is a shadow. */
void ct_check_shadow(struct stalk_build *b);

/* ---- section_<isa>.c ---- */

/* Writes the instruction if it loads the description of a critical section that begins behind it: another one's then. */
bool ct_section_load(struct stalk_build *b, const struct stalk_insn *insn);
static inline bool ct_section_has(const struct stalk_build *b, uint64_t pc) {
    return b->section.description && pc >= b->section.start && pc < b->section.end;
}
/* A branch within the section goes here. */
bool ct_section_is_target(const struct stalk_build *b, uint64_t pc);
/* Everything is where it will be; exits have numbers from first_exit on. */
int ct_section_finish(struct stalk_build *b, struct stalk_fragment *f, uint32_t first_exit);

/* ---- translate.c, for the lowering ---- */

/* A new event site, or 0 when out of memory. */
uint32_t ct_build_site(struct stalk_build *b, uint32_t kind, uint64_t location, uint64_t target);
/* Calls to this target are counted here. */
uint32_t ct_build_counter(struct stalk_build *b, uint64_t target);
/* The piece of code that was written since the last one stands for `original` bytes. */
void ct_build_piece(struct stalk_build *b, unsigned original);
void ct_build_exit(struct stalk_build *b, uint64_t target, size_t patch, uint8_t kind);
void ct_build_literal(struct stalk_build *b, size_t at, uint64_t value);

#endif
