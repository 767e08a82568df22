/* SPDX-License-Identifier: Apache-2.0 */
/* Places for tests that know directories by their paths. */
#ifndef CT_TESTS_PLACE_OF_H
#define CT_TESTS_PLACE_OF_H

#include "trace/place.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A directory that is there, for any thread. Stays open, so that writers which need many files share it; one that was
 * replaced is opened again. */
static inline struct ct_place *place_of(const char *path) {
    static struct known {
        struct known *next;
        struct ct_place *place;
        dev_t device;
        ino_t inode;
        char path[4096];
    } * all;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct stat status = {0};
    pthread_mutex_lock(&lock);
    struct known *k = all;
    bool there = stat(path, &status) == 0;
    while (k && strcmp(k->path, path))
        k = k->next;
    bool is_open = k && there && k->device == status.st_dev && k->inode == status.st_ino;
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k || strlen(path) >= sizeof k->path)
            abort();
        strcpy(k->path, path);
        k->next = all;
        all = k;
    }
    if (!is_open) {
        ct_place_drop(k->place);
        k->device = status.st_dev;
        k->inode = status.st_ino;
        if (ct_place_open(&k->place, path, 0, CT_PLACE_NO_GROUP)) {
            fprintf(stderr, "%s cannot be opened\n", path);
            abort();
        }
    }
    struct ct_place *place = k->place;
    pthread_mutex_unlock(&lock);
    return place;
}

#endif
