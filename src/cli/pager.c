/* SPDX-License-Identifier: Apache-2.0 */
/* See pager.h. The two processes talk over a pair of sockets: a descriptor goes one way, a byte comes back. */
#include "cli/pager.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int keeper = -1; /* our end of the pair */

void ct_pager_run(int in) {
    const char *command = getenv("PAGER");
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    /* exits at once when the text fits on the screen, keeps colours, uses no screen of its own */
    setenv("LESS", "FRX", 0);
    dup2(in, STDIN_FILENO);
    execl("/bin/sh", "sh", "-c", command && *command ? command : "less -R", (char *)NULL);
    _exit(127);
}

bool ct_pager_wanted(void) {
    const char *command = getenv("PAGER"), *term = getenv("TERM");
    if (command && (!*command || !strcmp(command, "cat")))
        return false;
    return term && strcmp(term, "dumb") != 0 && (command || !system("command -v less >/dev/null 2>&1"));
}

/* ---- the descriptor ---- */

union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

static bool send_descriptor(int socket, int fd) {
    union control control = {{0}};
    struct iovec byte = {.iov_base = "", .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

/* -1: the other process has gone, or sent none. */
static int receive_descriptor(int socket) {
    union control control;
    char text;
    int fd = -1;
    struct iovec byte = {.iov_base = &text, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

/* ---- the process ---- */

static void keep_pagers(int socket) {
    int in;
    signal(SIGINT, SIG_IGN); /* a key is for the pager, or for the process that reads the trace */
    while ((in = receive_descriptor(socket)) >= 0) {
        pid_t pid = fork();
        if (pid == 0)
            ct_pager_run(in);
        close(in);
        if (pid > 0)
            (void)waitpid(pid, NULL, 0);
        if (send(socket, "", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    _exit(0);
}

void ct_pager_keep(void) {
    int pair[2];
    if (!isatty(STDOUT_FILENO) || !ct_pager_wanted() ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        keep_pagers(pair[1]);
    }
    close(pair[1]);
    if (pid > 0)
        keeper = pair[0];
    else
        close(pair[0]);
}

bool ct_pager_is_kept(void) {
    return keeper >= 0;
}

int ct_pager_start(void) {
    int data[2];
    if (keeper < 0 || pipe2(data, O_CLOEXEC))
        return -1;
    bool sent = send_descriptor(keeper, data[0]);
    close(data[0]);
    if (sent)
        return data[1];
    close(data[1]);
    return -1;
}

void ct_pager_wait(void) {
    char byte;
    (void)!recv(keeper, &byte, 1, 0);
}
