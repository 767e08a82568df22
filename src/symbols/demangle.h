/* SPDX-License-Identifier: Apache-2.0 */
/* Names as people write them: C++ (Itanium ABI), Rust (legacy and v0).
 *
 * Names come from unchecked files: depth, steps and output are bounded, and a name that exceeds them, or is not
 * mangled, stays as it is. Any thread. */
#ifndef CT_SYMBOLS_DEMANGLE_H
#define CT_SYMBOLS_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* malloc'ed; NULL when the name is not mangled, is not understood, or there is no memory. */
char *ct_demangle(const char *name);

/* Length of the name without its parameters ("ns::f<int>" of "ns::f<int>(char) const") and without the return type
 * before it (*start receives where it begins). */
size_t ct_demangled_base(const char *display, size_t *start);
/* Returns the end of "operator" and its signs, when that is at `at` in the name; else `at` itself. */
const char *ct_demangled_operator(const char *display, const char *at);

/* ---- parts ---- */

#define CT_DEMANGLE_MAX_NAME   (64u << 10)
#define CT_DEMANGLE_MAX_OUTPUT (256u << 10)

/* A text that is being built. After a failure nothing more is added. */
struct ct_demangle_text {
    char *text;
    size_t length, room;
    bool failed;
};
void ct_demangle_add(struct ct_demangle_text *out, const char *text, size_t length);
void ct_demangle_add_string(struct ct_demangle_text *out, const char *text);
void ct_demangle_add_utf8(struct ct_demangle_text *out, uint32_t character); /* fails for invalid characters */

/* False: the name is not of this kind; the contents of `out` are meaningless then. */
bool ct_demangle_cxx(struct ct_demangle_text *out, const char *name, size_t length);
bool ct_demangle_rust(struct ct_demangle_text *out, const char *name, size_t length);
bool ct_demangle_rust_legacy(struct ct_demangle_text *out, const char *name, size_t length);
/* True for suffixes that compilers and linkers add to Rust names: ".llvm.123", ".cold", or nothing. */
bool ct_demangle_is_suffix(const char *at, const char *end);
/* Decodes RFC 3492: the `plain` characters, with those of `code` inserted. */
bool ct_demangle_punycode(struct ct_demangle_text *out, const char *plain, size_t plain_length, const char *code,
                          size_t code_length);

#endif
