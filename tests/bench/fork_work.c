/* SPDX-License-Identifier: Apache-2.0 */
/* fork_work COUNT [PROGRAM]: makes children one after the other; they end at once, or execute PROGRAM. For
 * bench_forks. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char *program) {
    pid_t child = fork();
    int status;
    if (child == 0) {
        if (program)
            execl(program, program, (char *)NULL);
        _exit(program ? 1 : 0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || status;
}

int main(int argc, char **argv) {
    int bad = 0;
    for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
        bad |= run(argc > 2 ? argv[2] : NULL);
    return bad;
}
