/* SPDX-License-Identifier: Apache-2.0 */
/* The questions of `contrail query --examples`: tests run each of them. */
#include "query/examples.h"

static const struct ct_query_example examples[] = {
    {"Where does the time go?",
     "SELECT function, module, calls, self, total\n"
     "FROM functions ORDER BY self DESC, function LIMIT 10",
     false},
    {"What is called most often, and how long does it take?",
     "SELECT function, calls, avg, p99, max\n"
     "FROM functions ORDER BY calls DESC, function LIMIT 10",
     false},
    {"Which single calls took longest?",
     "SELECT id, thread, function, start, duration, ended\n"
     "FROM calls ORDER BY duration DESC LIMIT 10",
     false},
    {"What was the slowest call of a function doing?",
     "WITH slowest AS (SELECT id FROM calls WHERE function = 'work' ORDER BY duration DESC LIMIT 1)\n"
     "SELECT s.depth, s.function, s.start, s.duration, s.self\n"
     "FROM slowest, subtree(slowest.id) AS s ORDER BY s.id",
     false},
    {"Who calls a function, how often and for how long? (Who allocates?)",
     "SELECT caller, caller_module, calls, total\n"
     "FROM edges WHERE callee IN ('malloc', 'calloc', 'realloc', 'leaf') ORDER BY calls DESC, total DESC",
     false},
    {"Which call failed first? (Results are known where detail was recorded.)",
     "SELECT id, function, start, arguments, result, error\n"
     "FROM calls WHERE error IS NOT NULL OR result IN ('-1', '0xffffffffffffffff') ORDER BY start LIMIT 1",
     false},
    {"How much time is between calls of a function?",
     "SELECT id, start, start - lag(start) OVER (PARTITION BY thread ORDER BY start) AS since_the_last\n"
     "FROM calls WHERE function = 'leaf' ORDER BY thread, start",
     false},
    {"Which calls of one function were made under another?",
     "SELECT s.id, s.start, s.duration\n"
     "FROM calls AS c, subtree(c.id) AS s\n"
     "WHERE c.function = 'work' AND s.function = 'leaf' ORDER BY c.id, s.id",
     false},
    {"What ran on other threads during the slowest call of a function?",
     "WITH slowest AS MATERIALIZED\n"
     "  (SELECT * FROM calls WHERE function = 'main' ORDER BY duration DESC LIMIT 1)\n"
     "SELECT o.thread, o.function, o.start, o.duration\n"
     "FROM slowest AS c, calls AS o\n"
     "WHERE o.thread <> c.thread AND o.start < c.start + c.duration AND o.start + o.duration > c.start\n"
     "ORDER BY o.duration DESC LIMIT 10",
     false},
    {"How did a call come about?", "SELECT level, id, function, start FROM callers(4) ORDER BY level", false},
    {"What was each thread in at a moment?",
     "SELECT t.name, s.level, s.function\n"
     "FROM threads AS t, stack_at(t.id, 1250000) AS s ORDER BY t.id, s.level",
     false},
    {"Which signals came, and what was the thread in?",
     "SELECT g.time, g.text, s.level, s.function\n"
     "FROM signals AS g, stack_at(g.thread, g.time) AS s ORDER BY g.time, s.level",
     false},
    {"Which calls had not ended at the end?",
     "SELECT t.name, c.depth, c.function, c.start\n"
     "FROM calls AS c JOIN threads AS t ON t.id = c.thread\n"
     "WHERE c.ended = 'open' ORDER BY c.thread, c.depth",
     false},
    {"Which calls were left by exceptions?",
     "SELECT function, count(*) AS calls, min(start) AS first\n"
     "FROM calls WHERE ended = 'left' GROUP BY function ORDER BY calls DESC, function",
     false},
    {"How are the durations of a function distributed? (Draw it with --bar.)",
     "SELECT low, high, calls FROM histogram('recurse') ORDER BY low", false},
    {"When was the program busy? (Calls in each tenth of a millisecond; --bar.)",
     "SELECT start - start % 100000 AS slot, count(*) AS calls\n"
     "FROM calls GROUP BY slot ORDER BY slot",
     false},
    {"Which threads did the work?",
     "SELECT t.name, count(*) AS calls, sum(c.self) AS self\n"
     "FROM calls AS c JOIN threads AS t ON t.id = c.thread GROUP BY t.id, t.name ORDER BY self DESC",
     false},
    {"How deep do recursions go?",
     "SELECT function, max(depth) - min(depth) + 1 AS levels, count(*) AS calls\n"
     "FROM calls GROUP BY thread, function HAVING levels > 1 ORDER BY levels DESC, calls DESC, function",
     false},
    {"What is missing in this trace, and why?",
     "SELECT t.name, l.time, l.lost, l.text\n"
     "FROM losses AS l JOIN threads AS t ON t.id = l.thread ORDER BY l.event",
     false},
    {"What differs between two traces? (Give the second one with --with.)",
     "SELECT function, a.calls AS calls_a, b.calls AS calls_b, b.self - a.self AS more_self\n"
     "FROM a.functions AS a JOIN b.functions AS b USING (function, module)\n"
     "ORDER BY abs(b.self - a.self) DESC, function LIMIT 10",
     true},
};

const struct ct_query_example *ct_query_example(size_t i) {
    return i < sizeof examples / sizeof *examples ? &examples[i] : NULL;
}
