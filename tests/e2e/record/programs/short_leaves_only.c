/* SPDX-License-Identifier: Apache-2.0 */
/* short_leaves, of which only the leaves are recorded: the function that has their springboards is not hooked. */
#include "short_leaves.c"
