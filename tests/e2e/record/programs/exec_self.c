/* SPDX-License-Identifier: Apache-2.0 */
/* Executes itself: what was recorded stays, the new program runs untraced and its end is the end. */
#include "zoo.h"
#include <string.h>

ZOO_GATES

static FN void before(void) {
    puts("before");
    fflush(stdout);
}

static FN void replace(char **argv) {
    unsetenv("E2E_WAIT");
    execv("/proc/self/exe", (char *[]){argv[0], "again", NULL});
    perror("execv");
    _exit(1);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("%s\n", argv[1]);
        return 9;
    }
    wait_for_start();
    before();
    replace(argv);
}
