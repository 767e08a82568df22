/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: what is written, what is read, what is refused. */
#include "base/json_read.h"
#include "base/json_write.h"
#include <contrail/status.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct ct_json_tree *parse(const char *text) {
    struct ct_json_tree *tree = NULL;
    /* A copy of its very size: a read past its end is seen by the address sanitizer. */
    size_t length = strlen(text);
    char *copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    int status = ct_json_parse(&tree, copy, length, NULL);
    free(copy);
    assert_int_equal(status, tree ? 0 : CT_ERR_BAD_FILE);
    return tree;
}

static void test_write(void **state) {
    (void)state;
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "a\"b", "x\\y\n\x7f");
    ct_json_string(&json, "none", NULL);
    ct_json_number(&json, "max", UINT64_MAX);
    ct_json_signed(&json, "min", INT64_MIN);
    ct_json_real(&json, "real", 0.1);
    ct_json_real(&json, "third", 1.0 / 3);
    ct_json_real(&json, "nan", NAN);
    ct_json_bool(&json, "yes", true);
    ct_json_begin(&json, "list", '[');
    ct_json_begin(&json, NULL, '[');
    ct_json_end(&json, ']');
    ct_json_number(&json, NULL, 1);
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    assert_int_equal(json.failed, 0);
    assert_string_equal(
        json.text, "{\"a\\\"b\":\"x\\\\y\\u000a\\u007f\",\"none\":null,\"max\":18446744073709551615,"
                   "\"min\":-9223372036854775808,\"real\":0.1,\"third\":0.33333333333333331,\"nan\":null,\"yes\":true,"
                   "\"list\":[[],1]}");
    assert_int_equal(json.length, strlen(json.text));
    ct_json_free(&json);
}

/* Whatever a string holds, the text is valid. */
static void test_write_bytes(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"\xc3\xa4", "\"\xc3\xa4\""},
        {"\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xff", "\"\xef\xbf\xbd\""},
        {"a\xc3", "\"a\xef\xbf\xbd\""},                               /* cut */
        {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* overlong */
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* half of a pair */
        {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_json json = {0};
        ct_json_string(&json, NULL, cases[i].bytes);
        assert_string_equal(json.text, cases[i].text);
        struct ct_json_tree *tree = parse(json.text);
        assert_non_null(tree);
        ct_json_tree_free(tree);
        ct_json_free(&json);
    }
    /* All pairs of bytes, there and back: valid ones come back as they were. */
    for (int a = 1; a < 256; a++)
        for (int b = 1; b < 256; b++) {
            struct ct_json json = {0};
            char bytes[] = {(char)a, (char)b, 0};
            ct_json_string(&json, NULL, bytes);
            struct ct_json_tree *tree = parse(json.text);
            assert_non_null(tree);
            if (a < 128 && b < 128)
                assert_string_equal(ct_json_text(ct_json_root(tree), ""), bytes);
            ct_json_tree_free(tree);
            ct_json_free(&json);
        }
}

static void test_lines(void **state) {
    (void)state;
    struct ct_json json = {.lines = true};
    ct_json_begin(&json, NULL, '{');
    ct_json_begin(&json, "threads", '[');
    for (unsigned i = 0; i < 2; i++) {
        ct_json_begin(&json, NULL, '{');
        ct_json_number(&json, "id", i);
        ct_json_bool(&json, "x", false);
        ct_json_end(&json, '}');
    }
    ct_json_end(&json, ']');
    ct_json_begin(&json, "empty", '[');
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    assert_string_equal(json.text,
                        "{\n  \"threads\": [\n    {\"id\": 0, \"x\": false},\n    {\"id\": 1, \"x\": false}\n  ],\n"
                        "  \"empty\": []\n}");
    ct_json_free(&json);
}

static void test_read(void **state) {
    (void)state;
    struct ct_json_tree *tree =
        parse(" { \"a\" : [ 1 , -2, 3.5e1, true, null, \"x\" ] , \"b\": {\"c\": {\"d\": 7}}, \"a\": 9 }\r\n\t ");
    const struct ct_json_node *root = ct_json_root(tree), *list = ct_json_get(root, "a", NULL);
    assert_non_null(root);
    assert_int_equal(list->type, CT_JSON_ARRAY);
    assert_int_equal(list->count, 6);
    const struct ct_json_node *node = ct_json_first(list);
    assert_int_equal(ct_json_u64(node, 0), 1);
    node = node->next;
    assert_int_equal(ct_json_u64(node, 55), 55);
    assert_int_equal(ct_json_i64(node, 55), -2);
    node = node->next;
    assert_true(ct_json_double(node, 0) == 35.0);
    assert_int_equal(ct_json_u64(node, 55), 55);
    node = node->next;
    assert_true(ct_json_flag(node, false));
    node = node->next;
    assert_int_equal(node->type, CT_JSON_NULL);
    assert_string_equal(ct_json_text(node, "fallback"), "fallback");
    node = node->next;
    assert_string_equal(ct_json_text(node, ""), "x");
    assert_null(node->next);
    assert_int_equal(ct_json_u64(ct_json_get(root, "b", "c", "d", NULL), 0), 7);
    assert_null(ct_json_get(root, "b", "x", "d", NULL));
    assert_null(ct_json_get(root, "a", "x", NULL));
    assert_null(ct_json_get(NULL, "a", NULL));
    assert_null(ct_json_first(NULL));
    assert_null(ct_json_root(NULL));
    ct_json_tree_free(tree);
    ct_json_tree_free(NULL);
}

static void test_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t u;
        int64_t i;
        double real;
    } cases[] = {
        {"0", 0, 0, 0},
        {"-0", 0, 0, -0.0},
        {"18446744073709551615", UINT64_MAX, -1, 18446744073709551615.0},
        {"18446744073709551616", 1, -1, 18446744073709551616.0}, /* does not fit: fallbacks */
        {"184467440737095516150", 1, -1, 184467440737095516150.0},
        {"9223372036854775807", INT64_MAX, INT64_MAX, 9223372036854775807.0},
        {"-9223372036854775808", 1, INT64_MIN, -9223372036854775808.0},
        {"-9223372036854775809", 1, -1, -9223372036854775809.0},
        {"1.5", 1, -1, 1.5},
        {"-0.001e3", 1, -1, -1.0},
        {"0.00000000000000000000000000000000000000000000000001", 1, -1, 1e-50},
        {"123456789012345678901234567890123456789012345678901234567890", 1, -1, 1.2345678901234568e59},
        {"1e999", 1, -1, INFINITY},
        {"1e-999", 1, -1, 0},
        {"1E+2", 1, -1, 100},
        {"0.0000000000000000000000000000000000000000000000000e7", 1, -1, 0},
        {"0.1", 1, -1, 0.1},
        {"0.30000000000000004", 1, -1, 0.30000000000000004},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_json_tree *tree = parse(cases[i].text);
        assert_non_null(tree);
        assert_int_equal(ct_json_u64(ct_json_root(tree), 1), cases[i].u);
        assert_int_equal(ct_json_i64(ct_json_root(tree), -1), cases[i].i);
        assert_true(ct_json_double(ct_json_root(tree), 5) == cases[i].real);
        ct_json_tree_free(tree);
    }
}

static void test_strings(void **state) {
    (void)state;
    struct ct_json_tree *tree = parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e4\\u20AC\\ud83d\\ude00\\u0000z\"");
    const struct ct_json_node *root = ct_json_root(tree);
    static const char expected[] = "\"\\/\b\f\n\r\tA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\0z";
    assert_int_equal(root->count, sizeof expected - 1);
    assert_memory_equal(root->text, expected, sizeof expected);
    ct_json_tree_free(tree);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const cases[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "[1 2]",
        "1 2",
        "[] x",
        "tru",
        "nul",
        "falsee",
        "True",
        "+1",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x1",
        "--1",
        "NaN",
        "Infinity",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\n\"",
        "\"\x01\"",
        "\"\xff\"",
        "\"\xc3\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf5\x80\x80\x80\"",
        "'a'",
        "// x\n1",
        "\xef\xbb\xbf[]",
        "[1}",
        "{\"a\":1]",
        "[[]",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ct_json_tree *tree = parse(cases[i]);
        if (tree)
            print_error("accepted: %s\n", cases[i]);
        assert_null(tree);
    }
    struct ct_json_tree *tree;
    assert_int_equal(ct_json_parse(&tree, "1\0", 2, NULL), CT_ERR_BAD_FILE);
    size_t at;
    assert_int_equal(ct_json_parse(&tree, "[1, x]", 6, &at), CT_ERR_BAD_FILE);
    assert_int_equal(at, 4);
}

static void test_depth(void **state) {
    (void)state;
    static char text[200001];
    for (size_t depth = CT_JSON_DEPTH - 1; depth <= CT_JSON_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        text[2 * depth] = 0;
        struct ct_json_tree *tree = parse(text);
        assert_true((tree != NULL) == (depth <= CT_JSON_DEPTH));
        ct_json_tree_free(tree);
    }
    memset(text, '[', sizeof text - 1); /* no stack for this */
    assert_null(parse(text));
    /* Side by side is not deep. */
    for (size_t i = 0; i < 100000; i += 4)
        memcpy(text + i, "[],[", 4);
    memcpy(text, "[[],", 4);
    for (size_t i = 4; i < 99999; i += 3)
        memcpy(text + i, "[],", 3);
    memcpy(text + 4 + 3 * 33000, "1]", 3);
    struct ct_json_tree *tree = parse(text);
    assert_non_null(tree);
    assert_int_equal(ct_json_root(tree)->count, 33002);
    ct_json_tree_free(tree);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write),   cmocka_unit_test(test_write_bytes), cmocka_unit_test(test_lines),
        cmocka_unit_test(test_read),    cmocka_unit_test(test_numbers),     cmocka_unit_test(test_strings),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
