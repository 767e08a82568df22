/* SPDX-License-Identifier: Apache-2.0 */
/* The code that all stubs share, for processes that are recorded: see stubs_x64.S. */
#define CT_BLOCKS_IN_TABLE
#include "hook/stubs_x64.S"
