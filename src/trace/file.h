/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a trace: writes without torn ends or fatal signals, and keeps thousands of files on a few descriptors. */
#ifndef CT_TRACE_FILE_H
#define CT_TRACE_FILE_H

#include "trace/place.h"
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* The status that an errno means. */
int ct_file_status(int error);
/* Explains to the user why a trace could not be written, and what helps. */
const char *ct_file_why(int status, const char **remedy);

/* Writes all bytes at `offset`. Returns 0 or an errno; `done` receives the number of bytes written. Never raises
 * SIGXFSZ: checks the file-size limit first and writes up to `margin` bytes below it (EFBIG then). */
int ct_file_write(int fd, const void *data, size_t size, uint64_t offset, size_t margin, size_t *done);

/* Reads up to `size` bytes, less only at the end of the file. Returns 0 or an errno. */
int ct_file_read(int fd, void *data, size_t size, uint64_t offset, size_t *done);

/* A file that is open only while there are descriptors to spare. */
struct ct_file {
    struct ct_place *place; /* held; NULL: the path is complete */
    char *path;             /* malloc'ed, owned; within the place */
    struct ct_file_cache *cache;
    struct ct_file *older, *newer; /* in the cache's list; only while open and not in use */
    int fd;                        /* -1: closed at the moment */
    int flags;                     /* for opening it again */
    int error;                     /* from closing it to free a descriptor; the next use or close reports it */
};

/* Keeps at most `limit` of its files open and closes the least recently used ones. Any thread. */
struct ct_file_cache {
    pthread_mutex_t lock;
    struct ct_file *oldest, *newest;
    size_t open, limit; /* limit 0: CT_FILE_CACHE_OPEN, or half of the process's descriptor limit if that is less */
    uint64_t unpacked;  /* blocks of packed files that readers have unpacked; atomic */
};
#define CT_FILE_CACHE_OPEN 512

/* Takes ownership of `path`, also on failure. `place`: the directory that holds it, for files that are written; NULL:
 * the path is complete. `flags` are those of open(2); O_CREAT, O_EXCL and O_TRUNC count only the first time. Returns 0
 * or an errno; on success the file is in use, as after ct_file_use. */
int ct_file_open(struct ct_file *file, struct ct_file_cache *cache, struct ct_place *place, char *path, int flags);
/* Opens the file again if necessary: it has a descriptor until ct_file_rest. Returns 0 or an errno. */
int ct_file_use(struct ct_file *file);
void ct_file_rest(struct ct_file *file);
/* Returns 0 or close's errno: some file systems report a full disk only now. The file must not be in use. */
int ct_file_close(struct ct_file *file);
/* Closes one file of the cache, to free a descriptor for other uses. 0: there was none. */
int ct_file_cache_shrink(struct ct_file_cache *cache);

/* The cache of all files that are written. */
extern struct ct_file_cache ct_file_writers;

/* Opens a file outside the caches; closes cached ones when descriptors run out. Returns a descriptor or a negated
 * errno. */
int ct_file_open_plain(const char *path, int flags);
/* Like ct_file_open_plain, within a place. */
int ct_file_open_in(struct ct_place *place, const char *name, int flags);
/* Creates a file that will replace another one. Deletes one that was left half written. */
int ct_file_open_fresh(struct ct_place *place, const char *name);
/* Loads a whole file and adds a NUL, malloc'ed. At most `limit` bytes (EFBIG). Returns 0 or an errno. */
int ct_file_load(const char *path, size_t limit, char **text, size_t *size);

/* printf into malloc'ed memory, NULL when there is none. */
char *ct_file_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Creates thread_ID in a process's directory if necessary; *name is malloc'ed. Returns 0 or an errno. */
int ct_file_thread_directory(struct ct_place *process, uint32_t id, char **name);

#endif
