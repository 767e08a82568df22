/* SPDX-License-Identifier: Apache-2.0 */
/* Images: validates their bytes, which may come from a damaged or forged file.
 *
 * The checksum finds accidents. All indexes and addresses in the image are checked as well, so that even a file with a
 * correct checksum cannot lead outside the image or the module's text. */
#include "plan/target_internal.h"
#include <contrail/contrail.h>
#include <link.h>
#include <string.h>

/* ---- hashes ---- */

static inline uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

/* Four independent lanes: as fast as memory. */
uint64_t ct_target_hash(const void *bytes, size_t size, uint64_t seed) {
    const uint8_t *p = bytes;
    uint64_t lane[4] = {seed, seed + 1, seed + 2, seed + 3}, word[4];
    size_t left = size;
    for (; left >= sizeof word; left -= sizeof word, p += sizeof word) {
        memcpy(word, p, sizeof word);
        for (int i = 0; i < 4; i++)
            lane[i] = mix(lane[i], word[i]);
    }
    memset(word, 0, sizeof word);
    memcpy(word, p, left);
    for (int i = 0; i < 4; i++)
        lane[i] = mix(lane[i], word[i]);
    return mix(mix(mix(mix(size, lane[0]), lane[1]), lane[2]), lane[3]);
}

/* ---- the build of the tool ---- */

struct own_notes {
    uint64_t inside, hash;
};

/* The notes of our own module hold the build-id, which changes with every change of the code. */
static int add_own_notes(struct dl_phdr_info *info, size_t size, void *arg) {
    struct own_notes *o = arg;
    bool ours = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + p->p_vaddr;
        ours |= p->p_type == PT_LOAD && o->inside >= start && o->inside < start + p->p_memsz;
    }
    for (int i = 0; ours && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            o->hash = ct_target_hash((const void *)(info->dlpi_addr + p->p_vaddr), p->p_memsz, o->hash);
    }
    return ours;
}

uint64_t ct_target_tool(void) {
    const char *version = ct_version();
    static const size_t layout[] = {sizeof(struct ct_target_image), sizeof(struct ct_image_function),
                                    sizeof(struct ct_image_text), sizeof(struct ct_image_loop)};
    struct own_notes o = {(uint64_t)&ct_target_tool, ct_target_hash(version, strlen(version), 0)};
    o.hash = ct_target_hash(layout, sizeof layout, o.hash);
    dl_iterate_phdr(add_own_notes, &o);
    return o.hash;
}

/* ---- checks ---- */

/* Do `count` items of `item` bytes at `offset` fit into `size` bytes? */
static bool has_room(uint64_t size, uint64_t offset, uint64_t count, uint64_t item) {
    return offset % 8 == 0 && offset <= size && count <= (size - offset) / item;
}

static bool functions_valid(const struct ct_target_image *image, const struct ct_image_text *t) {
    const struct ct_image_function *f = ct_image_at(image, image->functions);
    uint64_t last = 0;
    if (t->first_function > image->function_count || t->function_count > image->function_count - t->first_function)
        return false;
    f += t->first_function;
    for (uint64_t i = 0; i < t->function_count; i++) {
        if (f[i].name >= image->names_size || f[i].offset < t->start || f[i].offset >= t->end ||
            f[i].size > t->end - f[i].offset || (i && f[i].offset <= last))
            return false;
        last = f[i].offset;
    }
    return true;
}

/* A loop's branch must be one, and inside its function. */
static bool loops_valid(const struct ct_target_image *image, const struct ct_image_text *t) {
    const struct ct_image_function *f = ct_image_at(image, image->functions);
    const struct ct_image_loop *loops = ct_image_at(image, t->loops);
    for (uint64_t i = 0; i < t->loop_count; i++) {
        const struct ct_image_loop *l = &loops[i];
        const struct ct_scan_loop loop = {.length = l->length, .disp_size = l->disp_size};
        if (l->function >= t->function_count || !ct_scan_loop_valid(&loop))
            return false;
        const struct ct_image_function *in = &f[t->first_function + l->function];
        if (l->branch < in->offset || l->branch - in->offset >= in->size ||
            l->length > in->size - (l->branch - in->offset))
            return false;
    }
    return true;
}

static bool text_valid(const struct ct_target_image *image, const struct ct_image_text *t) {
    if (t->start >= t->end || t->end - t->start > 1ull << 40)
        return false;
    uint64_t words = ct_image_map_words(t);
    return has_room(image->size, t->landing, words, 8) && has_room(image->size, t->foreign, words, 8) &&
           has_room(image->size, t->referenced, words, 8) &&
           has_room(image->size, t->loops, t->loop_count, sizeof(struct ct_image_loop)) && functions_valid(image, t) &&
           loops_valid(image, t);
}

static bool header_valid(const struct ct_target_image *image, size_t size) {
    return size >= sizeof *image && image->size == size && !memcmp(image->magic, "CTPLAN1", 8) &&
           image->tool == ct_target_tool() &&
           has_room(size, image->functions, image->function_count, sizeof(struct ct_image_function)) &&
           has_room(size, image->texts, image->text_count, sizeof(struct ct_image_text)) && image->names <= size &&
           image->names_size && image->names_size <= size - image->names &&
           !image->build_id[sizeof image->build_id - 1] && !((const char *)image)[image->names + image->names_size - 1];
}

bool ct_target_image_valid(const struct ct_target_image *image, size_t size) {
    const size_t covered = offsetof(struct ct_target_image, tool);
    if (!header_valid(image, size) ||
        image->checksum != ct_target_hash((const uint8_t *)image + covered, size - covered, size))
        return false;
    const struct ct_image_text *texts = ct_image_at(image, image->texts);
    uint64_t functions = 0;
    for (uint64_t i = 0; i < image->text_count; i++) {
        if (!text_valid(image, &texts[i]) || texts[i].first_function != functions)
            return false;
        functions += texts[i].function_count;
    }
    return functions == image->function_count;
}

bool ct_target_image_fits(const struct ct_target_image *image, const struct ct_target_source *s) {
    const struct ct_image_text *texts = ct_image_at(image, image->texts);
    if (image->file_size != s->file_size || image->debug_id != s->debug_id || strcmp(image->build_id, s->build_id) ||
        image->text_count != s->text_count || (image->bias != UINT64_MAX && image->bias != s->bias))
        return false;
    for (size_t i = 0; i < s->text_count; i++)
        if (texts[i].start + s->bias != s->texts[i].start || texts[i].end + s->bias != s->texts[i].end ||
            (!s->unread && texts[i].hash != s->texts[i].hash))
            return false;
    return true;
}
