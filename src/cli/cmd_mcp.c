/* SPDX-License-Identifier: Apache-2.0 */
/* contrail mcp: a server for assistants, over standard input and output, or HTTP. */
#include "cli/command.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "cli/signals.h"
#include "http/http.h"
#include "mcp/mcp.h"
#include <poll.h>
#include <stdio.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct options {
    const char *directory;
    bool allow_record;
    uint64_t timeout_s;
    bool http, no_token;
    uint64_t port;
};

static bool is_stopped(void) {
    return ct_signals_stop() != 0;
}

/* Returns when a signal comes. */
static int serve_http(struct ct_mcp_server *server, const struct options *o) {
    struct ct_mcp_http *http;
    char token[CT_HTTP_TOKEN + 1] = "";
    if (!o->no_token && !ct_http_make_token(token))
        return ct_message_fail(CT_ERR_SYSTEM, NULL);
    int status = ct_mcp_serve_http(&http, server, (uint16_t)o->port, o->no_token ? NULL : token);
    if (status == CT_ERR_UNSUPPORTED) {
        ct_message_error("HTTP needs libmicrohttpd; install it (Debian: libmicrohttpd12), or leave out --http");
        return CT_EXIT_UNAVAILABLE;
    }
    if (status == CT_ERR_BUSY) {
        ct_message_error("port %u is in use; give another one with --port, or none", (unsigned)o->port);
        return CT_EXIT_UNAVAILABLE;
    }
    if (status)
        return ct_message_fail(status, NULL);
    printf("http://127.0.0.1:%u/mcp\n", ct_mcp_http_port(http));
    if (*token)
        printf("Authorization: Bearer %s\n", token);
    fflush(stdout);
    while (!is_stopped())
        poll(NULL, 0, 200);
    ct_mcp_stop(server);
    ct_mcp_http_close(http);
    return 0;
}

static int serve_lines(struct ct_mcp_server *server) {
    int status = ct_mcp_serve_lines(server, STDIN_FILENO, STDOUT_FILENO, is_stopped);
    return status ? ct_message_fail(status, NULL) : 0;
}

static int serve(const struct options *o) {
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return ct_message_fail(CT_ERR_SYSTEM, NULL);
    program[length] = 0;
    struct ct_mcp_server *server =
        ct_mcp_open(&(struct ct_mcp_options){.program = program,
                                             .directory = o->directory ? o->directory : ct_reading_root(),
                                             .allow_record = o->allow_record,

                                             .timeout_s = (unsigned)o->timeout_s});
    if (!server)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    ct_signals_install(false);
    (void)signal(SIGPIPE, SIG_IGN); /* a client that is gone */
    int code = o->http ? serve_http(server, o) : serve_lines(server);
    ct_mcp_close(server);
    return code;
}

static int run_mcp(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    int code = ct_options_parse(&ct_command_mcp, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (!options.http && isatty(STDIN_FILENO)) {
        ct_message_error(
            "mcp talks to a program on standard input, not to a person; name `contrail mcp` as the command "
            "of a server in your assistant's settings (docs/MCP.md)");
        code = CT_EXIT_USAGE;
    } else {
        code = serve(&options);
    }
    ct_options_release(&ct_command_mcp, &options);
    return code;
}

static const struct ct_option option_table[] = {
    {"directory", 'd', CT_OPTION_STRING, offsetof(struct options, directory), "DIR",
     "where traces are, and new ones go (default: ./traces)"},
    {"allow-record", 0, CT_OPTION_FLAG, offsetof(struct options, allow_record), NULL,
     "offer tools that record programs and change recordings"},
    {"timeout", 0, CT_OPTION_NUMBER, offsetof(struct options, timeout_s), "S",
     "end a command that takes longer than S seconds; 0: never", .initial = "300", .max = 86400},
    {"http", 0, CT_OPTION_FLAG, offsetof(struct options, http), NULL,
     "serve over HTTP on 127.0.0.1, and print the address and the token that requests must have"},
    {"port", 0, CT_OPTION_NUMBER, offsetof(struct options, port), "N", "with --http, the port; 0: any that is free",
     .max = 65535},
    {"no-token", 0, CT_OPTION_FLAG, offsetof(struct options, no_token), NULL,
     "with --http, answer any program of this machine"},
    {0},
};

const struct ct_command ct_command_mcp = {
    .name = "mcp",
    .group = CT_GROUP_READ,
    .run = run_mcp,
    .summary = "serve traces to an assistant (Model Context Protocol)",
    .operands = "",
    .max_operands = 0,
    .description =
        "Speaks the Model Context Protocol (revisions 2025-06-18, 2025-11-25 and 2026-07-28) on standard input and "
        "output, or with --http, so that an assistant can list traces, see what happened, find calls and ask in SQL. "
        "Each tool is a command of contrail, and its answer names the command line; answers keep to a number of "
        "tokens and have pages.\n\n"
        "Tools only read unless --allow-record is given. docs/MCP.md lists them and shows how assistants are set up.",
    .options = option_table,
    .examples = "contrail mcp\n"
                "contrail mcp --directory /var/traces\n"
                "contrail mcp --http --port 8765\n"
                "contrail mcp --allow-record --timeout 600",
};
