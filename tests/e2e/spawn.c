/* SPDX-License-Identifier: Apache-2.0 */
/* vfork and exec, posix_spawn, system and popen, called from hooked functions, and hooked themselves.
 *
 * An engine can go wrong here because the child of vfork runs on its parent's stack and thread state: what it calls
 * must not disturb the frames that its parent will return through. */
#include "harness.h"
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static E2E_FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

static E2E_FN int wait_for(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    E2E_BARRIER();
    return status;
}

static E2E_FN int vforker(const char *code) {
    leaf(0);
    pid_t pid = vfork();
    if (pid == 0) {
        leaf(1); /* in the child, on our stack */
        execl("/bin/sh", "sh", "-c", code, (char *)NULL);
        _exit(99);
    }
    leaf(2);
    return wait_for(pid);
}

static E2E_FN int vfork_exit(int code) {
    pid_t pid = vfork();
    if (pid == 0)
        _exit(leaf(code));
    return wait_for(pid);
}

static E2E_FN int spawner(const char *code) {
    char *arguments[] = {"sh", "-c", (char *)(uintptr_t)code, NULL};
    pid_t pid;
    leaf(0);
    if (posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ) != 0)
        return -1;
    leaf(1);
    return wait_for(pid);
}

static E2E_FN int systemer(const char *code) {
    int status = system(code);
    leaf(0);
    return status;
}

static E2E_FN int popener(const char *code, char *text, size_t size) {
    FILE *f = popen(code, "r");
    if (!f)
        return -1;
    size_t got = fread(text, 1, size - 1, f);
    text[got] = 0;
    leaf(0);
    return pclose(f);
}

static void run_all(void) {
    char text[64];
    E2E_EQUAL(WEXITSTATUS(vforker("exit 3")), 3);
    E2E_EQUAL(WEXITSTATUS(vfork_exit(4)), 5);
    E2E_EQUAL(WEXITSTATUS(spawner("exit 5")), 5);
    E2E_EQUAL(WEXITSTATUS(systemer("exit 6")), 6);
    E2E_EQUAL(WEXITSTATUS(popener("echo hello; exit 7", text, sizeof text)), 7);
    E2E_CHECK(strcmp(text, "hello\n") == 0);
}

/* The vfork child runs on its parent's thread until exec; whether its own calls appear there is open, but when they
 * do, they are complete and in their place. */
#define REST "spawner(leaf()*2 wait_for()) systemer(leaf()) popener(leaf())"

static void check_tree(const char *with_child, const char *without_child) {
    if (e2e_plain())
        return;
    bool child_seen = strstr(e2e_tree(0), "leaf()*3") || strstr(e2e_tree(0), "vfork; leaf()*2");
    E2E_EXPECT(child_seen ? with_child : without_child);
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_RECORD(leaf);
    E2E_RECORD(wait_for);
    E2E_RECORD(vforker);
    E2E_RECORD(vfork_exit);
    E2E_RECORD(spawner);
    E2E_RECORD(systemer);
    E2E_RECORD(popener);
    run_all();
    check_tree("vforker(leaf()*3 wait_for()) vfork_exit(leaf() wait_for())" REST,
               "vforker(leaf()*2 wait_for()) vfork_exit(wait_for())" REST);
    e2e_record("vfork", (void *)vfork);
    e2e_record("posix_spawn", (void *)posix_spawn);
    e2e_record("system", (void *)system);
    e2e_record("popen", (void *)popen);
    run_all();
#define REST_HOOKED                                                                                                    \
    "spawner(leaf() posix_spawn() leaf() wait_for()) systemer(system(posix_spawn()) leaf())"                           \
    "popener(popen(posix_spawn()) leaf())"
    check_tree("vforker(leaf() vfork; leaf()*2 wait_for()) vfork_exit(vfork; leaf() wait_for())" REST_HOOKED,
               "vforker(leaf() vfork; leaf() wait_for()) vfork_exit(vfork; wait_for())" REST_HOOKED);
    return e2e_end();
}
