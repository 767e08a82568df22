/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a library for a while, whose file may be replaced meanwhile. */
#include "zoo.h"

ZOO_GATES

int from_library(int x);

int main(void) {
    int x = 0;
    wait_for_start();
    for (int i = 0; i < 1000; i++)
        x = from_library(x);
    puts(x == 1000 ? "right" : "wrong");
    return x != 1000;
}
