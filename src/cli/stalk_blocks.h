/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that a followed program has executed: the file `blocks` in a process's directory
 * (docs/TRACE-FORMAT.md). */
#ifndef CT_CLI_STALK_BLOCKS_H
#define CT_CLI_STALK_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct ct_blocks_module {
    uint32_t id;               /* module_id of the trace */
    uint64_t bias, start, end; /* run addresses */
    char *path;
};

struct ct_executed {
    uint32_t module; /* 0: code of no file; the offset is the run address then */
    uint64_t offset, size, count;
};

struct ct_blocks {
    struct ct_blocks_module *modules; /* by id */
    size_t module_count, module_room;
    struct ct_executed *blocks; /* by module and offset */
    size_t count, room;
};

/* 0, or non-zero after a message. */
int ct_blocks_load(struct ct_blocks *blocks, const char *directory);
void ct_blocks_free(struct ct_blocks *blocks);
const struct ct_blocks_module *ct_blocks_module(const struct ct_blocks *blocks, uint32_t id);

/* Writes the blocks in the format of drcov, version 2. 0, or non-zero after a message. */
int ct_blocks_write_coverage(const struct ct_blocks *blocks, const char *file);
/* Prints the blocks, by function, with counts. 0, or non-zero after a message. */
int ct_blocks_print(const struct ct_blocks *blocks, const char *directory);

#endif
