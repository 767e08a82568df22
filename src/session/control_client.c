/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of a session's socket. It trusts only a socket of the user who can record the process, or of root
 * (control_place.h). All waits have a limit: the answering process may be hostile. */
#include "drain/clock.h"
#include "session/control_place.h"
#include <contrail/session.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A session takes up to 10 s to stop or resume all its processes, and 30 s to end. */
#define LIMIT_MS      20000u
#define STOP_LIMIT_MS 40000u
#define TRIES         3

static int left_ms(uint64_t end) {
    uint64_t now = ct_clock_now();
    return now < end ? (int)((end - now) / 1000000) : 0;
}

/* ---- finding the session ---- */

/* Looks in the places of this user; returns `found` if they add nothing. */
static int look_in_places(int found, int pid, uid_t user, uint64_t end) {
    char name[CT_CONTROL_PLACE_NAME_SIZE];
    ct_control_place_name(name, pid);
    unsigned count = geteuid() == 0 || geteuid() == user ? CT_CONTROL_PLACE_COUNT
                                                         : CT_CONTROL_PLACE_COUNT - 1; /* homes are private */
    for (unsigned i = 0; i < count && found < 0 && found != CT_ERR_BUSY; i++) {
        int directory = ct_control_place_open(i, user);
        if (directory < 0)
            continue;
        int result = ct_control_place_connect(directory, user, name, left_ms(end));
        close(directory);
        found = result == CT_ERR_NOT_FOUND ? found : result;
    }
    return found;
}

/* Tries our own places first, then those of the user who can record it, and root's: others learn that somebody else
 * may. */
static int find_server(int pid, uint64_t end) {
    uid_t user = ct_control_place_user_of(pid);
    int found = look_in_places(CT_ERR_NOT_FOUND, pid, geteuid(), end);
    if (user != geteuid())
        found = look_in_places(found, pid, user, end);
    if (geteuid() != 0 && user != 0)
        found = look_in_places(found, pid, 0, end);
    return found;
}

/* ---- asking it ---- */

/* The line is shorter than a socket's buffer: it is sent at once or not at all. */
static bool send_line(int fd, const char *command) {
    char line[CT_CONTROL_PLACE_LINE];
    int length = snprintf(line, sizeof line, "%s\n", command);
    return send(fd, line, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) == length;
}

/* Reads the answer, as far as there is room. 0: done, also if the session ended before it could answer; CT_ERR_TIMEOUT:
 * the answer is not complete. */
static int ask(int fd, const char *command, char *text, size_t size, uint64_t end) {
    size_t length = 0;
    bool over = !send_line(fd, command);
    while (!over && length + 1 < size) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, left_ms(end)) == 0) {
            text[0] = 0;
            return CT_ERR_TIMEOUT;
        }
        ssize_t n = p.revents ? recv(fd, text + length, size - 1 - length, MSG_DONTWAIT) : 1;
        over = n <= 0;
        length += p.revents && n > 0 ? (size_t)n : 0;
    }
    text[length] = 0;
    return 0;
}

/* A refusal begins with "error" and the status. */
static int status_of(char *text) {
    int status = 0, used = 0;
    if (sscanf(text, "error %d %n", &status, &used) != 1 || !used || status >= 0)
        return 0;
    memmove(text, text + used, strlen(text + used) + 1);
    return status;
}

int ct_session_control(int pid, const char *command, char *text, size_t size) {
    if (!command || !text || !size)
        return CT_ERR_INVALID_ARGUMENT;
    uint64_t end = ct_clock_now() + (strcmp(command, "stop") ? LIMIT_MS : STOP_LIMIT_MS) * 1000000ull;
    text[0] = 0;
    if (strlen(command) + 1 >= CT_CONTROL_PLACE_LINE)
        return CT_ERR_INVALID_ARGUMENT;
    for (int i = 0; i < TRIES && !text[0]; i++) { /* a recorder that was about to end is gone at the second try */
        int fd = find_server(pid, end);
        if (fd < 0)
            return fd;
        int status = ask(fd, command, text, size, end);
        close(fd);
        if (status)
            return status;
    }
    return text[0] ? status_of(text) : CT_ERR_SYSTEM;
}
