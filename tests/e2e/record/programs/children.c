/* SPDX-License-Identifier: Apache-2.0 */
/* fork, vfork, posix_spawn and system, from main and from a thread; children that go on in inherited frames, outlive
 * their parent's calls, and have children themselves. */
#include "zoo.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

ZOO_GATES

extern char **environ;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN int forks(int depth) {
    pid_t child = fork();
    if (child == 0) {
        long x = 0;
        for (int i = 0; i < 1000; i++)
            x = leaf(x);
        int status = depth ? forks(depth - 1) : 0;
        exit(x == 1000 && status == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    leaf(0);
    return status;
}

/* The child returns from the function that forked. */
static FN pid_t returns_twice(void) {
    pid_t child = fork();
    BARRIER();
    return child;
}

static FN int spawns(void) {
    pid_t child;
    int status = -1;
    char *argv[] = {"true", NULL};
    if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) == 0)
        waitpid(child, &status, 0);
    leaf(0);
    return status;
}

static FN int vforks(void) {
    int status = -1;
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    leaf(0);
    return status;
}

static FN int runs_shell(void) {
    int status = system("exit 3");
    leaf(0);
    return WEXITSTATUS(status);
}

static FN void *in_thread(void *arg) {
    CHECK(forks(0) == 0);
    CHECK(spawns() == 0);
    CHECK(vforks() == 0);
    return arg;
}

int main(void) {
    pthread_t thread;
    wait_for_start();
    CHECK(forks(2) == 0);
    CHECK(spawns() == 0);
    CHECK(vforks() == 0);
    CHECK(runs_shell() == 3);
    pid_t child = returns_twice();
    if (child == 0) {
        leaf(0);
        exit(11);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 11);
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    printf("done\n");
    wait_for_end();
    return zoo_failures;
}
