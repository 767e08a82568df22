/* SPDX-License-Identifier: Apache-2.0 */
#include "zoo.h"

int from_library(int x);

FN int from_library(int x) {
    for (int i = 0; i < 10; i++) /* long enough for a hook */
        BARRIER();
    return x + 1;
}
