/* Where another process has its root directory, for files that belong to its modules. */
#ifndef CT_PLAN_DEBUG_ROOT_H
#define CT_PLAN_DEBUG_ROOT_H

#define CT_DEBUG_ROOT_TEXT 32
/* A path in `text`, or NULL when it is our root too (or cannot be told). */
const char *ct_debug_root(int pid, char text[CT_DEBUG_ROOT_TEXT]);

#endif
