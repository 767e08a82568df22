/* SPDX-License-Identifier: Apache-2.0 */
/* The config file: lines of "key = value", empty lines and # comments. Keys are the names of options, with - or _, and
 * those of the specification. Each line becomes a word of the command line before the user's own, so the option tables
 * check it too. The words live as long as the program: options point into them. */
#include "cli/config.h"
#include "cli/message.h"
#include <contrail/status.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWN_FILE ".contrail.conf"

static char **words;    /* NULL-terminated: the command, words of the file, words of the user */
static char **arranged; /* a copy for the parser, which reorders it */
static size_t word_count;

static bool add_word(char *word) {
    char **grown = realloc(words, (word_count + 2) * sizeof *grown);
    if (!grown)
        return false;
    words = grown;
    words[word_count++] = word;
    words[word_count] = NULL;
    return true;
}

/* ---- a line ---- */

struct line {
    const struct ct_command *command;
    const char *path;
    unsigned number;
    char *key, *value;
};

static int complain(const struct line *l, const char *text) {
    ct_message_error("%s:%u: %s", l->path, l->number, text);
    return CT_EXIT_USAGE;
}

static char *trim(char *text) {
    text += strspn(text, " \t\r\n");
    for (size_t n = strlen(text); n && strchr(" \t\r\n", text[n - 1]); n--)
        text[n - 1] = 0;
    return text;
}

/* The name of the option: as it is written, or for the specification's name. */
static const char *option_of(const char *key) {
    static const char *const names[][2] = {
        {"index-lane-size", "index-mem"}, {"detail-lane-size", "detail-mem"}, {"sample-rate", "sample"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(key, names[i][0]))
            return names[i][1];
    return key;
}

/* Keys that mean something later or elsewhere. False: none of them. */
static bool is_refused(const struct line *l) {
    if (!strcmp(l->key, "config")) {
        complain(l, "a config file cannot name another one; put all settings into this one");
        return true;
    }
    return false;
}

static bool is_one_of(const char *text, const char *const *list) {
    for (; *list; list++)
        if (!strcasecmp(text, *list))
            return true;
    return false;
}

static bool is_flag(const struct ct_command *command, const char *name) {
    for (const struct ct_option *o = command->options; o && o->name; o++)
        if (!strcmp(o->name, name))
            return o->kind == CT_OPTION_FLAG;
    return false;
}

/* Checks whether the command accepts this word. Says why not. */
static int check_word(const struct line *l, const char *word) {
    char *argv[] = {(char *)l->command->name, (char *)word, (char *)"1", NULL}, error[512] = "";
    struct ct_record_options scratch = {0};
    struct ct_operands operands;
    enum ct_options_result result = ct_options_read(l->command, 3, argv, &scratch, &operands, error, sizeof error);
    ct_options_release(l->command, &scratch);
    if (result == CT_OPTIONS_HELP)
        return complain(l, "help is not a setting");
    return result == CT_OPTIONS_RUN ? 0 : complain(l, error);
}

static int take_setting(const struct line *l) {
    static const char *const on[] = {"yes", "true", "on", "1", NULL}, *const off[] = {"no", "false", "off", "0", NULL};
    const char *name = option_of(l->key);
    bool flag = is_flag(l->command, name);
    char *word;
    if (is_refused(l))
        return CT_EXIT_USAGE;
    if (flag && is_one_of(l->value, off))
        return 0;
    if (flag && !is_one_of(l->value, on))
        return complain(l, "this setting is yes or no");
    if (asprintf(&word, flag ? "--%s" : "--%s=%s", name, l->value) < 0)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    int code = check_word(l, word);
    if (code || !add_word(word)) {
        free(word);
        return code ? code : ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    }
    return 0;
}

/* Divides a line at its equals sign. False: it has none. */
static bool split_line(struct line *l, char *text) {
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return false;
    *equals = 0;
    l->key = trim(text);
    l->value = trim(equals + 1);
    size_t length = strlen(l->value);
    if (length >= 2 && l->value[0] == '"' && l->value[length - 1] == '"') {
        l->value[length - 1] = 0;
        l->value++;
    }
    for (char *c = l->key; *c; c++)
        *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    return true;
}

static int take_line(struct line *l, char *text) {
    text = trim(text);
    if (!*text || *text == '#')
        return 0;
    if (!split_line(l, text))
        return complain(l, "a line is KEY = VALUE, or a comment that begins with #");
    return take_setting(l);
}

/* ---- the file ---- */

/* Closes the file. */
static int read_file(const struct ct_command *command, const char *path, FILE *file) {
    struct line l = {.command = command, .path = path};
    char *text = NULL;
    size_t size = 0;
    int code = 0;
    while (file && !code && getline(&text, &size, file) >= 0) {
        l.number++;
        code = take_line(&l, text);
    }
    free(text);
    if (!file || ferror(file)) {
        ct_message_error("the config file %s cannot be read: %s", path, strerror(errno));
        code = CT_EXIT_USAGE;
    }
    if (file)
        (void)fclose(file);
    return code;
}

static bool is_ours(int fd, mode_t type) {
    struct stat info;
    return !fstat(fd, &info) && (info.st_mode & S_IFMT) == type && (info.st_uid == geteuid() || info.st_uid == 0) &&
           !(info.st_mode & 022);
}

/* A file of another user must not decide where root writes. The file is opened once, and the open file is checked: its
 * name may lead elsewhere by then. NULL: there is none, or it is left out. */
static FILE *open_own(bool *refused) {
    int directory = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = directory < 0 ? -1 : openat(directory, OWN_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool absent = fd < 0 && (directory < 0 || errno == ENOENT);
    FILE *file = fd >= 0 && is_ours(directory, S_IFDIR) && is_ours(fd, S_IFREG) ? fdopen(fd, "r") : NULL;
    *refused = !file && !absent;
    if (!file && fd >= 0)
        close(fd);
    if (directory >= 0)
        close(directory);
    return file;
}

char *ct_config_output(void) {
    bool refused;
    FILE *file = open_own(&refused);
    char *text = NULL, *found = NULL;
    size_t size = 0;
    while (file && getline(&text, &size, file) >= 0) {
        struct line l = {0};
        char *start = trim(text);
        if (*start == '#' || !split_line(&l, start) || strcmp(l.key, "output") != 0 || !*l.value)
            continue;
        free(found);
        found = strdup(l.value);
    }
    free(text);
    if (file)
        (void)fclose(file);
    return found ? found : strdup(CT_CONFIG_OUTPUT);
}

static FILE *open_own_or_say(void) {
    bool refused;
    FILE *file = open_own(&refused);
    if (refused)
        ct_message_error("./%s is left out: it is a link, or another user owns or can write it or its directory; "
                         "--config ./%s uses it",
                         OWN_FILE, OWN_FILE);
    return file;
}

/* The value of --config: the words are read twice, because the file comes first. False: the regular parse reports the
 * error. */
static bool find_option(const struct ct_command *command, int argc, char **argv, const char **path) {
    struct ct_record_options scratch = {0};
    struct ct_operands operands;
    char error[512], **copy = calloc((size_t)argc + 1, sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    bool ok = ct_options_read(command, argc, copy, &scratch, &operands, error, sizeof error) == CT_OPTIONS_RUN;
    *path = scratch.config;
    ct_options_release(command, &scratch);
    free(copy);
    return ok;
}

int ct_config_parse(const struct ct_command *command, int argc, char **argv, struct ct_record_options *options,
                    struct ct_operands *operands) {
    const char *path = NULL;
    bool known = find_option(command, argc, argv, &path);
    FILE *own = known && !path ? open_own_or_say() : NULL;
    if (!known || (!path && !own))
        return ct_options_parse(command, argc, argv, options, operands);
    bool ok = add_word(argv[0]);
    int code = read_file(command, path ? path : OWN_FILE, path ? fopen(path, "re") : own);
    if (code)
        return code;
    for (int i = 1; ok && i < argc; i++)
        ok = add_word(argv[i]);
    arranged = ok ? malloc((word_count + 1) * sizeof *arranged) : NULL;
    if (!arranged)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    memcpy(arranged, words, (word_count + 1) * sizeof *arranged);
    return ct_options_parse(command, (int)word_count, arranged, options, operands);
}
