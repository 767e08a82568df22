/* SPDX-License-Identifier: Apache-2.0 */
/* See metrics.h. */
#include "session/metrics.h"
#include "base/json_write.h"
#include <contrail/contrail.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A number that decreased belongs to a new recording. */
static double rate_of(uint64_t now, uint64_t before, double seconds) {
    return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

void ct_metrics_sample(struct ct_metrics *m, const struct ct_session_statistics *now, uint64_t now_ns) {
    double seconds = m->sampled_ns && now_ns > m->sampled_ns ? (double)(now_ns - m->sampled_ns) * 1e-9 : 0;
    m->events = rate_of(now->events, m->last.events, seconds);
    m->bytes = rate_of(now->bytes_written, m->last.bytes_written, seconds);
    m->detail_events = rate_of(now->detail_events, m->last.detail_events, seconds);
    for (int i = 0; i < CT_LOSS_COUNT; i++) {
        m->lost[i] = rate_of(now->lost[i], m->last.lost[i], seconds);
        m->detail_lost[i] = rate_of(now->detail_lost[i], m->last.detail_lost[i], seconds);
    }
    m->last = *now;
    m->sampled_ns = now_ns;
}

static void put_by_reason(struct ct_json *j, const char *key, const double values[CT_LOSS_COUNT]) {
    ct_json_begin(j, key, '{');
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        ct_json_real(j, ct_loss_name((enum ct_loss_reason)i), values[i]);
    ct_json_end(j, '}');
}

static double fill_of(const struct ct_session_statistics *s) {
    return s->lane_bytes ? (double)s->lane_used / (double)s->lane_bytes : 0;
}

void ct_metrics_put(const struct ct_metrics *m, struct ct_json *j) {
    ct_json_real(j, "lane_fill", fill_of(&m->last));
    ct_json_begin(j, "per_second", '{');
    ct_json_real(j, "events", m->events);
    ct_json_real(j, "written_bytes", m->bytes);
    ct_json_real(j, "detail_records", m->detail_events);
    put_by_reason(j, "lost", m->lost);
    put_by_reason(j, "detail_lost", m->detail_lost);
    ct_json_end(j, '}');
}

/* ---- Prometheus ---- */

/* Escapes backslash, quote and newline in values of labels. */
static void print_label(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', out);
        if (*text == '\n')
            fputs("\\n", out);
        else
            fputc(*text, out);
    }
}

static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP contrail_%s %s\n# TYPE contrail_%s %s\n", name, help, name, type);
}

static void counter(FILE *out, const char *name, const char *help, uint64_t value) {
    head(out, name, "counter", help);
    fprintf(out, "contrail_%s %llu\n", name, (unsigned long long)value);
}

static void gauge(FILE *out, const char *name, const char *help, double value) {
    head(out, name, "gauge", help);
    fprintf(out, "contrail_%s %.9g\n", name, value);
}

static void counter_by_reason(FILE *out, const char *name, const char *help, const uint64_t values[CT_LOSS_COUNT]) {
    head(out, name, "counter", help);
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        fprintf(out, "contrail_%s{reason=\"%s\"} %llu\n", name, ct_loss_name((enum ct_loss_reason)i),
                (unsigned long long)values[i]);
}

static void gauge_by_reason(FILE *out, const char *name, const char *help, const double values[CT_LOSS_COUNT]) {
    head(out, name, "gauge", help);
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        fprintf(out, "contrail_%s{reason=\"%s\"} %.9g\n", name, ct_loss_name((enum ct_loss_reason)i), values[i]);
}

static void print_about(const struct ct_metrics_labels *l, FILE *out) {
    head(out, "info", "gauge", "What is recorded, and by which policy; always 1.");
    fprintf(out, "contrail_info{version=\"%s\",pid=\"%d\",directory=\"", ct_version(), l->pid);
    print_label(out, l->directory);
    fprintf(out, "\",policy_hash=\"%016llx\"} 1\n", (unsigned long long)l->policy_hash);
    gauge(out, "up", "1 while the session records, 0 when it is over.", !l->over);
    gauge(out, "recording", "0 after `record off`.", l->recording);
    gauge(out, "paused", "1 after `pause`.", l->paused);
    gauge(out, "policy_version", "Version of the policy: 1, and one more with each change.", l->policy_version);
}

static void print_index(const struct ct_metrics *m, FILE *out) {
    const struct ct_session_statistics *s = &m->last;
    counter(out, "events_total", "Events that were recorded.", s->events);
    gauge(out, "events_per_second", "Events per second, over the last second.", m->events);
    counter_by_reason(out, "lost_events_total", "Events that were lost, by reason.", s->lost);
    gauge_by_reason(out, "lost_events_per_second", "Lost events per second, over the last second.", m->lost);
    counter(out, "written_bytes_total", "Bytes of trace files.", s->bytes_written);
    gauge(out, "written_bytes_per_second", "Bytes of trace files per second, over the last second.", m->bytes);
    gauge(out, "lane_bytes", "Shared memory for events.", (double)s->lane_bytes);
    gauge(out, "lane_used_bytes", "Shared memory for events that is in use.", (double)s->lane_used);
    gauge(out, "lane_fill_ratio", "Part of the shared memory for events that is in use, from 0 to 1.", fill_of(s));
    counter(out, "lane_high_total", "How often the shared memory got fuller than the high watermark.",
            s->lane_times_above);
    head(out, "write_latency_seconds", "gauge", "From the capture of an event to its write, by quantile.");
    fprintf(out, "contrail_write_latency_seconds{quantile=\"0.5\"} %.9g\n", (double)s->latency_p50_ns * 1e-9);
    fprintf(out, "contrail_write_latency_seconds{quantile=\"0.99\"} %.9g\n", (double)s->latency_p99_ns * 1e-9);
}

static void print_detail(const struct ct_metrics *m, FILE *out) {
    const struct ct_session_statistics *s = &m->last;
    counter(out, "marks_total", "Moments that were marked.", s->marks);
    counter(out, "windows_total", "Windows of detail that were, or are being, written.", s->windows);
    counter(out, "detail_records_total", "Detail records that were written.", s->detail_events);
    gauge(out, "detail_records_per_second", "Detail records per second, over the last second.", m->detail_events);
    counter_by_reason(out, "lost_detail_records_total", "Detail records that were lost, by reason.", s->detail_lost);
    gauge_by_reason(out, "lost_detail_records_per_second", "Lost detail records per second, over the last second.",
                    m->detail_lost);
    counter(out, "detail_bytes_total", "Bytes of detail that were written.", s->detail_bytes);
    gauge(out, "detail_reach_seconds", "How far back detail in memory reaches.", (double)s->detail_reach_ns * 1e-9);
    head(out, "window_state", "gauge", "1 for the state that the windows of detail are in.");
    for (int i = 0; i < CT_SESSION_WINDOW_COUNT; i++)
        fprintf(out, "contrail_window_state{state=\"%s\"} %d\n", ct_session_window_name((enum ct_session_window)i),
                (int)s->window_state == i);
}

void ct_metrics_print(const struct ct_metrics *m, const struct ct_metrics_labels *l, FILE *out) {
    const struct ct_session_statistics *s = &m->last;
    print_about(l, out);
    print_index(m, out);
    print_detail(m, out);
    gauge(out, "threads", "Threads that are alive.", (double)s->threads_alive);
    counter(out, "threads_total", "Threads that were seen.", s->threads_seen);
    counter(out, "processes_total", "Processes that were recorded.", s->processes);
    counter(out, "unrecorded_processes_total", "Processes that could not be recorded.", s->missed_processes);
    gauge(out, "hooked_functions", "Functions that have hooks.", (double)s->hooked);
    gauge(out, "recording_seconds", "How long it has been recording.", (double)s->recording_ns * 1e-9);
}

int ct_metrics_write(const struct ct_metrics *m, const struct ct_metrics_labels *l, struct ct_place *place,
                     const char *name) {
    char fresh[NAME_MAX + 1];
    errno = ENAMETOOLONG;
    if ((size_t)snprintf(fresh, sizeof fresh, "%s.%d.tmp", name, (int)getpid()) >= sizeof fresh)
        return CT_ERR_SYSTEM;
    (void)ct_place_remove(place, fresh);
    int fd = ct_place_make_ordinary(place, fresh), error = fd < 0 ? -fd : 0;
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (out) {
        ct_metrics_print(m, l, out);
        error = ferror(out) ? EIO : 0;
        error = fclose(out) ? errno : error;
    } else if (fd >= 0) {
        error = ENOMEM;
        close(fd);
    }
    if (!error)
        error = ct_place_replace(place, fresh, name);
    if (!error)
        return 0;
    (void)ct_place_remove(place, fresh);
    errno = error;
    return CT_ERR_SYSTEM;
}
