/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CT_HTTP_PEER_H
#define CT_HTTP_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The user of the process that has connected from `client` to our port. False: the kernel does not say. */
bool ct_http_peer(const struct sockaddr *client, uint16_t port, uid_t *uid);

#endif
