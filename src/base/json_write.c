/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON. The output is always valid JSON and valid UTF-8, for all strings; correct nesting is up to the
 * caller. */
#include "base/json_write.h"
#include "base/json_read.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_DOWN_TO 2

static char *room_for(struct ct_json *json, size_t size) {
    if (json->failed)
        return NULL;
    if (json->capacity - json->length <= size) {
        size_t capacity = json->capacity ? json->capacity * 2 : 1024;
        while (capacity - json->length <= size)
            capacity *= 2;
        char *text = realloc(json->text, capacity);
        if (!text) {
            json->failed = 1;
            return NULL;
        }
        json->text = text;
        json->capacity = capacity;
    }
    return json->text + json->length;
}

static void put(struct ct_json *json, const char *bytes, size_t size) {
    char *to = room_for(json, size);
    if (!to)
        return;
    memcpy(to, bytes, size);
    to[size] = 0;
    json->length += size;
}

static void put_line(struct ct_json *json) {
    static const char spaces[] = "\n        ";
    put(json, spaces, 1 + 2 * (json->depth < 4 ? json->depth : 4));
}

static bool is_plain(uint8_t c) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_escaped(struct ct_json *json, const char *text) {
    char escape[8];
    while (*text) {
        const char *run = text;
        size_t length;
        while (is_plain((uint8_t)*text))
            text++;
        put(json, run, (size_t)(text - run));
        if (!*text)
            break;
        uint8_t c = (uint8_t)*text;
        if (c == '"' || c == '\\') {
            put(json, (char[]){'\\', (char)c}, 2);
        } else if ((length = ct_utf8_character(text, strnlen(text, 4)))) {
            bool control = ct_utf8_is_control(text);
            /* C1: the code is the second byte */
            snprintf(escape, sizeof escape, "\\u%04x", length == 2 ? (uint8_t)text[1] : c);
            put(json, control ? escape : text, control ? 6 : length);
            text += length;
            continue;
        } else {
            put(json, "\xef\xbf\xbd", 3); /* U+FFFD */
        }
        text++;
    }
}

static void put_quoted(struct ct_json *json, const char *text) {
    put(json, "\"", 1);
    put_escaped(json, text);
    put(json, "\"", 1);
}

static void begin_item(struct ct_json *json, const char *key) {
    if (json->comma)
        put(json, ",", 1);
    if (json->lines && json->depth && json->depth <= LINES_DOWN_TO)
        put_line(json);
    else if (json->lines && json->comma)
        put(json, " ", 1);
    if (key) {
        put_quoted(json, key);
        put(json, ": ", json->lines ? 2 : 1);
    }
    json->comma = true;
}

void ct_json_begin(struct ct_json *json, const char *key, char bracket) {
    begin_item(json, key);
    put(json, &bracket, 1);
    json->depth++;
    json->comma = false;
}

void ct_json_end(struct ct_json *json, char bracket) {
    if (json->depth)
        json->depth--;
    if (json->lines && json->comma && json->depth < LINES_DOWN_TO)
        put_line(json);
    put(json, &bracket, 1);
    json->comma = true;
}

static void put_plain(struct ct_json *json, const char *key, const char *text) {
    begin_item(json, key);
    put(json, text, strlen(text));
}

void ct_json_string(struct ct_json *json, const char *key, const char *value) {
    begin_item(json, key);
    if (value)
        put_quoted(json, value);
    else
        put(json, "null", 4);
}

void ct_json_number(struct ct_json *json, const char *key, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put_plain(json, key, text);
}

void ct_json_signed(struct ct_json *json, const char *key, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    put_plain(json, key, text);
}

void ct_json_real(struct ct_json *json, const char *key, double value) {
    char text[40] = "null";
    if (isfinite(value)) {
        snprintf(text, sizeof text, "%.15g", value);
        if (strtod(text, NULL) != value)
            snprintf(text, sizeof text, "%.17g", value);
        char *comma = strchr(text, ','); /* a decimal comma, in some locales */
        if (comma)
            *comma = '.';
    }
    put_plain(json, key, text);
}

void ct_json_bool(struct ct_json *json, const char *key, bool value) {
    put_plain(json, key, value ? "true" : "false");
}

void ct_json_null(struct ct_json *json, const char *key) {
    put_plain(json, key, "null");
}

void ct_json_free(struct ct_json *json) {
    free(json->text);
    *json = (struct ct_json){0};
}

void ct_json_node_put(struct ct_json *json, const char *key, const struct ct_json_node *node) {
    switch (node ? (enum ct_json_type)node->type : CT_JSON_NULL) {
    case CT_JSON_BOOL:
        return ct_json_bool(json, key, node->flag);
    case CT_JSON_STRING:
        return ct_json_string(json, key, node->text);
    case CT_JSON_NUMBER:
        if (!node->integer)
            return ct_json_real(json, key, node->real);
        return node->negative ? ct_json_signed(json, key, ct_json_i64(node, 0))
                              : ct_json_number(json, key, node->magnitude);
    case CT_JSON_ARRAY:
    case CT_JSON_OBJECT:
        ct_json_begin(json, key, node->type == CT_JSON_ARRAY ? '[' : '{');
        for (const struct ct_json_node *child = ct_json_first(node); child; child = child->next)
            ct_json_node_put(json, child->key, child);
        return ct_json_end(json, node->type == CT_JSON_ARRAY ? ']' : '}');
    default:
        return ct_json_null(json, key);
    }
}
