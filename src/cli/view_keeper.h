/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the levels of root's traces. The server reads those as nobody, who may not write: so a second process makes the
 * files beforehand, and names those that the server says are complete (beside.h). */
#ifndef CT_CLI_VIEW_KEEPER_H
#define CT_CLI_VIEW_KEEPER_H

struct ct_view_keep;
struct ct_view_keeper;

/* Before rights are given up. NULL: no trace has threads whose levels could be kept, or there is no memory. */
struct ct_view_keeper *ct_view_keeper_start(const char *const *traces, int count);
/* What the server is given; NULL for NULL. */
const struct ct_view_keep *ct_view_keeper_keep(struct ct_view_keeper *keeper);
/* Waits until files that are not complete are gone. */
void ct_view_keeper_end(struct ct_view_keeper *keeper);

#endif
