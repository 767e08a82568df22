/* SPDX-License-Identifier: Apache-2.0 */
/* The options of spawn and attach, and what they mean for a session. */
#include "base/percent.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/record.h"
#include "plan/hot.h"
#include <contrail/session.h>
#include <ctype.h>
#include <string.h>

enum { STRUCT_BYTES = 64 }; /* of --structs without --strings */

static const char *const formats[] = {"packed", "atf2", NULL};
static const char *const clocks[] = {"exact", "fast", NULL};
static const char *const details[] = {"marked", "always", "off", NULL};

#define AT(member) offsetof(struct ct_record_options, member)
const struct ct_option ct_record_option_table[] = {
    {"output", 'o', CT_OPTION_STRING, AT(output), "DIR", "put the trace into a new directory below DIR",
     .initial = "./traces"},
    {"duration", 'd', CT_OPTION_DURATION, AT(duration_ns), "S",
     "record for S seconds (20ms, 5m), then detach; the program continues", .min = 1},
    {"only", 0, CT_OPTION_LIST, AT(only), "GLOB", "record only functions or modules whose name matches GLOB"},
    {"exclude", 'x', CT_OPTION_LIST, AT(exclude), "GLOB",
     "leave out functions or modules whose name matches GLOB; @hot: a list of functions that are known to be called "
     "extremely often (docs/OVERHEAD.md)"},
    {"budget", 0, CT_OPTION_STRING, AT(budget), "PERCENT",
     "leave out the functions that cost most and say least while recording costs the program more than this part of "
     "its CPU time (10%); the trace says which, and when"},
    {"sample", 0, CT_OPTION_NUMBER, AT(sample), "N",
     "record every Nth call of each function, with all that it calls; the others are counted, so the numbers of calls "
     "are exact",
     .initial = "1", .min = 1, .max = 1000000000},
    {"guess", 0, CT_OPTION_FLAG, AT(guess), NULL,
     "in modules whose tables name hardly any function (stripped, without unwind tables), record what their code "
     "calls"},
    {"max-depth", 0, CT_OPTION_NUMBER, AT(max_depth), "N",
     "record at most N nested calls per thread; deeper ones are counted", .initial = "262144", .min = 1,
     .max = 1 << 26},
    {"index-mem", 0, CT_OPTION_SIZE, AT(index_memory), "SIZE", "shared memory for events that are not on disk yet",
     .initial = "32M", .min = 1 << 20, .max = 1ull << 36},
    {"drain-interval-ms", 0, CT_OPTION_NUMBER, AT(drain_interval_ms), "N", "write events to disk every N milliseconds",
     .initial = "5", .min = 1, .max = 10000},
    {"wait-ms", 0, CT_OPTION_NUMBER, AT(wait_ms), "N",
     "when the memory is full a thread waits, up to N milliseconds of each second; then the oldest events are dropped, "
     "and counted (default: 500 for a program that contrail starts, 0 for one that it attaches to; --lossless has no "
     "limit)",
     .max = 1000},
    {"lossless", 0, CT_OPTION_FLAG, AT(lossless), NULL,
     "when the memory is full the program waits for the disk as long as it takes"},
    {"clock", 0, CT_OPTION_CHOICE, AT(clock), "WHICH",
     "time of calls and returns: exact, or fast: half the cost or less, times may be late by about 0.2 ms (info shows "
     "by how much at most); order and what returns from system calls stay exact",
     .initial = "exact", .choices = clocks},
    {"format", 0, CT_OPTION_CHOICE, AT(format), "FORMAT",
     "format of the events on disk: packed (small, compressed) or atf2 (raw, for other readers of ATF v2)",
     .initial = "packed", .choices = formats},
    {"keep", 0, CT_OPTION_STRING, AT(keep), "SIZE|TIME",
     "keep only the newest events: this many bytes (500M, 2G) or this much time (90s, 10m, 24h); older ones are "
     "deleted"},
    {"detail", 0, CT_OPTION_CHOICE, AT(detail), "WHAT",
     "arguments, return values and stacks: write those around marked moments (marked), all (always), or do not capture "
     "them (off)",
     .initial = "marked", .choices = details},
    {"trigger", 't', CT_OPTION_LIST, AT(triggers), "TRIGGER", "mark the moment when this happens, see below"},
    {"probe", 0, CT_OPTION_LIST, AT(probes), "FILE.c",
     "compile this C (gcc or clang), and have it listen to recorded functions at native speed (docs/SCRIPT.md)"},
    {"pre-roll-ms", 0, CT_OPTION_NUMBER, AT(pre_roll_ms), "N",
     "write detail from N milliseconds before a mark (default: 1000, or 0 with --pre-roll-events; see --detail-mem)",
     .max = 3600000},
    {"post-roll-ms", 0, CT_OPTION_NUMBER, AT(post_roll_ms), "N",
     "write detail up to N milliseconds after a mark (default: 1000 but at most 10,000 calls and returns, or 0 with "
     "--post-roll-events)",
     .max = 3600000},
    {"pre-roll-events", 0, CT_OPTION_NUMBER, AT(pre_roll_events), "N",
     "write the last N calls and returns of each thread before a mark; with --pre-roll-ms whichever reaches further "
     "(default: the last 100, however old)",
     .min = 1, .max = 1ull << 32},
    {"post-roll-events", 0, CT_OPTION_NUMBER, AT(post_roll_events), "N",
     "write the next N calls and returns of the thread after a mark", .min = 1, .max = 1ull << 32},
    {"stack-bytes", 0, CT_OPTION_NUMBER, AT(stack_bytes), "N",
     "capture N bytes of the stack with each call: a multiple of 8, 0 for none", .initial = "128", .max = 512},
    {"vectors", 0, CT_OPTION_FLAG, AT(vectors), NULL, "capture vector argument registers (xmm0 to xmm7) as well"},
    {"strings", 0, CT_OPTION_NUMBER, AT(strings), "N",
     "capture up to N bytes of the texts that arguments point to; costs a system call for each", .max = 256},
    {"structs", 0, CT_OPTION_FLAG, AT(structs), NULL,
     "with --strings (default then: 64), capture the N bytes at each pointer argument whatever they are, so that "
     "structures on the heap are shown; costs a system call for each"},
    {"detail-rate", 0, CT_OPTION_NUMBER, AT(detail_rate), "N",
     "capture detail of at most N calls per function and second, so that memory reaches further back; the others are "
     "counted",
     .max = 1000000000},
    {"detail-mem", 0, CT_OPTION_SIZE, AT(detail_memory), "SIZE",
     "shared memory for detail that has not been marked, or is not on disk yet (default: 32M, of which a thread has "
     "1M); with this option, --pre-roll-ms or --pre-roll-events a thread has as much of it as the pre-roll needs",
     .min = 1 << 20, .max = 1ull << 36},
    {"group", 0, CT_OPTION_STRING, AT(group), "NAME",
     "let this group read the trace; without it only its owner and root can, regardless of the umask"},
    {"redact", 0, CT_OPTION_FLAG, AT(redact), NULL,
     "leave out what may contain secrets: bytes of stacks, vector registers, texts and command lines; registers of "
     "calls "
     "stay"},
    {"metrics-file", 0, CT_OPTION_STRING, AT(metrics_file), "PATH",
     "write numbers about the recording to PATH every second, in the text format of Prometheus"},
    {"wait", 'w', CT_OPTION_FLAG, AT(wait), NULL,
     "hook the program but keep it stopped until Enter is pressed or this command gets SIGUSR1"},
    {"startup-timeout", 0, CT_OPTION_DURATION, AT(startup_timeout_ns), "S",
     "give up when hooking takes longer than S seconds; the program then continues unrecorded (default: computed from "
     "the number of functions)",
     .min = 1000000, .max = 86400000000000},
    {"cpu", 0, CT_OPTION_FLAG, AT(cpu), NULL,
     "record when threads are on a processor too: on-CPU and off-CPU time of each call"},
    {"no-children", 0, CT_OPTION_FLAG, AT(no_children), NULL,
     "leave processes that it forks, and programs that it executes, unrecorded"},
    {"no-cache", 0, CT_OPTION_FLAG, AT(no_cache), NULL,
     "plan every module again, instead of reading ~/.cache/contrail"},
    {"cache-size", 0, CT_OPTION_SIZE, AT(cache_size), "SIZE",
     "keep at most this much in ~/.cache/contrail; the least recently used files are deleted", .initial = "128M",
     .min = 1 << 20, .max = 1ull << 40},
    {"config", 0, CT_OPTION_STRING, AT(config), "FILE",
     "read settings from FILE, lines of KEY = VALUE with names of options as keys; without it ./.contrail.conf is "
     "read, if it exists; options on the command line override it"},
    {"quiet", 'q', CT_OPTION_FLAG, AT(quiet), NULL, "print only errors"},
    {0},
};
#undef AT

/* ---- checks that a table cannot make ---- */

/* 10m is ten minutes, 10M is ten megabytes. */
static bool parse_keep(const char *text, uint64_t *bytes, uint64_t *ns) {
    size_t length = strlen(text);
    char last = length ? text[length - 1] : 0;
    if (last == 's' || last == 'm' || last == 'h')
        return ct_option_parse_duration(text, ns) && *ns >= 100000000;
    return !isdigit((unsigned char)last) && ct_option_parse_size(text, bytes) && *bytes >= 65536;
}

/* Only --exclude has lists, and only one. */
static bool check_lists(const struct ct_option_list *list, const char *option, const char *known) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i][0] == '@' && strcmp(list->items[i], known) != 0) {
            ct_message_error("--%s knows no list \"%s\"; --exclude " CT_HOT_WORD " is the only one", option,
                             list->items[i]);
            return false;
        }
    return true;
}

/* True for a trigger that looks at calls. */
static bool is_of_calls(const char *trigger) {
    return strchr(trigger, '=') && strncmp(trigger, "signal=", 7) != 0 && strncmp(trigger, "time=", 5) != 0;
}

/* What --sample and other options mean together. */
static void say_sampled(const struct ct_record_options *o) {
    size_t i = 0;
    if (o->sample <= 1 || o->quiet)
        return;
    if (o->clock == 1)
        ct_message_error("--clock fast has no effect with --sample: the times of a sample are exact");
    while (i < o->triggers.count && !is_of_calls(o->triggers.items[i]))
        i++;
    if (i < o->triggers.count)
        ct_message_error(
            "with --sample, all calls of functions that --trigger %s names are recorded, with everything they call",
            o->triggers.items[i]);
}

int ct_record_check(const struct ct_record_options *o) {
    uint64_t bytes, ns;
    unsigned budget;
    if (o->keep && !parse_keep(o->keep, &bytes, &ns)) {
        ct_message_error(
            "--keep takes a size with its unit (500M, 2G; at least 64K) or a time (90s, 10m, 24h; at least "
            "100ms), not \"%s\"",
            o->keep);
        return CT_EXIT_USAGE;
    }
    if (!check_lists(&o->exclude, "exclude", CT_HOT_WORD) || !check_lists(&o->only, "only", ""))
        return CT_EXIT_USAGE;
    if (o->budget && !ct_percent_parse(o->budget, &budget)) {
        ct_message_error("--budget takes a part of the program's CPU time from 0.1%% to 1000%%, like 10%%, not \"%s\"",
                         o->budget);
        return CT_EXIT_USAGE;
    }
    if (o->stack_bytes % 8) {
        ct_message_error("--stack-bytes takes a multiple of 8 up to 512, not %llu; %llu is the next one",
                         (unsigned long long)o->stack_bytes, (unsigned long long)(o->stack_bytes + 7) / 8 * 8);
        return CT_EXIT_USAGE;
    }
    say_sampled(o);
    return 0;
}

/* ---- for the session ---- */

/* In a session 0 is the default, and -1 is none. */
static int ms_of(uint64_t ms) {
    return ms == CT_RECORD_NOT_GIVEN ? 0 : ms ? (int)ms : -1;
}

void ct_record_session_options(const struct ct_record_options *o, struct ct_session_options *out) {
    unsigned budget = 0;
    if (o->budget)
        (void)ct_percent_parse(o->budget, &budget);
    *out = (struct ct_session_options){
        .size = sizeof *out,
        .output = o->output,
        .stalk = o->stalk,
        .only = o->only.items,
        .exclude = o->exclude.items,
        .max_depth = (size_t)o->max_depth,
        .index_memory = (size_t)o->index_memory,
        .drain_interval_ms = (unsigned)o->drain_interval_ms,
        .lossless = o->lossless,
        .fast_clock = o->clock == 1,
        .wait_ms = ms_of(o->wait_ms),
        .startup_timeout_ms = (unsigned)((o->startup_timeout_ns + 999999) / 1000000),
        .no_cache = o->no_cache,
        .no_children = o->no_children,
        .guess = o->guess,
        .format = o->format,
        .detail = o->detail,
        .stack_bytes = o->stack_bytes ? (int)o->stack_bytes : -1,
        .vectors = o->vectors,
        .strings = o->structs && !o->strings ? STRUCT_BYTES : (size_t)o->strings,
        .structs = o->structs,
        .detail_rate = (unsigned)o->detail_rate,
        .detail_memory = (size_t)o->detail_memory,
        .triggers = o->triggers.items,
        .pre_roll_ms = ms_of(o->pre_roll_ms),
        .post_roll_ms = ms_of(o->post_roll_ms),
        .pre_roll_events = o->pre_roll_events,
        .post_roll_events = o->post_roll_events,
        .metrics_file = o->metrics_file,
        .group = o->group,
        .redact = o->redact,
        .cpu = o->cpu,
        .cache_size = (size_t)o->cache_size,
        .budget = budget,
        .sample = (size_t)o->sample,
    };
    if (o->keep)
        (void)parse_keep(o->keep, &out->keep_bytes, &out->keep_ns);
}
