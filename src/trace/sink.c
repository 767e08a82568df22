/* SPDX-License-Identifier: Apache-2.0 */
/* What raw and packed files share. */
#include "trace/sink.h"
#include "trace/file.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ct_sink_path(const char *directory, const char *suffix, unsigned number, bool segmented) {
    if (segmented)
        return ct_file_path("%s/index_%06u.%s", directory, number, suffix);
    if (number > 1)
        return ct_file_path("%s/index_%u.%s", directory, number, suffix);
    return ct_file_path("%s/index.%s", directory, suffix);
}

bool ct_sink_has_detail(struct ct_place *place, const char *directory) {
    DIR *dir = ct_place_list(place, directory);
    struct dirent *entry;
    bool found = false;
    while (dir && !found && (entry = readdir(dir)))
        found = strncmp(entry->d_name, "detail", sizeof "detail" - 1) == 0;
    if (dir)
        closedir(dir);
    return found;
}

static int by_position(const void *a, const void *b) {
    const struct ct_link *x = a, *y = b;
    return (x->index_seq > y->index_seq) - (x->index_seq < y->index_seq);
}

void ct_links_sort(struct ct_link *links, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (links[i].index_seq < links[i - 1].index_seq) {
            qsort(links, count, sizeof *links, by_position);
            return;
        }
}
