/* SPDX-License-Identifier: Apache-2.0 */
/* The table of blocks of a recorded process: see table.c. */
#ifndef CT_AGENT_TABLE_H
#define CT_AGENT_TABLE_H

#include "abi/boot_abi.h"
#include "hook/runtime.h"

/* Called before the first block is made. Stores in boot what the shared code must know. */
int ct_table_open(struct ct_runtime *rt, struct ct_boot *boot);
/* From now on no stub uses GS. */
void ct_table_switch(void);

#endif
