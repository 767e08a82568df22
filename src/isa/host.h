/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of the machine that this is built for: #include CT_HOST_HEADER(stub) is "stub_x64.h" on x86_64. */
#ifndef CT_ISA_HOST_H
#define CT_ISA_HOST_H

#define CT_HOST_TEXT(x) #x
#if defined(__x86_64__)
#define CT_HOST_HEADER(name) CT_HOST_TEXT(name##_x64.h)
#elif defined(__aarch64__)
#define CT_HOST_HEADER(name) CT_HOST_TEXT(name##_a64.h)
#else
#error "no headers for this machine"
#endif

#endif
