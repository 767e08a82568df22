/* SPDX-License-Identifier: Apache-2.0 */
/* What the formats share. */
#ifndef CT_EXPORT_EXPORT_INTERNAL_H
#define CT_EXPORT_EXPORT_INTERNAL_H

#include "export/export.h"
#include "export/names.h"
#include "export/out.h"
#include "report/fits.h"
#include "trace/arguments.h"
#include "trace/facts.h"
#include "trace/place.h"
#include <pthread.h>

struct ct_export {
    struct ct_trace *trace;
    const struct ct_export_options *options;
    struct ct_export_result *result;
    struct ct_facts facts;
    struct ct_fits *fits; /* the calls that fit; NULL: all */
    struct ct_names names;
    struct ct_out out;                    /* for formats of one file */
    struct ct_place *place;               /* the directory, for formats of several files */
    uint64_t done, total;                 /* for the progress */
    uint64_t start_ns;                    /* the earliest time of the trace */
    _Atomic int status;                   /* not 0: why the export ended early */
    pthread_mutex_t lock;                 /* held while something is looked up in the trace */
    struct ct_argument_reader *arguments; /* opened when the first record is read */
    struct ct_arguments *values;          /* atf-pb */
};

/* Counts this many more events as done. False: stop, `status` says why. */
bool ct_export_advance(struct ct_export *e, uint64_t events);
/* Sets the status, for callers that cannot return one. */
void ct_export_fail(struct ct_export *e, int status);
/* Keeps an errno of the output, and the status that it means. */
void ct_export_write_failed(struct ct_export *e, int error);

/* Arguments of a call, or the result of a return; NULL: there is no record of it. They are in *values, which is NULL at
 * first, and freed by the caller in the end. */
const struct ct_arguments *ct_export_arguments(struct ct_export *e, size_t thread, uint32_t detail,
                                               struct ct_arguments **values);
/* For formats of events: true when the event is one of a call that fits, or of a call around one. */
bool ct_export_wants(const struct ct_export *e, const struct ct_trace_event *event);
/* Describes a signal; without a record of it writes "signal" and returns false. */
bool ct_export_signal(struct ct_export *e, size_t thread, uint32_t detail, char *text, size_t size);
/* Makes a name for an argument that has none, from its position. */
const char *ct_export_argument_name(const struct ct_arguments *arguments, size_t index, char text[16]);

/* Text of the manifest, or the fallback. */
const char *ct_export_manifest_text(const struct ct_export *e, size_t process, const char *key, const char *fallback);
/* File name of the program of a process, "process" when it is not known. */
const char *ct_export_program(const struct ct_export *e, size_t process, char *text, size_t size);

/* Writes the whole output of a format; the sink is open, or the directory exists. */
#define CT_EXPORT_DECLARE(id, word, before, after, sort, what, opens, is, bytes)                                       \
    int ct_export_##id(struct ct_export *e);
CT_EXPORT_FORMAT_LIST(CT_EXPORT_DECLARE)
#undef CT_EXPORT_DECLARE

#endif
