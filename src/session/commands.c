/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that a session accepts while it records. See control.h. Everything here runs on the thread of the
 * control socket, the only one that changes the policy. */
#include "session/children.h"
#include "session/control_internal.h"
#include "session/mark.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STOP_LIMIT_MS 5000u
#define PATIENCE_NS   5000000000ull
#define NAP_NS        1000000L
#define SENTENCE      640

/* ---- all processes ---- */

static void each_recording(struct ct_session *s, void (*each)(void *arg, struct ct_recording *r), void *arg) {
    if (s->first)
        each(arg, s->first);
    ct_children_each(s, each, arg);
}

/* A process that is about to run gets the policy when it runs; one that is over needs nothing. */
static bool is_running(const struct ct_recording *r) {
    return r->remote && r->plan && r->times.resumed_at && ct_remote_is_alive(r->remote);
}

static void bring_pause(struct ct_recording *r, bool paused) {
    struct ct_remote_error error;
    if (paused && !ct_remote_is_stopped(r->remote))
        r->times.stopped_at = ct_clock_now();
    if (paused && (ct_remote_is_stopped(r->remote) || !ct_remote_stop(r->remote, STOP_LIMIT_MS, &error)))
        __atomic_store_n(&r->paused, true, __ATOMIC_RELAXED);
    else if (!paused && !ct_recording_go_on(r, CT_WAIT_PAUSE))
        __atomic_store_n(&r->paused, false, __ATOMIC_RELAXED);
}

struct task {
    const struct ct_control_server *c;
    bool open; /* some process does not have everything yet */
};

/* Does not wait for `work`: the thread that holds it may be about to need the list that we hold. */
static void reconcile_one(void *arg, struct ct_recording *r) {
    struct task *t = arg;
    if (ct_recording_is_switched(r) && __atomic_load_n(&r->paused, __ATOMIC_RELAXED) == t->c->paused)
        return;
    if (pthread_mutex_trylock(&r->work)) {
        t->open = true;
        return;
    }
    bool running = is_running(r);
    if (running)
        ct_recording_bring_policy(r); /* if it fails, it is tried again */
    if (running && r->paused != t->c->paused)
        bring_pause(r, t->c->paused);
    t->open |= running && (!ct_recording_is_switched(r) || r->paused != t->c->paused);
    pthread_mutex_unlock(&r->work);
}

bool ct_command_reconcile(struct ct_control_server *c) {
    struct task t = {.c = c};
    each_recording(c->session, reconcile_one, &t);
    return !t.open;
}

static bool reconcile_all(struct ct_control_server *c) {
    uint64_t end = ct_clock_now() + PATIENCE_NS;
    while (!ct_command_reconcile(c)) {
        if (ct_clock_now() > end)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return true;
}

/* ---- commands ---- */

struct command {
    struct ct_control_server *c;
    const char *operand;
    char *text; /* the answer, SENTENCE bytes */
};

__attribute__((format(printf, 3, 4))) static int say(struct command *m, int status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(m->text, SENTENCE, format, list);
    va_end(list);
    return status;
}

/* Answers after a change of the policy, when the change is in force. */
static int announce(struct command *m, int status) {
    const struct ct_policy *p = m->c->session->policy;
    if (status)
        return status;
    if (!reconcile_all(m->c))
        return say(m, CT_ERR_TIMEOUT, "version %u of the policy has not reached all processes yet; `status` shows more",
                   p->version);
    return say(m, 0, "version %u of the policy: %016llx", p->version, (unsigned long long)ct_policy_hash(p));
}

static void collect_fitting(void *arg, struct ct_recording *r) {
    *(unsigned *)arg |= r->fitting;
}

/* Does the newest trigger fit no function of any process? */
static bool is_idle(struct ct_session *s) {
    unsigned fitting = 0;
    each_recording(s, collect_fitting, &fitting);
    pthread_rwlock_rdlock(&s->policy_lock);
    const struct ct_trigger *t = s->policy->count ? s->policy->triggers[s->policy->count - 1] : NULL;
    bool idle = t && t->bit >= 0 && !(fitting & 1u << t->bit);
    pthread_rwlock_unlock(&s->policy_lock);
    return idle;
}

static int trigger_add(struct command *m) {
    struct ct_session *s = m->c->session;
    pthread_rwlock_wrlock(&s->policy_lock);
    int status = ct_policy_add(s->policy, m->operand, ct_clock_now(), m->text, SENTENCE);
    pthread_rwlock_unlock(&s->policy_lock);
    status = announce(m, status);
    size_t used = strlen(m->text);
    if (!status && is_idle(s))
        snprintf(m->text + used, SENTENCE - used, "; it fits no function so far, and stays for libraries to come");
    return status;
}

static int trigger_remove(struct command *m) {
    struct ct_session *s = m->c->session;
    pthread_rwlock_wrlock(&s->policy_lock);
    int status = ct_policy_remove(s->policy, m->operand, ct_clock_now(), m->text, SENTENCE);
    pthread_rwlock_unlock(&s->policy_lock);
    return announce(m, status);
}

static int change_excluded(struct command *m, bool add) {
    struct ct_session *s = m->c->session;
    pthread_rwlock_wrlock(&s->policy_lock);
    int status = ct_policy_exclude(s->policy, m->operand, add, ct_clock_now(), m->text, SENTENCE);
    pthread_rwlock_unlock(&s->policy_lock);
    return announce(m, status);
}

static int exclude_add(struct command *m) {
    return change_excluded(m, true);
}

static int exclude_remove(struct command *m) {
    return change_excluded(m, false);
}

static int set_recording(struct command *m, bool on) {
    struct ct_session *s = m->c->session;
    pthread_rwlock_wrlock(&s->policy_lock);
    int status = ct_policy_record(s->policy, on, ct_clock_now(), m->text, SENTENCE);
    pthread_rwlock_unlock(&s->policy_lock);
    return announce(m, status);
}

static int record_on(struct command *m) {
    return set_recording(m, true);
}

static int record_off(struct command *m) {
    return set_recording(m, false);
}

static int set_budget(struct command *m) {
    struct ct_session *s = m->c->session;
    pthread_rwlock_wrlock(&s->policy_lock);
    int status = ct_policy_budget(s->policy, m->operand, ct_clock_now(), m->text, SENTENCE);
    pthread_rwlock_unlock(&s->policy_lock);
    return announce(m, status);
}

static int set_paused(struct command *m, bool paused) {
    if (m->c->paused == paused)
        return say(m, CT_ERR_BAD_STATE, "the processes of the session are %s already", paused ? "paused" : "running");
    if (paused && ct_session_state(m->c->session) != CT_SESSION_RUNNING)
        return say(m, CT_ERR_BAD_STATE, "the session is %s: only a running session can be paused",
                   ct_session_state_name(ct_session_state(m->c->session)));
    __atomic_store_n(&m->c->paused, paused, __ATOMIC_RELEASE);
    if (!reconcile_all(m->c)) {
        __atomic_store_n(&m->c->paused, false, __ATOMIC_RELEASE);
        (void)reconcile_all(m->c);
        return say(m, CT_ERR_TIMEOUT, "%s",
                   paused ? "not all processes could be stopped; all run on"
                          : "not all processes could be resumed yet");
    }
    return say(m, 0, "%s", paused ? "paused" : "running");
}

static int pause_all(struct command *m) {
    return set_paused(m, true);
}

static int resume_all(struct command *m) {
    return set_paused(m, false);
}

struct mark_task {
    struct ct_windows_ask ask;
    uint64_t marked, refused;
};

static void mark_one(void *arg, struct ct_recording *r) {
    struct mark_task *t = arg;
    if (!r->remote || !r->times.resumed_at)
        return;
    if (!ct_windows_ask(&r->windows, &t->ask)) {
        t->refused++;
        return;
    }
    if (r->lane.segment_count)
        ct_lane_mark(&r->lane);
    t->marked++;
}

/* For `status`: who follows the recording shows it. */
static void note_mark(struct ct_control_server *c, const struct ct_windows_ask *ask) {
    struct ct_control_mark *m = &c->marks[c->mark_count++ % CT_CONTROL_MARKS];
    m->ns = ask->ns;
    memcpy(m->label, ask->label, sizeof m->label);
}

static int mark(struct command *m) {
    struct mark_task t = {.ask.rolls = ct_windows_options_of(&m->c->session->options).rolls};
    if (m->c->session->options.detail == CT_SESSION_DETAIL_OFF)
        return say(m, CT_ERR_BAD_STATE, "--detail off captures nothing that a mark could keep");
    int status = ct_mark_parse(m->operand, &t.ask, m->text, SENTENCE);
    if (status)
        return status;
    t.ask.ns = ct_clock_now(); /* one moment, in all processes */
    each_recording(m->c->session, mark_one, &t);
    if (t.marked)
        note_mark(m->c, &t.ask);
    if (!t.marked && t.refused)
        return say(m, CT_ERR_BAD_STATE, "marks came faster than they could be taken; mark again");
    return t.marked == 1 ? say(m, 0, "marked") : say(m, 0, "marked in %llu processes", (unsigned long long)t.marked);
}

/* The list may be longer than a sentence. */
static int trigger_list(struct command *m) {
    const struct ct_policy *p = m->c->session->policy;
    size_t size = p->count * CT_TRIGGER_TEXT + SENTENCE, used = 0;
    char *text = realloc(m->text, size);
    if (!text)
        return CT_ERR_NO_MEMORY;
    m->text = text;
    snprintf(text, size, "there are no triggers");
    for (size_t i = 0; i < p->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "\n" : "", p->triggers[i]->text);
    return 0;
}

static void set_wait_of(void *arg, struct ct_recording *r) {
    if (r->drain.running)
        ct_drain_set_wait(&r->drain, *(const unsigned *)arg);
}

/* Processes that begin later take it from the session. */
static int set_wait(struct command *m) {
    char *end;
    unsigned long ms = strtoul(m->operand, &end, 10);
    if (m->operand[0] < '0' || m->operand[0] > '9' || *end || ms > 1000)
        return say(m, CT_ERR_INVALID_ARGUMENT, "wait-ms takes a number of milliseconds up to 1000, not \"%.40s\"",
                   m->operand);
    if (m->c->session->options.lossless)
        return say(m, CT_ERR_BAD_STATE, "the recording is lossless: threads wait as long as it takes");
    unsigned value = (unsigned)ms;
    __atomic_store_n(&m->c->session->wait_ms, value, __ATOMIC_RELAXED);
    each_recording(m->c->session, set_wait_of, &value);
    return say(m, 0, "threads wait up to %u ms of each second when the memory is full", value);
}

/* control_callers.c answers status and stop. */
static int (*const runs[CT_SESSION_COMMAND_COUNT])(struct command *) = {
    [CT_SESSION_COMMAND_MARK] = mark,
    [CT_SESSION_COMMAND_TRIGGER_ADD] = trigger_add,
    [CT_SESSION_COMMAND_TRIGGER_REMOVE] = trigger_remove,
    [CT_SESSION_COMMAND_TRIGGER_LIST] = trigger_list,
    [CT_SESSION_COMMAND_EXCLUDE_ADD] = exclude_add,
    [CT_SESSION_COMMAND_EXCLUDE_REMOVE] = exclude_remove,
    [CT_SESSION_COMMAND_BUDGET] = set_budget,
    [CT_SESSION_COMMAND_RECORD_OFF] = record_off,
    [CT_SESSION_COMMAND_RECORD_ON] = record_on,
    [CT_SESSION_COMMAND_WAIT_MS] = set_wait,
    [CT_SESSION_COMMAND_PAUSE] = pause_all,
    [CT_SESSION_COMMAND_RESUME] = resume_all,
};

enum ct_session_command ct_command_find(const char *line, const char **operand) {
    static const struct {
        const char *words;
        const char *operand; /* in brackets: it may be left out */
    } commands[] = {
#define COMMAND(name, words, operand, help) [CT_SESSION_COMMAND_##name] = {words, operand},
        CT_SESSION_COMMAND_LIST(COMMAND)
#undef COMMAND
    };
    for (int i = 0; i < CT_SESSION_COMMAND_COUNT; i++) {
        size_t length = strlen(commands[i].words);
        bool takes = commands[i].operand[0], optional = commands[i].operand[0] == '[';
        char end = strncmp(line, commands[i].words, length) ? 'x' : line[length];
        *operand = line + length + (end == ' ');
        if ((end == ' ' && takes) || (end == 0 && (!takes || optional)))
            return (enum ct_session_command)i;
    }
    return CT_SESSION_COMMAND_COUNT;
}

/* A process that is followed has no hooks and no detail. */
static bool is_for_hooks(enum ct_session_command which) {
    return which != CT_SESSION_COMMAND_PAUSE && which != CT_SESSION_COMMAND_RESUME;
}

int ct_command_run(struct ct_control_server *c, enum ct_session_command which, const char *operand, char **answer) {
    struct command m = {c, operand, malloc(SENTENCE)};
    int status = m.text ? 0 : CT_ERR_NO_MEMORY;
    if (m.text && which < CT_SESSION_COMMAND_COUNT && runs[which] && c->session->options.stalk && is_for_hooks(which))
        status = say(&m, CT_ERR_BAD_STATE,
                     "a process that is followed (contrail stalk) accepts only status, pause, resume and stop");
    else if (m.text && which < CT_SESSION_COMMAND_COUNT && runs[which])
        status = runs[which](&m);
    else if (m.text)
        status = say(&m, CT_ERR_INVALID_ARGUMENT,
                     "this command is unknown to the session, which may be of another version of Contrail");
    *answer = m.text;
    return status;
}
