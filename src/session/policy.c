/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of a policy, and what it says about functions, signals and times. See policy.h. */
#include "session/policy.h"
#include "drain/windows.h"
#include "plan/hot.h"
#include "symbols/name_match.h"
#include "base/json_write.h"
#include "base/percent.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 4, 5))) static int refuse(int status, char *error, size_t size, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error, size, format, list);
    va_end(list);
    return status;
}

/* ---- versions ---- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Appends the texts in order, each after the word. */
static void put_sorted(FILE *out, const char *word, const char **texts, size_t count) {
    qsort(texts, count, sizeof *texts, by_text);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s %s\n", word, texts[i]);
}

static char *text_of(const struct ct_policy *p) {
    char *text = NULL;
    size_t size = 0;
    const char *texts[CT_POLICY_MAX];
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fputs(p->settings, out);
    for (size_t i = 0; i < p->count; i++)
        texts[i] = p->triggers[i]->text;
    put_sorted(out, "trigger", texts, p->count);
    for (size_t i = 0; i < p->excluded_count; i++)
        texts[i] = p->excluded[i];
    put_sorted(out, "exclude", texts, p->excluded_count);
    if (p->budget)
        fprintf(out, "budget %u.%02u%%\n", p->budget / 100, p->budget % 100);
    fprintf(out, "record %s\n", p->recording ? "on" : "off");
    return fclose(out) ? NULL : text;
}

static uint64_t hash_of(const char *text) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 1099511628211u;
    return hash;
}

static void free_version(struct ct_policy_version *v) {
    free(v->text);
    free(v->change);
}

/* Keeps the first version, and the newest of the others. */
static void make_room(struct ct_policy *p) {
    if (p->version_count < CT_POLICY_VERSIONS)
        return;
    free_version(&p->versions[1]);
    memmove(&p->versions[1], &p->versions[2], (p->version_count - 2) * sizeof *p->versions);
    p->version_count--;
    p->omitted++;
}

/* A change is in force even if there is no memory to note it. */
static void note_version(struct ct_policy *p, uint64_t now_ns, const char *word, const char *what) {
    char change[CT_TRIGGER_TEXT + 32];
    make_room(p);
    struct ct_policy_version *grown = realloc(p->versions, (p->version_count + 1) * sizeof *grown);
    char *text = text_of(p);
    p->version++;
    if (!grown || !text) {
        p->versions = grown ? grown : p->versions;
        p->omitted++;
        free(text);
        return;
    }
    p->versions = grown;
    snprintf(change, sizeof change, "%s%s%s", word, *what ? " " : "", what);
    grown[p->version_count++] = (struct ct_policy_version){p->version, hash_of(text), now_ns, text, strdup(change)};
}

uint64_t ct_policy_hash(const struct ct_policy *p) {
    return p->version_count ? p->versions[p->version_count - 1].hash : 0;
}

static void put_version(const struct ct_policy_version *v, struct ct_json *j) {
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)v->hash);
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "version", v->version);
    ct_json_string(j, "hash", hash);
    ct_json_number(j, "time_ns", v->time_ns);
    ct_json_string(j, "change", v->change ? v->change : "");
    ct_json_string(j, "text", v->text);
    ct_json_end(j, '}');
}

void ct_policy_put(const struct ct_policy *p, struct ct_json *j) {
    ct_json_begin(j, "policies", '[');
    for (size_t i = 0; p && i < p->version_count; i++)
        put_version(&p->versions[i], j);
    ct_json_end(j, ']');
}

/* ---- life ---- */

static void describe_settings(struct ct_policy *p, const struct ct_session_options *o) {
    static const char *const modes[] = {"marked", "always", "off"};
    struct ct_windows_options w = ct_windows_options_of(o);
    snprintf(p->settings, sizeof p->settings,
             "detail %s\npre-roll-ms %llu\npost-roll-ms %llu\npre-roll-events %llu\npost-roll-events %llu\n",
             modes[w.detail], (unsigned long long)(w.rolls.pre_ns / 1000000),
             (unsigned long long)(w.rolls.post_ns / 1000000), (unsigned long long)w.rolls.pre_events,
             (unsigned long long)w.rolls.post_events);
}

static int insert_trigger(struct ct_policy *p, const char *text, char *error, size_t size);

int ct_policy_create(struct ct_policy **out, const struct ct_session_options *o, uint64_t now_ns, char *error,
                     size_t size) {
    struct ct_policy *p = *out = calloc(1, sizeof *p);
    int status = p ? 0 : refuse(CT_ERR_NO_MEMORY, error, size, "out of memory");
    if (status)
        return status;
    p->recording = true;
    p->budget = (unsigned)o->budget;
    describe_settings(p, o);
    for (size_t i = 0; o->triggers && o->triggers[i] && !status; i++) {
        status = insert_trigger(p, o->triggers[i], error, size);
        status = status == CT_ERR_ALREADY_HOOKED ? 0 : status;
    }
    if (status) {
        ct_policy_destroy(p);
        *out = NULL;
        return status;
    }
    note_version(p, now_ns, "start", "");
    return 0;
}

void ct_policy_destroy(struct ct_policy *p) {
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        free(p->triggers[i]);
    for (size_t i = 0; i < p->excluded_count; i++)
        free(p->excluded[i]);
    for (size_t i = 0; i < p->version_count; i++)
        free_version(&p->versions[i]);
    free(p->versions);
    free(p);
}

/* ---- changes ---- */

static int take_bit(struct ct_policy *p, struct ct_trigger *t, char *error, size_t size) {
    if (!ct_trigger_is_of_functions(t->kind))
        return 0;
    if (p->used_bits == (1u << CT_TRIGGER_BITS) - 1)
        return refuse(
            CT_ERR_NO_SPACE, error, size,
            "there are %u triggers on functions already, which is all there can be; remove one, or join globs "
            "that mean the same",
            CT_TRIGGER_BITS);
    t->bit = __builtin_ctz(~(unsigned)p->used_bits);
    p->used_bits |= (uint16_t)(1u << t->bit);
    return 0;
}

static size_t find_trigger(const struct ct_policy *p, const char *text) {
    size_t i = 0;
    while (i < p->count && strcmp(p->triggers[i]->text, text))
        i++;
    return i;
}

static int insert_trigger(struct ct_policy *p, const char *text, char *error, size_t size) {
    struct ct_trigger parsed;
    int status = ct_policy_parse(text, &parsed, error, size);
    if (status)
        return status;
    if (find_trigger(p, text) < p->count)
        return refuse(CT_ERR_ALREADY_HOOKED, error, size, "the trigger \"%s\" is there already", text);
    if (p->count == CT_POLICY_MAX)
        return refuse(CT_ERR_NO_SPACE, error, size,
                      "there are %u triggers already, which is all there can be; remove one", CT_POLICY_MAX);
    struct ct_trigger *t = malloc(sizeof *t);
    status = t ? take_bit(p, &parsed, error, size) : refuse(CT_ERR_NO_MEMORY, error, size, "out of memory");
    if (status) {
        free(t);
        return status;
    }
    *t = parsed;
    t->id = ++p->next_id;
    p->triggers[p->count++] = t;
    return 0;
}

int ct_policy_add(struct ct_policy *p, const char *text, uint64_t now_ns, char *error, size_t size) {
    int status = insert_trigger(p, text, error, size);
    if (!status)
        note_version(p, now_ns, "trigger add", text);
    return status;
}

int ct_policy_remove(struct ct_policy *p, const char *text, uint64_t now_ns, char *error, size_t size) {
    size_t i = find_trigger(p, text);
    if (i == p->count)
        return refuse(CT_ERR_NOT_FOUND, error, size,
                      "there is no trigger \"%s\"; `contrail ctl PID trigger list` shows them", text);
    struct ct_trigger *t = p->triggers[i];
    if (t->bit >= 0)
        p->used_bits &= (uint16_t) ~(1u << t->bit);
    size_t slot = p->removed_count++ % CT_TRIGGER_BITS;
    p->removed[slot].id = t->id;
    memcpy(p->removed[slot].text, t->text, sizeof t->text);
    memmove(&p->triggers[i], &p->triggers[i + 1], (--p->count - i) * sizeof p->triggers[0]);
    free(t);
    note_version(p, now_ns, "trigger remove", text);
    return 0;
}

static int check_glob(const char *glob, char *error, size_t size) {
    if (!glob[0] || strlen(glob) >= CT_TRIGGER_TEXT || strpbrk(glob, "\n\r"))
        return refuse(CT_ERR_INVALID_ARGUMENT, error, size,
                      "a glob has 1 to %u characters and no line breaks, like 'log_*'", CT_TRIGGER_TEXT - 1);
    if (glob[0] == '@' && strcmp(glob, CT_HOT_WORD) != 0)
        return refuse(CT_ERR_INVALID_ARGUMENT, error, size, "there is no list \"%s\"; " CT_HOT_WORD " is the only one",
                      glob);
    return 0;
}

static int include_again(struct ct_policy *p, size_t i, const char *glob, char *error, size_t size) {
    if (i == p->excluded_count)
        return refuse(CT_ERR_NOT_FOUND, error, size,
                      "\"%s\" was not excluded with `contrail ctl PID exclude add`; `status` shows what was", glob);
    free(p->excluded[i]);
    memmove(&p->excluded[i], &p->excluded[i + 1], (--p->excluded_count - i) * sizeof p->excluded[0]);
    return 0;
}

int ct_policy_exclude(struct ct_policy *p, const char *glob, bool add, uint64_t now_ns, char *error, size_t size) {
    size_t i = 0;
    int status = check_glob(glob, error, size);
    if (status)
        return status;
    while (i < p->excluded_count && strcmp(p->excluded[i], glob))
        i++;
    if (!add) {
        status = include_again(p, i, glob, error, size);
    } else if (i < p->excluded_count) {
        status = refuse(CT_ERR_ALREADY_HOOKED, error, size, "\"%s\" is excluded already", glob);
    } else if (i == CT_POLICY_MAX) {
        status =
            refuse(CT_ERR_NO_SPACE, error, size,
                   "there are %u globs already, which is all there can be; remove one, or join some", CT_POLICY_MAX);
    } else {
        p->excluded[i] = strdup(glob);
        status = p->excluded[i] ? 0 : refuse(CT_ERR_NO_MEMORY, error, size, "out of memory");
        p->excluded_count += !status;
    }
    if (!status)
        note_version(p, now_ns, add ? "exclude add" : "exclude remove", glob);
    return status;
}

int ct_policy_budget(struct ct_policy *p, const char *text, uint64_t now_ns, char *error, size_t size) {
    unsigned budget;
    if (!ct_percent_parse(text, &budget))
        return refuse(CT_ERR_INVALID_ARGUMENT, error, size,
                      "a budget is a part of the program's CPU time from 0.1%% to 1000%%, like 10%%, or off");
    if (p->budget == budget)
        return refuse(CT_ERR_ALREADY_HOOKED, error, size, "the budget is %s already", budget ? text : "off");
    p->budget = budget;
    note_version(p, now_ns, "budget", text);
    return 0;
}

int ct_policy_record(struct ct_policy *p, bool on, uint64_t now_ns, char *error, size_t size) {
    if (p->recording == on)
        return refuse(CT_ERR_ALREADY_HOOKED, error, size, "recording is %s already", on ? "on" : "off");
    p->recording = on;
    note_version(p, now_ns, "record", on ? "on" : "off");
    return 0;
}

/* ---- lookups ---- */

/* Most functions match no trigger: a name is demangled once, for all triggers together. */
uint16_t ct_policy_mask(const struct ct_policy *p, const char *name, const char *module) {
    const char *globs[CT_TRIGGER_BITS + 1];
    size_t count = 0;
    uint16_t mask = 0;
    if (!p || !p->used_bits)
        return 0;
    for (size_t i = 0; i < p->count; i++)
        if (p->triggers[i]->bit >= 0)
            globs[count++] = p->triggers[i]->glob;
    globs[count] = NULL;
    if (!ct_name_fits(globs, name))
        return 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct ct_trigger *t = p->triggers[i];
        if (t->bit >= 0 && ct_policy_fits(t->module, t->glob, name, module))
            mask |= (uint16_t)(1u << t->bit);
    }
    return mask;
}

const struct ct_trigger *ct_policy_function(const struct ct_policy *p, unsigned bit) {
    for (size_t i = 0; p && i < p->count; i++)
        if (p->triggers[i]->bit == (int)bit)
            return p->triggers[i];
    return NULL;
}

const char *ct_policy_text(const struct ct_policy *p, uint32_t id) {
    for (size_t i = 0; p && i < p->count; i++)
        if (p->triggers[i]->id == id)
            return p->triggers[i]->text;
    for (size_t i = 0; p && i < CT_TRIGGER_BITS; i++)
        if (id && p->removed[i].id == id)
            return p->removed[i].text;
    return "";
}

const struct ct_trigger *ct_policy_signal(const struct ct_policy *p, int signal, bool crash) {
    for (size_t i = 0; p && i < p->count; i++) {
        const struct ct_trigger *t = p->triggers[i];
        if ((t->kind == CT_TRIGGER_CRASH && crash) || (t->kind == CT_TRIGGER_SIGNAL && t->signal == signal))
            return t;
    }
    return NULL;
}

const struct ct_trigger *ct_policy_time(const struct ct_policy *p, int minute) {
    for (size_t i = 0; p && i < p->count; i++)
        if (p->triggers[i]->kind == CT_TRIGGER_TIME && ct_trigger_covers_minute(p->triggers[i], minute))
            return p->triggers[i];
    return NULL;
}

bool ct_policy_needs_tracing(const struct ct_policy *p) {
    for (size_t i = 0; p && i < p->count; i++)
        if (p->triggers[i]->kind == CT_TRIGGER_CRASH || p->triggers[i]->kind == CT_TRIGGER_SIGNAL)
            return true;
    return false;
}

/* Like --exclude: matches names of modules too. */
static bool is_hot(const char *name) {
    return ct_name_fits(ct_hot_globs, name);
}

bool ct_policy_is_excluded(const struct ct_policy *p, const char *name, const char *module) {
    for (size_t i = 0; p && i < p->excluded_count; i++)
        if ((!strcmp(p->excluded[i], CT_HOT_WORD) && is_hot(name)) || ct_policy_fits_module(p->excluded[i], module) ||
            ct_policy_fits("", p->excluded[i], name, module))
            return true;
    return false;
}
