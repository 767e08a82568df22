/* SPDX-License-Identifier: Apache-2.0 */
/* contrail stalk: follows the threads of a program through translated code. */
#include "cli/command.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "cli/record.h"
#include "cli/stalk_tables.h"
#include <contrail/session.h>
#include <contrail/stalker.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct values {
    struct ct_record_options record;
    const char *events, *clock, *trust, *threads, *coverage;
    uint64_t pid, tid, queue_capacity, drain_interval_ms;
    bool summary, disasm;
};

#define AT(member) offsetof(struct values, member)
static const struct ct_option options[] = {
    {"pid", 'p', CT_OPTION_NUMBER, AT(pid), "PID", "follow a running process", .min = 1, .max = INT_MAX},
    {"tid", 't', CT_OPTION_NUMBER, AT(tid), "TID", "only this thread of the process, like --follow-threads TID",
     .min = 1, .max = INT_MAX},
    {"events", 'e', CT_OPTION_STRING, AT(events), "LIST",
     "events to record: a list of call, ret, block, exec and compile, or none; with call alone, a call lasts until "
     "the next one at its level or above; a block includes its instructions, so exec costs no more than block",
     .initial = "call,ret"},
    {"clock", 0, CT_OPTION_STRING, AT(clock), "WHICH",
     "exact: read the time of each call and return; fast: of every 16th, and use it for those that follow; cheaper, "
     "but durations of single short calls are not known",
     .initial = "exact"},
    {"exclude", 'x', CT_OPTION_LIST, AT(record.exclude), "GLOB",
     "run calls into functions or modules whose name matches GLOB natively, unseen"},
    {"startup-timeout", 0, CT_OPTION_DURATION, AT(record.startup_timeout_ns), "S",
     "give up when the start takes longer than S seconds; the program then continues unfollowed (default: computed "
     "from "
     "the number of functions)",
     .min = 1000000, .max = 86400000000000},
    {"follow-threads", 0, CT_OPTION_STRING, AT(threads), "WHICH", "all, main, or the number of a thread",
     .initial = "all"},
    {"trust", 0, CT_OPTION_STRING, AT(trust), "N",
     "how often a block must be found unchanged before it counts as constant: -1 never, 0 at once, 1 at once if it is "
     "of a file; writable code (of just-in-time compilers) is compared each time it runs, unless N is 0",
     .initial = "1"},
    {"summary", 's', CT_OPTION_FLAG, AT(summary), NULL, "print how often which functions were called"},
    {"coverage", 'c', CT_OPTION_STRING, AT(coverage), "FILE",
     "write the blocks that were executed to FILE, in the format of drcov (version 2); those of later processes to "
     "FILE.PID"},
    {"disasm", 0, CT_OPTION_FLAG, AT(disasm), NULL, "print the blocks that were executed, with counts"},
    {"queue-capacity", 0, CT_OPTION_NUMBER, AT(queue_capacity), "N",
     "events of a thread that may wait to be handed over", .initial = "16384", .min = 64, .max = 1 << 16},
    {"drain-interval-ms", 0, CT_OPTION_NUMBER, AT(drain_interval_ms), "N",
     "hand events over at least every N milliseconds", .initial = "250", .min = 1, .max = 60000},
    {"output", 'o', CT_OPTION_STRING, AT(record.output), "DIR",
     "put the trace into a new directory below DIR (default: output of ./.contrail.conf, or ./traces)"},
    {"duration", 'd', CT_OPTION_DURATION, AT(record.duration_ns), "S",
     "follow for S seconds (20ms, 5m), then let the program go", .min = 1},
    {"no-children", 0, CT_OPTION_FLAG, AT(record.no_children), NULL,
     "leave processes that the program forks, and programs that these execute, alone"},
    {"group", 0, CT_OPTION_STRING, AT(record.group), "NAME",
     "let this group read the trace; without it only its owner and root can, regardless of the umask"},
    {"cpu", 0, CT_OPTION_FLAG, AT(record.cpu), NULL,
     "record when threads are on a processor too: on-CPU and off-CPU time of each call"},
    {"redact", 0, CT_OPTION_FLAG, AT(record.redact), NULL, "leave out command lines, which may contain secrets"},
    {"no-cache", 0, CT_OPTION_FLAG, AT(record.no_cache), NULL, "read every module again, without the cache"},
    {"quiet", 'q', CT_OPTION_FLAG, AT(record.quiet), NULL, "print only errors"},
    {0},
};
#undef AT

/* Parses a comma-separated list of events; false after a message. */
static bool parse_events(const char *text, uint32_t *mask) {
    char copy[128], *rest = copy;
    *mask = 0;
    if (!strcmp(text, "none"))
        return true;
    if (strlen(text) >= sizeof copy) {
        ct_message_error("--events takes a list of call, ret, block, exec, compile, or none");
        return false;
    }
    strcpy(copy, text);
    for (char *word; (word = strsep(&rest, ","));) {
        int bit = ct_stalker_event_of(word);
        if (bit < 0) {
            ct_message_error(
                "there is no event \"%s\"; --events takes a list of call, ret, block, exec, compile, or none", word);
            return false;
        }
        *mask |= (uint32_t)bit;
    }
    return true;
}

static bool parse_int(const char *option, const char *text, int least, int *out) {
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > INT_MAX) {
        ct_message_error("--%s takes a number from %d on, not \"%s\"", option, least, text);
        return false;
    }
    *out = (int)value;
    return true;
}

static bool parse_clock(const char *text, bool *fast) {
    *fast = !strcmp(text, "fast");
    bool known = *fast || !strcmp(text, "exact");
    if (!known)
        ct_message_error("--clock takes exact or fast, not \"%s\"", text);
    return known;
}

static bool parse_threads(const struct values *v, int *thread) {
    *thread = (int)v->tid;
    if (v->tid || !strcmp(v->threads, "all"))
        return true;
    if (!strcmp(v->threads, "main")) {
        *thread = -1;
        return true;
    }
    return parse_int("follow-threads (all, main or a thread)", v->threads, 1, thread);
}

static bool read_settings(struct values *v, const struct ct_operands *operands, struct ct_session_stalk *stalk) {
    if (!v->pid == !operands->count) {
        ct_message_error(v->pid ? "give a PROGRAM or --pid, not both"
                                : "give a PROGRAM to start, or --pid PID to follow a running process");
        return false;
    }
    *stalk = (struct ct_session_stalk){.size = sizeof *stalk,
                                       .queue_capacity = (size_t)v->queue_capacity,
                                       .drain_interval_ms = (unsigned)v->drain_interval_ms};
    if (!parse_events(v->events, &stalk->events) || !parse_int("trust", v->trust, -1, &stalk->trust) ||
        !parse_threads(v, &stalk->thread) || !parse_clock(v->clock, &stalk->fast_clock))
        return false;
    if (v->coverage || v->disasm)
        stalk->count_blocks = true;
    stalk->count_calls = v->summary && !stalk->events && !stalk->count_blocks;
    if (v->summary && !stalk->count_calls)
        stalk->events |= CT_STALKER_CALL;
    return true;
}

static int run_stalk(int argc, char **argv) {
    struct values v = {.record = CT_RECORD_OPTIONS};
    struct ct_session_stalk stalk;
    struct ct_operands operands;
    char directory[PATH_MAX] = "";
    int code = ct_options_parse(&ct_command_stalk, argc, argv, &v, &operands);
    if (!v.record.output)
        v.record.output = ct_reading_root();
    if (code < 0)
        code = read_settings(&v, &operands, &stalk) ? -1 : CT_EXIT_USAGE;
    if (code < 0) {
        v.record.stalk = &stalk;
        v.record.directory = directory;
        code = ct_record_run(&v.record, v.pid ? NULL : operands.at, (int)v.pid);
        const struct ct_stalk_wishes wishes = {.summary = v.summary, .disasm = v.disasm, .coverage = v.coverage};
        if (*directory && ct_stalk_tables_show(directory, &wishes))
            code = code ? code : CT_EXIT_UNAVAILABLE;
    }
    ct_options_release(&ct_command_stalk, &v);
    return code;
}

const struct ct_command ct_command_stalk = {
    .name = "stalk",
    .group = CT_GROUP_RECORD,
    .run = run_stalk,
    .summary = "follow a program through translated code: calls, blocks, coverage",
    .operands = "[--] [PROGRAM [ARGUMENTS]]",
    .min_operands = 0,
    .max_operands = -1,
    .program = true,
    .description =
        "Starts PROGRAM, or takes over a running process (--pid), and lets its threads run copies of its code, which "
        "are made block by block when a thread reaches them. The program behaves as usual; every call, return, block "
        "and instruction is seen, even in code without symbols and without function entries that could be hooked.\n\n"
        "Calls and returns are written as a trace that info, report, replay and all other commands read; blocks, "
        "instructions and translations are written next to it: replay --blocks prints them among the calls, report "
        "--blocks counts them. A call of an excluded function is seen, the calls that it makes are not. A signal "
        "handler is a call at the point where it interrupts. A function that another one jumps to at its end (a tail "
        "call) is part of that one's call, where a recording shows two. Processes that the program forks are followed "
        "too, and so are the programs that they execute, unless --no-children is given: the trace has a directory for "
        "each. The child of a vfork is followed from the program that it executes. Ctrl-C or the end of --duration "
        "releases all of them: they continue in their own code.\n\n"
        "The output of --summary and --disasm goes to standard error: standard output belongs to the program.",
    .options = options,
    .notes = "Exit status:\n"
             "  the program's own, or 0 with --pid; when it could not be followed\n"
             "  64 (wrong usage), 69 (not possible here), 70 (internal error) or 77 (no permission)",
    .examples = "contrail stalk ./prog\n"
                "contrail stalk --events none --summary -- sqlite3 test.db .tables\n"
                "contrail stalk --events none --coverage run.drcov --exclude 'libc.so*' ./parser input.bin\n"
                "contrail stalk --summary -- make -j2\n"
                "contrail stalk --events block,exec ./prog && contrail replay --instructions --limit 100\n"
                "contrail stalk --pid 4711 --duration 2s",
};
