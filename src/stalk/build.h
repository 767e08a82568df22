/* SPDX-License-Identifier: Apache-2.0 */
/* A fragment that is being built: what translate.c (policy) and lower_<isa>.c (code) share. It lives on the engine's
 * stack. */
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
    STALK_SHADOW = 128, /* largest block, in bytes, that is compared before it runs */
};

/* What an instruction means for the block that it is in. */
enum stalk_flow {
    FLOW_NEXT,   /* the block continues */
    FLOW_BRANCH, /* the thread continues in a new block, or elsewhere */
    FLOW_END,    /* the thread never continues after it */
    FLOW_REFUSE, /* cannot be followed */
};

/* A way into an entry, in addition to that of direct branches. */
enum stalk_way_in { NO_WAY_IN, WAY_IN_INDIRECT, WAY_IN_RETURN };

struct stalk_build {
    struct stalk_thread *thread;
    struct stalk_cache *cache;
    struct stalk_region *region;
    struct ct_code_buf out;
    uint64_t start, pc, limit; /* of the original: first byte, next byte, end of the mapping or of the shadow */
    unsigned shadow_size;      /* 0: the code is not compared, and is read in place */
    uint8_t shadow[STALK_SHADOW];
    bool single;           /* one block only */
    bool fixed;            /* code of a file that does not change without a system call */
    enum stalk_way_in way; /* the way in that is made with the fragment */
    unsigned insns;
    uint64_t way_in;                                           /* run address of that way in */
    bool spoils_flags;                                         /* it changes the flags, which the code overwrites */
    uint64_t relies_from, relies_to, constant, constant_value; /* as in the fragment */
    /* Where the stack pointer is, and the highest place that was written: bytes from where it was when the block
     * began. */
    int64_t stack_at, stack_written;
    size_t cold_bytes;
    uint64_t block; /* start of the current block */
    size_t piece_from, body;
    unsigned piece_count, exit_count, literal_count, entry_count;
    uint64_t unit_end; /* of code that nothing interrupts: exclusive accesses of arm64; 0: none */
    /* The register that has x18 in a unit, and the offsets of that code (unit_a64.h). */
    uint8_t unit_register;
    size_t unit_from, unit_to;
    uint32_t callouts;
    uint16_t written;    /* registers that instructions so far may have changed; maintained where code is compared */
    uint32_t block_site; /* of the current block; 0: none */
    uint8_t end_kind;    /* enum ct_stalker_end, of the current block */
    /* Offsets of the branch that is taken when the record buffer is full, and of where it returns to; 0: none is
     * open. */
    size_t full_branch, full_resume;
    struct stalk_section section;      /* description NULL: this fragment has none */
    uint32_t section_from, section_to; /* offsets of its code */
    unsigned section_target_count;
    uint64_t section_targets[BUILD_TARGETS];
    struct stalk_piece pieces[BUILD_PIECES];
    struct {
        uint64_t target;
        uint32_t patch;
        uint16_t written;
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
/* Writes the way in, and begins the body. */
void ct_lower_begin(struct stalk_build *b);
/* Writes code that records that a block is entered. */
void ct_lower_block_event(struct stalk_build *b, uint32_t site);
/* Writes one instruction. */
enum stalk_flow ct_lower_insn(struct stalk_build *b, const struct stalk_insn *insn);
/* Returns the flow without writing anything. */
enum stalk_flow ct_lower_flow(const struct stalk_insn *insn);
void ct_lower_jump(struct stalk_build *b, uint64_t target, uint8_t kind);
void ct_lower_callout(struct stalk_build *b, uint32_t callout);
/* Code that a transformer adds. */
void ct_lower_count(struct stalk_build *b, const uint64_t *counter);
void ct_lower_bytes(struct stalk_build *b, const void *bytes, size_t size);
/* As ct_stalk_branch and ct_stalk_branch_here (translate.h). */
size_t ct_lower_branch(struct stalk_build *b, unsigned condition);
void ct_lower_land(struct stalk_build *b, size_t branch);
/* Writes everything that comes after the body, and numbers the exits. */
int ct_lower_finish(struct stalk_build *b, struct stalk_fragment *f);
void ct_lower_describe(const struct stalk_insn *insn, struct ct_stalker_insn *out);

/* ---- check_<isa>.c ---- */

/* The code may change at any time: it is read once here, and compared with this shadow whenever it is executed. */
void ct_check_take_shadow(struct stalk_build *b);
/* Writes the comparison, if there is a shadow. */
void ct_check_shadow(struct stalk_build *b);

/* ---- section.c ---- */

/* If the instruction loads the description of a critical section that begins after it, writes a load of our own
 * description instead. False: it does not. */
bool ct_section_load(struct stalk_build *b, const struct stalk_insn *insn);
static inline bool ct_section_has(const struct stalk_build *b, uint64_t pc) {
    return b->section.description && pc >= b->section.start && pc < b->section.end;
}
/* Is pc the target of a branch within the section? */
bool ct_section_is_target(const struct stalk_build *b, uint64_t pc);
/* The code is in its final place; the exits are numbered from first_exit on. */
int ct_section_finish(struct stalk_build *b, struct stalk_fragment *f, uint32_t first_exit);

/* ---- section_<isa>.c ---- */

/* Does the instruction, perhaps with those before it in the block, load an address into a register? `begin`: the first
 * of them. */
bool ct_section_loads(const struct stalk_build *b, const struct stalk_insn *insn, uint64_t *at, uint64_t *begin);
/* The same for a thread that is at pc, in such a load or right after it: returns where the load begins, or 0. */
uint64_t ct_section_loaded(uint64_t pc, uint64_t *at);
void ct_section_put_load(struct stalk_build *b, const struct stalk_insn *insn, uint64_t description);
/* May the copy of the instruction be interrupted anywhere? */
bool ct_section_copies(const struct stalk_insn *insn);
/* The branch at the offset `patch` leads to the offset `to`. */
void ct_section_put_branch(struct stalk_build *b, uint32_t patch, uint32_t to);
/* Writes a jump that can be linked, and its stub. */
void ct_section_put_exit(struct ct_code_buf *code, struct stalk_exit *e, uint32_t reason);

/* ---- translate.c, for the lowering ---- */

/* Returns a new event site, or 0 when out of memory. */
uint32_t ct_build_site(struct stalk_build *b, uint32_t kind, uint64_t location, uint64_t target);
/* Returns the number of a counter for calls to this target; 0: there is none. */
uint32_t ct_build_counter(struct stalk_build *b, uint64_t target);
/* The code written since the last piece becomes a piece that stands for `original` bytes of the program. */
void ct_build_piece(struct stalk_build *b, unsigned original);
void ct_build_exit(struct stalk_build *b, uint64_t target, size_t patch, uint8_t kind);
void ct_build_literal(struct stalk_build *b, size_t at, uint64_t value);

#endif
