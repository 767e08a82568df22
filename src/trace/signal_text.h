/* SPDX-License-Identifier: Apache-2.0 */
/* Describes signals, registers and addresses of a recorded process. */
#ifndef CT_TRACE_SIGNAL_TEXT_H
#define CT_TRACE_SIGNAL_TEXT_H

#include <contrail/trace.h>

/* Describes a signal record: "SIGSEGV (address not mapped), address 0x10, at parse+0x1c [prog]". */
void ct_signal_text(const struct ct_trace *trace, size_t process, const struct ct_trace_detail *detail, char *text,
                    size_t size);
/* Writes "name+0x1c [module]", or the address alone when it is in no module of the trace. */
void ct_address_text(const struct ct_trace *trace, size_t process, uint64_t address, char *text, size_t size);
/* Name of a register in ct_trace_detail.cpu; NULL after the last. */
const char *ct_cpu_register(const struct ct_trace_detail *detail, unsigned index);

#endif
