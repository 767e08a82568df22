/* contrail ctl and contrail detach: talk to the contrail that records a process, over its control socket. */
#include "cli/command.h"
#include "cli/ctl.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/record.h"
#include <contrail/session.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool ct_ctl_ask(int pid, const char *command, char *answer, size_t size, int *code) {
    int status = ct_session_control(pid, command, answer, size);
    if (status >= 0)
        return true;
    *code = ct_message_exit_code(status);
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (status == CT_ERR_NOT_FOUND && access(path, F_OK) < 0)
        ct_message_error("there is no process %d; `pgrep NAME` finds processes", pid);
    else if (status == CT_ERR_NOT_FOUND)
        ct_message_error("nobody records process %d; `contrail attach %d` does", pid, pid);
    else if (status == CT_ERR_PERMISSION_DENIED)
        ct_message_error(
            "process %d is not recorded by you; if another user records it, only that user and root can control it",
            pid);
    else
        ct_message_error("the contrail that records process %d does not answer: %s", pid, ct_status_text(status));
    return false;
}

/* ---- stop ---- */

/* The answer to "stop" says that it was heard; the hooks are gone when nobody answers any more. */
static bool wait_until_gone(int pid) {
    char answer[4096];
    uint64_t end = ct_live_now() + 10000000000u;
    do {
        if (ct_session_control(pid, "status", answer, sizeof answer) < 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    } while (ct_live_now() < end);
    return false;
}

static int stop(int pid) {
    char answer[4096];
    int code;
    if (!ct_ctl_ask(pid, "stop", answer, sizeof answer, &code))
        return code;
    if (!wait_until_gone(pid)) {
        ct_message_error("process %d was asked for, but is recorded still; `contrail ctl %d status` tells more", pid,
                         pid);
        return CT_EXIT_UNAVAILABLE;
    }
    printf("process %d is recorded no longer\n", pid);
    return ct_message_finish();
}

/* ---- status ---- */

/* A string or a number of the flat part of a JSON text; what comes in nested objects is left out. */
static const char *next_member(const char *at, char *key, size_t key_size, char *value, size_t value_size) {
    while ((at = strchr(at, '"'))) {
        size_t length = strcspn(++at, "\"");
        const char *after = at + length + (at[length] != 0);
        after += strspn(after, " \t\r\n");
        snprintf(key, key_size, "%.*s", (int)length, at);
        if (*after != ':') {
            at = after;
            continue;
        }
        after += 1 + strspn(after + 1, " \t\r\n");
        if (*after == '{' || *after == '[') {
            at = after;
            continue;
        }
        bool quoted = *after == '"';
        after += quoted;
        length = quoted ? strcspn(after, "\"") : strcspn(after, ",}] \t\r\n");
        snprintf(value, value_size, "%.*s", (int)length, after);
        return after + length + (quoted && after[length]);
    }
    return NULL;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static void print_member(char *key, const char *value) {
    char text[CT_TEXT_SIZE];
    uint64_t number;
    const char *shown = value;
    bool is_number = ct_option_parse_number(value, &number);
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
    printf("%-18s %s\n", key, shown);
}

static int print_status(int pid, bool json) {
    static char answer[65536];
    char key[64], value[4096];
    int code;
    if (!ct_ctl_ask(pid, "status", answer, sizeof answer, &code))
        return code;
    if (json) {
        printf("%s%s", answer, ends_with(answer, "\n") ? "" : "\n");
        return ct_message_finish();
    }
    for (const char *at = answer; (at = next_member(at, key, sizeof key, value, sizeof value));)
        print_member(key, value);
    return ct_message_finish();
}

/* ---- commands ---- */

struct ctl_options {
    bool json;
};
static const struct ct_option ctl_option_table[] = {
    {"json", 0, CT_OPTION_FLAG, offsetof(struct ctl_options, json), NULL, "print the status as one line of JSON"},
    {0},
};

static const char *ctl_word(const void *arg, size_t i) {
    return ((const char *const *)arg)[i];
}

static int run_ctl(int argc, char **argv) {
    static const char *const words[] = {"status", "stop"};
    struct ctl_options options = {0};
    struct ct_operands operands;
    int pid, code = ct_options_parse(&ct_command_ctl, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (!ct_record_parse_pid("ctl", operands.at[0], &pid))
        return CT_EXIT_USAGE;
    const char *word = operands.at[1];
    if (!strcmp(word, "status"))
        return print_status(pid, options.json);
    if (!strcmp(word, "stop"))
        return stop(pid);
    const char *close = ct_option_closest(word, ctl_word, words, 2);
    ct_message_error("ctl takes status or stop, not \"%s\"%s%s%s `contrail ctl --help` explains them", word,
                     close ? "; did you mean " : ";", close ? close : "", close ? "?" : "");
    return CT_EXIT_USAGE;
}

static int run_detach(int argc, char **argv) {
    struct ct_operands operands;
    int pid, code = ct_options_parse(&ct_command_detach, argc, argv, NULL, &operands);
    if (code >= 0)
        return code;
    return ct_record_parse_pid("detach", operands.at[0], &pid) ? stop(pid) : CT_EXIT_USAGE;
}

const struct ct_command ct_command_detach = {
    .name = "detach",
    .group = CT_GROUP_RECORD,
    .run = run_detach,
    .summary = "end the recording of a process, which runs on",
    .operands = "PID",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Asks the contrail that records process PID to remove its hooks and finish the trace, and waits until it "
        "has. The process runs on at full speed.",
    .notes = "Exit status:\n"
             "  0 when it was detached, 69 when nobody records it, 77 when another user does",
    .examples = "contrail detach 4711",
};

const struct ct_command ct_command_ctl = {
    .name = "ctl",
    .group = CT_GROUP_RECORD,
    .run = run_ctl,
    .summary = "ask a recording for its status, or stop it",
    .operands = "PID status|stop",
    .min_operands = 2,
    .max_operands = 2,
    .description =
        "Talks to the contrail that records process PID, which may be any process of the session. Only the user "
        "who started it, and root, can.",
    .options = ctl_option_table,
    .notes = "What to do:\n"
             "  status  print events, losses, memory, threads and latency so far\n"
             "  stop    the same as `contrail detach PID`\n\n"
             "Exit status:\n"
             "  0, 69 when nobody records the process, 77 when another user does",
    .examples = "contrail ctl 4711 status\n"
                "contrail ctl 4711 status --json | jq .events\n"
                "contrail ctl 4711 stop",
};
