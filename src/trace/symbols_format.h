/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the `symbols` file, shared by its writer and its reader. */
#ifndef CT_TRACE_SYMBOLS_FORMAT_H
#define CT_TRACE_SYMBOLS_FORMAT_H

#define CT_SYMBOLS_FILE  "symbols"
#define CT_SYMBOLS_MAGIC "contrail-symbols\t1\t" /* the number is the version */
/* Lines of functions begin with a hexadecimal digit; these are the names of their columns. */
#define CT_SYMBOLS_FIRST_LINE                                                                                          \
    CT_SYMBOLS_MAGIC "function_id(hex)\toffset(hex)\tsize(hex)\tname\tskip\tentry_only\tfile:line"
#define CT_SYMBOLS_MODULE "module" /* id(hex), base(hex), build_id, path */
#define CT_SYMBOLS_END    "total"  /* number of functions before it (hex) */
/* In the column after those of `contrail symbolize`: no table has the function. */
#define CT_SYMBOLS_GUESSED "guessed"

#endif
