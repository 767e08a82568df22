/* SPDX-License-Identifier: Apache-2.0 */
/* A file of records that is written through a buffer, with a checksum of all that was written. It is opened for each
 * write, because there may be one for each of thousands of threads. Owner: its writer. */
#ifndef CT_TRACE_BYTE_FILE_H
#define CT_TRACE_BYTE_FILE_H

#include "trace/place.h"
#include <stddef.h>
#include <stdint.h>

struct ct_byte_file {
    struct ct_place *place; /* directory of the process, held */
    char *path;             /* within the place */
    uint8_t *buffer;        /* the owner sees to its room */
    size_t used;
    uint64_t size; /* of the file */
    uint32_t crc;
    int error; /* errno of the first failure; nothing is written from then on */
};

/* Writes what is in the buffer, which is empty then. */
void ct_byte_file_flush(struct ct_byte_file *file);
/* Appends a number to the buffer: seven bits in each byte, the lowest first. */
void ct_byte_file_number(struct ct_byte_file *file, uint64_t value);

#endif
