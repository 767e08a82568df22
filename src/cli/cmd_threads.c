/* SPDX-License-Identifier: Apache-2.0 */
/* contrail threads: lists the threads of a process, with their names, states and backtraces. */
#include "cli/command.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "cli/record.h"
#include "symbols/demangle.h"
#include "trace/writer.h" /* JSON */
#include "base/json_write.h"
#include <contrail/process.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct threads_options {
    bool backtrace, json, lines, mangled;
    uint64_t frames;
};
static const struct ct_option option_table[] = {
    {"backtrace", 'b', CT_OPTION_FLAG, offsetof(struct threads_options, backtrace), NULL,
     "show where each thread is, and its callers; this stops the process for some milliseconds"},
    {"lines", 'l', CT_OPTION_FLAG, offsetof(struct threads_options, lines), NULL,
     "show source lines and inlined functions too, where debug information is installed; implies --backtrace"},
    {"mangled", 0, CT_OPTION_FLAG, offsetof(struct threads_options, mangled), NULL,
     "show names as the symbol tables have them"},
    {"frames", 'n', CT_OPTION_NUMBER, offsetof(struct threads_options, frames), "N", "at most N frames of each thread",
     .initial = "64", .min = 1, .max = 100000},
    {"json", 0, CT_OPTION_FLAG, offsetof(struct threads_options, json), NULL, "print JSON"},
    {0},
};

static const char *state_text(char state) {
    switch (state) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "waiting";
    case 'T':
    case 't':
        return "stopped";
    case 'Z':
    case 'X':
        return "ended";
    case 'I':
        return "idle";
    default:
        return "unknown";
    }
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void print_frame(size_t number, const struct ct_process_frame *frame, bool mangled) {
    char *display = mangled ? NULL : ct_demangle(frame->name);
    printf("    #%-2zu 0x%016" PRIx64 " ", number, frame->pc);
    if (frame->name[0])
        ct_message_print(stdout, display ? display : frame->name);
    else if (frame->module[0])
        ct_message_print(stdout, file_name(frame->module));
    else
        fputs("?", stdout);
    if (frame->offset)
        printf("+0x%" PRIx64, frame->offset);
    if (frame->name[0] && frame->module[0]) {
        fputs(" in ", stdout);
        ct_message_print(stdout, file_name(frame->module));
    }
    if (frame->inlined)
        fputs(" (inlined)", stdout);
    if (frame->line[0]) {
        fputs(" at ", stdout);
        ct_message_print(stdout, frame->line);
    }
    putchar('\n');
    free(display);
}

static void print_thread(const struct threads_options *options, const struct ct_process_thread *thread) {
    printf("%s%8d%s  %-8s  ", ct_colour(stdout, CT_COLOUR_BOLD), thread->tid, ct_colour(stdout, CT_COLOUR_PLAIN),
           state_text(thread->state));
    ct_message_print(stdout, thread->name);
    putchar('\n');
    for (size_t i = 0; i < thread->frame_count; i++)
        print_frame(i, thread->frames[i], options->mangled);
    if (options->backtrace && thread->frame_count == 0)
        puts("    (not running any code of the program)");
    if (options->backtrace && thread->frame_count == options->frames)
        puts("    (there may be more; --frames N shows them)");
}

static int print_threads(struct ct_process *process, size_t frames, const struct threads_options *options) {
    struct ct_process_thread thread = {.size = sizeof thread};
    uint64_t position = 0;
    int status;
    while ((status = ct_process_next_thread(process, frames, &position, &thread)) > 0)
        print_thread(options, &thread);
    return status;
}

static void write_thread(struct ct_json *json, const struct ct_process_thread *thread) {
    char state[2] = {thread->state, 0}, pc[24];
    ct_json_begin(json, NULL, '{');
    ct_json_signed(json, "tid", thread->tid);
    ct_json_string(json, "name", thread->name);
    ct_json_string(json, "state", state);
    if (thread->frame_count)
        ct_json_begin(json, "frames", '[');
    for (size_t i = 0; i < thread->frame_count; i++) {
        const struct ct_process_frame *frame = thread->frames[i];
        snprintf(pc, sizeof pc, "0x%" PRIx64, frame->pc);
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "pc", pc);
        char *display = ct_demangle(frame->name);
        ct_json_string(json, "name", display ? display : frame->name);
        if (display)
            ct_json_string(json, "linkage_name", frame->name);
        free(display);
        ct_json_string(json, "module", frame->module);
        ct_json_number(json, "offset", frame->offset);
        if (frame->line[0])
            ct_json_string(json, "line", frame->line);
        if (frame->inlined)
            ct_json_bool(json, "inlined", true);
        ct_json_end(json, '}');
    }
    if (thread->frame_count)
        ct_json_end(json, ']');
    ct_json_end(json, '}');
}

static int write_threads(struct ct_process *process, int pid, size_t frames) {
    struct ct_json json = {.lines = true};
    struct ct_process_thread thread = {.size = sizeof thread};
    uint64_t position = 0;
    int status;
    ct_json_begin(&json, NULL, '{');
    ct_json_signed(&json, "pid", pid);
    ct_json_begin(&json, "threads", '[');
    while ((status = ct_process_next_thread(process, frames, &position, &thread)) > 0)
        write_thread(&json, &thread);
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    return ct_reading_put_json(&json, status);
}

static int run_threads(int argc, char **argv) {
    struct threads_options options = {0};
    struct ct_operands operands;
    struct ct_process *process;
    char error[512];
    int pid, code = ct_options_parse(&ct_command_threads, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (!ct_record_parse_pid("threads", operands.at[0], &pid))
        return CT_EXIT_USAGE;
    int status = ct_process_open(&process, pid, error, sizeof error);
    if (status)
        return ct_message_fail(status, error);
    options.backtrace |= options.lines;
    if (options.lines && ct_process_use_lines(process))
        ct_message_error("there are no source lines: libdw.so.1 is not installed (Debian package libdw1)");
    size_t frames = options.backtrace ? (size_t)options.frames : 0;
    status = options.json ? write_threads(process, pid, frames) : print_threads(process, frames, &options);
    if (status)
        code = ct_message_fail(status, ct_process_error(process));
    else
        code = ct_message_finish();
    ct_process_close(process);
    return code;
}

const struct ct_command ct_command_threads = {
    .name = "threads",
    .group = CT_GROUP_LOOK,
    .run = run_threads,
    .summary = "list the threads of a process; -b: with backtraces",
    .operands = "PID",
    .min_operands = 1,
    .max_operands = 1,
    .description = "Lists the threads of process PID with their names and states. With --backtrace it also shows the "
                   "function that each is in, and its callers. The callers are the real ones, even while the process "
                   "is being recorded.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0, 69 when there is no such process or it cannot be examined, 77 when you have no permission to",
    .examples = "contrail threads 4711\n"
                "contrail threads 4711 --backtrace --frames 20\n"
                "contrail threads 4711 --lines\n"
                "contrail threads $(pidof redis-server) -b --json",
};
