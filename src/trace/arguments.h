/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of functions, from detail records: with names and types from debug information, or as registers
 * where the module has none.
 *
 * A value that is not certain, or not in the record, is "?". One owner. */
#ifndef CT_TRACE_ARGUMENTS_H
#define CT_TRACE_ARGUMENTS_H

#include <contrail/trace.h>

enum { CT_ARGUMENT_TEXT = 256, CT_ARGUMENT_LIMIT = 24 };

enum ct_value_kind {
    CT_VALUE_UNKNOWN, /* "?" */
    CT_VALUE_SIGNED,
    CT_VALUE_UNSIGNED,
    CT_VALUE_BOOL,
    CT_VALUE_REAL,
    CT_VALUE_POINTER,
    CT_VALUE_STRING, /* a pointer to text that is in the record */
    CT_VALUE_NAME,   /* of an enumerator, or a character: `number` has the value */
    CT_VALUE_OTHER,  /* a structure: text only */
};

struct ct_argument {
    const char *name; /* of the parameter or register; "" */
    enum ct_value_kind kind;
    uint64_t number; /* sign-extended where it is signed; of STRING the pointer */
    double real;
    char text[CT_ARGUMENT_TEXT];   /* for people: 5, -1, true, 'a', RED, 0x7ffd…, "text", {x=1, y=2}, ? */
    char string[CT_ARGUMENT_TEXT]; /* STRING: without quotes and escapes */
};

struct ct_arguments {
    size_t count;
    bool named;     /* from debug information; otherwise registers */
    bool variadic;  /* there may be more */
    bool left_out;  /* there are more than CT_ARGUMENT_LIMIT */
    bool failed;    /* of a return: the result is -1 or NULL */
    uint32_t error; /* of a return: errno, if the function has set it; 0: it has not, or that is not known */
    struct ct_argument at[CT_ARGUMENT_LIMIT];
};

struct ct_argument_reader;
/* `directories`: further places of binaries and debug files, NULL-terminated; may be NULL. */
int ct_argument_reader_open(struct ct_argument_reader **out, struct ct_trace *trace, const char *const *directories);
void ct_argument_reader_close(struct ct_argument_reader *reader);

/* False: debug information knows no parameter of the function with this name. */
bool ct_argument_reader_has(struct ct_argument_reader *reader, size_t process, uint64_t function, const char *name);

/* Reads the arguments of a call record, or the result of a return record: one without a name, or none for void. Returns
 * what ct_trace_detail returns; CT_ERR_NOT_FOUND also for other records. */
int ct_arguments_read(struct ct_argument_reader *reader, size_t thread, uint32_t detail_seq, struct ct_arguments *out);
/* Like ct_arguments_read, for a record that was read before. */
int ct_arguments_of(struct ct_argument_reader *reader, size_t thread, const struct ct_trace_detail *detail,
                    struct ct_arguments *out);

struct ct_signature;
/* Like ct_arguments_of, for a known signature (symbols/parameters.h); NULL: not known. */
void ct_arguments_by(const struct ct_signature *signature, const struct ct_trace_detail *detail,
                     struct ct_arguments *out);

/* Writes what a return is followed by: "-1 ENOENT", "5", "5 errno=EINTR"; "": nothing. */
void ct_arguments_result(const struct ct_arguments *arguments, char *text, size_t size);

/* Writes "a=1, b=0x7f…" for people, cut with an ellipsis when it does not fit. */
void ct_arguments_text(const struct ct_arguments *arguments, char *text, size_t size);

#endif
