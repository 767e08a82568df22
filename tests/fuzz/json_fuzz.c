/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader on anything.
 *
 * What it accepts is written again and must read back as the same tree. As a libFuzzer target (scripts/fuzz-trace.sh),
 * or alone: replays the files given as arguments, then tries `--cases N` deterministic ones, texts put together from
 * pieces of JSON and then damaged. */
#include "base/json_read.h"
#include "base/json_write.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_again(struct ct_json *out, const struct ct_json_node *node) {
    switch (node->type) {
    case CT_JSON_NULL:
        ct_json_string(out, node->key, NULL);
        break;
    case CT_JSON_BOOL:
        ct_json_bool(out, node->key, node->flag);
        break;
    case CT_JSON_NUMBER:
        if (node->integer && !node->negative)
            ct_json_number(out, node->key, node->magnitude);
        else
            ct_json_real(out, node->key, node->real);
        break;
    case CT_JSON_STRING:
        ct_json_string(out, node->key, node->text);
        break;
    default:
        ct_json_begin(out, node->key, node->type == CT_JSON_ARRAY ? '[' : '{');
        for (const struct ct_json_node *child = ct_json_first(node); child; child = child->next)
            write_again(out, child);
        ct_json_end(out, node->type == CT_JSON_ARRAY ? ']' : '}');
    }
}

static void fail(const char *what) {
    printf("%s\n", what);
    abort();
}

static void compare(const struct ct_json_node *a, const struct ct_json_node *b) {
    if (a->type == CT_JSON_NUMBER && b->type == CT_JSON_NULL)
        return; /* too large for a double */
    if (a->type != b->type || !a->key != !b->key || (a->key && strcmp(a->key, b->key) != 0))
        fail("another type or key");
    if (a->type == CT_JSON_NUMBER && a->real != b->real)
        fail("another number");
    if (a->type == CT_JSON_STRING && strcmp(a->text, b->text) != 0)
        fail("another string");
    if (a->type == CT_JSON_BOOL && a->flag != b->flag)
        fail("another truth");
    const struct ct_json_node *x = ct_json_first(a), *y = ct_json_first(b);
    for (; x && y; x = x->next, y = y->next)
        compare(x, y);
    if (x || y || ((a->type == CT_JSON_ARRAY || a->type == CT_JSON_OBJECT) && a->count != b->count))
        fail("another number of children");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ct_json_tree *tree, *again;
    size_t at = 0;
    /* A copy of its very size, so that the address sanitizer sees a read past the end. */
    char *copy = malloc(size ? size : 1);
    if (size)
        memcpy(copy, data, size);
    int status = ct_json_parse(&tree, copy, size, &at);
    free(copy);
    if (status) {
        if (at > size)
            fail("an error behind the end");
        return 0;
    }
    for (int lines = 0; lines < 2; lines++) {
        struct ct_json out = {.lines = lines != 0};
        write_again(&out, ct_json_root(tree));
        if (out.failed || ct_json_parse(&again, out.text, out.length, NULL) != 0)
            fail("what was written is not JSON");
        compare(ct_json_root(tree), ct_json_root(again));
        ct_json_tree_free(again);
        ct_json_free(&out);
    }
    ct_json_tree_free(tree);
    return 0;
}

#ifndef CT_LIBFUZZER
#include "alone.h"

static size_t put(char *to, size_t at, const char *text) {
    size_t length = strlen(text);
    if (at + length >= 900)
        return at;
    memcpy(to + at, text, length);
    return at + length;
}

static size_t value(char *to, size_t at, unsigned depth) {
    static const char *const leaves[] = {"0",
                                         "-1",
                                         "18446744073709551615",
                                         "1.5e3",
                                         "0.1",
                                         "1e400",
                                         "-0",
                                         "null",
                                         "true",
                                         "false",
                                         "\"\"",
                                         "\"a\\u20ac\\ud83d\\ude00\"",
                                         "\"\xc3\xa4\\n\"",
                                         " 7 ",
                                         "\"\\\"\\\\\\/\"",
                                         "-9223372036854775808"};
    unsigned kind = depth < 5 ? pick(4) : 0;
    if (kind < 2)
        return put(to, at, leaves[pick(sizeof leaves / sizeof *leaves)]);
    at = put(to, at, kind == 2 ? "[" : "{");
    for (unsigned n = pick(4), i = 0; i < n; i++) {
        if (i)
            at = put(to, at, ", ");
        if (kind == 3) {
            at = put(to, at, pick(2) ? "\"key\"" : "\"\\t\"");
            at = put(to, at, ":");
        }
        at = value(to, at, depth + 1);
    }
    return put(to, at, kind == 2 ? "]" : "}");
}

static void random_case(void) {
    char text[1000];
    size_t size = value(text, 0, 0);
    for (unsigned n = pick(4); n && size; n--) {
        size_t at = pick((unsigned)size);
        if (pick(3) == 0) {
            memmove(text + at, text + at + 1, --size - at);
        } else {
            static const char bytes[] = "{}[],:\"\\u0e-.1\xff\xc3\n";
            text[at] = pick(2) ? bytes[pick(sizeof bytes)] : (char)pick(256);
        }
    }
    LLVMFuzzerTestOneInput((uint8_t *)text, size);
}

int main(int argc, char **argv) {
    return run_alone(argc, argv, 300000, random_case);
}
#endif
