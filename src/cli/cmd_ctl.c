/* SPDX-License-Identifier: Apache-2.0 */
/* contrail ctl and contrail detach: talk to the contrail that records a process, over its control socket. */
#include "base/closest.h"
#include "cli/command.h"
#include "cli/ctl.h"
#include "cli/message.h"
#include "cli/record.h"
#include <contrail/session.h>
#include <string.h>
#include <unistd.h>

/* The session refuses: because it cannot do it now, or because the request is wrong. */
static int refusal_code(int status) {
    return status == CT_ERR_TIMEOUT || status == CT_ERR_BAD_STATE ? CT_EXIT_UNAVAILABLE : CT_EXIT_USAGE;
}

bool ct_ctl_ask(int pid, const char *command, char *answer, size_t size, int *code) {
    int status = ct_session_control(pid, command, answer, size);
    answer[ct_message_clean_lines(answer, strlen(answer))] = 0; /* the answer may come from a hostile process */
    if (status >= 0)
        return true;
    *code = answer[0] ? refusal_code(status) : ct_message_exit_code(status);
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (answer[0])
        ct_message_error("%s", answer);
    else if (status == CT_ERR_NOT_FOUND && access(path, F_OK) < 0)
        ct_message_error("there is no process %d; `pgrep NAME` finds processes", pid);
    else if (status == CT_ERR_NOT_FOUND)
        ct_message_error("nobody records process %d; `contrail attach %d` records it", pid, pid);
    else if (status == CT_ERR_PERMISSION_DENIED)
        ct_message_error(
            "process %d is not recorded by you; if another user records it, only that user and root can control it",
            pid);
    else
        ct_message_error("the contrail that records process %d does not answer: %s", pid, ct_status_text(status));
    return false;
}

/* ---- stop ---- */

/* The answer comes when the hooks are gone and the trace is complete. */
static int stop_recording(int pid) {
    char answer[4096];
    int code;
    if (!ct_ctl_ask(pid, "stop", answer, sizeof answer, &code))
        return code;
    printf("process %d is no longer recorded\n", pid);
    return ct_message_finish();
}

/* ---- status ---- */

/* A JSON text that is being printed. */
struct reader {
    const char *at;
    char name[160]; /* of the current member: names of the objects around it and its own, separated by spaces */
};

static void skip_space(struct reader *r) {
    r->at += strspn(r->at, " \t\r\n");
}

/* Reads a string without its quotes and escapes, a number, or a word. */
static void read_scalar(struct reader *r, char *value, size_t size) {
    size_t used = 0;
    bool quoted = *r->at == '"';
    for (r->at += quoted; *r->at && (quoted ? *r->at != '"' : !strchr(",}] \t\r\n", *r->at)); r->at++) {
        r->at += quoted && *r->at == '\\' && r->at[1];
        if (used + 1 < size)
            value[used++] = *r->at;
    }
    value[used] = 0;
    r->at += quoted && *r->at;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static void print_member(const char *name, const char *value) {
    char key[160], text[CT_TEXT_SIZE];
    uint64_t number;
    const char *shown = value;
    bool is_number = ct_option_parse_number(value, &number);
    snprintf(key, sizeof key, "%s", name);
    if (is_number && ends_with(key, "_ns")) {
        key[strlen(key) - 3] = 0;
        shown = ct_text_time(text, number);
    } else if (is_number && (strstr(key, "bytes") || ends_with(key, "_used"))) {
        shown = ct_text_size(text, number);
    } else if (is_number && strcmp(key, "pid") != 0) {
        shown = ct_text_count(text, number);
    }
    for (char *c = key; *c; c++)
        if (*c == '_')
            *c = ' ';
    key[ct_message_clean(key, strlen(key))] = 0;
    printf("%-22s ", key);
    ct_message_print(stdout, shown);
    putchar('\n');
}

/* Prints every scalar on a line of its own, with its name. */
static void print_value(struct reader *r, int depth) {
    char value[4096];
    size_t outer = strlen(r->name);
    skip_space(r);
    char bracket = *r->at;
    if ((bracket != '{' && bracket != '[') || depth > 8) {
        read_scalar(r, value, sizeof value);
        print_member(r->name, value);
        return;
    }
    for (r->at++, skip_space(r); *r->at && *r->at != '}' && *r->at != ']'; skip_space(r)) {
        if (bracket == '{') {
            read_scalar(r, value, sizeof value);
            snprintf(r->name + outer, sizeof r->name - outer, "%s%.100s", outer ? " " : "", value);
            r->at += strcspn(r->at, ":");
            r->at += *r->at == ':';
        }
        print_value(r, depth + 1);
        r->name[outer] = 0;
        skip_space(r);
        r->at += *r->at == ',';
    }
    r->at += *r->at != 0;
}

static int print_status(int pid, bool json) {
    static char answer[262144];
    int code;
    if (!ct_ctl_ask(pid, "status", answer, sizeof answer, &code))
        return code;
    if (json) {
        printf("%s%s", answer, ends_with(answer, "\n") ? "" : "\n");
        return ct_message_finish();
    }
    struct reader r = {.at = answer};
    print_value(&r, 0);
    return ct_message_finish();
}

/* ---- commands ---- */

struct ctl_options {
    bool json;
    const char *label;
    uint64_t pre_ns, post_ns, pre_events, post_events;
};
#define AT(member) offsetof(struct ctl_options, member)
static const struct ct_option ctl_option_table[] = {
    {"json", 0, CT_OPTION_FLAG, AT(json), NULL, "print the status as one line of JSON"},
    {"label", 0, CT_OPTION_STRING, AT(label), "TEXT", "with mark: what the mark is for; info and replay show it"},
    {"pre-roll", 0, CT_OPTION_DURATION, AT(pre_ns), "S",
     "with mark: write detail from S seconds (20ms, 2s) before it, instead of what the recording was started with",
     .max = 3600000000000},
    {"post-roll", 0, CT_OPTION_DURATION, AT(post_ns), "S", "with mark: write detail up to S seconds after it",
     .max = 3600000000000},
    {"pre-roll-events", 0, CT_OPTION_NUMBER, AT(pre_events), "N",
     "with mark: write the last N calls and returns of each thread", .min = 1, .max = 1ull << 32},
    {"post-roll-events", 0, CT_OPTION_NUMBER, AT(post_events), "N", "with mark: write the next N calls and returns",
     .min = 1, .max = 1ull << 32},
    {0},
};
#undef AT

static const struct {
    const char *words, *operand;
} commands[] = {
#define COMMAND(name, words, operand, help) [CT_SESSION_COMMAND_##name] = {words, operand},
    CT_SESSION_COMMAND_LIST(COMMAND)
#undef COMMAND
};

static const char *command_words(const void *arg, size_t i) {
    (void)arg;
    return commands[i].words;
}

/* The command that the words begin with, and the number of its words; CT_SESSION_COMMAND_COUNT: none. */
static int find_command(char *const *words, int count, int *used) {
    char two[128];
    for (int i = 0; i < CT_SESSION_COMMAND_COUNT; i++) {
        *used = strchr(commands[i].words, ' ') ? 2 : 1;
        snprintf(two, sizeof two, "%.60s%s%.60s", words[0], *used > 1 ? " " : "",
                 *used > 1 && count > 1 ? words[1] : "");
        if (!strcmp(two, commands[i].words))
            return i;
    }
    return CT_SESSION_COMMAND_COUNT;
}

static int unknown_command(char *const *words, int count) {
    char said[128];
    snprintf(said, sizeof said, "%.60s%s%.60s", words[0], count > 1 ? " " : "", count > 1 ? words[1] : "");
    const char *close = ct_closest_name(said, command_words, NULL, CT_SESSION_COMMAND_COUNT);
    ct_message_error("ctl does not know \"%s\"%s%s%s `contrail ctl --help` lists its commands", said,
                     close ? "; did you mean " : ";", close ? close : "", close ? "?" : "");
    return CT_EXIT_USAGE;
}

/* Prints the session's answer as it is. */
static int send_command(int pid, const char *words, const char *operand) {
    static char answer[65536];
    char line[1023];
    int code;
    if ((size_t)snprintf(line, sizeof line, "%s%s%s", words, *operand ? " " : "", operand) >= sizeof line ||
        strpbrk(line, "\r\n")) {
        ct_message_error("a trigger, a glob or a label is one line of at most 255 characters");
        return CT_EXIT_USAGE;
    }
    if (!ct_ctl_ask(pid, line, answer, sizeof answer, &code))
        return code;
    printf("%s\n", answer);
    return ct_message_finish();
}

static bool has_rolls(const struct ctl_options *o) {
    return o->label || o->pre_ns != CT_RECORD_NOT_GIVEN || o->post_ns != CT_RECORD_NOT_GIVEN || o->pre_events ||
           o->post_events;
}

/* The operand of mark: what was given, and the label last, since it may have spaces. */
static void put_rolls(const struct ctl_options *o, char *out, size_t size) {
    const struct {
        const char *key;
        uint64_t value;
        bool given;
    } rolls[] = {
        {"pre-ms=", (o->pre_ns + 999999) / 1000000, o->pre_ns != CT_RECORD_NOT_GIVEN},
        {"post-ms=", (o->post_ns + 999999) / 1000000, o->post_ns != CT_RECORD_NOT_GIVEN},
        {"pre-events=", o->pre_events, o->pre_events != 0},
        {"post-events=", o->post_events, o->post_events != 0},
    };
    size_t used = 0;
    *out = 0;
    for (size_t i = 0; i < sizeof rolls / sizeof *rolls; i++)
        if (rolls[i].given)
            used += (size_t)snprintf(out + used, size - used, "%s%s%llu", used ? " " : "", rolls[i].key,
                                     (unsigned long long)rolls[i].value);
    if (o->label)
        snprintf(out + used, size - used, "%slabel=%s", used ? " " : "", o->label);
}

static int send_mark(int pid, const struct ctl_options *options) {
    char operand[900];
    if (options->label && strlen(options->label) > 512) {
        ct_message_error("a label has at most 79 bytes");
        return CT_EXIT_USAGE;
    }
    put_rolls(options, operand, sizeof operand);
    return send_command(pid, commands[CT_SESSION_COMMAND_MARK].words, operand);
}

static int run_ctl(int argc, char **argv) {
    struct ctl_options options = {.pre_ns = CT_RECORD_NOT_GIVEN, .post_ns = CT_RECORD_NOT_GIVEN};
    struct ct_operands operands;
    int pid, used, code = ct_options_parse(&ct_command_ctl, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (!ct_record_parse_pid("ctl", operands.at[0], &pid))
        return CT_EXIT_USAGE;
    char **words = operands.at + 1;
    int count = operands.count - 1, which = find_command(words, count, &used);
    if (which == CT_SESSION_COMMAND_COUNT)
        return unknown_command(words, count);
    bool needs = commands[which].operand[0] && commands[which].operand[0] != '[';
    if (count != used + needs) {
        ct_message_error("usage: contrail ctl PID %s%s%s", commands[which].words, needs ? " " : "",
                         commands[which].operand);
        return CT_EXIT_USAGE;
    }
    if (which != CT_SESSION_COMMAND_MARK && has_rolls(&options)) {
        ct_message_error("--label and the rolls are for `contrail ctl PID mark`");
        return CT_EXIT_USAGE;
    }
    if (which == CT_SESSION_COMMAND_MARK)
        return send_mark(pid, &options);
    if (which == CT_SESSION_COMMAND_STATUS)
        return print_status(pid, options.json);
    if (which == CT_SESSION_COMMAND_STOP)
        return stop_recording(pid);
    return send_command(pid, commands[which].words, needs ? words[used] : "");
}

static int run_detach(int argc, char **argv) {
    struct ct_operands operands;
    int pid, code = ct_options_parse(&ct_command_detach, argc, argv, NULL, &operands);
    if (code >= 0)
        return code;
    return ct_record_parse_pid("detach", operands.at[0], &pid) ? stop_recording(pid) : CT_EXIT_USAGE;
}

const struct ct_command ct_command_detach = {
    .name = "detach",
    .group = CT_GROUP_RECORD,
    .run = run_detach,
    .summary = "end the recording of a process; the process continues",
    .operands = "PID",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Asks the contrail that records process PID to remove its hooks and finish the trace, and waits until it has. "
        "The process continues at full speed.",
    .notes = "Exit status:\n"
             "  0 when it was detached, 69 when nobody records it, 77 when another user does",
    .examples = "contrail detach 4711",
};

/* A line of the help text: the words, and what they do. */
#define HELP_LINE(name, words, operand, help) "  " words " " operand "\n      " help "\n"
#define COMMAND_HELP                          "Commands:\n" CT_SESSION_COMMAND_LIST(HELP_LINE)

const struct ct_command ct_command_ctl = {
    .name = "ctl",
    .group = CT_GROUP_RECORD,
    .run = run_ctl,
    .summary = "ask a recording for its status, or change it while it runs",
    .operands = "PID status|mark|trigger|exclude|budget|wait-ms|record|pause|resume|stop [WORD] [WHAT]",
    .min_operands = 2,
    .max_operands = 4,
    .description =
        "Talks to the contrail that records process PID. PID may be any process of the session: a command applies to "
        "all of them. Only root and the user who started the recording can do this. Changes take effect while the "
        "program runs; those of triggers, exclusions, budget and recording become versions of the policy in the "
        "manifest of the trace.",
    .options = ctl_option_table,
    .notes =
        COMMAND_HELP "\n"
                     "Excluded functions, and all functions with `record off`, run as if they were not hooked; calls\n"
                     "that are open at that moment are recorded to their return. What the recorder itself must see\n"
                     "(starts of threads and programs, longjmp, exceptions) is recorded anyway. A paused process is\n"
                     "held by ptrace: neither it nor its parent notices, and interrupted system calls continue.\n"
                     "\n" CT_RECORD_TRIGGER_NOTES "\n"
                     "Exit status:\n"
                     "  0; 64 when the command is wrong, 69 when nobody records the process or it cannot be done now,\n"
                     "  77 when another user records it",
    .examples = "contrail ctl 4711 status\n"
                "contrail ctl 4711 status --json | jq .events\n"
                "contrail ctl 4711 mark\n"
                "contrail ctl 4711 mark --label 'before deploy' --pre-roll 2s --post-roll 1s\n"
                "contrail ctl 4711 trigger add 'slow=query_*:50ms'\n"
                "contrail ctl 4711 exclude add 'libm.so*'\n"
                "contrail ctl 4711 budget 5%\n"
                "contrail ctl 4711 stop",
};
