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

/* Nanoseconds, monotonic. */
guint64 ct_clock(void);

/* ---- the Stalker ---- */

/* A callout of a transform, and a call probe. */
typedef void (*GumStalkerCallout)(GumCpuContext *cpu_context, gpointer user_data);

typedef struct ct_stalker_iterator GumStalkerIterator;
typedef struct ct_script_output GumX86Writer;
typedef struct ct_script_output GumArm64Writer;
typedef enum { GUM_INSTRUCTION_DEFAULT } GumInstructionEncoding;
typedef enum { GUM_MEMORY_ACCESS_OPEN, GUM_MEMORY_ACCESS_EXCLUSIVE } GumMemoryAccess;
typedef struct _GumStalkerOutput {
    union {
        GumX86Writer *x86;
        GumArm64Writer *arm64;
        gpointer instance;
    } writer;
    GumInstructionEncoding encoding;
} GumStalkerOutput;

/* What ends a block, and system calls; every other instruction is CT_INS_OTHER. Jcc is any conditional branch. */
typedef enum {
    CT_INS_OTHER,
    X86_INS_JMP,
    CT_INS_BRANCH,
    X86_INS_CALL,
    X86_INS_RET,
    X86_INS_SYSCALL,
    ARM64_INS_B = X86_INS_JMP,
    ARM64_INS_BL = X86_INS_CALL,
    ARM64_INS_RET = X86_INS_RET,
    ARM64_INS_SVC = X86_INS_SYSCALL
} ct_insn_id;

/* As the agent has it (contrail/stalker.h): more than the text of an instruction would say. */
struct ct_stalker_insn {
    gsize size;
    guint64 address;
    const guint8 *bytes;
    guint kind;
    guint8 length, indirect, has_memory, base, index, scale, memory_read, memory_written;
    gint64 displacement, immediate;
    guint64 target;
    guint32 registers_read, registers_written, flags_read, flags_written;
};

/* As far as modules look at it; there is no text. */
typedef struct cs_insn {
    guint id; /* ct_insn_id */
    guint64 address;
    guint16 size;
    guint8 bytes[24];
    const struct ct_stalker_insn *detail;
} cs_insn;

const struct ct_stalker_insn *ct_gum_next(GumStalkerIterator *iterator);
void ct_gum_keep(GumStalkerIterator *iterator);
void ct_gum_put_callout(GumStalkerIterator *iterator, GumStalkerCallout callout, gpointer data, GDestroyNotify destroy);

/* Between a load-exclusive and its store (arm64) anything that is inserted may make the store fail for ever. `next`:
 * the instruction that comes now; NULL: only tell. One thread translates at a time. */
static inline GumMemoryAccess ct_gum_access(const struct ct_stalker_insn *next) {
    static GumMemoryAccess access;
#if defined(__aarch64__)
    static guint64 after;
    static guint32 word;
    if (next != NULL) {
        guint is_exclusive = (word & 0x3f800000) == 0x08000000 && (word & 0x80200000) != 0x00200000;
        if (next->address != after || (word & 0xfffff0ff) == 0xd503305f || (is_exclusive && !(word & 1 << 22)))
            access = GUM_MEMORY_ACCESS_OPEN;
        else if (is_exclusive)
            access = GUM_MEMORY_ACCESS_EXCLUSIVE;
        after = next->address + 4;
        word = *(const guint32 *)next->bytes;
    }
#else
    (void)next;
#endif
    return access;
}

/* One thread translates at a time. */
static inline gboolean gum_stalker_iterator_next(GumStalkerIterator *iterator, const cs_insn **insn) {
    static cs_insn now;
    const struct ct_stalker_insn *next = ct_gum_next(iterator);
    if (next == NULL)
        return FALSE;
    ct_gum_access(next);
    now.id = next->kind;
    now.address = next->address;
    now.size = next->length;
    now.detail = next;
    for (guint i = 0; i < next->length && i < sizeof now.bytes; i++)
        now.bytes[i] = next->bytes[i];
    if (insn != NULL)
        *insn = &now;
    return TRUE;
}
static inline void gum_stalker_iterator_keep(GumStalkerIterator *iterator) {
    ct_gum_keep(iterator);
}
static inline void gum_stalker_iterator_put_callout(GumStalkerIterator *iterator, GumStalkerCallout callout,
                                                    gpointer data, GDestroyNotify destroy) {
    ct_gum_put_callout(iterator, callout, data, destroy);
}
static inline GumMemoryAccess gum_stalker_iterator_get_memory_access(GumStalkerIterator *iterator) {
    (void)iterator;
    return ct_gum_access(NULL);
}

/* Events, for onEvent. */
typedef enum {
    GUM_NOTHING = 0,
    GUM_CALL = 1,
    GUM_RET = 2,
    GUM_EXEC = 4,
    GUM_BLOCK = 8,
    GUM_COMPILE = 16
} ct_event_type;
typedef guint GumEventType;
typedef struct {
    GumEventType type;
    gpointer location, target;
    gint depth;
} GumCallEvent;
typedef GumCallEvent GumRetEvent;
typedef struct {
    GumEventType type;
    gpointer location;
} GumExecEvent;
typedef struct {
    GumEventType type;
    gpointer start, end;
} GumBlockEvent;
typedef GumBlockEvent GumCompileEvent;
typedef union _GumEvent {
    GumEventType type;
    GumCallEvent call;
    GumRetEvent ret;
    GumExecEvent exec;
    GumBlockEvent block;
    GumCompileEvent compile;
} GumEvent;

/* What writers of all machines are made of. A branch's condition has the machine's number, or is taken always. */
enum { CT_GUM_ALWAYS = 16 };
void ct_gum_put_bytes(struct ct_script_output *self, gconstpointer bytes, gsize size);
void ct_gum_put_count(struct ct_script_output *self, guint64 *counter);
gint ct_gum_put_copy(struct ct_script_output *self, GumAddress address);
void ct_gum_put_label(struct ct_script_output *self, guint64 label);
void ct_gum_put_jump(struct ct_script_output *self, guint64 label, guint condition);

#if defined(__x86_64__)
#include <gum/arch-x86/gumx86writer.h>
#else
#include <gum/arch-arm64/gumarm64writer.h>
#endif

#endif
