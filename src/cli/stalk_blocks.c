/* SPDX-License-Identifier: Apache-2.0 */
/* See stalk_blocks.h. */
#include "cli/stalk_blocks.h"
#include "base/grow.h"
#include "cli/message.h"
#include "cli/new_file.h"
#include "trace/place.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_module(struct ct_blocks *b, const char *line) {
    struct ct_blocks_module m = {0};
    int path = 0;
    if (sscanf(line, "module\t%" SCNx32 "\t%" SCNx64 "\t%" SCNx64 "\t%" SCNx64 "\t%n", &m.id, &m.bias, &m.start, &m.end,
               &path) != 4 ||
        !path)
        return -1;
    bool room = ct_grow(&b->modules, &b->module_room, b->module_count, sizeof *b->modules, 256);
    m.path = room ? strdup(line + path) : NULL;
    if (!m.path)
        return -1;
    b->modules[b->module_count++] = m;
    return 0;
}

static int add_block(struct ct_blocks *b, const char *line) {
    struct ct_executed block;
    if (sscanf(line, "block\t%" SCNx32 "\t%" SCNx64 "\t%" SCNx64 "\t%" SCNu64, &block.module, &block.offset,
               &block.size, &block.count) != 4)
        return -1;
    if (!ct_grow(&b->blocks, &b->room, b->count, sizeof *b->blocks, 256))
        return -1;
    b->blocks[b->count++] = block;
    return 0;
}

static int compare_blocks(const void *a, const void *b) {
    const struct ct_executed *left = a, *right = b;
    if (left->module != right->module)
        return left->module < right->module ? -1 : 1;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

int ct_blocks_load(struct ct_blocks *b, const char *directory) {
    char path[PATH_MAX + 16], *line = NULL;
    size_t room = 0;
    int failed = 0;
    *b = (struct ct_blocks){0};
    snprintf(path, sizeof path, "%s/blocks", directory);
    FILE *file = fopen(path, "re");
    if (!file) {
        ct_message_error("%s cannot be read (%s)", path, strerror(errno));
        return -1;
    }
    for (ssize_t n; !failed && (n = getline(&line, &room, file)) > 0;) {
        line[n - (line[n - 1] == '\n')] = 0;
        failed = !strncmp(line, "module\t", 7)  ? add_module(b, line)
                 : !strncmp(line, "block\t", 6) ? add_block(b, line)
                                                : 0;
    }
    free(line);
    fclose(file);
    if (failed)
        ct_message_error("%s is damaged, or there is no memory for it", path);
    else if (b->count)
        qsort(b->blocks, b->count, sizeof *b->blocks, compare_blocks);
    return failed;
}

void ct_blocks_free(struct ct_blocks *b) {
    for (size_t i = 0; i < b->module_count; i++)
        free(b->modules[i].path);
    free(b->modules);
    free(b->blocks);
    *b = (struct ct_blocks){0};
}

const struct ct_blocks_module *ct_blocks_module(const struct ct_blocks *b, uint32_t id) {
    for (size_t i = 0; i < b->module_count; i++)
        if (b->modules[i].id == id)
            return &b->modules[i];
    return NULL;
}

/* ---- coverage ---- */

#define LARGEST UINT16_MAX /* limit of an entry */

/* A block that is too large for one entry takes several. */
static uint64_t entries_of(const struct ct_blocks *b) {
    uint64_t sum = 0;
    for (size_t i = 0; i < b->count; i++)
        if (ct_blocks_module(b, b->blocks[i].module))
            sum += (b->blocks[i].size + LARGEST - 1) / LARGEST;
    return sum;
}

static void write_entries(FILE *file, const struct ct_blocks *b, const struct ct_executed *block) {
    const struct ct_blocks_module *m = ct_blocks_module(b, block->module);
    if (!m)
        return;
    uint64_t at = m->bias + block->offset - m->start;
    for (uint64_t left = block->size; left;) {
        uint16_t size = left < LARGEST ? (uint16_t)left : LARGEST, id = (uint16_t)(m - b->modules);
        uint32_t start = (uint32_t)at;
        fwrite(&start, sizeof start, 1, file);
        fwrite(&size, sizeof size, 1, file);
        fwrite(&id, sizeof id, 1, file);
        at += size;
        left -= size;
    }
}

int ct_blocks_write_coverage(const struct ct_blocks *b, const char *path) {
    struct ct_new_file out;
    int error = ct_new_file_open(&out, path), copy = error ? -1 : fcntl(out.fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "w");
    if (!file) {
        ct_message_error("%s cannot be written (%s); choose another file with --coverage", path,
                         ct_place_reason(error ? error : errno));
        (void)ct_new_file_close(&out, false);
        return -1;
    }
    fprintf(file, "DRCOV VERSION: 2\nDRCOV FLAVOR: contrail\nModule Table: version 2, count %zu\n", b->module_count);
    fprintf(file, "Columns: id, base, end, entry, checksum, timestamp, path\n");
    for (size_t i = 0; i < b->module_count; i++)
        fprintf(file, "%3zu, 0x%016" PRIx64 ", 0x%016" PRIx64 ", 0x%016x, 0x%08x, 0x%08x, %s\n", i, b->modules[i].start,
                b->modules[i].end, 0, 0, 0, b->modules[i].path);
    fprintf(file, "BB Table: %" PRIu64 " bbs\n", entries_of(b));
    for (size_t i = 0; i < b->count; i++)
        write_entries(file, b, &b->blocks[i]);
    bool failed = ferror(file);
    failed |= fclose(file) != 0;
    error = ct_new_file_close(&out, !failed);
    failed |= error != 0;
    if (failed)
        ct_message_error("%s could not be written completely (%s)", path, ct_place_reason(error ? error : errno));
    return failed;
}
