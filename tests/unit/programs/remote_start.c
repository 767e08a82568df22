/* SPDX-License-Identifier: Apache-2.0 */
/* Tells when its first constructor runs: writes a line to descriptor 3 there and another one in main. Exit code 42.
 * With an argument: kills itself with SIGTERM. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void say(const char *text) {
    if (write(3, text, strlen(text)) < 0)
        _exit(1);
}

__attribute__((constructor)) static void begin(void) {
    say("constructor\n");
}

int main(int argc, char **argv) {
    (void)argv;
    say("main\n");
    if (argc > 1)
        raise(SIGTERM);
    return 42;
}
