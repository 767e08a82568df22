/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the addon: each adds its functions to the exports. What they take and give is described with the
 * functions; lib/ of the package is their only caller. */
#ifndef CT_NODE_ADDON_H
#define CT_NODE_ADDON_H

#include "value.h"

void ct_node_add_code(napi_env env, napi_value exports);   /* code.c: instructions */
void ct_node_add_trace(napi_env env, napi_value exports);  /* trace.c: questions to traces */
void ct_node_add_target(napi_env env, napi_value exports); /* target.c: processes */

#endif
