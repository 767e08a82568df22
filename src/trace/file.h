/* Files of a trace: writing without torn ends or deadly signals, and thousands of files on a few descriptors. */
#ifndef CT_TRACE_FILE_H
#define CT_TRACE_FILE_H

#include "trace/place.h"
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* What an errno means to our caller. */
int ct_file_status(int error);
/* Why a trace could not be written, for the user; and what helps. */
const char *ct_file_why(int status, const char **remedy);

/* Writes all of it at `offset`. Returns 0 or an errno; `done` tells how much got there. Never raises SIGXFSZ: it looks at
 * the file-size limit first and writes up to `margin` bytes below it (EFBIG then). */
int ct_file_write(int fd, const void *data, size_t size, uint64_t offset, size_t margin, size_t *done);

/* Reads up to `size` bytes, less only at the end of the file. Returns 0 or an errno. */
int ct_file_read(int fd, void *data, size_t size, uint64_t offset, size_t *done);

/* A file that is open only while there are descriptors to spare. */
struct ct_file {
    struct ct_place *place; /* held; NULL: the path is as it is */
    char *path;             /* malloc'ed, owned; in the place */
    struct ct_file_cache *cache;
    struct ct_file *older, *newer; /* in the cache's list; only while open and not in use */
    int fd;                        /* -1: closed at the moment */
    int flags;                     /* for opening it again */
    int error;                     /* what closing it for others' sake came to; told by the next use or close */
};

/* Keeps at most `limit` of its files open and closes those not used for longest. Any thread. */
struct ct_file_cache {
    pthread_mutex_t lock;
    struct ct_file *oldest, *newest;
    size_t open, limit; /* limit 0: CT_FILE_CACHE_OPEN, or half of what the process may have if that is less */
};
#define CT_FILE_CACHE_OPEN 512

/* Takes `path` over, also on failure. `place`: where it is, for what is written; NULL: the path is as it is. `flags` of open(2),
 * O_CREAT, O_EXCL and O_TRUNC being for the first time only.
 * Returns 0 or an errno; on success the file is in use, as after ct_file_use. */
int ct_file_open(struct ct_file *file, struct ct_file_cache *cache, struct ct_place *place, char *path, int flags);
/* Opens it again where needed: it has a descriptor until ct_file_rest. Returns 0 or an errno. */
int ct_file_use(struct ct_file *file);
void ct_file_rest(struct ct_file *file);
/* Returns 0 or close's errno: some file systems tell of a full disk only now. Not in use. */
int ct_file_close(struct ct_file *file);
/* Closes one file of the cache, to make room for a descriptor of another kind. 0: there was none. */
int ct_file_cache_shrink(struct ct_file_cache *cache);

/* The cache of everything that is written. */
extern struct ct_file_cache ct_file_writers;

/* Opens a file of another kind; closes cached ones when descriptors run out. Returns it or a negated errno. */
int ct_file_open_plain(const char *path, int flags);
/* The same in a place. */
int ct_file_open_in(struct ct_place *place, const char *name, int flags);
/* A new file that is to take the place of another; one that somebody left half written goes. */
int ct_file_open_fresh(struct ct_place *place, const char *name);
/* All of a file, with a NUL behind it, malloc'ed. At most `limit` bytes (EFBIG). Returns 0 or an errno. */
int ct_file_load(const char *path, size_t limit, char **text, size_t *size);

/* printf into malloc'ed memory, NULL when there is none. */
char *ct_file_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes thread_ID in a process's directory, if it is not there; its name, malloc'ed. Returns 0 or an errno. */
int ct_file_thread_directory(struct ct_place *process, uint32_t id, char **name);

#endif
