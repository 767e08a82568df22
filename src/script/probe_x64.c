/* SPDX-License-Identifier: Apache-2.0 */
/* See probe.h. */
#include "script/probe.h"

const char *const ct_probe_options[CT_PROBE_OPTIONS] = {"-mcmodel=large", "-mno-red-zone", "-fcf-protection=none"};
