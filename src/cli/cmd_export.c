/* SPDX-License-Identifier: Apache-2.0 */
/* contrail export: writes a trace in the format of another program.
 *
 * A file is written next to its final name and renamed when it is whole, so that nothing half-written is left; a
 * directory is removed again when it could not be finished.
 *
 * Two processes: this one opens and finishes the output, with the user's rights; the other one reads the trace, with no
 * rights. */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/new_file.h"
#include "cli/reading.h"
#include "cli/rights.h"
#include "cli/selection.h"
#include "cli/signals.h"
#include "export/export.h"
#include "report/where.h"
#include "trace/file.h"
#include "trace/reader.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
    struct ct_selection selection;
    int format, weight, codec;
    const char *tables;
    const char *output;
    bool mangled, allow_damaged;
};

/* The reader's results, in shared memory. */
struct outcome {
    int code;   /* exit code when the reader could not open the trace, after its message; -1: it could */
    int status; /* of the export */
    int signal; /* signal that ended the reader */
    bool damaged;
    struct ct_export_result result;
};

struct job {
    const struct ct_export_format *format;
    struct ct_export_options export;
    struct outcome *outcome;
    const char *trace;
    struct ct_rights rights; /* of the reader */
    struct ct_place *place;  /* the output directory; NULL: none */
    struct stat was;         /* the directory, before it was the reader's */
    bool lent;
    struct ct_live live;
    uint64_t start_ns;       /* of the trace */
    char *path;              /* final name; NULL: standard output */
    struct ct_new_file file; /* for a format of one file */
};

enum { INTERRUPTED = 1, BAR = 24, LEVELS = 8 };

/* ---- progress ---- */

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

/* Seconds since the beginning, as --from takes them, with as few digits as the length of the range allows. */
static void seconds_text(char *text, size_t size, uint64_t ns, uint64_t range_ns, bool up) {
    uint64_t unit = 1;
    int digits = 9;
    for (; unit < range_ns / 100 && digits > 2; unit *= 10)
        digits--;
    ns = (ns + (up ? unit - 1 : 0)) / unit * unit;
    snprintf(text, size, "%.*fs", digits, (double)ns / 1e9);
}

/* Reports an export that no viewer loads; it is written all the same. */
static void show_large(void *arg, const struct ct_export_large *large) {
    const struct job *job = arg;
    char size[CT_TEXT_SIZE], limit[CT_TEXT_SIZE], from[64], to[64];
    uint64_t range_ns = large->to_ns - large->from_ns;
    seconds_text(from, sizeof from, large->from_ns > job->start_ns ? large->from_ns - job->start_ns : 0, range_ns,
                 false);
    seconds_text(to, sizeof to, large->to_ns > job->start_ns ? large->to_ns - job->start_ns : 0, range_ns, true);
    ct_message_error("the export will have about %s, and viewers of %s load about %s; --from %s --to %s exports a part",
                     ct_text_size(size, large->bytes), job->format->name, ct_text_size(limit, CT_EXPORT_LARGE), from,
                     to);
}

/* ---- output ---- */

/* session_X, or session_X.pid_N: the base of the default file name. */
static char *name_of_trace(const char *trace) {
    char *path = realpath(trace, NULL), *name = NULL;
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

static char *default_path(const struct job *job, const char *trace) {
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
    if (!stat(job->path, &status) && !S_ISDIR(status.st_mode)) {
        ct_message_error("%s exists and is not a directory; format %s writes a directory: give another path with -o",
                         job->path, job->format->name);
        return CT_EXIT_UNAVAILABLE;
    }
    int error = ct_place_open(&job->place, job->path, CT_PLACE_MAKE_LAST, CT_PLACE_NO_GROUP);
    if (!error && ct_place_is_empty(job->place) && !ct_place_is_closed(job->place)) /* the reader may be its owner */
        error = CT_PLACE_NOT_OURS;
    job->export.place = job->place;
    return error ? cannot_write(job->path, error) : -1;
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

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int open_output(struct job *job, const char *trace, const char *output) {
    if (output && !strcmp(output, "-"))
        return open_stdout(job);
    job->path = output ? strdup(output) : default_path(job, trace);
    if (!job->path)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    return is_directory(job) ? open_directory(job) : open_file(job);
}

/* ---- the end ---- */

/* Removes a directory that was made for an export that failed. */
static void remove_unfinished(struct job *job) {
    if (job->place && ct_place_is_new(job->place)) {
        ct_place_clear(job->place);
        ct_place_unmake(job->place);
    }
}

static int report_failure(const struct job *job, int status) {
    const char *where = job->path ? job->path : "the output";
    if (status == INTERRUPTED)
        return 128 + job->outcome->signal;
    if (job->outcome->result.error == EPIPE)
        return 0; /* the reader of our output has closed it */
    if (job->outcome->result.error)
        return cannot_write(where, job->outcome->result.error);
    if (status == CT_ERR_BUSY) {
        ct_message_error("%s exists and is not empty; remove it, or give another path with -o", where);
        return CT_EXIT_UNAVAILABLE;
    }
    ct_message_error("%s: %s", job->trace, ct_status_text(status));
    return ct_message_exit_code(status);
}

static void print_summary(const struct job *job) {
    char events[CT_TEXT_SIZE], threads[CT_TEXT_SIZE], size[CT_TEXT_SIZE];
    const struct ct_export_result *r = &job->outcome->result;
    printf("%s: %s event%s of %s thread%s, %s; %s\n", job->path, ct_text_count(events, r->events),
           r->events == 1 ? "" : "s", ct_text_count(threads, r->threads), r->threads == 1 ? "" : "s",
           ct_text_size(size, r->bytes), job->format->hint);
}

static int finish_output(struct job *job, int status) {
    int error = ct_new_file_close(&job->file, !status); /* some file systems report a full disk only now */
    if (error && !status) {
        job->outcome->result.error = error;
        status = CT_ERR_SYSTEM;
    }
    if (status) {
        remove_unfinished(job);
        return job->outcome->code >= 0 ? job->outcome->code : report_failure(job, status);
    }
    if (!job->path)
        return 0;
    print_summary(job);
    return ct_message_finish();
}

/* ---- the reader ---- */

/* The directory belongs to the reader while it writes there, through our descriptor: the reader needs no access to the
 * directories above. The reader is the user nobody then: the trace's owner could interfere. */
static void lend_directory(struct job *job) {
    int fd = ct_place_descriptor(job->place);
    job->rights = ct_rights_to_read(NULL, 0);
    if (job->rights.user != geteuid() && ct_place_is_empty(job->place) && ct_place_is_closed(job->place) &&
        !fstat(fd, &job->was))
        job->lent = !fchown(fd, job->rights.user, job->rights.group);
}

/* Takes back each directory before its contents: nobody else can change these meanwhile. Closes the descriptor. */
static void take_back_below(const struct job *job, int fd, int levels) {
    struct dirent *entry;
    DIR *list = fd < 0 || fchown(fd, job->was.st_uid, job->was.st_gid) ? NULL : fdopendir(fd);
    if (!list && fd >= 0)
        close(fd);
    while (list && (entry = readdir(list))) {
        struct stat status;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            fstatat(dirfd(list), entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISDIR(status.st_mode) && levels)
            take_back_below(job, openat(dirfd(list), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                            levels - 1);
        else
            (void)!fchownat(dirfd(list), entry->d_name, job->was.st_uid, job->was.st_gid, AT_SYMLINK_NOFOLLOW);
    }
    if (list)
        closedir(list);
}

static void take_back(const struct job *job) {
    if (job->lent)
        take_back_below(job, openat(ct_place_descriptor(job->place), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), LEVELS);
}

static void read_trace(struct job *job, const struct ct_operands *operands, struct options *options) {
    struct outcome *o = job->outcome;
    struct ct_trace *trace;
    ct_rights_drop(&job->rights, false);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    o->code = ct_reading_open_next(&trace, operands);
    if (o->code >= 0)
        _exit(0);
    o->code = ct_selection_apply(&options->selection, trace, NULL, &job->export.select);
    if (o->code >= 0)
        _exit(0);
    if (options->mangled)
        ct_trace_keep_mangled(trace);
    job->start_ns = ct_selection_start(trace);
    ct_reading_report_damage(trace);
    ct_reading_report_clock(trace);
    ct_reading_report_sampled(trace);
    ct_live_init(&job->live, true, false);
    int status = ct_export_run(trace, &job->export, &o->result);
    ct_live_erase(&job->live);
    ct_selection_finish(&options->selection);
    o->signal = ct_signals_stop();
    o->status = status;
    o->damaged = ct_reading_close(trace, 0, false) != 0;
    _exit(0);
}

/* Waits for the reader's end. Passes on a signal that was sent to us alone. */
static int wait_for_reader(pid_t reader) {
    int fd = (int)syscall(SYS_pidfd_open, reader, 0), how = 0;
    while (waitpid(reader, &how, WNOHANG) == 0) {
        struct pollfd end = {fd, POLLIN, 0};
        if (ct_signals_stop())
            (void)kill(reader, ct_signals_stop());
        poll(&end, fd >= 0, fd >= 0 ? 100 : 10);
    }
    if (fd >= 0)
        close(fd);
    return how;
}

static int export_apart(struct job *job, const struct ct_operands *operands, struct options *options) {
    if (job->place)
        lend_directory(job);
    *job->outcome = (struct outcome){.code = -1, .status = CT_ERR_SYSTEM};
    fflush(NULL);
    pid_t reader = fork();
    if (reader == 0)
        read_trace(job, operands, options);
    int how = reader > 0 ? wait_for_reader(reader) : 0;
    take_back(job);
    if (!WIFSIGNALED(how))
        return job->outcome->code >= 0 ? CT_ERR_SYSTEM : job->outcome->status;
    ct_message_error("%s: the process that read it ended by signal %d", job->trace, WTERMSIG(how));
    job->outcome->code = CT_EXIT_INTERNAL;
    return CT_ERR_SYSTEM;
}

static int export_trace(struct job *job, const struct ct_operands *operands, struct options *options) {
    const struct ct_operands traces = ct_reading_named(operands);
    job->format = ct_export_format_at((size_t)options->format);
    job->export = (struct ct_export_options){.format = job->format,
                                             .fd = -1,
                                             .weight = (enum ct_export_weight)options->weight,
                                             .codec = (enum ct_export_codec)options->codec,
                                             .tables = options->tables,
                                             .progress = show_progress,
                                             .large = show_large,
                                             .arg = job};
    job->rights = ct_rights_to_read(traces.at, traces.count);
    ct_signals_install(false);
    int code = open_output(job, job->trace, options->output);
    if (code < 0)
        code = finish_output(job, export_apart(job, operands, options));
    return !code && job->outcome->damaged && !options->allow_damaged ? (int)CT_EXIT_DAMAGED : code;
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int check_tables(const struct options *o) {
    char wrong[64], known[CT_EXPORT_TABLES_TEXT];
    if (!o->tables || ct_export_check_tables(o->tables, wrong, sizeof wrong, known))
        return -1;
    ct_message_error("parquet has no table \"%s\"; --tables takes some of %s", wrong, known);
    return CT_EXIT_USAGE;
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int check_selection(struct options *o) {
    const struct ct_selection *s = &o->selection;
    int code = check_tables(o);
    if (code >= 0)
        return code;
    bool parts = s->functions.count || s->modules.count || s->threads.count || s->from || s->to || s->where;
    if (parts && ct_export_format_at((size_t)o->format)->flags & CT_EXPORT_COPY) {
        ct_message_error("format %s is a copy of whole processes: it takes --process alone; leave out the other words, "
                         "or choose another format",
                         ct_export_format_at((size_t)o->format)->name);
        return CT_EXIT_USAGE;
    }
    return ct_selection_check(&o->selection);
}

static int run_export(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct job job = {.file.fd = -1};
    int code = ct_options_parse(&ct_command_export, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    code = check_selection(&options);
    if (code >= 0) {
        ct_options_release(&ct_command_export, &options);
        return code;
    }
    char *newest = operands.count ? NULL : ct_find_newest_session(ct_reading_root());
    job.trace = operands.count ? operands.at[0] : newest ? newest : ct_reading_root();
    job.outcome = mmap(NULL, sizeof *job.outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    code =
        job.outcome == MAP_FAILED ? ct_message_fail(CT_ERR_NO_MEMORY, NULL) : export_trace(&job, &operands, &options);
    ct_place_drop(job.place);
    free(newest);
    free(job.path);
    ct_where_free(options.selection.compiled);
    ct_options_release(&ct_command_export, &options);
    return code;
}

#define WORD(id, word, before, after, sort, what, opens, is, bytes) word,
static const char *const format_words[] = {CT_EXPORT_FORMAT_LIST(WORD) NULL};
#undef WORD
static const char *const weight_words[] = {"time", "calls", NULL};
static const char *const codec_words[] = {"zstd", "lz4", "none", NULL};

static const struct ct_option option_table[] = {
    {"format", 'f', CT_OPTION_CHOICE, offsetof(struct options, format), "FORMAT", "what to write",
     .initial = "perfetto", .choices = format_words},
    {"output", 'o', CT_OPTION_STRING, offsetof(struct options, output), "PATH",
     "where to write; - is standard output. Without it, a file in the current directory that is named after the trace"},
    {"weight", 0, CT_OPTION_CHOICE, offsetof(struct options, weight), "WHAT",
     "what folded stacks count: microseconds in the innermost function itself, or calls of it", .initial = "time",
     .choices = weight_words},
    {"codec", 0, CT_OPTION_CHOICE, offsetof(struct options, codec), "CODEC", "how parquet compresses",
     .initial = "zstd", .choices = codec_words},
    {"tables", 0, CT_OPTION_STRING, offsetof(struct options, tables), "NAMES",
     "tables that parquet writes, separated by commas; without it all of them"},
    CT_OPTIONS_SELECTION(struct options, 0,
                         "only calls of functions whose name matches, all calls below them, and their "
                         "callers",
                         "only calls of functions in modules whose file name matches, and their callers"),
    {"mangled", 0, CT_OPTION_FLAG, offsetof(struct options, mangled), NULL,
     "write names as the symbol tables have them"},
    CT_OPTION_ALLOW_DAMAGED(struct options),
    {0},
};

#define LINE(id, word, before, after, sort, what, opens, is, bytes) "  " word ": " what "\n"
const struct ct_command ct_command_export = {
    .name = "export",
    .group = CT_GROUP_READ,
    .run = run_export,
    .summary = "write the trace in the format of another program",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Writes the trace for other viewers and tools. TRACE is a session or a pid_N directory; without it, the "
        "newest under ./traces. An existing file is replaced when the new one is whole; a directory must be new or "
        "empty.\n\n"
        "Calls that were left by an exception, calls that were open at the end and places where events were lost are "
        "marked where the format allows it. --from, --to, --thread, --process, --function, --module and --where select "
        "calls as in all reading commands (contrail(1), SELECTION); the calls around those that fit are kept, so that "
        "stacks are whole. Viewers load about 100 MiB: before more than that is written for one, a message says so and "
        "names a part that fits. docs/EXPORTS.md describes what each format contains.",
    .options = option_table,
    .notes = "Formats:\n" CT_EXPORT_FORMAT_LIST(
        LINE) "\nExit status:\n"
              "  0 done, 64 usage, 65 parts of the trace are missing,\n"
              "  69 there is no such trace or the output cannot be written, 77 permission",
    .examples = "contrail export\n"
                "contrail export --format folded -o - | flamegraph.pl > graph.svg\n"
                "contrail export --format callgrind && callgrind_annotate callgrind.out.session_*\n"
                "contrail export --from -2s\n"
                "contrail export --format chrome --where 'duration > 100us' --thread 'worker-*'\n"
                "contrail export --format parquet --tables calls,functions -o run1\n"
                "contrail export --format ctf -o trace.ctf traces/session_20250102_030405/pid_1234",
};
#undef LINE
