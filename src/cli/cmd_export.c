/* contrail export: a trace in the format of another program.
 *
 * A file is written beside its final name and renamed when it is whole, so that nothing half-written is left behind; a directory is
 * removed again when it could not be finished. */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/new_file.h"
#include "cli/reading.h"
#include "cli/signals.h"
#include "export/export.h"
#include "trace/file.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    int format, weight;
    const char *output;
    bool mangled;
};

struct job {
    const struct ct_export_format *format;
    struct ct_export_options export;
    struct ct_export_result result;
    struct ct_live live;
    char *path;              /* where it is to be; NULL: standard output */
    struct ct_new_file file; /* of a format of one file */
};

enum { INTERRUPTED = 1, BAR = 24 };

/* ---- the progress ---- */

static int show_progress(void *arg, uint64_t done, uint64_t total) {
    struct job *job = arg;
    char bar[BAR + 1], text[160], a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], percent[CT_TEXT_SIZE];
    size_t full = total ? (size_t)((double)done / (double)total * BAR) : BAR;
    if (ct_signals_stop())
        return INTERRUPTED;
    if (!job->live.on)
        return 0;
    memset(bar, '.', BAR);
    memset(bar, '#', full < BAR ? full : BAR);
    bar[BAR] = 0;
    snprintf(text, sizeof text, "exporting [%s] %s, %s of %s events", bar, ct_text_percent(percent, done, total),
             ct_text_short(a, (double)done), ct_text_short(b, (double)total));
    ct_live_show_step(&job->live, text, 0, 0);
    return 0;
}

/* ---- where it goes ---- */

/* session_X, or session_X.pid_N: what the default file name is made from. */
static char *name_of_trace(const struct ct_trace *trace) {
    char *path = realpath(ct_trace_path(trace), NULL), *name = NULL;
    if (!path)
        return strdup("trace");
    char *last = strrchr(path, '/');
    if (!last[1]) {
        name = strdup("trace");
    } else if (!strncmp(last + 1, "pid_", 4) && last != path) {
        *last = 0;
        char *parent = strrchr(path, '/');
        if (asprintf(&name, "%s.%s", parent ? parent + 1 : path, last + 1) < 0)
            name = NULL;
    } else {
        name = strdup(last + 1);
    }
    free(path);
    return name;
}

static char *default_path(const struct job *job, const struct ct_trace *trace) {
    char *name = name_of_trace(trace), *path = NULL;
    if (name && asprintf(&path, "%s%s%s", job->format->prefix, name, job->format->suffix) < 0)
        path = NULL;
    free(name);
    return path;
}

static bool is_directory(const struct job *job) {
    return job->format->kind == CT_EXPORT_DIRECTORY;
}

static int cannot_write(const char *path, int error) {
    bool refused = ct_file_status(error) == CT_ERR_PERMISSION_DENIED;
    ct_message_error("%s cannot be written: %s%s", path, ct_place_reason(error),
                     refused ? "; give another path with -o" : "");
    return refused ? CT_EXIT_PERMISSION : CT_EXIT_UNAVAILABLE;
}

static int open_stdout(struct job *job) {
    if (is_directory(job)) {
        ct_message_error("%s is a directory of several files and cannot go to standard output; give a path with -o",
                         job->format->name);
        return CT_EXIT_USAGE;
    }
    if (job->format->kind == CT_EXPORT_BINARY && isatty(STDOUT_FILENO)) {
        ct_message_error("%s is binary and is not written to a terminal; redirect it, or give a file with -o",
                         job->format->name);
        return CT_EXIT_USAGE;
    }
    job->export.fd = STDOUT_FILENO;
    return -1;
}

static int open_directory(struct job *job) {
    struct stat status;
    job->export.directory = job->path;
    if (stat(job->path, &status) != 0 || S_ISDIR(status.st_mode))
        return -1;
    ct_message_error("%s exists and is not a directory; %s is one: give another path with -o", job->path,
                     job->format->name);
    return CT_EXIT_UNAVAILABLE;
}

static int open_file(struct job *job) {
    int error = ct_new_file_open(&job->file, job->path);
    if (error == EISDIR) {
        ct_message_error("%s is a directory; name a file with -o", job->path);
        return CT_EXIT_UNAVAILABLE;
    }
    job->export.fd = job->file.fd;
    return error ? cannot_write(job->path, error) : -1;
}

/* Returns -1 to go on, otherwise the exit code, after a message. */
static int open_output(struct job *job, const struct ct_trace *trace, const char *output) {
    if (output && !strcmp(output, "-"))
        return open_stdout(job);
    job->path = output ? strdup(output) : default_path(job, trace);
    if (!job->path)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    return is_directory(job) ? open_directory(job) : open_file(job);
}

/* ---- the end ---- */

static int fail(const struct job *job, const struct ct_trace *trace, int status) {
    const char *where = job->path ? job->path : "the output";
    if (status == INTERRUPTED)
        return 128 + ct_signals_stop();
    if (job->result.error == EPIPE)
        return 0; /* the reader has seen enough */
    if (job->result.error)
        return cannot_write(where, job->result.error);
    if (status == CT_ERR_BUSY) {
        ct_message_error("%s exists and is not empty; remove it, or give another path with -o", where);
        return CT_EXIT_UNAVAILABLE;
    }
    return ct_reading_fail(trace, status);
}

static void print_summary(const struct job *job) {
    char events[CT_TEXT_SIZE], threads[CT_TEXT_SIZE], size[CT_TEXT_SIZE];
    const struct ct_export_result *r = &job->result;
    printf("%s: %s event%s of %s thread%s, %s; %s\n", job->path, ct_text_count(events, r->events),
           r->events == 1 ? "" : "s", ct_text_count(threads, r->threads), r->threads == 1 ? "" : "s",
           ct_text_size(size, r->bytes), job->format->hint);
}

static int finish(struct job *job, const struct ct_trace *trace, int status) {
    int error = ct_new_file_close(&job->file, !status); /* some file systems tell of a full disk only now */
    if (error && !status) {
        job->result.error = error;
        status = CT_ERR_SYSTEM;
    }
    if (status)
        return fail(job, trace, status);
    if (!job->path)
        return 0;
    print_summary(job);
    return ct_message_finish();
}

static int export_trace(struct ct_trace *trace, const struct options *options) {
    struct job job = {.format = ct_export_format_at((size_t)options->format), .file.fd = -1};
    job.export = (struct ct_export_options){.format = job.format,
                                            .fd = -1,
                                            .weight = (enum ct_export_weight)options->weight,
                                            .progress = show_progress,
                                            .arg = &job};
    ct_signals_install(false);
    int code = open_output(&job, trace, options->output);
    if (code < 0) {
        ct_live_init(&job.live, true, false);
        int status = ct_export_run(trace, &job.export, &job.result);
        ct_live_erase(&job.live);
        code = finish(&job, trace, status);
    }
    free(job.path);
    return code;
}

static int run(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    int code = ct_options_parse(&ct_command_export, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    code = ct_reading_open(&trace, &operands);
    if (code < 0) {
        if (options.mangled)
            ct_trace_keep_mangled(trace);
        code = export_trace(trace, &options);
        ct_trace_close(trace);
    }
    ct_options_release(&ct_command_export, &options);
    return code;
}

#define WORD(id, word, before, after, sort, what, opens) word,
static const char *const format_words[] = {CT_EXPORT_FORMAT_LIST(WORD) NULL};
#undef WORD
static const char *const weight_words[] = {"time", "calls", NULL};

static const struct ct_option option_table[] = {
    {"format", 'f', CT_OPTION_CHOICE, offsetof(struct options, format), "FORMAT", "what to write",
     .initial = "perfetto", .choices = format_words},
    {"output", 'o', CT_OPTION_STRING, offsetof(struct options, output), "PATH",
     "where to write; - is standard output. Without it, a file in the current directory that is named after the trace"},
    {"weight", 0, CT_OPTION_CHOICE, offsetof(struct options, weight), "WHAT",
     "what the numbers of folded stacks are: microseconds in the innermost function itself, or calls of it",
     .initial = "time", .choices = weight_words},
    {"mangled", 0, CT_OPTION_FLAG, offsetof(struct options, mangled), NULL,
     "write names as the symbol tables have them"},
    {0},
};

#define LINE(id, word, before, after, sort, what, opens) "  " word ": " what "\n"
const struct ct_command ct_command_export = {
    .name = "export",
    .group = CT_GROUP_READ,
    .run = run,
    .summary = "write the trace in the format of another program",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Writes the trace for a viewer or a tool that you know already. TRACE is a session or a pid_N directory; "
        "without "
        "it, the newest under ./traces. A file that is there is replaced when the new one is whole; a directory must "
        "be "
        "new or empty.\n\n"
        "Calls that were left by an exception, calls that were open at the end and places where events were lost are "
        "marked where the format can say so. docs/EXPORTS.md tells what each format holds.",
    .options = option_table,
    .notes = "Formats:\n" CT_EXPORT_FORMAT_LIST(
        LINE) "\nExit status:\n"
              "  0 done, 64 usage, 69 there is no such trace or the output cannot be written, 77 permission",
    .examples = "contrail export\n"
                "contrail export --format folded -o - | flamegraph.pl > graph.svg\n"
                "contrail export --format callgrind && callgrind_annotate callgrind.out.session_*\n"
                "contrail export --format ctf -o trace.ctf traces/session_20250102_030405/pid_1234",
};
#undef LINE
