/* SPDX-License-Identifier: Apache-2.0 */
/* What `contrail stalk` prints besides the trace: calls by function, coverage, listings. Read from the tables in the
 * directories of a session's processes (docs/TRACE-FORMAT.md: calls, blocks). */
#ifndef CT_CLI_STALK_TABLES_H
#define CT_CLI_STALK_TABLES_H

#include <stdbool.h>

struct ct_stalk_wishes {
    bool summary, disasm;
    const char *coverage; /* file; NULL: none */
};
/* `directory`: that of the first process. 0, or non-zero after a message. */
int ct_stalk_tables_show(const char *directory, const struct ct_stalk_wishes *wishes);

#endif
