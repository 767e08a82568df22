/* SPDX-License-Identifier: Apache-2.0 */
/* Processes made in every way that there is: posix_spawn, system, popen, vfork, clone, exec, with what they leave
 * behind. Its output is compared with that of a run that nobody follows. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <errno.h>
#include <sched.h>
extern char **environ;
static volatile int got;
static void h(int s) {
    got++;
}
static int childfn(void *a) {
    printf("clone child %s\n", (char *)a);
    fflush(stdout);
    return 7;
}
int main() {
    signal(SIGUSR1, h);
    pid_t p;
    int st;
    char *a[] = {"/nonexistent", 0};
    int r = posix_spawn(&p, a[0], 0, 0, a, environ);
    printf("spawn %d %s\n", r, strerror(r));
    char *b[] = {"true", 0};
    r = posix_spawnp(&p, b[0], 0, 0, b, environ);
    waitpid(p, &st, 0);
    printf("spawnp %d %x\n", r, st);
    char *e[] = {"sh", "-c", "exit 9", 0};
    r = posix_spawnp(&p, e[0], 0, 0, e, environ);
    waitpid(p, &st, 0);
    printf("spawnp %d %x\n", r, st);
    raise(SIGUSR1);
    printf("got %d\n", got);
    st = system("kill -9 $$");
    printf("system %x\n", st);
    st = system("exit 4");
    printf("system %x\n", st);
    fflush(stdout);
    p = vfork();
    if (!p) {
        signal(SIGUSR1, SIG_DFL);
        execl("/nope", "nope", (char *)0);
        _exit(errno == ENOENT ? 12 : 13);
    }
    waitpid(p, &st, 0);
    printf("vfork %x\n", st);
    raise(SIGUSR1);
    printf("got %d\n", got);
    p = vfork();
    if (!p) {
        raise(SIGSEGV);
        _exit(1);
    }
    waitpid(p, &st, 0);
    printf("vfork segv %x\n", st);
    FILE *f = popen("echo from popen", "r");
    char buf[99];
    fgets(buf, 99, f);
    printf("%s %d\n", buf, pclose(f));
    fflush(stdout);
    char *stk = malloc(1 << 16);
    p = clone(childfn, stk + (1 << 16), SIGCHLD, "x");
    waitpid(p, &st, 0);
    printf("clone %x\n", st);
    p = fork();
    if (!p) {
        execlp("echo", "echo", "forked exec", (char *)0);
    }
    waitpid(p, &st, 0);
    printf("fork %x\n", st);
    p = fork();
    if (!p)
        abort();
    waitpid(p, &st, 0);
    printf("fork abort %x\n", st);
    fflush(stdout);
    execlp("sh", "sh", "-c", "echo last; exit 21", (char *)0);
}
