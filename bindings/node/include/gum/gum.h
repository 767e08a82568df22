/* SPDX-License-Identifier: Apache-2.0 */
/* For CModules: what gum's headers declare and Contrail's agent has, with gum's names and signatures. Written for
 * Contrail; the structures are those of contrail/cpu.h and contrail/hook.h. */
#ifndef CT_SCRIPT_GUM_H
#define CT_SCRIPT_GUM_H

#include <glib.h>

typedef guint64 GumAddress;
typedef gsize GumThreadId;

/* Registers of a thread; what is changed takes effect. */
#if defined(__x86_64__)
typedef struct ct_cpu_context {
    guint64 rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi;
    guint64 r8, r9, r10, r11, r12, r13, r14, r15;
    guint64 rip, rflags;
    void *vector;
} GumCpuContext;
typedef GumCpuContext GumX64CpuContext;
#else
typedef struct ct_cpu_context {
    guint64 x[29];
    guint64 fp, lr, sp, pc;
    guint64 nzcv;
    void *vector;
} GumCpuContext;
typedef GumCpuContext GumArm64CpuContext;
#endif

/* One call of a hooked function, as the agent has it. */
struct ct_hook_call {
    size_t size;
    uint32_t hook, depth;
    void *function, *return_address, *user;
    uint64_t data;
};

typedef struct _GumInvocationContext {
    gpointer function;
    GumCpuContext *cpu_context;
    gint system_error;
    struct ct_hook_call *call;
} GumInvocationContext;

static inline void ct_gum_begin(GumInvocationContext *ic, struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    ic->function = call->function;
    ic->cpu_context = cpu;
    ic->system_error = 0;
    ic->call = call;
}

/* The n-th argument, when all are whole numbers or pointers. */
static inline guint64 *ct_gum_argument(GumInvocationContext *ic, guint n) {
    GumCpuContext *cpu = ic->cpu_context;
#if defined(__x86_64__)
    switch (n) {
    case 0:
        return &cpu->rdi;
    case 1:
        return &cpu->rsi;
    case 2:
        return &cpu->rdx;
    case 3:
        return &cpu->rcx;
    case 4:
        return &cpu->r8;
    case 5:
        return &cpu->r9;
    default:
        return (guint64 *)cpu->rsp + 1 + n - 6;
    }
#else
    return n < 8 ? &cpu->x[n] : (guint64 *)cpu->sp + n - 8;
#endif
}

static inline guint64 *ct_gum_result(GumInvocationContext *ic) {
#if defined(__x86_64__)
    return &ic->cpu_context->rax;
#else
    return &ic->cpu_context->x[0];
#endif
}

static inline gpointer gum_invocation_context_get_nth_argument(GumInvocationContext *ic, guint n) {
    return (gpointer)*ct_gum_argument(ic, n);
}
static inline void gum_invocation_context_replace_nth_argument(GumInvocationContext *ic, guint n, gpointer value) {
    *ct_gum_argument(ic, n) = (guint64)value;
}
static inline gpointer gum_invocation_context_get_return_value(GumInvocationContext *ic) {
    return (gpointer)*ct_gum_result(ic);
}
static inline void gum_invocation_context_replace_return_value(GumInvocationContext *ic, gpointer value) {
    *ct_gum_result(ic) = (guint64)value;
}
static inline gpointer gum_invocation_context_get_return_address(GumInvocationContext *ic) {
    return ic->call->return_address;
}
static inline guint gum_invocation_context_get_depth(GumInvocationContext *ic) {
    return ic->call->depth;
}
static inline gpointer gum_invocation_context_get_listener_function_data(GumInvocationContext *ic) {
    return ic->call->user;
}
/* One word is kept from onEnter to onLeave of a call. */
static inline gpointer gum_invocation_context_get_listener_invocation_data(GumInvocationContext *ic, gsize size) {
    return size <= sizeof ic->call->data ? &ic->call->data : NULL;
}
#define GUM_IC_GET_FUNC_DATA(ic, T)       ((T)gum_invocation_context_get_listener_function_data(ic))
#define GUM_IC_GET_INVOCATION_DATA(ic, T) ((T *)gum_invocation_context_get_listener_invocation_data((ic), sizeof(T)))

static inline GumThreadId gum_process_get_current_thread_id(void) {
#if defined(__x86_64__)
    long result = 186;
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    return (GumThreadId)result;
#else
    register long result __asm__("x0");
    register long number __asm__("x8") = 178;
    __asm__ volatile("svc 0" : "=r"(result) : "r"(number) : "memory");
    return (GumThreadId)result;
#endif
}
static inline guint gum_invocation_context_get_thread_id(GumInvocationContext *ic) {
    (void)ic;
    return (guint)gum_process_get_current_thread_id();
}

/* A callout of a transform, and a call probe. */
typedef void (*GumStalkerCallout)(GumCpuContext *cpu_context, gpointer user_data);

#endif
