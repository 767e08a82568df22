/* SPDX-License-Identifier: Apache-2.0 */
/* See record_probe.h. */
#include "cli/record_probe.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/own_files.h"
#include "script/probe.h"
#include "session/session.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Installed, or in a build directory of the source tree. */
static bool find_headers(char out[PATH_MAX]) {
    char program[PATH_MAX];
    return ct_own_program(program) &&
           (ct_own_file(out, program, CT_PROBE_HEADERS) ||
            ct_own_file(out, program, "../../../bindings/node/include") ||
            ct_own_file(out, program, "../../../../bindings/node/include")); /* build-arm64/tree */
}

int ct_record_probe_compile(struct ct_record_probe *p, const struct ct_option_list *files) {
    char headers[PATH_MAX], error[1024] = "";
    *p = (struct ct_record_probe){.error = ""};
    if (!files->count)
        return 0;
    if (!find_headers(headers)) {
        ct_message_error("--probe: the headers that it needs (contrail/probe.h) are not installed");
        return CT_EXIT_UNAVAILABLE;
    }
    p->codes = calloc(files->count, sizeof *p->codes);
    if (!p->codes)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    for (; p->count < files->count; p->count++) {
        struct ct_probe_code *code = &p->codes[p->count];
        int status = ct_probe_compile(code, files->items[p->count], headers, error, sizeof error);
        if (!status)
            continue;
        if (code->words && *code->words)
            fprintf(stderr, "%s", code->words);
        ct_message_error("%s", error);
        ct_probe_code_free(code);
        ct_record_probe_end(p);
        return status == CT_ERR_UNSUPPORTED ? CT_EXIT_UNAVAILABLE : CT_EXIT_USAGE;
    }
    return 0;
}

static int begin(void *arg, struct ct_remote *remote) {
    struct ct_record_probe *p = arg;
    return ct_probes_begin(&p->probes, remote, p->codes, p->count, p->error, sizeof p->error);
}

int ct_record_probe_begin(struct ct_record_probe *p, struct ct_session *session) {
    return p->count ? ct_session_use_remote(session, begin, p) : 0;
}

void ct_record_probe_say_started(const struct ct_record_probe *p) {
    size_t count = p->probes ? ct_probes_functions(p->probes) : 0;
    if (count)
        ct_message_error("--probe: %zu function%s listeners", count, count == 1 ? " has" : "s have");
}

void ct_record_probe_say_ended(const struct ct_record_probe *p) {
    uint64_t value;
    const char *name;
    for (size_t i = 0; p->probes && (name = ct_probes_counter(p->probes, i, &value)); i++)
        ct_message_error("--probe: %s = %llu", name, (unsigned long long)value);
}

void ct_record_probe_end(struct ct_record_probe *p) {
    if (p->probes)
        ct_probes_end(p->probes);
    p->probes = NULL;
    for (size_t i = 0; i < p->count; i++)
        ct_probe_code_free(&p->codes[i]);
    free(p->codes);
    p->codes = NULL;
    p->count = 0;
}
