/* SPDX-License-Identifier: Apache-2.0 */
/* Whose process is at the other end of a connection of this machine: the kernel's list of sockets says it. */
#include "http/peer.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

bool ct_http_peer(const struct sockaddr *client, uint16_t port, uid_t *uid) {
    struct sockaddr_in from;
    if (client->sa_family != AF_INET)
        return false;
    memcpy(&from, client, sizeof from);
    FILE *sockets = fopen("/proc/net/tcp", "re");
    char line[512];
    bool found = false;
    while (sockets && !found && fgets(line, sizeof line, sockets)) {
        unsigned local, local_port, remote, remote_port, owner;
        found = sscanf(line, "%*d: %x:%x %x:%x %*x %*x:%*x %*x:%*x %*x %u", &local, &local_port, &remote, &remote_port,
                       &owner) == 5 &&
                local == from.sin_addr.s_addr && local_port == ntohs(from.sin_port) &&
                remote == htonl(INADDR_LOOPBACK) && remote_port == port;
        if (found)
            *uid = owner;
    }
    if (sockets)
        (void)fclose(sockets);
    return found;
}
