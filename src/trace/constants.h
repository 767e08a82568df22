/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a program cannot change: bytes of its modules' read-only segments, from their files. With them, pointers
 * to texts in the program itself are shown as texts, although the texts were not recorded. And names of variables. Uses
 * only files with the build-id that the trace has. One owner. */
#ifndef CT_TRACE_CONSTANTS_H
#define CT_TRACE_CONSTANTS_H

#include "symbols/lookup.h"
#include <contrail/trace.h>

struct ct_constants;
struct ct_constants *ct_constants_open(struct ct_trace *trace, struct ct_lookup *lookup); /* NULL: out of memory */
void ct_constants_close(struct ct_constants *constants);
/* Bytes at an address of a process, up to the end of their segment; NULL: not known, or they may have changed. */
const uint8_t *ct_constants_at(struct ct_constants *constants, size_t process, uint64_t address, size_t *have);
/* The name of the variable at an address ("name", "name+8", or "module+0xoffset" when the file or its symbols are not
 * there); "": in no module, or in more than one. */
void ct_constants_name(struct ct_constants *constants, size_t process, uint64_t address, char *text, size_t size);

#endif
