/* Signals, registers and addresses of a recorded process, in words. */
#include "trace/signal_text.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char *const x64_registers[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8",
                                            "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip", "rflags"};
enum { PC = 16, REGISTERS = sizeof x64_registers / sizeof *x64_registers };

const char *ct_cpu_register(unsigned index) {
    return index < REGISTERS ? x64_registers[index] : NULL;
}

/* What si_code tells; "" when it is nothing special. */
static const char *code_text(uint32_t signal, int32_t code) {
    static const struct {
        uint32_t signal;
        int32_t code;
        const char *text;
    } texts[] = {
        {SIGSEGV, SEGV_MAPERR, "address not mapped"},
        {SIGSEGV, SEGV_ACCERR, "access not permitted"},
        {SIGBUS, BUS_ADRALN, "address not aligned"},
        {SIGBUS, BUS_ADRERR, "no memory behind the address"},
        {SIGBUS, BUS_OBJERR, "hardware error"},
        {SIGILL, ILL_ILLOPC, "illegal instruction"},
        {SIGILL, ILL_ILLOPN, "illegal operand"},
        {SIGILL, ILL_PRVOPC, "privileged instruction"},
        {SIGFPE, FPE_INTDIV, "integer division by zero"},
        {SIGFPE, FPE_INTOVF, "integer overflow"},
        {SIGFPE, FPE_FLTDIV, "division by zero"},
        {SIGFPE, FPE_FLTINV, "invalid operation"},
        {SIGTRAP, TRAP_BRKPT, "breakpoint"},
        {0, SI_USER, "sent by a process"},
        {0, SI_TKILL, "sent by a thread"},
        {0, SI_QUEUE, "sent by a process"},
        {0, SI_KERNEL, "sent by the kernel"},
        {0, SI_TIMER, "a timer"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((!texts[i].signal || texts[i].signal == signal) && texts[i].code == code)
            return texts[i].text;
    return "";
}

/* Has it an address that means something? */
static bool has_address(uint32_t signal, int32_t code) {
    return code > 0 && code < SI_KERNEL &&
           (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE);
}

/* The last function that begins at or before the offset; they are numbered in that order. */
static const struct ct_trace_function *function_at(const struct ct_trace *trace, size_t process,
                                                   const struct ct_trace_module *module, uint64_t offset) {
    uint64_t low = 0, high = module->functions, first = (uint64_t)module->id << 32;
    const struct ct_trace_function *found = NULL;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct ct_trace_function *f = ct_trace_function(trace, process, first | middle);
        if (f && f->offset <= offset) {
            found = f;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return found && offset - found->offset < (found->length ? found->length : 1) ? found : NULL;
}

void ct_address_text(const struct ct_trace *trace, size_t process, uint64_t address, char *text, size_t size) {
    snprintf(text, size, "0x%" PRIx64, address);
    for (size_t i = 0; i < ct_trace_module_count(trace); i++) {
        const struct ct_trace_module *module = ct_trace_module_at(trace, i);
        if (module->process != process || address < module->base)
            continue;
        const struct ct_trace_function *f = function_at(trace, process, module, address - module->base);
        if (!f)
            continue;
        snprintf(text, size, "%s+0x%" PRIx64 " [%s]", f->name, address - module->base - f->offset, f->module);
        return;
    }
}

void ct_signal_text(const struct ct_trace *trace, size_t process, const struct ct_trace_detail *detail, char *text,
                    size_t size) {
    const char *name = sigabbrev_np((int)detail->signal), *why = code_text(detail->signal, detail->code);
    char where[512] = "", address[64] = "";
    if (detail->cpu_count > PC)
        ct_address_text(trace, process, detail->cpu[PC], where, sizeof where);
    if (has_address(detail->signal, detail->code))
        snprintf(address, sizeof address, ", address 0x%" PRIx64, detail->fault_address);
    if (name)
        snprintf(text, size, "SIG%s%s%s%s%s%s%s", name, *why ? " (" : "", why, *why ? ")" : "", address,
                 *where ? ", at " : "", where);
    else
        snprintf(text, size, "signal %u%s%s%s%s%s%s", detail->signal, *why ? " (" : "", why, *why ? ")" : "", address,
                 *where ? ", at " : "", where);
}
