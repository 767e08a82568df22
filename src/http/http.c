/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on this machine alone: see http.h. On libmicrohttpd, which is loaded when it is needed: it brings
 * TLS and a dozen libraries with it, and most commands run without a server. */
#include "http/http.h"
#include "base/grow.h"
#include "http/peer.h"
#include <arpa/inet.h>
#include <contrail/status.h>
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { IDLE_SECONDS = 120, MOST_CONNECTIONS = 64 };

/* Functions of the library. */
#define FUNCTIONS(X)                                                                                                   \
    X(MHD_lookup_connection_value)                                                                                     \
    X(MHD_get_connection_info)                                                                                         \
    X(MHD_create_response_from_buffer)                                                                                 \
    X(MHD_create_response_from_callback)                                                                               \
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
    _Atomic uint16_t port;
    _Atomic bool opened; /* the token that is good once was used */
};

/* A request whose body comes in pieces. */
struct body {
    char *bytes;
    size_t used, room;
    bool too_long;
};

/* ---- who asks ---- */

/* Nothing or ":" and digits: a tunnel may have another port than we have. */
static bool is_any_port(const char *text) {
    size_t digits = *text == ':' ? strspn(text + 1, "0123456789") : 0;
    return !*text || (digits && digits <= 5 && !text[1 + digits]);
}

/* "127.0.0.1:PORT", "localhost:PORT" or "[::1]:PORT". */
static bool is_our_name(const struct ct_http *h, const char *host) {
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    char port[16];
    snprintf(port, sizeof port, ":%u", (unsigned)h->port);
    for (size_t i = 0; host && i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (!strncmp(host, names[i], length) &&
            (h->options.cookie ? is_any_port(host + length) : !strcmp(host + length, port)))
            return true;
    }
    return false;
}

/* Programs send no origin. A page of ours has the name that it asks. */
static bool is_our_origin(const struct ct_http *h, const char *origin, const char *host) {
    return !origin || (!strncmp(origin, "http://", 7) && is_our_name(h, origin + 7) &&
                       (!h->options.cookie || !strcmp(origin + 7, host)));
}

/* Browsers say where a request comes from: another page of this machine must not cause any, but may link to us. */
static bool is_our_page(const struct ct_http *h, struct MHD_Connection *connection, const char *path) {
    const char *site = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site");
    const char *mode = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Mode");
    if (!h->options.cookie || !site || !strcmp(site, "same-origin") || !strcmp(site, "none"))
        return true;
    return mode && !strcmp(mode, "navigate") && !strcmp(path, "/");
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

static bool has_cookie(const struct ct_http *h, struct MHD_Connection *connection) {
    const char *value = library.MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, h->options.cookie);
    return value && is_token(value, h->options.token);
}

/* The first request with it, and of the right user: other users of the machine can read it from a command line. */
static bool is_once(struct ct_http *h, struct MHD_Connection *connection, const char *said) {
    uid_t uid;
    if (!h->options.once || !is_token(said, h->options.once))
        return false;
    const union MHD_ConnectionInfo *info =
        library.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info && info->client_addr && ct_http_peer(info->client_addr, h->port, &uid) && uid == h->options.once_uid &&
           !atomic_exchange(&h->opened, true);
}

static bool has_token(struct ct_http *h, struct MHD_Connection *connection, const char *path) {
    const char *header = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    const char *said = library.MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
    if (!h->options.token)
        return true;
    if (header && !strncasecmp(header, "Bearer ", 7))
        return is_token(header + 7, h->options.token);
    if (h->options.cookie && has_cookie(h, connection))
        return true;
    return said && (!h->options.cookie || !strcmp(path, "/")) &&
           (is_token(said, h->options.token) || is_once(h, connection, said));
}

/* ---- answers ---- */

/* What a page of ours may load: nothing that is not ours. */
#define PAGE_POLICY                                                                                                    \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "              \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static ssize_t read_stream(void *arg, uint64_t position, char *to, size_t room) {
    const struct ct_http_stream *stream = arg;
    (void)position;
    long done = stream->more(stream->arg, to, room);
    return done < 0 ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)done;
}

static void end_stream(void *arg) {
    struct ct_http_stream *stream = arg;
    stream->end(stream->arg);
    free(stream);
}

static struct MHD_Response *new_stream(const struct ct_http_stream *from) {
    enum { BLOCK = 16384 };
    struct ct_http_stream *stream = malloc(sizeof *stream);
    struct MHD_Response *response = NULL;
    if (stream) {
        *stream = *from;
        response = library.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, stream, end_stream);
    }
    if (!response) {
        from->end(from->arg);
        free(stream);
    }
    return response;
}

static struct MHD_Response *new_response(struct ct_http_answer *answer) {
    if (answer->stream.more)
        return new_stream(&answer->stream);
    if (answer->lasting)
        return library.MHD_create_response_from_buffer(answer->length, (void *)(uintptr_t)answer->lasting,
                                                       MHD_RESPMEM_PERSISTENT);
    if (!answer->body)
        return library.MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    size_t length = answer->length ? answer->length : strlen(answer->body);
    struct MHD_Response *response =
        library.MHD_create_response_from_buffer(length, answer->body, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(answer->body);
    return response;
}

static void add_page_headers(const struct ct_http *h, struct MHD_Connection *connection,
                             struct MHD_Response *response) {
    const char *said = library.MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
    char cookie[256];
    (void)library.MHD_add_response_header(response, "Content-Security-Policy", PAGE_POLICY);
    (void)library.MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    (void)library.MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    if (!said || !h->options.token ||
        !(is_token(said, h->options.token) || (h->options.once && is_token(said, h->options.once))))
        return;
    snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/", h->options.cookie, h->options.token);
    (void)library.MHD_add_response_header(response, "Set-Cookie", cookie);
}

static enum MHD_Result send_answer(const struct ct_http *h, struct MHD_Connection *connection,
                                   struct ct_http_answer *answer) {
    struct MHD_Response *response = new_response(answer);
    if (!response)
        return MHD_NO;
    if (answer->type)
        (void)library.MHD_add_response_header(response, "Content-Type", answer->type);
    if (*answer->session)
        (void)library.MHD_add_response_header(response, "Mcp-Session-Id", answer->session);
    if (answer->status == MHD_HTTP_UNAUTHORIZED)
        (void)library.MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    else if (h->options.cookie && answer->status != MHD_HTTP_FORBIDDEN)
        add_page_headers(h, connection, response);
    (void)library.MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)library.MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    enum MHD_Result result =
        library.MHD_queue_response(connection, answer->status ? answer->status : MHD_HTTP_OK, response);
    library.MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(const struct ct_http *h, struct MHD_Connection *connection, unsigned status,
                              const char *text) {
    struct ct_http_answer answer = {.status = status, .type = "text/plain; charset=utf-8", .body = strdup(text)};
    return send_answer(h, connection, &answer);
}

static bool has_path(const struct ct_http *h, const char *path) {
    if (!h->options.paths)
        return true;
    for (const char *const *known = h->options.paths; *known; known++)
        if (!strcmp(*known, path))
            return true;
    return false;
}

/* 0, or the status with which the request is refused, after its answer. */
static unsigned check(struct ct_http *h, struct MHD_Connection *connection, const char *path, const char **why) {
    const char *host = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *origin = library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    if (!is_our_name(h, host) || !is_our_origin(h, origin, host) || !is_our_page(h, connection, path)) {
        *why = "this server answers programs and pages of this machine only\n";
        return MHD_HTTP_FORBIDDEN;
    }
    if (!has_token(h, connection, path)) {
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
        return refuse(h, connection, MHD_HTTP_CONTENT_TOO_LARGE, "the request is too long\n");
    struct ct_http_request request = {.method = method,
                                      .path = path,
                                      .body = body->bytes ? body->bytes : "",
                                      .length = body->used,
                                      .accept = header_of(connection, "Accept"),
                                      .session = header_of(connection, "Mcp-Session-Id"),
                                      .version = header_of(connection, "MCP-Protocol-Version"),
                                      .connection = connection};
    h->options.answer(h->options.arg, &request, &a);
    return send_answer(h, connection, &a);
}

const char *ct_http_header(const struct ct_http_request *request, const char *name) {
    return header_of(request->connection, name);
}

const char *ct_http_argument(const struct ct_http_request *request, const char *name) {
    return library.MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
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
            return refuse(h, connection, refused, why);
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
    h->port = options->port; /* requests may come before it returns */
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
    if (info)
        h->port = info->port;
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
