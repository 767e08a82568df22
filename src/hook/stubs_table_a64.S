/* SPDX-License-Identifier: Apache-2.0 */
/* The code that all stubs share, for processes where the word at the thread pointer is taken: see stubs_a64.S. */
#define CT_BLOCKS_IN_TABLE
#include "hook/stubs_a64.S"
