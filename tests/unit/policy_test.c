/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of triggers; versions of policies; which functions, signals and times they mean. */
#include "session/policy.h"
#include "base/json_write.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ct_trigger good(const char *text) {
    struct ct_trigger t;
    char error[512] = "";
    if (ct_policy_parse(text, &t, error, sizeof error))
        fail_msg("%s: %s", text, error);
    assert_string_equal(t.text, text);
    assert_int_equal(t.bit, -1);
    return t;
}

/* Refused, with a sentence that has the word in it. */
static void bad(const char *text, const char *word) {
    struct ct_trigger t;
    char error[512] = "";
    if (ct_policy_parse(text, &t, error, sizeof error) != CT_ERR_INVALID_ARGUMENT)
        fail_msg("\"%s\" was accepted", text);
    if (!strstr(error, word))
        fail_msg("\"%s\": \"%s\" does not say \"%s\"", text, error, word);
}

/* ---- texts ---- */

static void symbols(void **state) {
    (void)state;
    struct ct_trigger t = good("symbol=handle_*");
    assert_int_equal(t.kind, CT_TRIGGER_SYMBOL);
    assert_string_equal(t.glob, "handle_*");
    assert_string_equal(t.module, "");
    t = good("symbol=std::vector<int>::push_back");
    assert_string_equal(t.glob, "std::vector<int>::push_back");
    t = good("symbol=libc.so.*!malloc");
    assert_string_equal(t.module, "libc.so.*");
    assert_string_equal(t.glob, "malloc");
    t = good("symbol=[!a]*");
    assert_string_equal(t.glob, "[!a]*");
    assert_string_equal(t.module, "");
    bad("symbol", "needs a value");
    bad("symbol=", "needs a value");
    bad("symbol=!f", "names no function");
    bad("symbol=libc!", "names no function");
}

static void returns(void **state) {
    (void)state;
    struct ct_trigger t = good("return=f:lt:0");
    assert_int_equal(t.kind, CT_TRIGGER_RETURN);
    assert_int_equal(t.conditions[0].compare, CT_COMPARE_LT);
    assert_int_equal(t.conditions[0].number, 0);
    t = good("return=ns::f:eq:-22");
    assert_string_equal(t.glob, "ns::f");
    assert_int_equal(t.conditions[0].compare, CT_COMPARE_EQ);
    assert_int_equal(t.conditions[0].number, -22);
    assert_int_equal(good("return=f:ne:0xff").conditions[0].number, 255);
    assert_int_equal(good("return=f:gt:-0x10").conditions[0].number, -16);
    assert_int_equal(good("return=f:eq:0xffffffffffffffff").conditions[0].number, -1);
    assert_int_equal(good("return=f:eq:9223372036854775807").conditions[0].number, INT64_MAX);
    assert_int_equal(good("return=f:eq:-9223372036854775808").conditions[0].number, INT64_MIN);
    assert_int_equal(good("return=f:eq:010").conditions[0].number, 10);
    bad("return=f", "which return values");
    bad("return=f:lt", "which return values");
    bad("return=f:le:0", "eq, ne, lt or gt");
    bad("return=f:lt:", "not a 64-bit number");
    bad("return=f:lt:1x", "not a 64-bit number");
    bad("return=f:lt:0x", "not a 64-bit number");
    bad("return=f:lt:- 1", "not a 64-bit number");
    bad("return=f:eq:9223372036854775808", "not a 64-bit number");
    bad("return=f:eq:-9223372036854775809", "not a 64-bit number");
    bad("return=f:eq:0x10000000000000000", "not a 64-bit number");
    bad("return=:lt:0", "names no function");
}

static void conditions(void **state) {
    (void)state;
    struct ct_trigger t = good("call=ns::write*:arg2:gt:4096 and arg0:eq:1");
    assert_int_equal(t.kind, CT_TRIGGER_CALL);
    assert_string_equal(t.glob, "ns::write*");
    assert_int_equal(t.condition_count, 2);
    assert_int_equal(t.conditions[0].value, 2);
    assert_int_equal(t.conditions[0].compare, CT_COMPARE_GT);
    assert_int_equal(t.conditions[0].number, 4096);
    assert_int_equal(t.conditions[1].value, 0);
    t = good("call=libc.so.*!open*:arg0:like:/etc/*:*.conf");
    assert_string_equal(t.module, "libc.so.*");
    assert_int_equal(t.conditions[0].compare, CT_COMPARE_LIKE);
    assert_string_equal(t.conditions[0].pattern, "/etc/*:*.conf");
    t = good("return=open*:errno:eq:ENOENT and result:lt:0");
    assert_string_equal(t.glob, "open*");
    assert_int_equal(t.conditions[0].value, CT_TRIGGER_ERRNO);
    assert_int_equal(t.conditions[0].number, 2);
    assert_int_equal(t.conditions[1].value, CT_TRIGGER_RESULT);
    t = good("return=f:lt:0 and errno:ne:4");
    assert_int_equal(t.condition_count, 2);
    assert_int_equal(t.conditions[1].compare, CT_COMPARE_NE);
    assert_int_equal(t.conditions[1].number, 4);
    assert_int_equal(good("return=f:result:like:*x").conditions[0].compare, CT_COMPARE_LIKE);
    bad("call=f", "no condition");
    bad("call=f:gt:1", "no condition");
    bad("call=f:arg6:gt:1", "no condition");
    bad("call=f:arg0:gt:1 and gt:2", "arg0 to arg5");
    bad("call=f:arg0:over:1", "eq, ne, lt or gt");
    bad("call=f:arg0:gt:many", "not a 64-bit number");
    bad("call=f:arg0:gt:1 and errno:eq:2", "return=");
    bad("call=:arg0:gt:1", "names no function");
    bad("return=f:arg0:gt:1", "call=");
    bad("return=f:errno:eq:ENOSUCH", "errno");
    bad("return=f:errno:like:E*", "errno");
    bad("call=f:arg0:like:", "pattern");
    bad("call=f:arg0:eq:1 and arg1:eq:1 and arg2:eq:1 and arg3:eq:1 and arg4:eq:1", "four");
}

static bool like(const char *pattern, const char *text) {
    char room[CT_TRIGGER_PATTERN] = "";
    memcpy(room, pattern, strlen(pattern));
    return ct_trigger_is_like(room, text, (uint32_t)strlen(text) + 1);
}

static void patterns(void **state) {
    (void)state;
    assert_true(like("*.conf", "/etc/app.conf") && like("*.conf", ".conf") && like("a?c", "abc") && like("*", ""));
    assert_true(like("*a*b*", "xaxxb") && like("**", "x") && like("a*a*a", "aaaaaa") && like("abc", "abc"));
    assert_false(like("*.conf", "/etc/app.confs") || like("a?c", "ac") || like("", "x") || like("abc", "ab"));
    assert_false(like("a*b", "ac") || like("?", ""));
    char full[CT_TRIGGER_PATTERN]; /* without an end, as only a damaged one is */
    memset(full, '*', sizeof full);
    assert_true(ct_trigger_is_like(full, "text", 4));
    memset(full, 'x', sizeof full);
    assert_false(ct_trigger_is_like(full, "xxxx", 4));
}

static void slow_ones(void **state) {
    (void)state;
    struct ct_trigger t = good("slow=db::query*:50ms");
    assert_int_equal(t.kind, CT_TRIGGER_SLOW);
    assert_string_equal(t.glob, "db::query*");
    assert_int_equal(t.slow_ns, 50000000);
    assert_int_equal(good("slow=f:7ns").slow_ns, 7);
    assert_int_equal(good("slow=f:7us").slow_ns, 7000);
    assert_int_equal(good("slow=f:1.5s").slow_ns, 1500000000);
    assert_int_equal(good("slow=f:0.25us").slow_ns, 250);
    bad("slow=f", "how slow");
    bad("slow=f:50", "unit");
    bad("slow=f:ms", "unit");
    bad("slow=f:5m", "unit");
    bad("slow=f:-5ms", "unit");
    bad("slow=f:99999999999s", "unit");
}

static void signals(void **state) {
    (void)state;
    assert_int_equal(good("signal=SIGUSR1").signal, SIGUSR1);
    assert_int_equal(good("signal=USR2").signal, SIGUSR2);
    assert_int_equal(good("signal=sigterm").signal, SIGTERM);
    assert_int_equal(good("signal=10").signal, 10);
    assert_int_equal(good("signal=SIGRTMIN").signal, SIGRTMIN);
    assert_int_equal(good("signal=RTMIN+3").signal, SIGRTMIN + 3);
    assert_int_equal(good("signal=RTMAX-1").signal, SIGRTMAX - 1);
    bad("signal=SIGNOTHING", "kill -l");
    bad("signal=0", "kill -l");
    bad("signal=999", "kill -l");
    bad("signal=10x", "kill -l");
    bad("signal=RTMIN-1", "kill -l");
    bad("signal=RTMIN+99", "kill -l");
    bad("signal=SIG", "kill -l");
    bad("signal=SIGKILL", "--trigger crash");
    bad("signal=STOP", "SIGSTOP");
}

static void times(void **state) {
    (void)state;
    struct ct_trigger day = good("time=08:30-17:00"), night = good("time=22:00-06:15"), late = good("time=23:00-24:00");
    assert_int_equal(day.from, 510);
    assert_int_equal(day.to, 1020);
    assert_false(ct_trigger_covers_minute(&day, 509));
    assert_true(ct_trigger_covers_minute(&day, 510));
    assert_true(ct_trigger_covers_minute(&day, 1019));
    assert_false(ct_trigger_covers_minute(&day, 1020));
    assert_true(ct_trigger_covers_minute(&night, 22 * 60));
    assert_true(ct_trigger_covers_minute(&night, 0));
    assert_true(ct_trigger_covers_minute(&night, 374));
    assert_false(ct_trigger_covers_minute(&night, 375));
    assert_false(ct_trigger_covers_minute(&night, 720));
    assert_true(ct_trigger_covers_minute(&late, 1439));
    assert_false(ct_trigger_covers_minute(&late, 0));
    static const char *const wrong[] = {
        "time=8-17",         "time=08:30",        "time=08:30-",     "time=08:60-09:00", "time=24:01-25:00",
        "time=08:30-17:00x", "time=-08:30-17:00", "time=08:3-09:00", "time=08: 3-09:00", "time=noon-15:00"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        bad(wrong[i], "two times of the day");
    bad("time=10:00-10:00", "empty span");
}

static void others(void **state) {
    (void)state;
    char longest[300];
    assert_int_equal(good("crash").kind, CT_TRIGGER_CRASH);
    assert_int_equal(good("manual").kind, CT_TRIGGER_MANUAL);
    bad("crash=now", "takes no value");
    bad("manual=", "takes no value");
    bad("", "is not a trigger");
    bad("symbols=f", "is not a trigger");
    bad("sym=f", "symbol=GLOB");
    bad("symbol=a\nb", "line breaks");
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "symbol=", 7);
    longest[255] = 0;
    good(longest);
    longest[255] = 'a';
    longest[256] = 0;
    bad(longest, "at most 255");
}

/* ---- return values ---- */

static void results_are_compared(void **state) {
    (void)state;
    assert_true(ct_trigger_compares(CT_COMPARE_LT, 0, 0xffffffffu)); /* an int of -1 */
    assert_true(ct_trigger_compares(CT_COMPARE_LT, 0, UINT64_MAX));  /* a long of -1 */
    assert_false(ct_trigger_compares(CT_COMPARE_LT, 0, 0));
    assert_false(ct_trigger_compares(CT_COMPARE_GT, 0, 0xffffffffu));
    assert_true(ct_trigger_compares(CT_COMPARE_GT, 0, 1));
    assert_true(ct_trigger_compares(CT_COMPARE_EQ, -22, 0xffffffeau));
    assert_true(ct_trigger_compares(CT_COMPARE_EQ, -22, (uint64_t)-22));
    assert_true(ct_trigger_compares(CT_COMPARE_EQ, 0xffffffff, 0xffffffffu)); /* asked for as it is in the register */
    assert_false(ct_trigger_compares(CT_COMPARE_EQ, 0, 0x7f0000000000));      /* a pointer whose lower half is 0 */
    assert_true(ct_trigger_compares(CT_COMPARE_NE, 0, 0x7f0000000000));
    assert_true(ct_trigger_compares(CT_COMPARE_GT, 0, 0x7f0000000000));
    assert_false(ct_trigger_compares(CT_COMPARE_NE, 7, 7));
}

/* ---- policies ---- */

static struct ct_policy *made(const char *const *triggers) {
    struct ct_policy *p;
    char error[512] = "";
    const struct ct_session_options o = {.size = sizeof o, .triggers = triggers};
    if (ct_policy_create(&p, &o, 1000, error, sizeof error))
        fail_msg("%s", error);
    return p;
}

static void masks(void **state) {
    (void)state;
    static const char *const triggers[] = {"symbol=alpha",       "crash", "return=al*:lt:0", "slow=Shape::area:1us",
                                           "symbol=lib*!malloc", NULL};
    struct ct_policy *p = made(triggers);
    assert_int_equal(ct_policy_mask(p, "alpha", "/bin/x"), 1 | 2);
    assert_int_equal(ct_policy_mask(p, "also", "/bin/x"), 2);
    assert_int_equal(ct_policy_mask(p, "beta", "/bin/alpha"), 0); /* names of modules are no names of functions */
    assert_int_equal(ct_policy_mask(p, "_ZN5Shape4areaEii", "/bin/x"), 4);
    assert_int_equal(ct_policy_mask(p, "", "/bin/x"), 0);
    assert_int_equal(ct_policy_mask(p, "malloc", "/bin/x"), 0);
    assert_int_equal(ct_policy_mask(p, "malloc", "/usr/lib/libc.so.6"), 8);
    assert_int_equal(ct_policy_mask(p, "malloc", "libc.so.6"), 8);
    assert_int_equal(ct_policy_mask(p, "malloc", NULL), 0);
    assert_int_equal(ct_policy_mask(NULL, "malloc", NULL), 0);
    assert_string_equal(ct_policy_function(p, 1)->text, "return=al*:lt:0");
    assert_null(ct_policy_function(p, 4));
    ct_policy_destroy(p);
}

static void sixteen_bits(void **state) {
    (void)state;
    struct ct_policy *p = made(NULL);
    char text[64], error[512] = "";
    for (int i = 0; i < 16; i++) {
        snprintf(text, sizeof text, "symbol=f%d", i);
        assert_int_equal(ct_policy_add(p, text, 0, error, sizeof error), 0);
    }
    assert_int_equal(ct_policy_add(p, "slow=g:1s", 0, error, sizeof error), CT_ERR_NO_SPACE);
    assert_non_null(strstr(error, "16 triggers on functions already"));
    assert_int_equal(ct_policy_add(p, "crash", 0, error, sizeof error), 0); /* of another kind */
    assert_int_equal(ct_policy_mask(p, "f15", ""), 0x8000);
    uint32_t id = ct_policy_function(p, 5)->id;
    assert_int_equal(ct_policy_remove(p, "symbol=f5", 0, error, sizeof error), 0);
    assert_string_equal(ct_policy_text(p, id), "symbol=f5"); /* marks of its own may still come */
    assert_null(ct_policy_function(p, 5));
    assert_int_equal(ct_policy_mask(p, "f6", ""), 1 << 6); /* the others keep theirs */
    assert_int_equal(ct_policy_add(p, "slow=g:1s", 0, error, sizeof error), 0);
    assert_string_equal(ct_policy_function(p, 5)->text, "slow=g:1s");
    assert_string_equal(ct_policy_text(p, ct_policy_function(p, 5)->id), "slow=g:1s");
    assert_string_equal(ct_policy_text(p, id), "symbol=f5");
    assert_string_equal(ct_policy_text(p, 0), "");
    assert_string_equal(ct_policy_text(p, 1000), "");
    assert_int_equal(ct_policy_mask(p, "f5", ""), 0);
    assert_int_equal(ct_policy_mask(p, "g", ""), 1 << 5);
    ct_policy_destroy(p);
}

static void refused_changes_change_nothing(void **state) {
    (void)state;
    static const char *const triggers[] = {"crash", "crash", NULL}; /* twice is once */
    struct ct_policy *p = made(triggers);
    char error[512] = "";
    assert_int_equal(p->count, 1);
    uint64_t hash = ct_policy_hash(p);
    assert_int_equal(ct_policy_add(p, "crash", 5, error, sizeof error), CT_ERR_ALREADY_HOOKED);
    assert_non_null(strstr(error, "there already"));
    assert_int_equal(ct_policy_add(p, "slow=f", 5, error, sizeof error), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_policy_remove(p, "symbol=x", 5, error, sizeof error), CT_ERR_NOT_FOUND);
    assert_non_null(strstr(error, "trigger list"));
    assert_int_equal(ct_policy_exclude(p, "x", false, 5, error, sizeof error), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_policy_exclude(p, "", true, 5, error, sizeof error), CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(ct_policy_exclude(p, "@cold", true, 5, error, sizeof error), CT_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "@hot"));
    assert_int_equal(ct_policy_record(p, true, 5, error, sizeof error), CT_ERR_ALREADY_HOOKED);
    assert_int_equal(p->version, 1);
    assert_int_equal(ct_policy_hash(p), hash);
    char text[32];
    for (int i = 0; i < 63; i++) {
        snprintf(text, sizeof text, "signal=%d", i + 1);
        int status = ct_policy_add(p, text, 5, error, sizeof error); /* 9 and 19 are refused */
        assert_int_equal(status, i + 1 == SIGKILL || i + 1 == SIGSTOP ? CT_ERR_INVALID_ARGUMENT : 0);
    }
    ct_policy_destroy(p);
}

static uint64_t fnv(const char *text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

static void versions(void **state) {
    (void)state;
    static const char *const ab[] = {"symbol=a", "symbol=b", NULL}, *const ba[] = {"symbol=b", "symbol=a", NULL};
    struct ct_policy *p = made(ab), *q = made(ba);
    char error[512] = "";
    assert_int_equal(ct_policy_hash(p), ct_policy_hash(q)); /* the order does not matter */
    assert_string_equal(p->versions[0].text,
                        "detail marked\npre-roll-ms 1000\npost-roll-ms 1000\npre-roll-events 0\npost-roll-events 0\n"
                        "trigger symbol=a\ntrigger symbol=b\nrecord on\n");
    assert_int_equal(p->versions[0].hash, fnv(p->versions[0].text));
    assert_int_equal(p->versions[0].time_ns, 1000);
    uint64_t first = ct_policy_hash(p);
    assert_int_equal(ct_policy_add(p, "crash", 2000, error, sizeof error), 0);
    assert_int_equal(ct_policy_exclude(p, "log_*", true, 3000, error, sizeof error), 0);
    assert_int_equal(ct_policy_record(p, false, 4000, error, sizeof error), 0);
    assert_int_equal(p->version, 4);
    assert_int_equal(p->version_count, 4);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(p->versions[i].hash, p->versions[k].hash);
    assert_string_equal(p->versions[1].change, "trigger add crash");
    assert_string_equal(p->versions[2].change, "exclude add log_*");
    assert_string_equal(p->versions[3].change, "record off");
    assert_non_null(strstr(p->versions[3].text, "exclude log_*\nrecord off\n"));
    assert_int_equal(ct_policy_remove(p, "crash", 5000, error, sizeof error), 0);
    assert_int_equal(ct_policy_exclude(p, "log_*", false, 6000, error, sizeof error), 0);
    assert_int_equal(ct_policy_record(p, true, 7000, error, sizeof error), 0);
    assert_int_equal(ct_policy_hash(p), first); /* as it was */
    struct ct_json j = {0};
    ct_json_begin(&j, NULL, '{');
    ct_policy_put(p, &j);
    ct_json_end(&j, '}');
    assert_non_null(strstr(j.text, "\"change\":\"trigger add crash\""));
    ct_json_free(&j);
    ct_policy_destroy(p);
    ct_policy_destroy(q);
}

static void many_versions_are_bounded(void **state) {
    (void)state;
    struct ct_policy *p = made(NULL);
    char error[512] = "";
    for (unsigned i = 0; i < 2000; i++)
        assert_int_equal(ct_policy_record(p, i % 2, i, error, sizeof error), 0);
    assert_int_equal(p->version, 2001);
    assert_int_equal(p->version_count, CT_POLICY_VERSIONS);
    assert_int_equal(p->omitted, 2001 - CT_POLICY_VERSIONS);
    assert_string_equal(p->versions[0].change, "start");
    assert_int_equal(p->versions[p->version_count - 1].version, 2001);
    assert_int_equal(p->versions[1].version, 2001 - CT_POLICY_VERSIONS + 2);
    ct_policy_destroy(p);
}

static void signals_and_times_are_found(void **state) {
    (void)state;
    static const char *const triggers[] = {"symbol=f", "signal=USR1", "crash", "time=22:00-06:00", NULL};
    struct ct_policy *p = made(triggers), *q = made(NULL);
    assert_string_equal(ct_policy_signal(p, SIGUSR1, false)->text, "signal=USR1");
    assert_string_equal(ct_policy_signal(p, SIGSEGV, true)->text, "crash");
    assert_null(ct_policy_signal(p, SIGSEGV, false));
    assert_string_equal(ct_policy_time(p, 5)->text, "time=22:00-06:00");
    assert_null(ct_policy_time(p, 720));
    assert_true(ct_policy_needs_tracing(p));
    assert_false(ct_policy_needs_tracing(q));
    ct_policy_destroy(p);
    ct_policy_destroy(q);
}

static void exclusions(void **state) {
    (void)state;
    struct ct_policy *p = made(NULL);
    char error[512] = "";
    assert_false(ct_policy_is_excluded(p, "log_line", "/bin/x"));
    assert_int_equal(ct_policy_exclude(p, "log_*", true, 0, error, sizeof error), 0);
    assert_int_equal(ct_policy_exclude(p, "libm.so*", true, 0, error, sizeof error), 0);
    assert_int_equal(ct_policy_exclude(p, "log_*", true, 0, error, sizeof error), CT_ERR_ALREADY_HOOKED);
    assert_true(ct_policy_is_excluded(p, "log_line", "/bin/x"));
    assert_true(ct_policy_is_excluded(p, "sin", "/lib/libm.so.6"));
    assert_false(ct_policy_is_excluded(p, "sin", "/lib/libn.so.6"));
    assert_int_equal(ct_policy_exclude(p, "log_*", false, 0, error, sizeof error), 0);
    assert_false(ct_policy_is_excluded(p, "log_line", "/bin/x"));
    ct_policy_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols),
        cmocka_unit_test(returns),
        cmocka_unit_test(conditions),
        cmocka_unit_test(patterns),
        cmocka_unit_test(slow_ones),
        cmocka_unit_test(signals),
        cmocka_unit_test(times),
        cmocka_unit_test(others),
        cmocka_unit_test(results_are_compared),
        cmocka_unit_test(masks),
        cmocka_unit_test(sixteen_bits),
        cmocka_unit_test(refused_changes_change_nothing),
        cmocka_unit_test(versions),
        cmocka_unit_test(many_versions_are_bounded),
        cmocka_unit_test(signals_and_times_are_found),
        cmocka_unit_test(exclusions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
