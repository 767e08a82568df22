/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of traces of one process: a fresh directory for each test, and the name of the process's directory in
 * it. */
#ifndef CT_TESTS_PROCESS_UTIL_H
#define CT_TESTS_PROCESS_UTIL_H

extern char root[200], directory[300]; /* `directory` is not made */

/* Fixtures of cmocka. */
int setup(void **unused);
int teardown(void **unused);

#endif
