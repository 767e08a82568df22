/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the page (viewer/), which are part of the program: embed.py makes the list. */
#ifndef CT_VIEW_FILES_H
#define CT_VIEW_FILES_H

#include <stddef.h>

struct ct_view_file {
    const char *name; /* "index.html"; NULL after the last one */
    const char *bytes, *end;
};

extern const struct ct_view_file ct_view_files[];

#endif
