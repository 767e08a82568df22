/* SPDX-License-Identifier: Apache-2.0 */
/* Guesses of functions: the descent through the code, and what is taken from it. See target_guess.h. */
#include "plan/target_guess.h"
#include "base/grow.h"
#include "isa/isa.h"
#include "symbols/elf_image.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CODE    (256ull << 20) /* bytes of a module's texts: nothing is guessed in larger ones */
#define MAX_PENDING (1u << 20)     /* more branches that wait than honest code has: nothing is guessed */
#define MAX_GUESSES (1u << 20)
#define MAX_WORDS   4096u /* of an array of initializers */
#define BEGINNING   16u   /* bytes of a function that must decode: a patch covers no more */

/* One bit per byte of a text. */
struct text {
    uint64_t start, end;
    const uint8_t *code;
    uint64_t *first;   /* an instruction that is reached begins here */
    uint64_t *inside;  /* another byte of such an instruction */
    uint64_t *called;  /* target of a direct call */
    uint64_t *entered; /* reached otherwise than a function is: by falling into it, or by a conditional branch */
    uint64_t *begins;  /* called, or the beginning of something for another reason */
};

struct descent {
    const struct ct_target_source *source;
    const struct ct_functions *table;
    struct text *texts;
    size_t text_count;
    uint64_t *pending;
    size_t pending_count, pending_capacity;
    bool too_many;
    int status;
};

/* ---- maps ---- */

static bool get(const struct text *t, const uint64_t *map, uint64_t address) {
    uint64_t i = address - t->start;
    return map[i / 64] >> (i % 64) & 1;
}

static void set(const struct text *t, uint64_t *map, uint64_t address) {
    uint64_t i = address - t->start;
    if (address < t->end)
        map[i / 64] |= 1ull << (i % 64);
}

static struct text *text_of(const struct descent *d, uint64_t address) {
    for (size_t i = 0; i < d->text_count; i++)
        if (address >= d->texts[i].start && address < d->texts[i].end)
            return &d->texts[i];
    return NULL;
}

static int make_texts(struct descent *d) {
    const struct ct_target_source *s = d->source;
    d->texts = calloc(s->text_count + 1, sizeof *d->texts);
    if (!d->texts)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < s->text_count; i++) {
        struct text *t = &d->texts[d->text_count++];
        size_t words = (size_t)(s->texts[i].end - s->texts[i].start) / 64 + 2;
        *t = (struct text){.start = s->texts[i].start, .end = s->texts[i].end, .code = s->texts[i].code};
        t->first = calloc(words * 5, sizeof *t->first);
        if (!t->first)
            return CT_ERR_NO_MEMORY;
        t->inside = t->first + words;
        t->called = t->inside + words;
        t->entered = t->called + words;
        t->begins = t->entered + words;
    }
    return 0;
}

static void free_descent(struct descent *d) {
    for (size_t i = 0; d->texts && i < d->text_count; i++)
        free(d->texts[i].first);
    free(d->texts);
    free(d->pending);
}

/* ---- the descent ---- */

static void add_pending(struct descent *d, uint64_t address) {
    const struct text *t = text_of(d, address);
    if (!t || get(t, t->first, address) || d->status)
        return;
    d->too_many |= d->pending_count == MAX_PENDING;
    if (d->too_many)
        return;
    if (!ct_grow(&d->pending, &d->pending_capacity, d->pending_count, sizeof *d->pending, 1024))
        d->status = CT_ERR_NO_MEMORY;
    else
        d->pending[d->pending_count++] = address;
}

static void add_beginning(struct descent *d, uint64_t address) {
    const struct text *t = text_of(d, address);
    if (t)
        set(t, t->begins, address);
    add_pending(d, address);
}

/* A call of the instruction after it only finds out where it runs. */
static void note_call(struct descent *d, const struct ct_guess_insn *insn, uint64_t next) {
    const struct text *t = text_of(d, insn->target);
    if (!t || insn->target == next)
        return;
    set(t, t->called, insn->target);
    add_beginning(d, insn->target);
}

static void note_condition(struct descent *d, uint64_t target) {
    const struct text *t = text_of(d, target);
    if (t)
        set(t, t->entered, target);
    add_pending(d, target);
}

static bool falls_through(unsigned kind) {
    return kind != CT_INSN_JMP && kind != CT_INSN_JMP_INDIRECT && kind != CT_INSN_RET && kind != CT_INSN_FAR &&
           kind != CT_INSN_INT3 && kind != CT_INSN_TRAP && kind != CT_INSN_HALT;
}

/* It may never return: then what is after it, perhaps after padding, is something else. */
static bool may_end(unsigned kind) {
    return kind == CT_INSN_CALL || kind == CT_INSN_CALL_INDIRECT || kind == CT_INSN_SYSCALL;
}

static void mark_insn(const struct text *t, uint64_t at, unsigned length) {
    set(t, t->first, at);
    for (unsigned i = 1; i < length; i++)
        set(t, t->inside, at + i);
}

static void follow_insn(struct descent *d, const struct ct_guess_insn *insn, uint64_t next, bool entry) {
    if (insn->kind == CT_INSN_CALL)
        note_call(d, insn, next);
    else if (insn->kind == CT_INSN_JMP)
        add_pending(d, insn->target);
    else if (insn->kind == CT_INSN_JCC || insn->kind == CT_INSN_LOOP || insn->kind == CT_INSN_XBEGIN)
        note_condition(d, insn->target);
    else if (entry && insn->names)
        add_beginning(d, insn->names); /* main, which the C library calls */
}

/* Follows straight code until it ends or has been followed before. `entry`: it is the program's first code. */
static void follow(struct descent *d, uint64_t at, bool entry) {
    const struct text *t = text_of(d, at);
    struct ct_guess_insn insn;
    bool after_end = false;
    while (t && at < t->end && !get(t, t->first, at)) {
        if (!ct_guess_decode(t->code + (at - t->start), (size_t)(t->end - at), at, &insn))
            return;
        uint64_t next = at + insn.length;
        mark_insn(t, at, insn.length);
        follow_insn(d, &insn, next, entry);
        if (!falls_through(insn.kind))
            return;
        after_end = may_end(insn.kind) || (insn.kind == CT_INSN_NOP && after_end);
        if (!after_end)
            set(t, t->entered, next);
        at = next;
    }
}

static void follow_pending(struct descent *d) {
    const bool *cancelled = d->source->cancelled;
    while (d->pending_count && !d->status && !d->too_many) {
        if (cancelled && __atomic_load_n(cancelled, __ATOMIC_RELAXED))
            d->status = CT_ERR_TIMEOUT;
        follow(d, d->pending[--d->pending_count], false);
    }
}

/* ---- where it begins ---- */

static void add_words(struct descent *d, uint64_t address, uint64_t size) {
    uint64_t value;
    for (uint64_t i = 0; i < size / 8 && i < MAX_WORDS; i++) {
        const uint8_t *word = ct_target_source_bytes((void *)(uintptr_t)d->source, address + i * 8, 8);
        if (!word)
            return;
        memcpy(&value, word, sizeof value);
        add_beginning(d, value);
    }
}

static void add_initializers(struct descent *d, const struct ct_elf *elf) {
    static const struct {
        int64_t where, size;
        const char *section;
    } arrays[] = {{DT_INIT_ARRAY, DT_INIT_ARRAYSZ, ".init_array"},
                  {DT_FINI_ARRAY, DT_FINI_ARRAYSZ, ".fini_array"},
                  {DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, ".preinit_array"}};
    uint64_t bias = d->source->bias, address, size;
    struct ct_elf_section section;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (ct_elf_dynamic(elf, arrays[i].where, &address) && ct_elf_dynamic(elf, arrays[i].size, &size))
            add_words(d, bias + address, size);
        else if (ct_elf_section_named(elf, arrays[i].section, &section))
            add_words(d, bias + section.bytes.address, section.size);
    if (ct_elf_dynamic(elf, DT_INIT, &address))
        add_beginning(d, bias + address);
    if (ct_elf_dynamic(elf, DT_FINI, &address))
        add_beginning(d, bias + address);
}

static void descend(struct descent *d) {
    const struct ct_target_source *s = d->source;
    const void *bytes = s->file ? s->file : s->memory_image;
    size_t size = s->file ? s->file_size : s->memory_image_size;
    struct ct_elf elf;
    Elf64_Ehdr header;
    if (size >= sizeof header && !ct_elf_open_host(&elf, bytes, size)) {
        memcpy(&header, bytes, sizeof header);
        const struct text *t = text_of(d, s->bias + header.e_entry);
        if (header.e_entry && t) {
            set(t, t->begins, s->bias + header.e_entry);
            set(t, t->entered, s->bias + header.e_entry); /* nobody calls it */
            follow(d, s->bias + header.e_entry, true);
        }
        add_initializers(d, &elf);
    }
    follow_pending(d);
    for (size_t i = 0; i < ct_functions_count(d->table) && !d->status && !d->too_many; i++) {
        add_beginning(d, s->bias + ct_functions_at(d->table, i)->offset);
        follow_pending(d);
    }
}

/* ---- what is taken from it ---- */

/* Is what begins here code that is consistent with all other code that is reached, and no linkage stub? */
static bool begins_well(const struct text *t, uint64_t start) {
    struct ct_guess_insn insn;
    for (uint64_t at = start; at < start + BEGINNING; at += insn.length) {
        if (at >= t->end || !get(t, t->first, at) || get(t, t->inside, at) ||
            !ct_guess_decode(t->code + (at - t->start), (size_t)(t->end - at), at, &insn))
            return false;
        if (insn.kind == CT_INSN_JMP_INDIRECT && at - start <= 4)
            return false;
        if (!falls_through(insn.kind))
            return true;
    }
    return true;
}

/* The end of the last instruction that is reached before `bound`. */
static uint64_t end_of(const struct text *t, uint64_t start, uint64_t bound) {
    uint64_t at = bound - 1;
    while (at > start && !get(t, t->first, at))
        at--;
    for (at++; at < bound && get(t, t->inside, at);)
        at++;
    return at;
}

static uint64_t next_beginning(const struct text *t, uint64_t start) {
    uint64_t at = start + 1;
    while (at < t->end && !get(t, t->begins, at))
        at++;
    return at;
}

/* The section around an offset: ranges and questions are in the order of addresses. */
static const struct ct_text_range *range_of(const struct ct_functions *table, size_t *index, uint64_t offset) {
    const struct ct_text_range *range;
    while ((range = ct_functions_text_at(table, *index)) && range->end <= offset)
        ++*index;
    return range && range->start <= offset ? range : NULL;
}

static int take_text(const struct descent *d, const struct text *t, struct ct_guesses *out) {
    const uint64_t bias = d->source->bias;
    size_t range_index = 0;
    for (uint64_t at = t->start; at < t->end; at++) {
        if (!get(t, t->called, at) || get(t, t->entered, at) || !begins_well(t, at))
            continue;
        const struct ct_text_range *range = range_of(d->table, &range_index, at - bias);
        if (!range || range->plt || ct_functions_find(d->table, at - bias))
            continue;
        uint64_t bound = next_beginning(t, at), end = bias + range->end;
        if (out->count == MAX_GUESSES)
            return 0;
        if (!ct_grow(&out->items, &out->capacity, out->count, sizeof *out->items, 256))
            return CT_ERR_NO_MEMORY;
        out->items[out->count++] = (struct ct_func){
            .offset = at - bias, .size = end_of(t, at, bound < end ? bound : end) - at, .flags = CT_FUNC_GUESSED};
    }
    return 0;
}

/* ---- which modules ---- */

/* As ct_target_module_bytes, before anything is planned. */
static bool lacks_functions(const struct ct_functions *table) {
    struct ct_target_bytes bytes = {0};
    uint64_t reach = 0;
    for (size_t i = 0; i < ct_functions_text_count(table); i++) {
        const struct ct_text_range *range = ct_functions_text_at(table, i);
        bytes.code += range->plt ? 0 : range->end - range->start;
    }
    for (size_t i = 0; i < ct_functions_count(table); i++) {
        const struct ct_func *f = ct_functions_at(table, i);
        uint64_t start = f->offset > reach ? f->offset : reach, end = f->offset + f->size;
        if (end <= start || (f->flags & CT_FUNC_PLT))
            continue;
        bytes.known += end - start;
        reach = end;
    }
    return ct_target_lacks_functions(&bytes);
}

int ct_target_guess(const struct ct_target_source *s, const struct ct_functions *table, struct ct_guesses *out) {
    struct descent d = {.source = s, .table = table};
    uint64_t size = 0;
    for (size_t i = 0; i < s->text_count; i++)
        size += s->texts[i].end - s->texts[i].start;
    if (size > MAX_CODE || !lacks_functions(table))
        return 0;
    d.status = make_texts(&d);
    if (!d.status)
        descend(&d);
    for (size_t i = 0; i < d.text_count && !d.status && !d.too_many; i++)
        d.status = take_text(&d, &d.texts[i], out);
    free_descent(&d);
    return d.status;
}
