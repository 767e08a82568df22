/* SPDX-License-Identifier: Apache-2.0 */
/* Places for tests that know directories by their paths. */
#ifndef CT_TESTS_PLACE_OF_H
#define CT_TESTS_PLACE_OF_H

#include "trace/place.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A directory that is there. Stays open, so that writers which need many files share it; one that was replaced is
 * opened again. */
static inline struct ct_place *place_of(const char *path) {
    static struct known {
        struct known *next;
        struct ct_place *place;
        dev_t device;
        ino_t inode;
        char path[4096];
    } * all;
    struct known *k = all;
    struct stat status = {0};
    bool there = stat(path, &status) == 0;
    while (k && strcmp(k->path, path))
        k = k->next;
    if (k && there && k->device == status.st_dev && k->inode == status.st_ino)
        return k->place;
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k || strlen(path) >= sizeof k->path)
            abort();
        strcpy(k->path, path);
        k->next = all;
        all = k;
    }
    ct_place_drop(k->place);
    k->device = status.st_dev;
    k->inode = status.st_ino;
    if (ct_place_open(&k->place, path, 0, CT_PLACE_NO_GROUP)) {
        fprintf(stderr, "%s cannot be opened\n", path);
        abort();
    }
    return k->place;
}

#endif
