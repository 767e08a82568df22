/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that end in the middle of hooked frames: an exception that nobody catches, one out of a noexcept function,
 * abort, exit and _exit. The parent looks at how the child ended, hooked and not. */
#include "harness.h"
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FN extern "C" E2E_FN __attribute__((visibility("hidden")))

static void say(const char *text) {
    ssize_t written = write(1, text, strlen(text));
    (void)written;
}

struct loud {
    ~loud() {
        say("destructor ");
    }
};

FN void innermost(int how) {
    loud l;
    if (how <= 2)
        throw how;
    if (how == 3)
        abort();
    if (how == 4)
        exit(44);
    if (how == 5)
        _exit(55);
    if (how == 6)
        quick_exit(66);
    std::terminate();
}

FN void middle(int how) {
    innermost(how);
    E2E_BARRIER();
}

FN void never_throws(int how) noexcept {
    middle(how);
    E2E_BARRIER();
}

FN void outermost(int how) {
    if (how == 2)
        never_throws(how);
    else
        middle(how);
    E2E_BARRIER();
}

static void on_terminate() {
    say("terminate ");
    abort();
}

static void at_exit() {
    say("atexit ");
}

/* The child's end and what it wrote. */
static int run(int how, char *text, size_t size) {
    int pipes[2];
    if (pipe(pipes) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        dup2(pipes[1], 1);
        std::set_terminate(on_terminate);
        atexit(at_exit);
        at_quick_exit(at_exit);
        outermost(how);
        _exit(0);
    }
    close(pipes[1]);
    ssize_t got = 0, more;
    while ((more = read(pipes[0], text + got, size - 1 - static_cast<size_t>(got))) > 0)
        got += more;
    text[got] = 0;
    close(pipes[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
}

static void check(int how, int signal, int status, const char *text) {
    char said[256];
    int end = run(how, said, sizeof said);
    bool right = signal ? WIFSIGNALED(end) && WTERMSIG(end) == signal : WIFEXITED(end) && WEXITSTATUS(end) == status;
    if (!right || strcmp(said, text) != 0)
        e2e_fail(__FILE__, __LINE__, "way %d: status %#x, said '%s', expected '%s'", how, end, said, text);
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_RECORD(innermost);
    E2E_RECORD(middle);
    E2E_RECORD(never_throws);
    E2E_RECORD(outermost);
    check(1, SIGABRT, 0, "terminate ");            /* no handler: nothing is unwound */
    check(2, SIGABRT, 0, "destructor terminate "); /* up to the noexcept frame */
    check(3, SIGABRT, 0, "");
    check(4, 0, 44, "atexit ");
    check(5, 0, 55, "");
    check(6, 0, 66, "atexit ");
    check(7, SIGABRT, 0, "terminate ");
    return e2e_end();
}
