/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that asks a peer over a socket. The peer answers 39 requests and leaves the 40th without an answer. */
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUESTS = 60, UNANSWERED = 40 };

static int ends[2];

static __attribute__((noinline)) int read_answer(int socket, int *answer) {
    return read(socket, answer, sizeof *answer) == sizeof *answer ? 0 : -1;
}

static __attribute__((noinline)) int ask_peer(int socket, int request, int *answer) {
    if (write(socket, &request, sizeof request) != sizeof request)
        return -1;
    return read_answer(socket, answer);
}

static __attribute__((noinline)) void *serve_peer(void *arg) {
    int request;
    (void)arg;
    while (read(ends[1], &request, sizeof request) == sizeof request) {
        if (request == UNANSWERED)
            continue; /* the bug's origin: the peer takes it for a duplicate */
        request *= 2;
        if (write(ends[1], &request, sizeof request) != sizeof request)
            break;
    }
    return NULL;
}

static __attribute__((noinline)) int do_work(int socket) {
    int answer, sum = 0;
    for (int i = 1; i <= REQUESTS; i++) {
        if (ask_peer(socket, i, &answer))
            return -1;
        sum += answer;
        if (i == UNANSWERED - 1) {
            puts("working");
            fflush(stdout);
        }
    }
    return sum;
}

int main(void) {
    pthread_t peer;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || pthread_create(&peer, NULL, serve_peer, NULL))
        return 1;
    printf("%d\n", do_work(ends[0]));
    return 0;
}
