/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts are refused on arm64 so far. */
#include "script/script_object.h"
#include <contrail/status.h>

int ct_object_fix(struct ct_object_image *image, const struct ct_object_fix *fix) {
    (void)image, (void)fix;
    return CT_ERR_UNSUPPORTED;
}
