/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that users give in percent: "10%", "2.5 %", "3". */
#ifndef CT_BASE_PERCENT_H
#define CT_BASE_PERCENT_H

#include <stdbool.h>

/* Hundredths of a percent, from 10 (0.1%) to 100,000 (1000%); "off" is 0. False: none of these. */
bool ct_percent_parse(const char *text, unsigned *out);

#endif
