/* SPDX-License-Identifier: Apache-2.0 */
/* The version, from the build. */
#include <contrail/contrail.h>

const char *ct_version(void) {
    return CT_VERSION;
}
