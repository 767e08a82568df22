/* SPDX-License-Identifier: Apache-2.0 */
/* The root directory of another process: the files of its modules are below it. */
#ifndef CT_PLAN_DEBUG_ROOT_H
#define CT_PLAN_DEBUG_ROOT_H

#define CT_DEBUG_ROOT_TEXT 32
/* Returns a path in `text`, or NULL if the root is ours too, or is unknown. */
const char *ct_debug_root(int pid, char text[CT_DEBUG_ROOT_TEXT]);

#endif
