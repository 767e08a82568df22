/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on this machine alone: see http.h. On libmicrohttpd, which is loaded when it is needed: it brings
 * TLS and a dozen libraries with it, and most commands run without a server. */
#include "http/http.h"
#include "base/grow.h"
#include <arpa/inet.h>
#include <contrail/status.h>
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { IDLE_SECONDS = 120, MOST_CONNECTIONS = 64 };

/* Functions of the library. */
#define FUNCTIONS(X)                                                                                                   \
    X(MHD_lookup_connection_value)                                                                                     \
    X(MHD_create_response_from_buffer)                                                                                 \
    X(MHD_add_response_header)                                                                                         \
    X(MHD_queue_response)                                                                                              \
    X(MHD_destroy_response)                                                                                            \
    X(MHD_start_daemon)                                                                                                \
    X(MHD_get_daemon_info)                                                                                             \
    X(MHD_stop_daemon)

static struct {
#define FUNCTION(name) __typeof__(name) *name;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
} library;

/* It stays loaded. One server at a time is opened. */
static bool load_library(void) {
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return false;
    bool whole = true;
#define LOAD(name) whole &= (library.name = (__typeof__(name) *)dlsym(handle, #name)) != NULL;
    FUNCTIONS(LOAD)
#undef LOAD
    return whole;
}

struct ct_http {
    struct ct_http_options options;
    struct MHD_Daemon *daemon;
    uint16_t port;
};

/* A request whose body comes in pieces. */
struct body {
    char *bytes;
    size_t used, room;
    bool too_long;
};

/* ---- who asks ---- */

/* "127.0.0.1:PORT", "localhost:PORT" or "[::1]:PORT". */
static bool is_our_name(const struct ct_http *h, const char *host) {
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    char wanted[64];
    for (size_t i = 0; host && i < sizeof names / sizeof *names; i++) {
        snprintf(wanted, sizeof wanted, "%s:%u", names[i], h->port);
        if (!strcmp(host, wanted))
            return true;
    }
    return false;
}

/* Programs send no origin. A page of ours has our name. */
static bool is_our_origin(const struct ct_http *h, const char *origin) {
    return !origin || (!strncmp(origin, "http://", 7) && is_our_name(h, origin + 7));
}

/* Takes as long for every wrong token of the right length. */
static bool is_token(const char *given, const char *token) {
    size_t length = strlen(token);
    unsigned differ = 0;
    if (strlen(given) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        differ |= (unsigned)((uint8_t)token[i] ^ (uint8_t)given[i]);
    return !differ;
}

static bool has_token(const struct ct_http *h, struct MHD_Connection *connection) {
    const char *header = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    const char *said = library.MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
    if (!h->options.token)
        return true;
    if (header && !strncasecmp(header, "Bearer ", 7))
        return is_token(header + 7, h->options.token);
    return said && is_token(said, h->options.token);
}

/* ---- answers ---- */

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct ct_http_answer *answer) {
    size_t length = answer->body ? strlen(answer->body) : 0;
    struct MHD_Response *response =
        library.MHD_create_response_from_buffer(length, answer->body ? answer->body : "", MHD_RESPMEM_MUST_COPY);
    free(answer->body);
    if (!response)
        return MHD_NO;
    if (answer->type)
        (void)library.MHD_add_response_header(response, "Content-Type", answer->type);
    if (*answer->session)
        (void)library.MHD_add_response_header(response, "Mcp-Session-Id", answer->session);
    if (answer->status == MHD_HTTP_UNAUTHORIZED)
        (void)library.MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    (void)library.MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)library.MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    enum MHD_Result result =
        library.MHD_queue_response(connection, answer->status ? answer->status : MHD_HTTP_OK, response);
    library.MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *text) {
    struct ct_http_answer answer = {.status = status, .type = "text/plain; charset=utf-8", .body = strdup(text)};
    return send_answer(connection, &answer);
}

static bool has_path(const struct ct_http *h, const char *path) {
    for (const char *const *known = h->options.paths; *known; known++)
        if (!strcmp(*known, path))
            return true;
    return false;
}

/* 0, or the status with which the request is refused, after its answer. */
static unsigned check(const struct ct_http *h, struct MHD_Connection *connection, const char *path, const char **why) {
    const char *host = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *origin = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    if (!is_our_name(h, host) || !is_our_origin(h, origin)) {
        *why = "this server answers programs and pages of this machine only\n";
        return MHD_HTTP_FORBIDDEN;
    }
    if (!has_token(h, connection)) {
        *why = "the token is missing or wrong; the server has printed it\n";
        return MHD_HTTP_UNAUTHORIZED;
    }
    *why = "there is nothing here\n";
    return has_path(h, path) ? 0 : MHD_HTTP_NOT_FOUND;
}

static const char *header_of(struct MHD_Connection *connection, const char *name) {
    const char *value = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return value ? value : "";
}

static enum MHD_Result answer(struct ct_http *h, struct MHD_Connection *connection, const char *path,
                              const char *method, const struct body *body) {
    struct ct_http_answer a = {0};
    if (body->too_long)
        return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "the request is too long\n");
    struct ct_http_request request = {.method = method,
                                      .path = path,
                                      .body = body->bytes ? body->bytes : "",
                                      .length = body->used,
                                      .accept = header_of(connection, "Accept"),
                                      .session = header_of(connection, "Mcp-Session-Id"),
                                      .version = header_of(connection, "MCP-Protocol-Version")};
    h->options.answer(h->options.arg, &request, &a);
    return send_answer(connection, &a);
}

/* ---- connections ---- */

static void take(const struct ct_http *h, struct body *body, const char *bytes, size_t size) {
    if (body->too_long || body->used + size > h->options.most_bytes ||
        !ct_grow(&body->bytes, &body->room, body->used + size, 1, 4096)) {
        body->too_long = true;
        return;
    }
    memcpy(body->bytes + body->used, bytes, size);
    body->used += size;
    body->bytes[body->used] = 0;
}

/* Called with the headers, then for each piece of the body, then at its end. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *bytes, size_t *size, void **state) {
    struct ct_http *h = arg;
    const char *why;
    (void)version;
    if (!*state) {
        unsigned refused = check(h, connection, path, &why);
        if (refused)
            return refuse(connection, refused, why);
        *state = calloc(1, sizeof(struct body));
        return *state ? MHD_YES : MHD_NO;
    }
    if (*size) {
        take(h, *state, bytes, *size);
        *size = 0;
        return MHD_YES;
    }
    return answer(h, connection, path, method, *state);
}

static void on_end(void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode how) {
    struct body *body = *state;
    (void)arg, (void)connection, (void)how;
    if (body)
        free(body->bytes);
    free(body);
    *state = NULL;
}

int ct_http_open(struct ct_http **out, const struct ct_http_options *options) {
    struct ct_http *h = calloc(1, sizeof *h);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *out = NULL;
    if (!h || !load_library()) {
        int status = h ? CT_ERR_UNSUPPORTED : CT_ERR_NO_MEMORY;
        free(h);
        return status;
    }
    h->options = *options;
    errno = 0;
    h->daemon =
        library.MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL,
                                 on_request, h, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_TIMEOUT,
                                 (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_END);
    if (!h->daemon) {
        int status = errno == EADDRINUSE ? CT_ERR_BUSY : CT_ERR_SYSTEM;
        free(h);
        return status;
    }
    const union MHD_DaemonInfo *info = library.MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    h->port = info ? info->port : options->port;
    *out = h;
    return 0;
}

uint16_t ct_http_port(const struct ct_http *h) {
    return h->port;
}

void ct_http_close(struct ct_http *h) {
    if (!h)
        return;
    library.MHD_stop_daemon(h->daemon);
    free(h);
}

bool ct_http_make_token(char token[CT_HTTP_TOKEN + 1]) {
    uint8_t bytes[CT_HTTP_TOKEN / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}
