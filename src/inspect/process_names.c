/* SPDX-License-Identifier: Apache-2.0 */
/* Names of frames: functions and, if debug information is requested, source lines and inlined functions. The process
 * runs again by then. */
#include "base/grow.h"
#include "inspect/process.h"
#include "symbols/dw.h"
#include "symbols/lines.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

static int add_frame(struct ct_process_names *n, const struct ct_process_frame *frame) {
    if (!ct_grow(&n->frames, &n->capacity, n->count, sizeof *n->frames, 64))
        return CT_ERR_NO_MEMORY;
    n->frames[n->count++] = *frame;
    return 0;
}

/* A copy that lives as long as the names; "": no memory. */
static const char *keep_text(struct ct_process_names *n, const char *text) {
    if (!*text)
        return "";
    if (!ct_grow(&n->texts, &n->text_capacity, n->text_count, sizeof *n->texts, 64))
        return "";
    char *copy = strdup(text);
    if (!copy)
        return "";
    n->texts[n->text_count++] = copy;
    return copy;
}

struct inlining {
    struct ct_process_names *names;
    struct ct_process_frame frame; /* the function's own frame; its line is the line of the next frame that is added */
    int status;
};

static void add_inlined(void *arg, const char *name, const char *call) {
    struct inlining *i = arg;
    struct ct_process_frame frame = i->frame;
    frame.name = keep_text(i->names, name);
    frame.offset = 0;
    frame.inlined = true;
    if (!i->status)
        i->status = add_frame(i->names, &frame);
    i->frame.line = keep_text(i->names, call);
}

static int add_with_lines(struct ct_process_names *names, struct ct_lines *lines, uint64_t place,
                          const struct ct_process_frame *frame) {
    char line[4096];
    struct inlining i = {.names = names, .frame = *frame};
    if (ct_lines_at(lines, place, line, sizeof line))
        i.frame.line = keep_text(names, line);
    ct_lines_inlined_at(lines, place, add_inlined, &i);
    return i.status ? i.status : add_frame(names, &i.frame);
}

int ct_process_name_frame(struct ct_process *process, const struct ct_walk_frame *from,
                          struct ct_process_names *names) {
    uint64_t place = from->function ? from->function : from->pc - from->is_return;
    struct ct_process_file *file = ct_process_file_at(process, place);
    const struct ct_functions *functions = file ? ct_process_functions(file) : NULL;
    const struct ct_func *func = functions ? ct_functions_find(functions, place - file->bias) : NULL;
    struct ct_process_frame to = {
        .size = sizeof to, .pc = from->pc, .module = file ? file->path : "", .name = "", .line = ""};
    uint64_t pc = from->function ? from->function : from->pc;
    if (func && ct_functions_name(functions, func)[0]) {
        to.name = ct_functions_name(functions, func);
        to.offset = pc - file->bias - func->offset;
    } else if (file) {
        to.offset = pc - file->bias;
    } else if (from->is_stub) {
        to.name = "(contrail stub)";
    }
    struct ct_lines *lines = file && process->use_lines ? ct_process_lines(file) : NULL;
    return lines ? add_with_lines(names, lines, place - file->bias, &to) : add_frame(names, &to);
}

void ct_process_names_free(struct ct_process_names *n) {
    for (size_t i = 0; i < n->text_count; i++)
        free(n->texts[i]);
    free(n->texts);
    free(n->frames);
}

int ct_process_use_lines(struct ct_process *process) {
    process->use_lines = true;
    return ct_dw() ? 0 : CT_ERR_UNSUPPORTED;
}
