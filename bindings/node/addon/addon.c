/* SPDX-License-Identifier: Apache-2.0 */
/* The addon of the npm package: N-API 8, so one build serves Node 18 and newer. */
#include "addon.h"

#include <contrail/contrail.h>

static void add_all(napi_env env, napi_value exports) {
    ct_node_add_code(env, exports);
    ct_node_add_trace(env, exports);
    ct_node_add_target(env, exports);
    ct_node_set(env, exports, "version", ct_node_text(env, ct_version()));
}

/* Node looks for these two by name. */
__attribute__((visibility("default"))) int32_t node_api_module_get_api_version_v1(void);
__attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env, napi_value exports);

int32_t node_api_module_get_api_version_v1(void) {
    return NAPI_VERSION;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
    add_all(env, exports);
    return exports;
}
