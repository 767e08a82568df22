/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers per second, and the text for Prometheus. */
#include "session/metrics.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define S 1000000000ull

static void rates(void **state) {
    (void)state;
    struct ct_metrics m = {0};
    struct ct_session_statistics s = {.size = sizeof s, .events = 1000, .bytes_written = 500};
    ct_metrics_sample(&m, &s, 10 * S);
    assert_true(m.events == 0); /* nothing to compare with yet */
    s.events = 3000;
    s.bytes_written = 600;
    s.lost[CT_LOSS_DRAIN_LAG] = 7;
    s.detail_events = 10;
    s.detail_lost[CT_LOSS_POOL_EXHAUSTED] = 4;
    ct_metrics_sample(&m, &s, 12 * S);
    assert_true(m.events == 1000 && m.bytes == 50 && m.detail_events == 5);
    assert_true(m.lost[CT_LOSS_DRAIN_LAG] == 3.5 && m.lost[CT_LOSS_DISK_SLOW] == 0);
    assert_true(m.detail_lost[CT_LOSS_POOL_EXHAUSTED] == 2);
    ct_metrics_sample(&m, &s, 12 * S); /* no time has passed */
    assert_true(m.events == 0);
    s.events = 5; /* another recording */
    ct_metrics_sample(&m, &s, 13 * S);
    assert_true(m.events == 0);
}

static char *text_of(const struct ct_metrics *m, const struct ct_metrics_labels *l) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ct_metrics_print(m, l, out);
    fclose(out);
    return text;
}

static void text(void **state) {
    (void)state;
    struct ct_metrics m = {0};
    struct ct_session_statistics s = {.size = sizeof s,
                                      .events = 18446744073709551615u,
                                      .lane_bytes = 1000,
                                      .lane_used = 250,
                                      .latency_p99_ns = 1500000,
                                      .windows = 3,
                                      .window_state = CT_SESSION_WINDOW_MARKED};
    s.lost[CT_LOSS_DISK_SLOW] = 9;
    const struct ct_metrics_labels labels = {
        .pid = 7, .directory = "a \"b\" \\ c\nd", .policy_hash = 255, .recording = true};
    ct_metrics_sample(&m, &s, S);
    char *t = text_of(&m, &labels);
    assert_non_null(strstr(t, "\ncontrail_events_total 18446744073709551615\n"));
    assert_non_null(strstr(t, "pid=\"7\",directory=\"a \\\"b\\\" \\\\ c\\nd\",policy_hash=\"00000000000000ff\"} 1\n"));
    assert_non_null(strstr(t, "\ncontrail_lost_events_total{reason=\"DISK_SLOW\"} 9\n"));
    assert_non_null(strstr(t, "\ncontrail_lane_fill_ratio 0.25\n"));
    assert_non_null(strstr(t, "\ncontrail_write_latency_seconds{quantile=\"0.99\"} 0.0015\n"));
    assert_non_null(strstr(t, "\ncontrail_window_state{state=\"marked\"} 1\n"));
    assert_non_null(strstr(t, "\ncontrail_window_state{state=\"capturing\"} 0\n"));
    assert_non_null(strstr(t, "\ncontrail_windows_total 3\n"));
    assert_non_null(strstr(t, "\ncontrail_up 1\n"));
    free(t);
}

static void files(void **state) {
    (void)state;
    const struct ct_metrics m = {0};
    const struct ct_metrics_labels labels = {.directory = ""};
    char directory[] = "/tmp/contrail-metrics-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/m.prom", directory);
    struct ct_place *place;
    assert_int_equal(ct_place_open(&place, directory, 0, CT_PLACE_NO_GROUP), 0);
    assert_int_equal(ct_metrics_write(&m, &labels, place, "m.prom"), 0);
    assert_int_equal(ct_metrics_write(&m, &labels, place, "m.prom"), 0); /* again */
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0); /* nothing else is left */
    assert_int_equal(ct_metrics_write(&m, &labels, place, "m.prom"), CT_ERR_SYSTEM);
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(ct_metrics_write(&m, &labels, place, longest), CT_ERR_SYSTEM);
    ct_place_drop(place);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates), cmocka_unit_test(text), cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
