/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for bash and zsh. The candidates come from the tables: names of options, choices, and the placeholders of
 * values and operands (DIR, TRACE, PID ...), which indicate their kind.
 *
 * The script for bash needs only bash 4; it reads the words before the cursor, like the parser of options.c. */
#include "cli/completion.h"
#include <string.h>

/* Kinds of values and operands. */
enum kind { ANYTHING, DIRECTORY, FILE_PATH, PROCESS, PROGRAM, WORDS };

/* Copies one word of a usage line without its brackets; returns where the next one starts, NULL at the end. */
static const char *next_operand(const char *text, char *word, size_t size) {
    while (*text == ' ')
        text++;
    if (!*text)
        return NULL;
    size_t length = strcspn(text, " ");
    snprintf(word, size, "%.*s", (int)length, text);
    char *end = word + strcspn(word, "]");
    *end = 0;
    if (word[0] == '[')
        memmove(word, word + 1, strlen(word));
    return text + length;
}

static enum kind kind_of(const char *word) {
    static const struct {
        const char *word;
        enum kind kind;
    } known[] = {{"DIR", DIRECTORY},  {"TRACE", DIRECTORY}, {"PATH", FILE_PATH},
                 {"FILE", FILE_PATH}, {"PID", PROCESS},     {"PROGRAM", PROGRAM}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].word, word))
            return known[i].kind;
    bool lower = word[0] >= 'a' && word[0] <= 'z';
    return lower && strchr(word, '|') ? WORDS : ANYTHING;
}

static void print_words(FILE *out, const char *words, char between) {
    for (; *words; words++)
        fputc(*words == '|' ? between : *words, out);
}

static void print_choices(FILE *out, const struct ct_option *o) {
    for (int i = 0; o->choices[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", o->choices[i]);
}

/* ---- bash ---- */

static const char *const bash_kinds[] = {
    [ANYTHING] = "@none", [DIRECTORY] = "@directories", [FILE_PATH] = "@files",
    [PROCESS] = "@pids",  [PROGRAM] = "@program",
};

/* Writes the patterns of a case: the names of each option that takes a value, and its candidates. */
static void bash_values(FILE *out, const struct ct_command *command) {
    fputs("        case $1 in\n", out);
    for (const struct ct_option *o = command->options; o && o->name; o++) {
        if (o->kind == CT_OPTION_FLAG)
            continue;
        fprintf(out, "        --%s", o->name);
        if (o->letter)
            fprintf(out, "|-%c", o->letter);
        fputs(") value='", out);
        if (o->choices)
            print_choices(out, o);
        else
            fputs(bash_kinds[kind_of(o->metavar)], out);
        fputs("' ;;\n", out);
    }
    fputs("        esac\n", out);
}

static void bash_operands(FILE *out, const struct ct_command *command) {
    char word[128];
    fputs("        operands=(", out);
    for (const char *at = command->operands; at && (at = next_operand(at, word, sizeof word));) {
        enum kind kind = kind_of(word);
        if (!strcmp(word, "--"))
            continue;
        fputs(" '", out);
        if (kind == WORDS)
            print_words(out, word, ' ');
        else
            fputs(bash_kinds[kind], out);
        fputc('\'', out);
    }
    fputs(" )\n", out);
}

static void bash_command(FILE *out, const struct ct_command *command) {
    bool has_values = false;
    fprintf(out, "    %s)\n        options='", command->name);
    for (const struct ct_option *o = command->options; o && o->name; o++) {
        fprintf(out, "--%s ", o->name);
        has_values |= o->kind != CT_OPTION_FLAG;
    }
    fputs("--help'\n", out);
    bash_operands(out, command);
    if (has_values)
        bash_values(out, command);
    fputs("        ;;\n", out);
}

static void bash(FILE *out, const struct ct_command *const *commands, size_t count) {
    fputs("# bash completion for contrail, written by `contrail completion bash`.\n\n"
          "# Describes $command: its options, its operands and, if $1 takes a value, the candidates for it.\n"
          "_contrail_describe() {\n"
          "    options='' operands=() value=''\n"
          "    case $command in\n",
          out);
    for (size_t i = 0; i < count; i++)
        bash_command(out, commands[i]);
    fputs(
        "    help)\n"
        "        operands=( \"$commands\" )\n"
        "        ;;\n"
        "    esac\n"
        "}\n\n"
        "# Candidates of kind $1 that begin with $current.\n"
        "_contrail_reply() {\n"
        "    case $1 in\n"
        "    ''|@none) ;;\n"
        "    @directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
        "    @files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
        "    @pids) mapfile -t COMPREPLY < <(cd /proc && compgen -W \"$(echo [0-9]*)\" -- \"$current\") ;;\n"
        "    @program) compopt -o filenames 2>/dev/null\n"
        "        mapfile -t COMPREPLY < <(compgen -c -- \"$current\"; compgen -f -- \"$current\") ;;\n"
        "    *) mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\") ;;\n"
        "    esac\n"
        "}\n\n"
        "_contrail() {\n"
        "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
        "    local options value word i place=0 ended='' operands commands='",
        out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? " " : "", commands[i]->name);
    fputs("'\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        _contrail_reply \"$commands help --help --version\"\n"
          "        return\n"
          "    fi\n"
          "    for ((i = 2; i < COMP_CWORD; i++)); do # count the operands before the cursor\n"
          "        word=${COMP_WORDS[i]}\n"
          "        _contrail_describe \"$word\"\n"
          "        if [[ $word == -- && ! $ended ]]; then\n"
          "            ended=yes\n"
          "        elif [[ $word == -?* && ! $ended ]]; then\n"
          "            if [[ $value ]]; then # the next word is its value, perhaps after =, which is a word too\n"
          "                [[ ${COMP_WORDS[i+1]} != = ]] || ((++i))\n"
          "                ((++i))\n"
          "            fi\n"
          "        else\n"
          "            ((++place))\n"
          "            [[ ${operands[0]} != @program ]] || ended=yes\n"
          "        fi\n"
          "    done\n"
          "    [[ $current != = ]] || current=''\n"
          "    [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    [[ ${COMP_WORDS[COMP_CWORD]} != = ]] || before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    _contrail_describe \"$before\"\n"
          "    if [[ $value && ! $ended ]]; then\n"
          "        _contrail_reply \"$value\"\n"
          "    elif [[ $current == -* && ! $ended ]]; then\n"
          "        _contrail_reply \"$options\"\n"
          "    elif [[ ${operands[0]} == @program && $place -gt 0 ]]; then\n"
          "        _contrail_reply @files # its own arguments are not known\n"
          "    else\n"
          "        _contrail_reply \"${operands[place]}\"\n"
          "    fi\n"
          "}\n"
          "complete -F _contrail contrail\n",
          out);
}

/* ---- zsh ---- */

/* Writes text inside '...' and inside a specification of _arguments. */
static void zsh_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, "%s%c", strchr("[]:\\", *text) ? "\\" : "", *text);
    }
}

static void zsh_action(FILE *out, const char *word) {
    static const char *const actions[] = {
        [ANYTHING] = "",     [DIRECTORY] = "_directories",      [FILE_PATH] = "_files",
        [PROCESS] = "_pids", [PROGRAM] = "{_command_names -e}",
    };
    enum kind kind = kind_of(word);
    if (kind == WORDS) {
        fputc('(', out);
        print_words(out, word, ' ');
        fputc(')', out);
    } else {
        fputs(actions[kind], out);
    }
}

/* Writes '(-o --output)-o+[help]:DIR:action', for one of the two names. */
static void zsh_option_name(FILE *out, const struct ct_option *o, bool is_short) {
    bool flag = o->kind == CT_OPTION_FLAG;
    fputs(" \\\n            '", out);
    if (o->kind == CT_OPTION_LIST)
        fputc('*', out);
    else if (o->letter)
        fprintf(out, "(-%c --%s)", o->letter, o->name);
    if (is_short)
        fprintf(out, "-%c%s[", o->letter, flag ? "" : "+");
    else
        fprintf(out, "--%s%s[", o->name, flag ? "" : "=");
    zsh_text(out, o->help);
    fputc(']', out);
    if (!flag) {
        fputc(':', out);
        zsh_text(out, o->metavar);
        fputc(':', out);
        if (o->choices) {
            fputc('(', out);
            print_choices(out, o);
            fputc(')', out);
        } else {
            zsh_action(out, o->metavar);
        }
    }
    fputc('\'', out);
}

static void zsh_command(FILE *out, const struct ct_command *command) {
    char word[128];
    fprintf(out, "    %s)\n        _arguments -s -S", command->name);
    for (const struct ct_option *o = command->options; o && o->name; o++) {
        if (o->letter)
            zsh_option_name(out, o, true);
        zsh_option_name(out, o, false);
    }
    fputs(" \\\n            '(- *)--help[show the help text]'", out);
    for (const char *at = command->operands; at && (at = next_operand(at, word, sizeof word));) {
        bool program = kind_of(word) == PROGRAM;
        if (!strcmp(word, "--"))
            continue;
        fprintf(out, " \\\n            '%s:", program ? "(-)1" : "");
        zsh_text(out, word);
        fputc(':', out);
        zsh_action(out, word);
        fputc('\'', out);
        if (program) {
            fputs(" \\\n            '*::argument:_normal'", out);
            break;
        }
    }
    fputs("\n        ;;\n", out);
}

static void zsh(FILE *out, const struct ct_command *const *commands, size_t count) {
    fputs("#compdef contrail\n# zsh completion for contrail, written by `contrail completion zsh`.\n\n"
          "_contrail() {\n    local -a commands\n    local command=$words[2]\n    commands=(\n",
          out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "        '%s:", commands[i]->name);
        zsh_text(out, commands[i]->summary);
        fputs("'\n", out);
    }
    fputs("        'help:explain a command'\n    )\n"
          "    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
          "    shift words\n    (( CURRENT-- ))\n    case $command in\n",
          out);
    for (size_t i = 0; i < count; i++)
        zsh_command(out, commands[i]);
    fputs("    help)\n        _describe command commands\n        ;;\n    esac\n}\n\n"
          "if [[ $funcstack[1] == _contrail ]]; then\n    _contrail \"$@\"\nelse\n    compdef _contrail contrail\nfi\n",
          out);
}

bool ct_completion_print(FILE *out, const char *shell, const struct ct_command *const *commands, size_t count) {
    if (!strcmp(shell, "bash"))
        bash(out, commands, count);
    else if (!strcmp(shell, "zsh"))
        zsh(out, commands, count);
    else
        return false;
    return true;
}
