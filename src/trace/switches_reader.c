/* SPDX-License-Identifier: Apache-2.0 */
/* See switches_file.h. Nothing in the files is trusted. */
#include "trace/switches_file.h"
#include "trace/crc32.h"
#include "trace/file.h"
#include <contrail/status.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 2 };

struct ct_switches_reader {
    struct part {
        uint8_t *bytes;
        size_t size;
        struct ct_switches_header header;
    } parts[PARTS]; /* the old one first */
    unsigned part;
    size_t at;
    uint64_t last_ns, spans;
    bool finished; /* the current part */
    const char *name;
    char problem[160];
};

/* What is added to the name. */
static const char *const ends[PARTS] = {CT_SWITCHES_BEFORE, ""};

static int complain(struct ct_switches_reader *r, const char *what) {
    if (!r->problem[0])
        snprintf(r->problem, sizeof r->problem, "%s at byte %zu of %s%s", what, r->at, r->name, ends[r->part]);
    return CT_ERR_BAD_FILE;
}

/* ---- records ---- */

/* False: the file ends here, or the number is too long. */
static bool get_number(struct ct_switches_reader *r, uint64_t *value) {
    const struct part *p = &r->parts[r->part];
    *value = 0;
    for (unsigned shift = 0; shift < 64 && r->at < p->size; shift += 7) {
        uint8_t byte = p->bytes[r->at++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    if (r->at < p->size)
        complain(r, "a number that is too long");
    return false;
}

static int read_end(struct ct_switches_reader *r, size_t start) {
    const struct part *p = &r->parts[r->part];
    uint64_t spans;
    uint32_t crc;
    if (!get_number(r, &spans) || p->size - r->at < sizeof crc)
        return r->problem[0] ? CT_ERR_BAD_FILE : 0;
    memcpy(&crc, p->bytes + r->at, sizeof crc);
    r->at += sizeof crc;
    if (spans != r->spans)
        return complain(r, "a count that is not that of the spans before");
    if (crc != ct_crc32(0, p->bytes, start))
        return complain(r, "a checksum that is not that of the bytes before");
    if (r->at != p->size)
        return complain(r, "something after the last record");
    r->finished = true;
    return 0;
}

/* 1: a span; 0: the end of this part. */
static int read_record(struct ct_switches_reader *r, struct ct_switch_span *span) {
    size_t start = r->at;
    uint64_t first, length;
    if (r->finished || !get_number(r, &first))
        return r->problem[0] ? CT_ERR_BAD_FILE : 0;
    if ((first & 3) == CT_SWITCHES_END)
        return first == CT_SWITCHES_END ? read_end(r, start) : complain(r, "a record of an unknown kind");
    if (!get_number(r, &length))
        return r->problem[0] ? CT_ERR_BAD_FILE : 0;
    uint64_t from = r->last_ns + (first >> 2);
    if (from < r->last_ns || from + length < from || !length)
        return complain(r, "a time that does not fit");
    *span = (struct ct_switch_span){from, from + length, (enum ct_switches_kind)(first & 3)};
    r->last_ns = span->to_ns;
    r->spans++;
    return 1;
}

static void begin_part(struct ct_switches_reader *r, unsigned part) {
    const struct part *p = &r->parts[part];
    r->part = part;
    r->at = p->size < sizeof p->header ? p->size : sizeof p->header;
    r->spans = 0;
    r->finished = false;
    if (p->bytes && p->header.begins_ns > r->last_ns)
        r->last_ns = p->header.begins_ns;
}

int ct_switches_reader_next(struct ct_switches_reader *r, struct ct_switch_span *span) {
    int status = r->problem[0] ? CT_ERR_BAD_FILE : read_record(r, span);
    while (!status && r->part + 1 < PARTS) {
        begin_part(r, r->part + 1);
        status = read_record(r, span);
    }
    return status;
}

/* ---- opening and closing ---- */

static int load_part(struct part *p, const char *directory, uint32_t id, const char *name, const char *end) {
    char *path = ct_file_path("%s/thread_%u/%s%s", directory, id, name, end);
    int error = path ? ct_file_load(path, CT_SWITCHES_LIMIT, (char **)&p->bytes, &p->size) : ENOMEM;
    free(path);
    if (error)
        return error == ENOENT ? CT_ERR_NOT_FOUND : ct_file_status(error);
    if (p->size < sizeof p->header)
        return 0; /* the recorder was killed right after creating it */
    memcpy(&p->header, p->bytes, sizeof p->header);
    return p->header.magic == CT_SWITCHES_MAGIC && p->header.version == CT_SWITCHES_VERSION ? 0 : CT_ERR_BAD_FILE;
}

int ct_switches_reader_open(struct ct_switches_reader **out, const char *directory, uint32_t id) {
    return ct_switches_reader_open_as(out, directory, id, CT_SWITCHES_FILE);
}

int ct_switches_reader_open_as(struct ct_switches_reader **out, const char *directory, uint32_t id, const char *name) {
    struct ct_switches_reader *r = *out = calloc(1, sizeof *r);
    if (!r)
        return CT_ERR_NO_MEMORY;
    r->name = name;
    int status = load_part(&r->parts[PARTS - 1], directory, id, name, ends[PARTS - 1]);
    int old = status ? status : load_part(&r->parts[0], directory, id, name, ends[0]);
    if (!status && old != CT_ERR_NOT_FOUND)
        status = old;
    if (status) {
        ct_switches_reader_close(r);
        *out = NULL;
        return status;
    }
    begin_part(r, r->parts[0].bytes ? 0 : PARTS - 1);
    return 0;
}

uint64_t ct_switches_reader_begins(const struct ct_switches_reader *r) {
    return r->parts[r->parts[0].bytes ? 0 : PARTS - 1].header.begins_ns;
}

const char *ct_switches_reader_problem(const struct ct_switches_reader *r) {
    return r->problem;
}

bool ct_switches_reader_finished(const struct ct_switches_reader *r) {
    return r->part == PARTS - 1 && r->finished;
}

void ct_switches_reader_close(struct ct_switches_reader *r) {
    if (!r)
        return;
    for (unsigned i = 0; i < PARTS; i++)
        free(r->parts[i].bytes);
    free(r);
}
