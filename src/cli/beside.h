/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are kept beside the events of a thread, made by a reader that has given up the rights to do so.
 *
 * A trace holds what the target wrote, and we may be root: so there are two processes (docs/TRUST.md, "Readers"). One
 * creates the files, in directories that are its own and closed to others, gives them their names when they are
 * complete, and reads nothing. The other one reads the trace, has no rights, and writes to the descriptors. */
#ifndef CT_CLI_BESIDE_H
#define CT_CLI_BESIDE_H

#include <stddef.h>
#include <stdint.h>

enum { CT_BESIDE_THREADS = 64 }; /* of a trace */

struct ct_place;

struct ct_beside {
    struct ct_beside_file {
        struct ct_place *place; /* the thread's directory; NULL: the file is finished */
        char process[256];      /* name of its process's directory */
        uint32_t id;
        int fd;
    } files[CT_BESIDE_THREADS];
    size_t count;
    const char *name;
    char fresh[64]; /* what it is called until it is complete */
};

/* Creates files for the threads of a session, or of one process of it, whose index files have at least so many bytes.
 * Those that cannot be created are left out. */
void ct_beside_make(struct ct_beside *beside, const char *trace, const char *name, uint64_t least_bytes);
/* The file of a thread; NULL: it has none. `process`: its process's directory. */
struct ct_beside_file *ct_beside_find(struct ct_beside *beside, const char *process, uint32_t id);
/* Gives a file its name. */
void ct_beside_keep(struct ct_beside *beside, struct ct_beside_file *file);
/* Removes those that were not kept. */
void ct_beside_end(struct ct_beside *beside);

#endif
