/* SPDX-License-Identifier: Apache-2.0 */
/* contrail tail: shows the calls of a process while it is being recorded.
 *
 * Reads what the recorder writes; the process and its recorder do not notice. Lines come a moment later than the
 * recorder has written all threads, so that they are in order of time. */
#include "base/closest.h"
#include "cli/command.h"
#include "cli/ctl.h"
#include "cli/reading.h"
#include "cli/record.h"
#include "cli/replay_view.h"
#include "cli/rights.h"
#include "cli/selection.h"
#include "report/where.h"
#include "trace/arguments.h"
#include <contrail/session.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUND_NS  100000000ull
#define LAG_NS    100000000ull  /* several rounds of the recorder */
#define VALUES_NS 1200000000ull /* records of arguments and results are written after their events */

/* Kinds of lines, and their names. */
#define KIND_LIST(X)                                                                                                   \
    X(CALL, "call") X(RETURN, "return") X(EXCEPTION, "exception") X(SIGNAL, "signal") X(LOSS, "loss") X(MARK, "mark")
enum {
#define KIND(name, text) KIND_##name,
    KIND_LIST(KIND)
#undef KIND
        KIND_COUNT
};
static const char *const kind_names[] = {
#define NAME(name, text) text,
    KIND_LIST(NAME)
#undef NAME
        NULL,
};

struct options {
    struct ct_selection selection;
    struct ct_option_list only, exclude, kinds;
    uint64_t depth, min_duration, limit;
    bool no_children, all, args, absolute, show_module, full_names, mangled;
};

struct tail {
    struct options *options;
    int pid;
    bool is_first;   /* the first process of its session: all others are its children */
    bool has_values; /* arguments and results of all calls are written */
    bool kinds[KIND_COUNT];
    char directory[4096];
    uint64_t until_ns;       /* shown, or to be shown now */
    uint64_t from_ns, to_ns; /* of the lines; 0: no limit */
    uint64_t mark_ns;        /* of the newest mark that is known; those up to it are not taken again */
    struct ct_follow *follow;
    struct ct_replay_stream *stream;
    struct ct_replay_view view;
    struct ct_where_values values; /* of this round */
};

/* ---- finding the session ---- */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Reads the text of a member of the answer, which is flat up to there; false: it has none. */
static bool read_member(const char *json, const char *key, char *text, size_t size) {
    struct ct_json_tree *tree = NULL;
    const struct ct_json_node *node = NULL;
    if (!ct_json_parse(&tree, json, strlen(json), NULL))
        node = ct_json_get(ct_json_root(tree), key, NULL);
    const char *value = ct_json_text(node, "");
    bool found = *value && (size_t)snprintf(text, size, "%s", value) < size;
    ct_json_tree_free(tree);
    return found;
}

static uint64_t read_number(const char *json, const char *key) {
    struct ct_json_tree *tree = NULL;
    uint64_t value = 0;
    if (!ct_json_parse(&tree, json, strlen(json), NULL))
        value = ct_json_u64(ct_json_get(ct_json_root(tree), key, NULL), 0);
    ct_json_tree_free(tree);
    return value;
}

static bool wants_values(const struct tail *t) {
    return t->options->args || ct_where_needs_values(t->options->selection.compiled);
}

static bool has_values(const char *json) {
    struct ct_json_tree *tree = NULL;
    const struct ct_json_node *mode = NULL;
    if (!ct_json_parse(&tree, json, strlen(json), NULL))
        mode = ct_json_get(ct_json_root(tree), "detail", "mode", NULL);
    bool always = !strcmp(ct_json_text(mode, ""), "always");
    ct_json_tree_free(tree);
    return always;
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int find_session(struct tail *t) {
    static char answer[65536];
    int code;
    if (!ct_ctl_ask(t->pid, "status", answer, sizeof answer, &code))
        return code;
    t->is_first = read_number(answer, "pid") == (uint64_t)t->pid;
    t->has_values = has_values(answer);
    if (read_member(answer, "directory", t->directory, sizeof t->directory))
        return -1;
    ct_message_error("the contrail that records process %d does not say where", t->pid);
    return CT_EXIT_INTERNAL;
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int check_values(const struct tail *t) {
    struct ct_selection *s = &t->options->selection;
    struct ct_select select = {.functions = s->functions.items, .modules = s->modules.items, .where = s->compiled};
    struct ct_trace *trace;
    int code = -1;
    if (ct_where_needs_values(s->compiled) && !ct_trace_open(&trace, t->directory, NULL, 0)) {
        code = ct_selection_check_names(s, trace, NULL, &select);
        ct_trace_close(trace);
    }
    if (code >= 0 || !wants_values(t) || t->has_values)
        return code;
    ct_message_error(
        "tail knows arguments and results of processes that are recorded with --detail always, and process "
        "%d is not; use contrail replay where marks have kept some",
        t->pid);
    return CT_EXIT_UNAVAILABLE;
}

/* ---- marks ---- */

static int add_mark(struct tail *t, uint64_t time_ns, const char *label) {
    if (time_ns <= t->mark_ns || (t->to_ns && time_ns >= t->to_ns))
        return 0;
    t->mark_ns = time_ns;
    return ct_marks_add(&t->view.marks, time_ns, label);
}

/* Takes new marks from the recorder's answer. */
static int add_marks(struct tail *t, const char *json) {
    struct ct_json_tree *tree = NULL;
    if (ct_json_parse(&tree, json, strlen(json), NULL))
        return 0;
    const struct ct_json_node *marks = ct_json_get(ct_json_root(tree), "manual_marks", NULL);
    int status = 0;
    for (const struct ct_json_node *m = ct_json_first(marks); m && !status; m = m->next)
        status = add_mark(t, ct_json_u64(ct_json_get(m, "time_ns", NULL), 0),
                          ct_json_text(ct_json_get(m, "label", NULL), ""));
    ct_json_tree_free(tree);
    return status;
}

/* Takes new marks from the trace: older ones than the recorder lists, and those of its last moment. */
static int read_marks(struct tail *t) {
    struct ct_trace *trace;
    struct ct_marks marks;
    if (!t->kinds[KIND_MARK] || t->options->selection.compiled || ct_trace_open(&trace, t->directory, NULL, 0) != 0)
        return 0;
    int status = ct_marks_read(&marks, trace);
    for (size_t i = 0; !status && i < marks.count; i++)
        status = add_mark(t, marks.items[i].time_ns, marks.items[i].label);
    ct_marks_free(&marks);
    ct_trace_close(trace);
    return status;
}

/* Finds out up to which time the events of all threads are written, minus a moment. A recorder that has no time to
 * answer may have none to write: there is nothing new then. False: it has ended. */
static bool is_recorded(struct tail *t) {
    static char answer[65536];
    uint64_t now = now_ns();
    int status = ct_session_control(t->pid, "status", answer, sizeof answer);
    uint64_t lag = (wants_values(t) ? VALUES_NS : LAG_NS) + (status ? 0 : read_number(answer, "behind_ns"));
    if (!status && lag < now && now - lag > t->until_ns)
        t->until_ns = now - lag;
    if (!status && t->kinds[KIND_MARK] && !t->options->selection.compiled)
        (void)add_marks(t, answer); /* out of memory: the mark is not shown */
    return status != CT_ERR_NOT_FOUND;
}

/* ---- which lines ---- */

/* True for the process and its descendants, as far as they are selected. */
static bool is_shown_process(const struct tail *t, size_t process) {
    const struct ct_follow_process *p = ct_follow_process_at(t->follow, process);
    if (!ct_select_numbered(t->options->selection.processes.items, (uint64_t)p->pid, p->program))
        return false;
    if (p->pid == t->pid)
        return true;
    if (t->options->no_children)
        return false;
    if (t->is_first)
        return true;
    size_t count = ct_follow_process_count(t->follow);
    for (size_t generation = 0; generation < count; generation++) {
        if (p->parent_pid == t->pid)
            return true;
        const struct ct_follow_process *parent = NULL;
        for (size_t i = 0; i < count && !parent; i++)
            if (ct_follow_process_at(t->follow, i)->pid == p->parent_pid)
                parent = ct_follow_process_at(t->follow, i);
        if (!parent)
            return false;
        p = parent;
    }
    return false;
}

static int kind_of(const struct ct_replay_line *line) {
    switch (line->kind) {
    case CT_REPLAY_OPEN:
    case CT_REPLAY_ENTRY:
    case CT_REPLAY_LEAF:
        return KIND_CALL;
    case CT_REPLAY_GAP:
        return KIND_LOSS;
    case CT_REPLAY_SIGNAL:
        return KIND_SIGNAL;
    default:
        return line->end == CT_REPLAY_LEFT ? KIND_EXCEPTION : KIND_RETURN;
    }
}

static int on_line(void *arg, const struct ct_replay_line *line) {
    struct tail *t = arg;
    uint64_t end_ns = line->time_ns + (line->kind == CT_REPLAY_LEAF ? line->duration_ns : 0);
    if (end_ns < t->from_ns || (t->to_ns && line->time_ns >= t->to_ns))
        return 0;
    return t->kinds[kind_of(line)] ? ct_replay_view_line(&t->view, line) : 0;
}

static const char *kind_name(const void *arg, size_t i) {
    (void)arg;
    return kind_names[i];
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int choose_kinds(struct tail *t) {
    const struct ct_option_list *list = &t->options->kinds;
    for (int i = 0; i < KIND_COUNT; i++)
        t->kinds[i] = !list->count;
    for (size_t k = 0; k < list->count; k++) {
        int i = 0;
        while (i < KIND_COUNT && strcmp(kind_names[i], list->items[k]) != 0)
            i++;
        if (i == KIND_COUNT) {
            const char *close = ct_closest_name(list->items[k], kind_name, NULL, KIND_COUNT);
            ct_message_error("--kind takes call, return, exception, signal, loss or mark, not \"%s\"%s%s%s",
                             list->items[k], close ? "; did you mean " : "", close ? close : "", close ? "?" : "");
            return CT_EXIT_USAGE;
        }
        t->kinds[i] = true;
    }
    return -1;
}

/* ---- following ---- */

/* Threads get their names some time after their first events. */
static int name_threads(struct tail *t) {
    int status = 0;
    for (size_t i = 0; i < ct_follow_thread_count(t->follow) && !status; i++) {
        const struct ct_follow_thread *thread = ct_follow_thread_at(t->follow, i);
        struct ct_trace_thread known = {.tid = thread->tid, .name = thread->name};
        char text[256];
        if (!is_shown_process(t, thread->process) ||
            !ct_select_numbered(t->options->selection.threads.items, thread->tid, thread->name))
            continue;
        ct_reading_thread_text(text, sizeof text, &known);
        status = ct_replay_view_name_thread(&t->view, i, text);
        if (!status)
            status = ct_replay_stream_thread(t->stream, i, thread);
    }
    return status;
}

static int on_event(void *arg, const struct ct_trace_event *event) {
    struct tail *t = arg;
    return ct_replay_stream_event(t->stream, event);
}

static void close_values(struct tail *t) {
    ct_argument_reader_close(t->values.reader);
    t->values = (struct ct_where_values){.detail = CT_TRACE_NO_DETAIL};
    t->view.arguments = NULL;
    t->view.indexes = NULL;
    if (t->stream)
        ct_replay_stream_values(t->stream, NULL, NULL);
}

/* Arguments and results of what was looked at. */
static int open_values(struct tail *t) {
    const size_t *indexes = ct_follow_indexes(t->follow);
    int status = wants_values(t) ? ct_argument_reader_open(&t->values.reader, ct_follow_trace(t->follow), NULL) : 0;
    if (status || !t->values.reader)
        return status;
    t->view.arguments = t->options->args ? t->values.reader : NULL;
    t->view.indexes = indexes;
    ct_replay_stream_values(t->stream, &t->values, indexes);
    return 0;
}

/* Shows the events up to a time. */
static int show_round(struct tail *t, uint64_t until_ns) {
    close_values(t); /* they are of the round before */
    int status = ct_follow_look(t->follow, t->options->selection.threads.count && until_ns != UINT64_MAX);
    if (!status)
        status = open_values(t);
    if (status)
        return status == CT_ERR_NOT_FOUND ? 0 : status;
    if (!t->options->absolute && !t->view.start_ns && ct_follow_process_count(t->follow))
        t->view.start_ns = ct_follow_process_at(t->follow, 0)->time_start_ns;
    ct_replay_view_make_room(&t->view, now_ns() - t->view.start_ns);
    status = name_threads(t);
    if (!status)
        status = ct_follow_events(t->follow, until_ns, on_event, t);
    if (!status)
        status = ct_replay_stream_rest(t->stream, until_ns);
    if (!status)
        status = ct_replay_view_marks(&t->view, until_ns);
    return status;
}

/* True when the reader still reads; for times when there is nothing to print. */
static bool reader_is_there(const struct tail *t) {
    struct pollfd p = {.fd = STDOUT_FILENO};
    return ct_printer_wanted(t->view.printer) && (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLERR | POLLNVAL)));
}

/* True when the recorder lived to write the end. */
static bool is_finished(const struct tail *t) {
    for (size_t i = 0; i < ct_follow_process_count(t->follow); i++) {
        const struct ct_follow_process *p = ct_follow_process_at(t->follow, i);
        if (p->pid == t->pid && !p->complete)
            return false;
    }
    return true;
}

/* Shows all rounds until the recording ends. Non-zero: a status, or the reader is gone. */
static int show_all(struct tail *t) {
    for (int status = 0;;) {
        uint64_t begin = now_ns();
        if (!is_recorded(t))
            break;
        status = show_round(t, t->until_ns);
        if (t->to_ns && t->until_ns >= t->to_ns)
            return status;
        ct_printer_flush(t->view.printer);
        if (status || !reader_is_there(t))
            return status;
        uint64_t took = now_ns() - begin, round_ns = wants_values(t) ? 3 * ROUND_NS : ROUND_NS;
        uint64_t rest = took < round_ns ? round_ns - took : 0;
        nanosleep(&(struct timespec){.tv_nsec = (long)rest}, NULL);
    }
    (void)read_marks(t);
    int status = show_round(t, UINT64_MAX); /* when the recorder does not answer any more, everything is written */
    if (!status)
        status = ct_replay_stream_end(t->stream, t->follow);
    ct_printer_flush(t->view.printer);
    if (!status && !is_finished(t))
        ct_message_error("the recorder was killed: the last events of process %d may be missing", t->pid);
    return status;
}

static const struct ct_trace_function *find_function(void *arg, size_t process, uint64_t id) {
    return ct_follow_function(arg, process, id);
}

static int follow_session(struct tail *t) {
    static struct ct_printer printer;
    const struct options *o = t->options;
    struct ct_replay_options options = {
        .select = {.functions = o->selection.functions.items,
                   .modules = o->selection.modules.items,
                   .only = o->only.items,
                   .exclude = o->exclude.items,
                   .where = o->selection.compiled},
        .max_depth = o->depth,
        .min_ns = o->min_duration,
        .separate_ends = o->kinds.count != 0,
    };
    t->view = (struct ct_replay_view){
        .printer = &printer, .limit = o->limit, .show_module = o->show_module, .live = !(o->all || t->from_ns)};
    bool all = o->all || t->from_ns; /* calls that began before --from are known then */
    int status = ct_follow_open(&t->follow, t->directory, all ? 0 : now_ns() - LAG_NS, o->mangled);
    struct ct_replay_stream_setup setup = {
        .options = &options, .find = find_function, .find_arg = t->follow, .show = on_line, .arg = t};
    if (!status)
        status = ct_replay_stream_open(&t->stream, &setup);
    if (!status) {
        ct_printer_open(&printer, false);
        ct_replay_view_make_room(&t->view, o->absolute ? now_ns() : 0);
        status = ct_replay_view_name_thread(&t->view, 0, "");
        ct_replay_view_head(&t->view);
        t->mark_ns = !all ? now_ns() - LAG_NS : t->from_ns ? t->from_ns - 1 : 0;
        if (!status && all)
            status = read_marks(t);
        if (!status)
            status = show_all(t);
    }
    int code = printer.limit ? ct_printer_close(&printer) : 0;
    close_values(t);
    ct_replay_stream_close(t->stream);
    ct_follow_close(t->follow);
    ct_replay_view_free(&t->view);
    return status < 0 ? ct_message_fail(status, NULL) : code;
}

/* ---- the command ---- */

/* Beginning of the recording. 0: not known. */
static uint64_t recording_start(const struct tail *t) {
    struct ct_trace *trace;
    if (ct_trace_open(&trace, t->directory, NULL, 0) != 0)
        return 0;
    uint64_t start_ns = ct_selection_start(trace);
    ct_trace_close(trace);
    return start_ns;
}

/* --from and --to count from the beginning of the recording, or back from now. */
static int find_range(struct tail *t) {
    struct ct_select select = {0};
    const struct ct_selection *s = &t->options->selection;
    int code = s->from || s->to ? ct_selection_range(s, recording_start(t), now_ns(), &select) : -1;
    t->from_ns = s->from && !select.from_ns ? 1 : select.from_ns;
    t->to_ns = select.to_ns;
    return code;
}

static int run_tail(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct tail t = {.options = &options};
    int code = ct_options_parse(&ct_command_tail, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (options.full_names)
        ct_printer_keep_names();
    if (!ct_record_parse_pid("tail", operands.at[0], &t.pid))
        code = CT_EXIT_USAGE;
    if (code < 0)
        code = choose_kinds(&t);
    if (code < 0)
        code = ct_selection_check(&options.selection);
    if (code < 0)
        code = find_session(&t);
    if (code < 0)
        code = check_values(&t);
    if (code < 0)
        code = find_range(&t);
    if (code < 0) {
        char *traces[] = {t.directory};
        struct ct_rights rights = ct_rights_to_talk(traces, 1); /* the recorder is asked again and again */
        ct_rights_drop(&rights, true);
        code = follow_session(&t);
    }
    ct_where_free(options.selection.compiled);
    ct_options_release(&ct_command_tail, &options);
    return code;
}

static const struct ct_option option_table[] = {
    {"only", 0, CT_OPTION_LIST, offsetof(struct options, only), "GLOB", "only functions or modules whose name matches"},
    {"exclude", 'x', CT_OPTION_LIST, offsetof(struct options, exclude), "GLOB",
     "leave out functions or modules whose name matches"},
    CT_OPTIONS_SELECTION(struct options, 'f', "only calls of functions whose name matches, and all calls below them",
                         "only calls of functions in modules whose file name matches"),
    {"kind", 'k', CT_OPTION_LIST, offsetof(struct options, kinds), "KIND",
     "only events of this kind, each in a line of its own", .choices = kind_names},
    {"depth", 'd', CT_OPTION_NUMBER, offsetof(struct options, depth), "N",
     "only N levels of calls, counted from the outermost call, or from those that --function selects"},
    {"min-duration", 0, CT_OPTION_DURATION, offsetof(struct options, min_duration), "TIME",
     "only calls that took at least this long: 100us"},
    {"limit", 'n', CT_OPTION_NUMBER, offsetof(struct options, limit), "N", "end after N lines"},
    {"no-children", 0, CT_OPTION_FLAG, offsetof(struct options, no_children), NULL,
     "leave out the processes that it started"},
    {"args", 0, CT_OPTION_FLAG, offsetof(struct options, args), NULL,
     "show arguments and results; the recording needs --detail always"},
    {"all", 'a', CT_OPTION_FLAG, offsetof(struct options, all), NULL,
     "start at the beginning of the recording instead of now"},
    CT_OPTION_ABSOLUTE(struct options),
    CT_OPTION_SHOW_MODULE(struct options),
    CT_OPTION_MANGLED(struct options),
    CT_OPTION_FULL_NAMES(struct options),
    {0},
};

const struct ct_command ct_command_tail = {
    .name = "tail",
    .group = CT_GROUP_RECORD,
    .run = run_tail,
    .summary = "print the calls of a process while it is being recorded",
    .operands = "PID",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Prints what the contrail that records process PID writes, as it is written, until the recording ends or "
        "Ctrl-C. The lines are those of `contrail replay`: a call that has ended within the last moment is one line, "
        "any other opens with { and closes with } and its duration. Moments that are marked with `contrail ctl PID "
        "mark` are lines too. PID may be a process that the recorded one "
        "started; then that process and its descendants are shown.\n\n"
        "It does not slow the process down, and its end does not end the recording. When more happens than can be "
        "printed, it lags but leaves out nothing; --only, --depth, --kind and --min-duration reduce the output.\n\n"
        "--from, --to, --thread, --process, --function, --module and --where select calls as in all reading commands "
        "(contrail(1), SELECTION). Times count from the beginning of the recording, or back from now; tail ends at "
        "--to. "
        "With --where, a call is a line when it has ended. Arguments and results (--args, and --where with them) are "
        "known "
        "a second later than calls, and only of a process that is recorded with --detail always.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 when the recording has ended, or N lines were printed, or the reader of the output is gone;\n"
             "  64 usage, 69 when nobody records the process or without the detail that is asked for,\n"
             "  77 when another user records it",
    .examples = "contrail tail $(pidof server)\n"
                "contrail tail 4711 --only 'handle_*' --show-module\n"
                "contrail tail 4711 --kind exception --kind loss\n"
                "contrail tail 4711 --where 'result < 0' --args\n"
                "contrail tail 4711 --function main --depth 3 --limit 100",
};
