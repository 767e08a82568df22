/* Stopped and continued, by itself and in the middle of work. */
#include "zoo.h"
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

ZOO_GATES

static volatile sig_atomic_t continued;

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void on_continue(int number) {
    leaf(number);
    continued++;
}

/* A child that continues us whenever we are stopped. */
static pid_t start_helper(int times) {
    pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)parent);
    for (int i = 0; i < times;) {
        FILE *f = fopen(path, "r");
        if (!f || !fgets(line, sizeof line, f))
            _exit(1);
        fclose(f);
        if (strrchr(line, ')')[2] == 'T') {
            kill(parent, SIGCONT);
            i++;
            while (kill(parent, 0) == 0 && strrchr(line, ')')[2] == 'T') {
                f = fopen(path, "r");
                if (!f || !fgets(line, sizeof line, f))
                    _exit(1);
                fclose(f);
            }
        }
        usleep(1000);
    }
    _exit(0);
}

static FN void stop(int number) {
    raise(number);
    leaf(1);
}

int main(void) {
    signal(SIGCONT, on_continue);
    wait_for_start();
    pid_t helper = start_helper(4);
    for (int i = 0; i < 4; i++)
        stop(i % 2 ? SIGTSTP : SIGSTOP);
    int status;
    CHECK(waitpid(helper, &status, 0) == helper && status == 0);
    CHECK(continued == 4);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
