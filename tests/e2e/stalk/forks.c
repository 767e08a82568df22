/* SPDX-License-Identifier: Apache-2.0 */
/* Forks as many processes as its argument says, at most fifty at a time; prints the sum of what they end with. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) int job(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += i;
    return sum & 63;
}

static int take_one(void) {
    int status;
    return wait(&status) < 0 || !WIFEXITED(status) ? 100000 : WEXITSTATUS(status);
}

int main(int count, char **arguments) {
    int sum = 0, live = 0, all = count > 1 ? atoi(arguments[1]) : 100;
    for (int i = 0; i < all; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (!pid)
            _exit(job(i));
        if (++live < 50)
            continue;
        sum += take_one();
        live--;
    }
    while (live--)
        sum += take_one();
    printf("%d\n", sum);
    return 3;
}
