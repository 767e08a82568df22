/* SPDX-License-Identifier: Apache-2.0 */
/* The word that was probably meant: see closest.h. */
#include "base/closest.h"
#include <string.h>

/* Number of edits (insert, delete, change, swap of neighbours) that turn one word into the other. Long words have the
 * largest distance. */
static unsigned edit_distance(const char *a, const char *b) {
    enum { LONGEST = 63 };
    unsigned row[3][LONGEST + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > LONGEST || n > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= n; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= m; i++) {
        unsigned *now = row[i % 3], *last = row[(i - 1) % 3], *before = row[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[m % 3][n];
}

const char *ct_closest_name(const char *word, const char *(*name)(const void *arg, size_t i), const void *arg,
                            size_t count) {
    const char *best = NULL;
    size_t length = strlen(word);
    unsigned least = (unsigned)(length > 8 ? 4 : (length + 1) / 2); /* a word with more edits is another word */
    if (length < 2)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const char *candidate = name(arg, i);
        unsigned distance = edit_distance(word, candidate);
        if (length >= 3 && !strncmp(word, candidate, length))
            distance = 0; /* an abbreviation */
        if (distance < least || (distance == least && !best)) {
            best = candidate;
            least = distance;
        }
    }
    return best;
}
