/* SPDX-License-Identifier: Apache-2.0 */
/* For C that `contrail spawn --probe FILE.c` puts into the recorded program: which functions its listeners hear of. A
 * listener is void f(GumInvocationContext *), as in gum's headers, and runs on the thread that calls, at native speed.
 *
 *   #include <contrail/probe.h>
 *
 *   CT_COUNTER(large);
 *   static void on_malloc(GumInvocationContext *ic) {
 *       if ((gsize)gum_invocation_context_get_nth_argument(ic, 0) >= 4096)
 *           CT_COUNT(large, 1);
 *   }
 *   CT_ON_ENTER("malloc", on_malloc)
 */
#ifndef CT_SCRIPT_PROBE_H
#define CT_SCRIPT_PROBE_H

#include <gum/gum.h>

/* A number that contrail prints when the recording ends. The same name is the same number in all files. */
#define CT_COUNTER(name)      extern guint64 ct_counter_##name
#define CT_COUNT(name, value) ((void)__atomic_fetch_add(&ct_counter_##name, (guint64)(value), __ATOMIC_RELAXED))

/* Outside of functions. `functions`: a name, or a glob (GLOB, MODULE!GLOB) as in --trigger. */
#define CT_ON_ENTER(functions, listener) CT_PROBE_IS(enter, functions, listener, __COUNTER__)
#define CT_ON_LEAVE(functions, listener) CT_PROBE_IS(leave, functions, listener, __COUNTER__)

/* What contrail looks for: ct_probe_enter_N and ct_probe_leave_N. */
struct ct_probe {
    const char *functions;
    void (*listener)(struct ct_cpu_context *cpu, struct ct_hook_call *call);
};

#define CT_PROBE_IS(when, functions, listener, n) CT_PROBE_MAKE(when, functions, listener, n)
#define CT_PROBE_MAKE(when, functions, listener, n)                                                                    \
    static void ct_probe_call_##n(struct ct_cpu_context *cpu, struct ct_hook_call *call) {                             \
        GumInvocationContext ic;                                                                                       \
        ct_gum_begin(&ic, cpu, call);                                                                                  \
        listener(&ic);                                                                                                 \
    }                                                                                                                  \
    extern const struct ct_probe ct_probe_##when##_##n;                                                                \
    const struct ct_probe ct_probe_##when##_##n = {functions, ct_probe_call_##n};

#endif
