/* SPDX-License-Identifier: Apache-2.0 */
/* See percent.h. */
#include "base/percent.h"
#include <stdlib.h>
#include <string.h>

#define LEAST 0.1
#define MOST  1000

bool ct_percent_parse(const char *text, unsigned *out) {
    char *end;
    if (!strcmp(text, "off")) {
        *out = 0;
        return true;
    }
    double percent = *text >= '0' && *text <= '9' ? strtod(text, &end) : -1;
    if (percent < LEAST || percent > MOST)
        return false;
    end += *end == ' ';
    if (strcmp(end, "%") != 0 && *end)
        return false;
    *out = (unsigned)(percent * 100 + 0.5);
    return true;
}
