/* SPDX-License-Identifier: Apache-2.0 */
/* Where the drain's time goes: see drain_stages.c. */
#ifndef DRAIN_STAGES_H
#define DRAIN_STAGES_H

/* Measures with events of made-up programs, or of the raw index files (--format atf2) in `paths`. */
void measure_stages(char *const *paths, int count);

#endif
