/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that a trace is asked by: their names, columns and a sentence for each. This is the only list. SQL
 * (`contrail query`) uses it; whatever else shows rows of a trace takes names and columns from here, so that a question
 * means the same everywhere.
 *
 *   X(T, name, type, ask, flags, text)    `ask`: what a reader of rows does with a condition on this column (rows.h)
 *
 * Times are nanoseconds since the beginning of the trace. Numbers of processes and threads are those of the tables
 * `processes` and `threads`, from 1 on. */
#ifndef CT_QUERY_SCHEMA_H
#define CT_QUERY_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

enum ct_column_type { CT_COLUMN_INTEGER, CT_COLUMN_REAL, CT_COLUMN_TEXT };

enum ct_column_flags {
    CT_COLUMN_HIDDEN = 1,   /* SELECT * leaves it out */
    CT_COLUMN_ARGUMENT = 2, /* of a function that returns a table: it must be given */
    CT_COLUMN_TIME = 4,     /* nanoseconds */
};

/* Conditions that a reader of rows knows. The first ones are ranges of whole numbers. */
enum ct_ask_field {
    CT_ASK_ID,
    CT_ASK_PROCESS,
    CT_ASK_THREAD,
    CT_ASK_TIME,
    CT_ASK_DURATION,
    CT_ASK_DEPTH,
    CT_ASK_PARENT,
    CT_ASK_FIRST, /* arguments of functions that return tables */
    CT_ASK_SECOND,
    CT_ASK_RANGES,
    CT_ASK_FUNCTION = CT_ASK_RANGES, /* names */
    CT_ASK_MODULE,
    CT_ASK_TEXT, /* an argument that is a text */
    CT_ASK_NONE
};

#define CT_COLUMNS_SHOWN_CALLS(X, T)                                                                                   \
    X(T, id, INTEGER, ID, 0, "number of the call, the same in every question: (thread - 1) * 2^40 + position")         \
    X(T, process, INTEGER, PROCESS, 0, "processes.id")                                                                 \
    X(T, thread, INTEGER, THREAD, 0, "threads.id")                                                                     \
    X(T, function, TEXT, FUNCTION, 0, "name of the function, demangled")                                               \
    X(T, module, TEXT, MODULE, 0, "file name of its module")                                                           \
    X(T, start, INTEGER, TIME, CT_COLUMN_TIME, "when it was called")                                                   \
    X(T, duration, INTEGER, DURATION, CT_COLUMN_TIME,                                                                  \
      "from its call to its end, or to the end of the recording; NULL: its end is not known")                          \
    X(T, self, INTEGER, NONE, CT_COLUMN_TIME,                                                                          \
      "the part of the duration that it spent itself, not in recorded callees")                                        \
    X(T, depth, INTEGER, DEPTH, 0, "calls that were open around it on its stack")                                      \
    X(T, parent, INTEGER, PARENT, 0, "calls.id of the call that made it; NULL: not recorded")                          \
    X(T, ended, TEXT, NONE, 0,                                                                                         \
      "returned; left (an exception or a longjmp); open (at the end); lost; entry (only calls are recorded)")          \
    X(T, arguments, TEXT, NONE, 0, "what it was called with; NULL: the call has no detail record")                     \
    X(T, result, TEXT, NONE, 0, "what it returned; NULL: the return has no detail record")                             \
    X(T, error, TEXT, NONE, 0, "errno, if the call has set it: ENOENT")

#define CT_COLUMNS_CALLS(X, T)                                                                                         \
    CT_COLUMNS_SHOWN_CALLS(X, T)                                                                                       \
    X(T, pid, INTEGER, NONE, CT_COLUMN_HIDDEN, "the kernel's number of the process")                                   \
    X(T, tid, INTEGER, NONE, CT_COLUMN_HIDDEN, "the kernel's number of the thread")                                    \
    X(T, function_id, INTEGER, NONE, CT_COLUMN_HIDDEN, "functions.id")

#define CT_COLUMNS_FUNCTIONS(X, T)                                                                                     \
    X(T, id, INTEGER, NONE, 0, "number of the function in its process")                                                \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, function, TEXT, NONE, 0, "name, demangled")                                                                   \
    X(T, module, TEXT, NONE, 0, "file name of its module")                                                             \
    X(T, calls, INTEGER, NONE, 0, "how often it was called")                                                           \
    X(T, total, INTEGER, NONE, CT_COLUMN_TIME, "time in which a call of it was open; a recursion counts once")         \
    X(T, self, INTEGER, NONE, CT_COLUMN_TIME, "the part of total outside of recorded callees")                         \
    X(T, avg, INTEGER, NONE, CT_COLUMN_TIME, "mean duration of a call")                                                \
    X(T, max, INTEGER, NONE, CT_COLUMN_TIME, "longest call")                                                           \
    X(T, p50, INTEGER, NONE, CT_COLUMN_TIME, "half of the calls take no longer; percentiles are off by 1.6 % at most") \
    X(T, p95, INTEGER, NONE, CT_COLUMN_TIME, "95 % of the calls take no longer")                                       \
    X(T, p99, INTEGER, NONE, CT_COLUMN_TIME, "99 % of the calls take no longer")                                       \
    X(T, cpu, INTEGER, NONE, CT_COLUMN_TIME, "the part of self on a processor; NULL: not recorded")                    \
    X(T, blocked, INTEGER, NONE, CT_COLUMN_TIME, "the part of self off the processor, waiting for something")          \
    X(T, preempted, INTEGER, NONE, CT_COLUMN_TIME, "the part of self off the processor, able to run")                  \
    X(T, exceptions, INTEGER, NONE, 0, "calls that were left by an exception or a longjmp")                            \
    X(T, open, INTEGER, NONE, 0, "calls that were open at the end")                                                    \
    X(T, unpaired, INTEGER, NONE, 0, "calls whose end was lost, and ends whose call was lost")                         \
    X(T, line, TEXT, NONE, 0, "file:line of its beginning; NULL: not known (`contrail symbolize`)")

#define CT_COLUMNS_THREADS(X, T)                                                                                       \
    X(T, id, INTEGER, NONE, 0, "number of the thread in this trace")                                                   \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, tid, INTEGER, NONE, 0, "the kernel's number of the thread")                                                   \
    X(T, name, TEXT, NONE, 0, "its name")                                                                              \
    X(T, events, INTEGER, NONE, 0, "calls, returns and signals that can be read")                                      \
    X(T, lost, INTEGER, NONE, 0, "events that are missing, for any reason")                                            \
    X(T, start, INTEGER, NONE, CT_COLUMN_TIME, "time of its first event; NULL: none")                                  \
    X(T, cut, INTEGER, NONE, 0, "1: its file ends without a footer, or inside an event")                               \
    X(T, detail, INTEGER, NONE, 0, "1: there are detail records")

#define CT_COLUMNS_PROCESSES(X, T)                                                                                     \
    X(T, id, INTEGER, NONE, 0, "number of the process in this trace")                                                  \
    X(T, pid, INTEGER, NONE, 0, "the kernel's number of the process")                                                  \
    X(T, parent, INTEGER, NONE, 0, "processes.id of the process that made it; NULL: none in this trace")               \
    X(T, program, TEXT, NONE, 0, "file name of its program")                                                           \
    X(T, command, TEXT, NONE, 0, "command line")                                                                       \
    X(T, start, INTEGER, NONE, CT_COLUMN_TIME, "when its recording began")                                             \
    X(T, stop, INTEGER, NONE, CT_COLUMN_TIME, "when its recording ended")                                              \
    X(T, ended, TEXT, NONE, 0, "how it ended: exit 0, SIGSEGV, detached, exec ...")                                    \
    X(T, threads, INTEGER, NONE, 0, "threads with events")                                                             \
    X(T, modules, INTEGER, NONE, 0, "modules that it has loaded")                                                      \
    X(T, events, INTEGER, NONE, 0, "events that can be read")                                                          \
    X(T, complete, INTEGER, NONE, 0, "1: the recorder has finished this trace")

#define CT_COLUMNS_MODULES(X, T)                                                                                       \
    X(T, id, INTEGER, NONE, 0, "number of the module in its process")                                                  \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, module, TEXT, NONE, 0, "file name")                                                                           \
    X(T, path, TEXT, NONE, 0, "path")                                                                                  \
    X(T, build_id, TEXT, NONE, 0, "identifies the file's contents; NULL: it has none")                                 \
    X(T, base, INTEGER, NONE, 0, "address where it is loaded")                                                         \
    X(T, functions, INTEGER, NONE, 0, "functions that it has")                                                         \
    X(T, hooked, INTEGER, NONE, 0, "functions that are recorded")                                                      \
    X(T, entry_only, INTEGER, NONE, 0, "of them: those whose calls are recorded without their ends")

#define CT_COLUMNS_EVENTS(X, T)                                                                                        \
    X(T, id, INTEGER, ID, 0, "number of the event: (thread - 1) * 2^40 + position; that of a call is calls.id")        \
    X(T, process, INTEGER, PROCESS, 0, "processes.id")                                                                 \
    X(T, thread, INTEGER, THREAD, 0, "threads.id")                                                                     \
    X(T, time, INTEGER, TIME, CT_COLUMN_TIME, "when it happened")                                                      \
    X(T, kind, TEXT, NONE, 0, "call, return, left (an exception or a longjmp) or signal")                              \
    X(T, function, TEXT, FUNCTION, 0, "name of the function; NULL: a signal")                                          \
    X(T, module, TEXT, MODULE, 0, "file name of its module")                                                           \
    X(T, depth, INTEGER, NONE, 0, "calls that are open around it on its stack")                                        \
    X(T, detail, INTEGER, NONE, 0, "1: it has a detail record")                                                        \
    X(T, function_id, INTEGER, NONE, CT_COLUMN_HIDDEN, "functions.id")

#define CT_COLUMNS_EDGES(X, T)                                                                                         \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, caller, TEXT, NONE, 0, "name of the calling function; NULL: the caller was not recorded")                     \
    X(T, callee, TEXT, NONE, 0, "name of the called function")                                                         \
    X(T, calls, INTEGER, NONE, 0, "how often the one has called the other")                                            \
    X(T, total, INTEGER, NONE, CT_COLUMN_TIME, "sum of the durations of these calls")                                  \
    X(T, self, INTEGER, NONE, CT_COLUMN_TIME, "sum of their own parts")                                                \
    X(T, max, INTEGER, NONE, CT_COLUMN_TIME, "the longest of these calls")                                             \
    X(T, caller_module, TEXT, NONE, 0, "file name of the caller's module")                                             \
    X(T, callee_module, TEXT, NONE, 0, "file name of the callee's module")                                             \
    X(T, caller_id, INTEGER, NONE, CT_COLUMN_HIDDEN, "functions.id of the caller")                                     \
    X(T, callee_id, INTEGER, NONE, CT_COLUMN_HIDDEN, "functions.id of the callee")

#define CT_COLUMNS_LINES(X, T)                                                                                         \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, function, TEXT, NONE, 0, "name, demangled")                                                                   \
    X(T, module, TEXT, NONE, 0, "file name of its module")                                                             \
    X(T, file, TEXT, NONE, 0, "source file")                                                                           \
    X(T, line, INTEGER, NONE, 0, "line where the function begins")                                                     \
    X(T, function_id, INTEGER, NONE, CT_COLUMN_HIDDEN, "functions.id")

#define CT_COLUMNS_MARKS(X, T)                                                                                         \
    X(T, time, INTEGER, NONE, CT_COLUMN_TIME, "when it was marked")                                                    \
    X(T, label, TEXT, NONE, 0, "its label; NULL: none")

#define CT_COLUMNS_WINDOWS(X, T)                                                                                       \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, time, INTEGER, NONE, CT_COLUMN_TIME, "its first mark; NULL: there is none (--detail always)")                 \
    X(T, start, INTEGER, NONE, CT_COLUMN_TIME, "where its detail begins")                                              \
    X(T, stop, INTEGER, NONE, CT_COLUMN_TIME, "where its detail ends, counted from the first mark")                    \
    X(T, marks, INTEGER, NONE, 0, "how many marks it has")                                                             \
    X(T, reasons, TEXT, NONE, 0, "the triggers")                                                                       \
    X(T, records, INTEGER, NONE, 0, "detail records")                                                                  \
    X(T, pre_roll, TEXT, NONE, 0, "whole, or why it is shorter")                                                       \
    X(T, post_roll, TEXT, NONE, 0, "whole, or why it is shorter")

#define CT_COLUMNS_SIGNALS(X, T)                                                                                       \
    X(T, id, INTEGER, ID, 0, "events.id")                                                                              \
    X(T, process, INTEGER, PROCESS, 0, "processes.id")                                                                 \
    X(T, thread, INTEGER, THREAD, 0, "threads.id of the thread that got it")                                           \
    X(T, time, INTEGER, TIME, CT_COLUMN_TIME, "when")                                                                  \
    X(T, signal, INTEGER, NONE, 0, "its number; NULL: it has no record")                                               \
    X(T, name, TEXT, NONE, 0, "SIGSEGV")                                                                               \
    X(T, code, INTEGER, NONE, 0, "si_code")                                                                            \
    X(T, address, INTEGER, NONE, 0, "fault address")                                                                   \
    X(T, text, TEXT, NONE, 0, "what happened and where, in words")

#define CT_COLUMNS_LOSSES(X, T)                                                                                        \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, thread, INTEGER, NONE, 0, "threads.id")                                                                       \
    X(T, event, INTEGER, NONE, 0, "events.id of the first event after the gap; it may not exist")                      \
    X(T, time, INTEGER, NONE, CT_COLUMN_TIME, "time of that event; NULL: there is none")                               \
    X(T, lost, INTEGER, NONE, 0, "events that are missing here")                                                       \
    X(T, reason, TEXT, NONE, 0, "why, as a name")                                                                      \
    X(T, text, TEXT, NONE, 0, "why, as a sentence")

#define CT_COLUMNS_BLOCKS(X, T)                                                                                        \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, module, TEXT, NONE, 0, "file name; NULL: code of no file")                                                    \
    X(T, address, INTEGER, NONE, 0, "offset in the module, or the address of code of no file")                         \
    X(T, size, INTEGER, NONE, 0, "bytes")                                                                              \
    X(T, instructions, INTEGER, NONE, 0, "instructions in the block")                                                  \
    X(T, count, INTEGER, NONE, 0, "how often it was entered")                                                          \
    X(T, executed, INTEGER, NONE, 0, "how many of its instructions were executed in all")                              \
    X(T, function, TEXT, NONE, 0, "function that contains it; NULL: not known")                                        \
    X(T, into, INTEGER, NONE, CT_COLUMN_HIDDEN, "offset in the function")

#define CT_COLUMNS_STACK_AT(X, T)                                                                                      \
    X(T, level, INTEGER, NONE, 0, "0: the innermost call; 1: its caller")                                              \
    X(T, id, INTEGER, NONE, 0, "calls.id")                                                                             \
    X(T, function, TEXT, NONE, 0, "name of the function")                                                              \
    X(T, module, TEXT, NONE, 0, "file name of its module")                                                             \
    X(T, start, INTEGER, NONE, CT_COLUMN_TIME, "when it was called")                                                   \
    X(T, depth, INTEGER, NONE, 0, "calls that were open around it on its stack")                                       \
    X(T, thread, INTEGER, FIRST, CT_COLUMN_ARGUMENT, "threads.id")                                                     \
    X(T, time, INTEGER, SECOND, CT_COLUMN_ARGUMENT, "ns since the beginning")

#define CT_COLUMNS_CALLERS(X, T)                                                                                       \
    X(T, level, INTEGER, NONE, 0, "0: the innermost call; 1: its caller")                                              \
    X(T, id, INTEGER, NONE, 0, "calls.id")                                                                             \
    X(T, function, TEXT, NONE, 0, "name of the function")                                                              \
    X(T, module, TEXT, NONE, 0, "file name of its module")                                                             \
    X(T, start, INTEGER, NONE, CT_COLUMN_TIME, "when it was called")                                                   \
    X(T, depth, INTEGER, NONE, 0, "calls that were open around it on its stack")                                       \
    X(T, call, INTEGER, FIRST, CT_COLUMN_ARGUMENT, "calls.id")

/* Arguments are bound to hidden columns in their order: they come first. */
#define CT_COLUMNS_SUBTREE(X, T)                                                                                       \
    CT_COLUMNS_SHOWN_CALLS(X, T)                                                                                       \
    X(T, call, INTEGER, FIRST, CT_COLUMN_ARGUMENT, "calls.id of the outermost call")

#define CT_COLUMNS_HISTOGRAM(X, T)                                                                                     \
    X(T, process, INTEGER, NONE, 0, "processes.id")                                                                    \
    X(T, function, TEXT, NONE, 0, "name of the function")                                                              \
    X(T, low, INTEGER, NONE, CT_COLUMN_TIME, "calls that take at least this long")                                     \
    X(T, high, INTEGER, NONE, CT_COLUMN_TIME, "... and less than this: a power of two")                                \
    X(T, calls, INTEGER, NONE, 0, "how many there are")                                                                \
    X(T, name, TEXT, TEXT, CT_COLUMN_ARGUMENT, "name or glob of functions")

/* Every table: its enumerator, its name and what it is. */
#define CT_TABLES(X)                                                                                                   \
    X(CALLS, "calls", "one row for each recorded call")                                                                \
    X(EVENTS, "events", "one row for each recorded event: calls, returns, signals")                                    \
    X(FUNCTIONS, "functions", "one row for each function that was called: what `contrail report` computes")            \
    X(THREADS, "threads", "one row for each thread")                                                                   \
    X(PROCESSES, "processes", "one row for each process")                                                              \
    X(MODULES, "modules", "one row for each program and library")                                                      \
    X(EDGES, "edges", "one row for each pair of functions of which one has called the other")                          \
    X(LINES, "lines", "one row for each function whose source line is known (`contrail symbolize`)")                   \
    X(MARKS, "marks", "moments that were marked by hand (`contrail ctl PID mark`)")                                    \
    X(WINDOWS, "windows", "spans of time whose detail was kept, and why")                                              \
    X(SIGNALS, "signals", "signals that threads got, where they were recorded")                                        \
    X(LOSSES, "losses", "places where events are missing")                                                             \
    X(BLOCKS, "blocks", "blocks of code that followed threads have executed (`contrail stalk --events block`)")        \
    X(STACK_AT, "stack_at", "stack_at(thread, time): the calls that are open in a thread at a time")                   \
    X(SUBTREE, "subtree", "subtree(call): a call and all calls that were made in it")                                  \
    X(CALLERS, "callers", "callers(call): a call and the calls around it")                                             \
    X(HISTOGRAM, "histogram", "histogram(name): how long calls of a function take, by powers of two")

enum ct_table_id {
#define CT_TABLE_ENUM(id, name, text) CT_TABLE_##id,
    CT_TABLES(CT_TABLE_ENUM)
#undef CT_TABLE_ENUM
        CT_TABLE_COUNT
};

/* Numbers of columns: CT_CALLS_start. */
#define CT_COLUMN_ENUM(T, name, type, ask, flags, text) CT_##T##_##name,
#define CT_COLUMNS_ENUM(id, name, text)                 enum { CT_COLUMNS_##id(CT_COLUMN_ENUM, id) };
CT_TABLES(CT_COLUMNS_ENUM)
#undef CT_COLUMNS_ENUM
#undef CT_COLUMN_ENUM

struct ct_column {
    const char *name;
    enum ct_column_type type;
    enum ct_ask_field ask;
    unsigned flags; /* enum ct_column_flags */
    const char *text;
};

struct ct_table_schema {
    const char *name, *text;
    const struct ct_column *columns;
    int column_count;
};

const struct ct_table_schema *ct_schema_table(enum ct_table_id table);
/* "INTEGER", "REAL", "TEXT" */
const char *ct_schema_type(enum ct_column_type type);

#endif
