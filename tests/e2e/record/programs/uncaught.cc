/* SPDX-License-Identifier: Apache-2.0 */
/* Dies of an exception that nobody catches. */
#include "zoo.h"
#include <stdexcept>
#include <sys/resource.h>

ZOO_GATES

extern "C" {
static FN void innermost(void) {
    throw std::runtime_error("nobody catches this");
}

static FN void outer(void) {
    innermost();
    BARRIER();
}
}

int main() {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    puts("before");
    fflush(stdout);
    wait_for_start();
    outer();
    return 0;
}
