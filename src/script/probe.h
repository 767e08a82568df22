/* SPDX-License-Identifier: Apache-2.0 */
/* C of the user in a process that we record (contrail spawn --probe FILE.c): listeners that run on the program's
 * threads at native speed. bindings/node/include/contrail/probe.h is what the user writes against.
 *
 * Owner: one thread. The recorder takes the code out with its own hooks. */
#ifndef CT_SCRIPT_PROBE_H_
#define CT_SCRIPT_PROBE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_remote;

/* A file that was compiled. */
struct ct_probe_code {
    const char *file; /* the caller's */
    uint8_t *bytes;   /* object file */
    size_t size;
    char *words; /* of the compiler, when it refuses the file; else NULL */
};
/* `include`: folder with our headers. CT_ERR_UNSUPPORTED: there is no compiler. CT_ERR_BAD_FILE: it does not compile.
 * `error` gets a sentence. */
int ct_probe_compile(struct ct_probe_code *out, const char *file, const char *include, char *error, size_t error_size);
/* The machine's own options of the compiler (probe_<isa>.c); a NULL ends them. */
enum { CT_PROBE_OPTIONS = 4 };
extern const char *const ct_probe_options[CT_PROBE_OPTIONS];
void ct_probe_code_free(struct ct_probe_code *code);

struct ct_probes;
/* Loads the code into the recorded process, which is stopped, and connects it with the functions that it names.
 * CT_ERR_NOT_FOUND: a name fits no function that is recorded. */
int ct_probes_begin(struct ct_probes **out, struct ct_remote *remote, const struct ct_probe_code *codes, size_t count,
                    char *error, size_t error_size);
/* Functions that have listeners. */
size_t ct_probes_functions(const struct ct_probes *p);
/* Counters by index; NULL: there are no more. */
const char *ct_probes_counter(struct ct_probes *p, size_t index, uint64_t *value);
void ct_probes_end(struct ct_probes *p);

#endif
