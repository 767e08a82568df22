/* See stalk_tables.h. */
#include "cli/stalk_tables.h"
int ct_stalk_tables_show(const char *directory, const struct ct_stalk_wishes *wishes) {
    (void)directory;
    (void)wishes;
    return 0;
}
