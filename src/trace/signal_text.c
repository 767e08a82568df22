/* SPDX-License-Identifier: Apache-2.0 */
/* Describes signals, registers and addresses of a recorded process. */
#include "trace/signal_text.h"
#include "isa/machine.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

const char *ct_cpu_register(const struct ct_trace_detail *detail, unsigned index) {
    const struct ct_machine *machine = ct_machine_by_arch(detail->arch);
    return machine && index < machine->register_count && index < detail->cpu_count ? machine->registers[index] : NULL;
}

/* What si_code means; "" when it is nothing special. */
static const char *code_text(uint32_t signal, int32_t code) {
    static const struct {
        uint32_t signal;
        int32_t code;
        const char *text;
    } texts[] = {
        {SIGSEGV, SEGV_MAPERR, "address not mapped"},
        {SIGSEGV, SEGV_ACCERR, "access not permitted"},
        {SIGBUS, BUS_ADRALN, "address not aligned"},
        {SIGBUS, BUS_ADRERR, "no memory at the address"},
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

/* True when the signal has a meaningful address. */
static bool has_address(uint32_t signal, int32_t code) {
    return code > 0 && code < SI_KERNEL &&
           (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE);
}

/* The last function that begins at or before the offset; functions are numbered in that order. */
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
    const struct ct_machine *machine = ct_machine_by_arch(detail->arch);
    if (machine && detail->cpu_count > machine->pc)
        ct_address_text(trace, process, detail->cpu[machine->pc], where, sizeof where);
    if (has_address(detail->signal, detail->code))
        snprintf(address, sizeof address, ", address 0x%" PRIx64, detail->fault_address);
    if (name)
        snprintf(text, size, "SIG%s%s%s%s%s%s%s", name, *why ? " (" : "", why, *why ? ")" : "", address,
                 *where ? ", at " : "", where);
    else
        snprintf(text, size, "signal %u%s%s%s%s%s%s", detail->signal, *why ? " (" : "", why, *why ? ")" : "", address,
                 *where ? ", at " : "", where);
}
