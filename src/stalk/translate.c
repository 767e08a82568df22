/* SPDX-License-Identifier: Apache-2.0 */
/* Which code is translated together, and what is checked before it runs again.
 *
 * A fragment is one block, or consecutive blocks that run when conditional branches are not taken: they are in the
 * order of the original, and each can be entered. Several blocks go together only if the code is not writable and code
 * is trusted at all. Nothing is read beyond the mapping that holds the first byte.
 *
 * Trust: code that can change without a system call is compared by its own translation whenever it runs
 * (check_<isa>.c), unless all code is trusted at once. A fragment of other code is compared with its snapshot whenever
 * the engine looks it up. When it was unchanged often enough it is trusted; branches are linked only to trusted
 * fragments. Owner: the holder of the Stalker's lock. */
#include "stalk/translate.h"
#include "os/os.h"
#include "stalk/build.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"

/* ---- parts of a fragment ---- */

void ct_build_piece(struct stalk_build *b, unsigned original) {
    size_t size = b->out.length - b->piece_from;
    b->piece_from = b->out.length;
    if (!size && !original)
        return;
    for (; size > 255 || b->piece_count >= BUILD_PIECES - 2; size -= 255) {
        if (b->piece_count >= BUILD_PIECES - 2) {
            b->out.overflow = true;
            return;
        }
        b->pieces[b->piece_count].original = 0;
        b->pieces[b->piece_count++].code = 255;
    }
    b->pieces[b->piece_count].original = (uint8_t)original;
    b->pieces[b->piece_count++].code = (uint8_t)size;
}

void ct_build_exit(struct stalk_build *b, uint64_t target, size_t patch, uint8_t kind) {
    if (b->exit_count == STALK_MAX_EXITS) {
        b->out.overflow = true;
        return;
    }
    b->exits[b->exit_count].target = target;
    b->exits[b->exit_count].patch = (uint32_t)patch;
    b->exits[b->exit_count].written = b->written;
    b->exits[b->exit_count++].kind = kind;
}

void ct_build_literal(struct stalk_build *b, size_t at, uint64_t value) {
    if (b->literal_count == BUILD_LITERALS) {
        b->out.overflow = true;
        return;
    }
    b->literals[b->literal_count].at = (uint32_t)at;
    b->literals[b->literal_count++].value = value;
}

uint32_t ct_build_site(struct stalk_build *b, uint32_t kind, uint64_t location, uint64_t target) {
    uint32_t id = ct_stalk_new_item(&b->cache->pool, &b->cache->sites, sizeof(struct stalk_site));
    if (!id) {
        b->out.overflow = true;
        return 0;
    }
    struct stalk_site *site = ct_stalk_item(&b->cache->sites, id);
    site->kind = kind;
    site->location = location;
    site->target = target;
    return id;
}

uint32_t ct_build_counter(struct stalk_build *b, uint64_t target) {
    struct stalk_cache *c = b->cache;
    if (c->counters + 1 >= CT_COUNTERS)
        return 0;
    uint32_t id = ++c->counters;
    c->counter_targets[id] = target;
    return id;
}

/* ---- excluded code and probes ---- */

static bool lies_in(const struct stalk_range *r, uint64_t address) {
    return address - r->start < r->end - r->start;
}

uint32_t ct_stalk_excluded_after(const struct ct_stalker *s, uint64_t address) {
    uint32_t low = 1, high = s->excluded_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->excluded[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ct_stalk_excluded(const struct ct_stalker *s, uint64_t address) {
    uint32_t i = ct_stalk_excluded_after(s, address);
    return lies_in(&s->excluded[0], address) || (i > 1 && lies_in(&s->excluded[i - 1], address));
}

int ct_stalk_probe_at(const struct ct_stalker *s, uint64_t address) {
    for (uint32_t i = 0; i < s->probe_count; i++)
        if (s->probes[i].used && s->probes[i].target == address)
            return (int)i;
    return -1;
}

/* Is there a probe or an activation at this address? */
static bool is_watched(const struct stalk_build *b, uint64_t address) {
    return ct_stalk_probe_at(b->cache->stalker, address) >= 0 || b->thread->activation == address;
}

/* ---- blocks ---- */

static void add_callout(struct stalk_build *b, uint64_t pc, ct_stalker_callout *fn, void *data,
                        void (*destroy)(void *data), int32_t probe) {
    struct stalk_cache *c = b->cache;
    uint32_t id = ct_stalk_new_item(&c->pool, &c->callouts, sizeof(struct stalk_callout));
    if (!id) {
        b->out.overflow = true;
        return;
    }
    struct stalk_callout *callout = ct_stalk_item(&c->callouts, id);
    callout->fn = fn;
    callout->data = data;
    callout->destroy = destroy;
    c->tells_destroy |= destroy != NULL;
    callout->pc = pc;
    callout->probe = probe;
    callout->next = b->callouts;
    b->callouts = id;
    ct_lower_callout(b, id);
}

static void begin_block(struct stalk_build *b) {
    struct ct_stalker *s = b->cache->stalker;
    if (b->pc != b->start && b->entry_count < STALK_MAX_EXITS) {
        b->entries[b->entry_count].address = b->pc;
        b->entries[b->entry_count].pieces = b->piece_count;
        b->entries[b->entry_count++].code = (uint32_t)b->out.length;
    }
    b->block = b->pc;
    b->block_site = 0;
    b->end_kind = CT_STALKER_END_LIMIT;
    if (ct_section_has(b, b->pc))
        return; /* nothing of ours goes into a section */
    if (b->thread->activation == b->pc)
        add_callout(b, b->pc, NULL, NULL, NULL, -2);
    for (uint32_t i = 0; i < s->probe_count; i++)
        if (s->probes[i].used && s->probes[i].target == b->pc)
            add_callout(b, b->pc, s->probes[i].fn, s->probes[i].data, NULL, (int32_t)i);
    if (b->cache->mask & (CT_STALKER_BLOCK | CT_STALKER_EXEC)) {
        b->block_site = ct_build_site(b, CT_STALKER_BLOCK, b->pc, 0);
        if (b->block_site)
            ct_lower_block_event(b, b->block_site);
    }
}

/* Stores the lengths of the block's instructions: one record stands for all of them. */
static void end_block(struct stalk_build *b, const uint8_t *lengths, unsigned count) {
    struct ct_stalker *s = b->cache->stalker;
    s->statistics.blocks++;
    s->statistics.instructions += count;
    s->statistics.ends[b->end_kind]++;
    if (b->cache->mask & CT_STALKER_COMPILE)
        ct_stalk_event_compile(b->thread, b->block, b->pc);
    if (!b->block_site)
        return;
    struct stalk_site *site = ct_stalk_item(&b->cache->sites, b->block_site);
    site->target = b->pc;
    site->insns = count;
    uint8_t *copy = ct_stalk_alloc(&b->cache->pool, count ? count : 1);
    if (!copy) {
        b->out.overflow = true;
        return;
    }
    ct_stalk_copy(copy, lengths, count);
    site->lengths = copy;
}

/* Notes where the code of a critical section begins and ends. */
static void note_section(struct stalk_build *b) {
    if (b->section.description && b->pc == b->section.start)
        b->section_from = (uint32_t)b->out.length;
    if (b->section.description && b->pc == b->section.end)
        b->section_to = (uint32_t)b->out.length;
}

/* Translates one block. True: the next one follows. */
static bool translate_block(struct stalk_build *b, int *status) {
    uint8_t lengths[STALK_MAX_INSNS];
    unsigned count = 0;
    enum stalk_flow flow = FLOW_NEXT;
    begin_block(b);
    while (flow == FLOW_NEXT) {
        struct stalk_insn insn;
        bool room = b->insns < STALK_MAX_INSNS && b->out.capacity - b->out.length > 4096;
        int bad = room ? ct_lower_decode(b, &insn) : 0;
        if (count && ct_section_is_target(b, b->pc))
            break;
        if (room && !bad && (count == 0 || ct_section_has(b, b->pc) || b->pc < b->unit_end || !is_watched(b, b->pc)))
            flow = ct_lower_insn(b, &insn);
        else
            flow = FLOW_REFUSE; /* the engine decides when the thread arrives here */
        if (flow == FLOW_REFUSE) {
            if (b->insns == 0) {
                *status = bad == CT_ERR_TRUNCATED ? CT_ERR_NOT_MAPPED : bad ? bad : CT_ERR_UNSUPPORTED;
                return false;
            }
            ct_lower_jump(b, b->pc, CT_STALKER_END_LIMIT);
            ct_build_piece(b, 0);
            break;
        }
        lengths[count++] = ct_insn_length(&insn);
        b->insns++;
        b->pc += ct_insn_length(&insn);
        note_section(b);
    }
    end_block(b, lengths, count);
    if (ct_section_has(b, b->pc))
        return true;
    if (flow != FLOW_BRANCH)
        return false;
    bool more = !b->single && b->insns < STALK_MAX_INSNS && b->exit_count + 4 < STALK_MAX_EXITS &&
                b->out.capacity - b->out.length > 4096 && !ct_stalk_find(b->cache, b->pc) && !is_watched(b, b->pc);
    if (!more) {
        ct_lower_jump(b, b->pc, CT_STALKER_END_LIMIT);
        ct_build_piece(b, 0);
    }
    return more;
}

/* ---- transformers ---- */

struct ct_stalker_writer {
    struct stalk_build *build;
};

struct ct_stalker_iterator {
    struct stalk_build *build;
    struct stalk_insn current;
    struct ct_stalker_insn public;
    struct ct_stalker_writer writer;
    uint8_t lengths[STALK_MAX_INSNS];
    unsigned count;
    enum stalk_flow flow;
    bool has_current, kept, ended;
    int status, result;
};

/* Finishes the instruction that next() returned last. */
static void finish_insn(struct ct_stalker_iterator *it) {
    struct stalk_build *b = it->build;
    if (!it->has_current)
        return;
    it->has_current = false;
    if (!it->kept) {
        b->piece_from = b->out.length;
        if (b->piece_count < BUILD_PIECES - 2) { /* a piece without code */
            b->pieces[b->piece_count].original = ct_insn_length(&it->current);
            b->pieces[b->piece_count++].code = 0;
        }
    }
    it->lengths[it->count++] = ct_insn_length(&it->current);
    b->insns++;
    b->pc += ct_insn_length(&it->current);
}

const struct ct_stalker_insn *ct_stalker_iterator_next(struct ct_stalker_iterator *it) {
    struct stalk_build *b = it->build;
    enum stalk_flow last = it->has_current ? ct_lower_flow(&it->current) : FLOW_NEXT;
    finish_insn(it);
    if (it->ended || last != FLOW_NEXT) {
        it->ended = true;
        return NULL;
    }
    bool room = b->insns < STALK_MAX_INSNS && b->out.capacity - b->out.length > 4096;
    int bad = room ? ct_lower_decode(b, &it->current) : 0;
    if (!room || bad || ct_lower_flow(&it->current) == FLOW_REFUSE || (it->count && is_watched(b, b->pc))) {
        if (b->insns == 0)
            it->status = bad == CT_ERR_TRUNCATED ? CT_ERR_NOT_MAPPED : bad ? bad : CT_ERR_UNSUPPORTED;
        it->ended = true;
        return NULL;
    }
    it->has_current = true;
    it->kept = false;
    ct_lower_describe(&it->current, &it->public);
    return &it->public;
}

void ct_stalker_iterator_keep(struct ct_stalker_iterator *it) {
    if (!it->has_current || it->kept)
        return;
    it->kept = true;
    it->flow = ct_lower_insn(it->build, &it->current);
    if (it->flow == FLOW_REFUSE)
        it->status = CT_ERR_UNSUPPORTED;
}

void ct_stalker_iterator_put_callout(struct ct_stalker_iterator *it, ct_stalker_callout *callout, void *data,
                                     void (*destroy)(void *data)) {
    struct stalk_build *b = it->build;
    uint64_t pc = it->has_current && it->kept ? b->pc + ct_insn_length(&it->current) : b->pc;
    if (!it->has_current || !it->kept || ct_lower_flow(&it->current) == FLOW_NEXT)
        add_callout(b, pc, callout, data, destroy, -1);
}

void ct_stalker_writer_put_bytes(struct ct_stalker_writer *w, const void *bytes, size_t size) {
    ct_lower_bytes(w->build, bytes, size);
}

void ct_stalker_writer_put_count(struct ct_stalker_writer *w, uint64_t *counter) {
    ct_lower_count(w->build, counter);
}

int ct_stalker_writer_put_insn(struct ct_stalker_writer *w, uint64_t address) {
    struct stalk_build *b = w->build;
    struct stalk_insn insn;
    uint64_t end, pc = b->pc, limit = b->limit;
    bool changes;
    if (!ct_stalk_executable(b->cache->stalker, address, &end, &changes))
        return CT_ERR_NOT_MAPPED;
    b->pc = address;
    b->limit = end;
    int status = ct_lower_decode(b, &insn);
    b->pc = pc;
    b->limit = limit;
    if (status)
        return status;
    if (ct_lower_flow(&insn) != FLOW_NEXT || ct_insn_kind(&insn) == CT_INSN_SYSCALL)
        return CT_ERR_UNSUPPORTED;
    unsigned pieces = b->piece_count;
    if (ct_lower_insn(b, &insn) == FLOW_REFUSE)
        return CT_ERR_UNSUPPORTED;
    for (; pieces < b->piece_count; pieces++)
        b->pieces[pieces].original = 0;
    return CT_OK;
}

unsigned ct_stalk_preview(struct ct_stalker_iterator *it, uint64_t *addresses, uint8_t *lengths, unsigned room) {
    struct stalk_build *b = it->build;
    uint64_t pc = b->pc;
    unsigned count = 0;
    while (count < room && b->insns + count < STALK_MAX_INSNS) {
        struct stalk_insn insn;
        if (ct_lower_decode(b, &insn) || ct_lower_flow(&insn) == FLOW_REFUSE || (count && is_watched(b, b->pc)))
            break;
        addresses[count] = b->pc;
        lengths[count++] = ct_insn_length(&insn);
        b->pc += ct_insn_length(&insn);
        if (ct_lower_flow(&insn) != FLOW_NEXT)
            break;
    }
    b->pc = pc;
    return count;
}

size_t ct_stalk_branch(struct ct_stalker_writer *w, unsigned condition) {
    return ct_lower_branch(w->build, condition);
}

void ct_stalk_branch_here(struct ct_stalker_writer *w, size_t branch) {
    ct_lower_land(w->build, branch);
}

static void run_transformer(void *arg, void *vectors) {
    struct ct_stalker_iterator *it = arg;
    (void)vectors;
    struct stalk_cache *c = it->build->cache;
    it->result = c->transformer.transform(c->transformer.user, it, &it->writer);
}

/* Code that the transformer has not asked for is not written. */
static int transform_block(struct stalk_build *b) {
    struct ct_stalker_iterator it;
    it.build = it.writer.build = b;
    it.count = 0;
    it.flow = FLOW_NEXT;
    it.has_current = it.kept = it.ended = false;
    it.status = it.result = 0;
    begin_block(b);
    ct_stalk_call_out(b->thread, run_transformer, &it);
    if (it.result)
        return it.result < 0 ? it.result : CT_ERR_BAD_STATE;
    while (!it.ended) /* the rest of the block is left out */
        (void)ct_stalker_iterator_next(&it);
    if (it.status)
        return it.status;
    if (it.flow != FLOW_END) {
        ct_lower_jump(b, b->pc, CT_STALKER_END_LIMIT);
        ct_build_piece(b, 0);
    }
    end_block(b, it.lengths, it.count);
    return CT_OK;
}

/* ---- fragments ---- */

static int open_build(struct stalk_build *b, struct stalk_thread *t, uint64_t address, uint8_t *buffer) {
    struct ct_stalker *s = t->stalker;
    bool changes;
    b->thread = t;
    b->cache = t->cache;
    b->start = b->pc = address;
    b->shadow_size = 0;
    if (!ct_stalk_executable(s, address, &b->limit, &changes))
        return CT_ERR_NOT_MAPPED;
    if (changes && s->trust > 0)
        ct_check_take_shadow(b);
    b->fixed = !changes && ct_stalk_is_file(s, address);
    b->single = changes || s->trust < 0 || t->cache->transformer.transform;
    int status = ct_stalk_region_with_room(t->cache, address, STALK_FRAGMENT_ROOM, &b->region);
    if (!status)
        status = ct_arena_unshare(b->region->arena);
    if (status)
        return status;
    struct stalk_chunk *chunk = b->region->chunk;
    chunk->used = (chunk->used + 15) & ~15u;
    bool direct = ct_arena_mode(b->region->arena) != CT_WX_PROTECT;
    b->out.bytes = direct ? chunk->write + chunk->used : buffer;
    b->out.capacity = STALK_FRAGMENT_ROOM - 64;
    b->out.length = 0;
    b->out.address = chunk->run + chunk->used;
    b->out.overflow = false;
    b->insns = b->piece_count = b->exit_count = b->literal_count = b->entry_count = 0;
    b->callouts = 0;
    b->section.description = NULL;
    b->full_branch = 0;
    b->unit_end = 0;
    b->written = 0;
    b->unit_register = STALK_NO_UNIT_REGISTER;
    b->spoils_flags = false;
    b->relies_from = b->relies_to = b->constant = 0;
    return CT_OK;
}

static int fill_fragment(struct stalk_build *b, struct stalk_fragment *f) {
    f->length = (uint32_t)(b->pc - b->start);
    f->code = b->out.address;
    f->region = b->region;
    f->unit_register = b->unit_register;
    f->unit_from = (uint16_t)b->unit_from;
    f->unit_to = (uint16_t)b->unit_to;
    f->callouts = b->callouts;
    uint8_t *snapshot = ct_stalk_alloc(&b->cache->pool, f->length + b->piece_count * sizeof(struct stalk_piece));
    if (!snapshot)
        return CT_ERR_NO_MEMORY;
    struct stalk_piece *pieces = (struct stalk_piece *)snapshot;
    ct_stalk_copy(pieces, b->pieces, b->piece_count * sizeof *pieces);
    f->pieces = pieces;
    f->piece_count = (uint16_t)b->piece_count;
    f->pieces_code = b->out.address + b->body;
    snapshot += b->piece_count * sizeof *pieces;
    ct_stalk_copy(snapshot, b->shadow_size ? b->shadow : (const uint8_t *)b->start, f->length);
    f->snapshot = snapshot;
    f->first.address = b->start;
    f->first.code = b->out.address + b->body;
    f->first.indirect = b->way == WAY_IN_INDIRECT ? b->way_in : 0;
    f->first.returns = b->way == WAY_IN_RETURN ? b->way_in : 0;
    f->relies_from = b->relies_from;
    f->relies_to = b->relies_to;
    f->constant = b->constant;
    f->constant_value = b->constant_value;
    f->first.spoils_flags = b->way == WAY_IN_RETURN && b->spoils_flags;
    f->first.fragment = f;
    return CT_OK;
}

static int add_entries(struct stalk_build *b, struct stalk_fragment *f) {
    struct stalk_cache *c = b->cache;
    int status = ct_stalk_insert(c, &f->first);
    for (unsigned i = 0; i < b->entry_count && !status; i++) {
        if (b->section.description && ct_stalk_find(c, b->entries[i].address))
            continue; /* blocks of a section are joined even if they are translated already */
        struct stalk_entry *e = ct_stalk_alloc(&c->pool, sizeof *e);
        if (!e)
            return CT_ERR_NO_MEMORY;
        e->address = b->entries[i].address;
        e->code = b->out.address + b->entries[i].code;
        e->fragment = f;
        e->next = f->first.next;
        f->first.next = e;
        status = ct_stalk_insert(c, e);
    }
    return status;
}

static int close_build(struct stalk_build *b, struct stalk_fragment **out) {
    struct ct_stalker *s = b->cache->stalker;
    struct stalk_fragment *f = ct_stalk_alloc(&b->cache->pool, sizeof *f);
    if (!f)
        return CT_ERR_NO_MEMORY;
    int status = ct_lower_finish(b, f);
    if (!status)
        status = fill_fragment(b, f);
    if (status)
        return status;
    f->code_size = (uint32_t)b->out.length;
    status = ct_stalk_place(b->region, f);
    if (!status && ct_arena_mode(b->region->arena) == CT_WX_PROTECT)
        status = ct_arena_write(b->region->arena, f->code, b->out.bytes, b->out.length);
    else
        ct_os_sync_code(f->code, f->code_size);
    if (!status)
        status = add_entries(b, f);
    s->statistics.fragments++;
    s->statistics.original_bytes += f->length;
    s->statistics.code_bytes += f->code_size + b->cold_bytes;
    *out = f;
    return status;
}

/* Links exits to what is translated already, so that the thread need not come to the engine for that. Calls do: their
 * return address is translated then. `first`: the first exit of the fragment. */
static void link_known(const struct stalk_build *b, uint32_t first) {
    struct stalk_cache *c = b->cache;
    if (b->section.description || ct_stalk_has_excluded(c->stalker) || ct_arena_mode(b->region->arena) == CT_WX_PROTECT)
        return;
    for (uint32_t id = first; id < first + b->exit_count; id++) {
        const struct stalk_exit *exit = ct_stalk_item(&c->exits, id);
        bool jump = exit->kind == CT_STALKER_END_JUMP || exit->kind == CT_STALKER_END_BRANCH ||
                    exit->kind == CT_STALKER_END_LIMIT;
        struct stalk_entry *e = jump ? ct_stalk_find(c, exit->target) : NULL;
        if (e && ct_stalk_trusted(e))
            ct_stalk_link(c, id, e);
    }
}

static struct stalk_entry *translate_fragment(struct stalk_thread *t, uint64_t address, enum stalk_way_in way,
                                              int *status) {
    struct stalk_build b;
    struct stalk_fragment *f = NULL;
    uint8_t buffer[STALK_FRAGMENT_ROOM];
    uint32_t first_exit = t->cache->exits.count + !t->cache->exits.count;
    *status = open_build(&b, t, address, buffer);
    if (*status)
        return NULL;
    b.way = way;
    ct_lower_begin(&b);
    ct_check_shadow(&b);
    if (t->cache->transformer.transform)
        *status = transform_block(&b);
    else
        while (translate_block(&b, status))
            ;
    if (!*status)
        *status = close_build(&b, &f);
    if (*status)
        return NULL;
    if (t->stalker->trust == 0 || b.shadow_size || (t->stalker->trusts_files && b.fixed))
        f->flags |= FRAGMENT_TRUSTED;
    if (b.shadow_size)
        f->flags |= FRAGMENT_COMPARED;
    if (ct_stalk_trusted(&f->first))
        link_known(&b, first_exit);
    return &f->first;
}

static bool is_code(struct ct_stalker *s, const struct stalk_fragment *f) {
    uint64_t end;
    bool changes;
    return ct_stalk_executable(s, f->first.address, &end, &changes) && f->first.address + f->length <= end;
}

/* Is the word that the fragment relies on what it was? */
static bool is_constant(struct ct_stalker *s, const struct stalk_fragment *f) {
    uint64_t now;
    return !f->constant || (ct_stalk_constant(s, f->constant) && !ct_os_peek(f->constant, &now, sizeof now) &&
                            now == f->constant_value);
}

/* Is the code still what was translated? */
static bool is_unchanged(struct ct_stalker *s, const struct stalk_fragment *f) {
    return is_code(s, f) && ct_stalk_same(f->snapshot, (const void *)f->first.address, f->length) && is_constant(s, f);
}

/* Like is_unchanged(), for code that no thread is about to execute: another thread may unmap it at any moment. */
static bool is_unchanged_unless_gone(struct ct_stalker *s, const struct stalk_fragment *f) {
    uint8_t now[256];
    bool same = is_code(s, f) && is_constant(s, f);
    for (uint32_t at = 0, size; same && at < f->length; at += size) {
        size = f->length - at < sizeof now ? f->length - at : (uint32_t)sizeof now;
        same = !ct_os_peek(f->first.address + at, now, size) && ct_stalk_same(f->snapshot + at, now, size);
    }
    return same;
}

void ct_stalk_check_all(struct ct_stalker *s, bool others_run) {
    ct_stalk_forget_maps(s);
    for (struct stalk_cache *c = s->caches; c; c = c->next)
        for (struct stalk_fragment *f = c->live, *next; f; f = next) {
            next = f->next_live;
            if (!(others_run ? is_unchanged_unless_gone(s, f) : is_unchanged(s, f)))
                ct_stalk_invalidate_fragment(c, f);
        }
}

/* Indirect branches with an inline cache get a way in too: they may lose the cache, and a way in made later costs
 * another jump. */
static enum stalk_way_in way_wanted(const struct stalk_thread *t) {
    uint32_t kind = t->area->reason & 0xf0000000, index = t->area->reason & 0x0fffffff;
    if (kind == CT_REASON_MISS && index == CT_MISS_RETURN)
        return WAY_IN_RETURN;
    return kind == CT_REASON_MISS || kind == CT_REASON_SITE ? WAY_IN_INDIRECT : NO_WAY_IN;
}

struct stalk_entry *ct_stalk_obtain(struct stalk_thread *t, uint64_t address, int *status) {
    struct ct_stalker *s = t->stalker;
    struct stalk_entry *e = ct_stalk_find(t->cache, address);
    enum stalk_way_in way = way_wanted(t);
    *status = CT_OK;
    if (!e)
        return translate_fragment(t, address, way, status);
    struct stalk_fragment *f = e->fragment;
    if (f->flags & FRAGMENT_TRUSTED)
        return e;
    if (!is_unchanged(s, f)) {
        s->statistics.changed++;
        ct_stalk_invalidate_fragment(t->cache, f);
        return translate_fragment(t, address, way, status);
    }
    s->statistics.recycled++;
    if (s->trust >= 0 && ++f->recycled >= (uint32_t)s->trust)
        f->flags |= FRAGMENT_TRUSTED;
    return e;
}

/* The code after a call is nearly always executed. If the call never returns, that code is never executed, so it does
 * not matter what it is: nothing beyond the mapping is read. */
void ct_stalk_translate_ahead(struct stalk_thread *t, uint64_t address) {
    uint64_t end;
    bool changes;
    int status;
    if (t->stalker->trust < 0 || t->cache->transformer.transform || ct_stalk_find(t->cache, address) ||
        !ct_stalk_executable(t->stalker, address, &end, &changes) || changes)
        return;
    struct stalk_entry *e = translate_fragment(t, address, WAY_IN_RETURN, &status);
    if (e && ct_stalk_trusted(e))
        ct_stalk_publish_return(t->cache, e);
}
