/* SPDX-License-Identifier: Apache-2.0 */
/* Critical sections of rseq(2), Linux.
 *
 * A description (struct rseq_cs) says where a section begins and ends, and where the kernel sends a thread that was
 * interrupted in it. The program loads the address of a description and stores it for the kernel, just before the
 * section. The copy of the section gets a description of its own, and the copy of that load loads its address: so the
 * kernel watches the copy as it would watch the original. For this,
 *   - all of the section is in one fragment, without gaps, and branches within it stay there;
 *   - nothing of ours is in it: no events, no probes;
 *   - a thread that leaves translated code between the load and the end of the section begins the section again.
 * A thread may leave the address of a description with the kernel forever, so descriptions are never freed.
 *
 * Owner: the holder of the Stalker's lock; `lock` for the descriptions of all Stalkers. */
#include "stalk/section.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/build.h"
#include "stalk/cache.h"
#include "stalk/memory.h"
#include "stalk/translate.h"

enum { DESCRIPTIONS = 4096, DESCRIPTION = 32, FAR = 256, LONGEST = 2048, STUB = 48 };

static uint32_t lock;
static uint8_t *memory;
static uint32_t used;

struct description {
    uint32_t version, flags;
    uint64_t start, size, abort;
};

static uint64_t *new_description(void) {
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) /* released below */
        ct_os_relax();
    if (!memory || used == DESCRIPTIONS) {
        memory = ct_os_alloc(DESCRIPTIONS * DESCRIPTION, CT_OS_READ | CT_OS_WRITE);
        used = 0;
    }
    uint64_t *result = memory ? (uint64_t *)(memory + used++ * DESCRIPTION) : NULL;
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    return result;
}

void ct_stalk_sections_in_child(void) {
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

/* Could these be a description that is loaded just before `next`? */
static bool is_description(uint64_t at, uint64_t next, struct description *d) {
    return at % DESCRIPTION == 0 && !ct_os_peek(at, d, sizeof *d) && d->version == 0 && d->start - next < FAR &&
           d->size - 1 < LONGEST;
}

static bool is_usable(struct stalk_build *b, const struct description *d) {
    uint64_t end;
    bool changes;
    uint32_t mark;
    return d->start + d->size < b->limit && d->abort - d->start >= d->size &&
           ct_stalk_executable(b->cache->stalker, d->abort, &end, &changes) &&
           !ct_os_peek(d->abort - 4, &mark, sizeof mark);
}

/* Adds the target of a branch to the list if it is in the section. False: there is no room. */
static bool note_target(struct stalk_build *b, const struct description *d, uint64_t target) {
    if (target - d->start >= d->size)
        return true;
    if (b->section_target_count == BUILD_TARGETS)
        return false;
    b->section_targets[b->section_target_count++] = target;
    return true;
}

/* Checks the instructions from b->pc on: there must be few enough, and only direct branches may leave the section.
 * Collects the targets of branches within it. */
static bool check_insns(struct stalk_build *b, const struct description *d) {
    uint64_t end = d->start + d->size;
    struct stalk_insn insn;
    unsigned insns = 0;
    b->section_target_count = 0;
    for (; b->pc < end; b->pc += ct_insn_length(&insn)) {
        if (ct_lower_decode(b, &insn) || b->insns + ++insns + 2 > STALK_MAX_INSNS)
            return false;
        enum ct_insn_kind kind = ct_insn_kind(&insn);
        enum stalk_flow flow = ct_lower_flow(&insn);
        bool branch = kind == CT_INSN_JMP || kind == CT_INSN_JCC || kind == CT_INSN_LOOP, inside = b->pc >= d->start;
        if (kind == CT_INSN_SYSCALL || flow == FLOW_REFUSE || (flow != FLOW_NEXT && !branch) || (branch && !inside) ||
            (inside && !ct_section_copies(&insn)) || (branch && !note_target(b, d, ct_insn_target(&insn))))
            return false;
    }
    return b->pc == end && b->exit_count + insns + 4 < STALK_MAX_EXITS;
}

static bool check_section(struct stalk_build *b, uint64_t from, const struct description *d) {
    uint64_t pc = b->pc;
    b->pc = from;
    bool good = check_insns(b, d);
    b->pc = pc;
    return good;
}

bool ct_section_load(struct stalk_build *b, const struct stalk_insn *insn) {
    struct description d;
    uint64_t next = insn->address + ct_insn_length(insn), at, begin;
    if (b->section.description || b->cache->transformer.transform || !ct_section_loads(b, insn, &at, &begin) ||
        !is_description(at, next, &d) || !is_usable(b, &d) || !check_section(b, next, &d))
        return false;
    b->section.begin = begin;
    b->section.start = d.start;
    b->section.end = d.start + d.size;
    b->section.abort = d.abort;
    b->section.description = new_description();
    if (!b->section.description)
        return false;
    ct_section_put_load(b, insn, (uint64_t)b->section.description);
    return true;
}

bool ct_section_is_target(const struct stalk_build *b, uint64_t pc) {
    for (unsigned i = 0; b->section.description && i < b->section_target_count; i++)
        if (b->section_targets[i] == pc)
            return true;
    return false;
}

/* Links the branches within the section from the start. The engine never decides about them. */
static void join_branches(struct stalk_build *b, uint32_t first_exit) {
    for (unsigned i = 0; i < b->exit_count; i++) {
        uint64_t target = b->exits[i].target;
        if (target - b->section.start >= b->section.end - b->section.start)
            continue;
        for (unsigned k = 0; k < b->entry_count; k++)
            if (b->entries[k].address == target) {
                ct_section_put_branch(b, b->exits[i].patch, b->entries[k].code);
                ((struct stalk_exit *)ct_stalk_item(&b->cache->exits, first_exit + i))->linked = 1;
            }
    }
}

/* Makes the place to which the kernel sends threads: the signature that it expects before it, and an exit. */
static uint64_t make_abort(struct stalk_build *b, struct stalk_fragment *f) {
    uint8_t bytes[STUB] = {0}, *write;
    struct ct_code_buf code = {bytes, sizeof bytes, 8, 0, false};
    struct stalk_cache *c = b->cache;
    uint32_t id = ct_stalk_new_item(&c->pool, &c->exits, sizeof(struct stalk_exit));
    if (!id || ct_stalk_cold_room(b->region, sizeof bytes, &code.address, &write))
        return 0;
    ct_stalk_copy(bytes + 4, (const void *)(b->section.abort - 4), 4);
    struct stalk_exit *e = ct_stalk_item(&c->exits, id);
    e->target = b->section.abort;
    e->from = f;
    e->region = b->region;
    e->kind = CT_STALKER_END_JUMP;
    ct_section_put_exit(&code, e, CT_REASON_EXIT | id);
    return code.overflow || ct_arena_write(b->region->arena, code.address, bytes, sizeof bytes) ? 0 : code.address + 8;
}

int ct_section_finish(struct stalk_build *b, struct stalk_fragment *f, uint32_t first_exit) {
    if (!b->section.description)
        return CT_OK;
    struct stalk_section *s = ct_stalk_alloc(&b->cache->pool, sizeof *s);
    uint64_t abort = make_abort(b, f);
    if (!s || !abort)
        return CT_ERR_NO_MEMORY;
    join_branches(b, first_exit);
    ct_stalk_copy(s, &b->section, sizeof *s);
    s->description[3] = abort;
    s->description[2] = b->section_to - b->section_from;
    s->description[1] = b->out.address + b->section_from;
    s->next = b->cache->sections;
    b->cache->sections = s;
    return CT_OK;
}

/* offset of the C library's struct rseq */
extern const int64_t rseq_offset __asm__("__rseq_offset") __attribute__((weak));

uint64_t ct_stalk_section_interrupted(uint64_t thread_pointer, uint64_t pc) {
    enum { SECTION = 8 }; /* offset of rseq_cs in struct rseq */
    uint64_t at = 0, begin = ct_section_loaded(pc, &at);
    struct description d;
    if (begin && is_description(at, pc + 1, &d)) /* it has not stored the description yet: it loads it again */
        return begin;
    if (!&rseq_offset || ct_os_peek(thread_pointer + (uint64_t)rseq_offset + SECTION, &at, sizeof at) || !at ||
        ct_os_peek(at, &d, sizeof d) || pc - d.start >= d.size)
        return pc;
    return d.abort;
}

void ct_stalk_sections_forget(struct stalk_cache *c) {
    for (const struct stalk_section *s = c->sections; s; s = s->next)
        s->description[1] = s->description[2] = 0; /* the kernel may still read it */
    c->sections = NULL;
}

uint64_t ct_stalk_section_again(const struct stalk_cache *c, uint64_t pc) {
    for (const struct stalk_section *s = c->sections; s; s = s->next) {
        if (pc > s->begin && pc < s->start)
            return s->begin;
        if (pc >= s->start && pc < s->end)
            return s->abort;
    }
    return pc;
}
