/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a module, for the scan: it contains jump tables.
 *
 * The data comes from the file, with the loader's relative relocations applied for the bias. So it is the same in every
 * process, whether or not the loader has already relocated it there (a static program relocates itself), and an
 * analysis is valid for all of them. Only if there is no file is the data read from memory, in pieces, on demand. Any
 * thread may ask for it. */
#include "plan/target_internal.h"
#include "symbols/elf_image.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PIECE (64u << 10)

enum piece_state { PIECE_NEW, PIECE_READ, PIECE_BAD };

/* ---- from the file ---- */

/* The place in a copy of the word at this address (without the bias); NULL: no copy has it. */
static uint8_t *word_at(struct ct_target_source *s, uint64_t address) {
    address += s->bias;
    for (size_t i = 0; i < s->segment_count; i++) {
        struct ct_target_segment *g = &s->segments[i];
        if (g->copied && address >= g->start && address < g->file_end && g->file_end - address >= 8)
            return g->bytes + (address - g->start);
    }
    return NULL;
}

static void put_word(struct ct_target_source *s, uint64_t address, uint64_t value) {
    uint8_t *word = word_at(s, address);
    if (word)
        memcpy(word, &value, 8);
}

/* Adds the bias to a word that holds an address. */
static void add_bias(struct ct_target_source *s, uint64_t address) {
    uint64_t value;
    uint8_t *word = word_at(s, address);
    if (!word)
        return;
    memcpy(&value, word, 8);
    value += s->bias;
    memcpy(word, &value, 8);
}

static struct ct_span dynamic_table(const struct ct_elf *elf, int64_t where, int64_t length) {
    uint64_t address, size;
    struct ct_span bytes = {.data = elf->data};
    if (!ct_elf_dynamic(elf, where, &address) || !ct_elf_dynamic(elf, length, &size))
        return bytes;
    bytes = ct_elf_at(elf, address);
    bytes.size = size < bytes.size ? size : bytes.size;
    return bytes;
}

static void apply_rela(struct ct_target_source *s, const struct ct_elf *elf) {
    struct ct_span bytes = dynamic_table(elf, DT_RELA, DT_RELASZ);
    struct ct_reader r = ct_reader_of(bytes.data, bytes.size);
    Elf64_Rela rela;
    while (ct_reader_left(&r) >= sizeof rela) {
        ct_reader_bytes(&r, &rela, sizeof rela);
        if (ELF64_R_TYPE(rela.r_info) == elf->machine->reloc_relative)
            put_word(s, rela.r_offset, s->bias + (uint64_t)rela.r_addend);
    }
}

/* The packed form: each entry is an address, or a bit map of the 63 words after the last one. */
static void apply_relr(struct ct_target_source *s, const struct ct_elf *elf) {
    enum { RELR_SIZE = 35, RELR = 36 };
    struct ct_span bytes = dynamic_table(elf, RELR, RELR_SIZE);
    struct ct_reader r = ct_reader_of(bytes.data, bytes.size);
    uint64_t next = 0;
    while (ct_reader_left(&r) >= 8) {
        uint64_t entry = ct_reader_u64(&r);
        if (!(entry & 1)) {
            add_bias(s, entry);
            next = entry + 8;
            continue;
        }
        for (unsigned i = 0; i < 63; i++)
            if (entry >> (i + 1) & 1)
                add_bias(s, next + 8ull * i);
        next += 63 * 8;
    }
}

static void *copy_of(const uint8_t *from, size_t size) {
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return NULL;
    memcpy(bytes, from, size);
    return bytes;
}

static int prepare_from_file(struct ct_target_source *s) {
    struct ct_elf elf;
    for (size_t i = 0; i < s->segment_count; i++) {
        struct ct_target_segment *g = &s->segments[i];
        size_t size = (size_t)(g->file_end - g->start);
        if ((g->flags & PF_X) || !(g->flags & PF_R) || !size || g->offset > s->file_size ||
            size > s->file_size - g->offset)
            continue;
        g->bytes = (uint8_t *)s->file + g->offset;
        if (!(g->flags & PF_W))
            continue;
        g->bytes = copy_of(g->bytes, size);
        if (!g->bytes)
            return CT_ERR_NO_MEMORY;
        g->copied = true;
    }
    int status = ct_elf_open_host(&elf, s->file, s->file_size);
    if (!status && s->bias) {
        apply_rela(s, &elf);
        apply_relr(s, &elf);
    }
    return status;
}

/* ---- from memory ---- */

static int prepare_pieces(struct ct_target_source *s) {
    for (size_t i = 0; i < s->segment_count; i++) {
        struct ct_target_segment *g = &s->segments[i];
        size_t size = (size_t)(g->file_end - g->start);
        if ((g->flags & PF_X) || !(g->flags & PF_R) || !size)
            continue;
        void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bytes == MAP_FAILED)
            return CT_ERR_NO_MEMORY;
        g->bytes = bytes;
        g->copied = true;
        g->state = calloc(size / PIECE + 1, 1);
        if (!g->state)
            return CT_ERR_NO_MEMORY;
    }
    return 0;
}

static bool read_piece(struct ct_target_source *s, struct ct_target_segment *g, size_t piece) {
    uint8_t state = __atomic_load_n(&g->state[piece], __ATOMIC_ACQUIRE); /* pairs with the store below */
    if (state != PIECE_NEW)
        return state == PIECE_READ;
    pthread_mutex_lock(&s->mutex);
    state = g->state[piece];
    if (state == PIECE_NEW) {
        uint64_t at = (uint64_t)piece * PIECE, left = g->file_end - g->start - at;
        int status = ct_remote_read(s->remote, g->start + at, g->bytes + at, left < PIECE ? left : PIECE);
        state = status ? PIECE_BAD : PIECE_READ;
        __atomic_store_n(&g->state[piece], state, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&s->mutex);
    return state == PIECE_READ;
}

/* ---- both ---- */

int ct_target_source_prepare(struct ct_target_source *s) {
    return s->file ? prepare_from_file(s) : prepare_pieces(s);
}

void ct_target_source_drop_data(struct ct_target_source *s) {
    for (size_t i = 0; i < s->segment_count; i++) {
        struct ct_target_segment *g = &s->segments[i];
        if (g->copied)
            munmap(g->bytes, (size_t)(g->file_end - g->start));
        free(g->state);
        g->bytes = g->state = NULL;
        g->copied = false;
    }
}

const uint8_t *ct_target_source_bytes(void *source, uint64_t address, size_t size) {
    struct ct_target_source *s = source;
    for (size_t i = 0; i < s->text_count; i++)
        if (address >= s->texts[i].start && address < s->texts[i].end)
            return size <= s->texts[i].end - address ? s->texts[i].code + (address - s->texts[i].start) : NULL;
    for (size_t i = 0; i < s->segment_count; i++) {
        struct ct_target_segment *g = &s->segments[i];
        if (!g->bytes || address < g->start || address >= g->file_end || size > g->file_end - address || !size)
            continue;
        uint64_t at = address - g->start;
        for (size_t piece = at / PIECE; g->state && piece <= (at + size - 1) / PIECE; piece++)
            if (!read_piece(s, g, piece))
                return NULL;
        return g->bytes + at;
    }
    return NULL;
}
