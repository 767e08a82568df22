/* Names as people write them: C++ (Itanium ABI), Rust (legacy and v0).
 *
 * Names come from files that nobody has checked: depth, steps and output are bounded, and a name that goes beyond them, or
 * is no mangled one, stays as it is. Any thread. */
#ifndef CT_SYMBOLS_DEMANGLE_H
#define CT_SYMBOLS_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* malloc'ed; NULL when the name is not mangled, is not understood, or there is no memory. */
char *ct_demangle(const char *name);

/* The length of the name without its parameters ("ns::f<int>" of "ns::f<int>(char) const"), without the return type before it
 * (*start tells where it begins). */
size_t ct_demangled_base(const char *display, size_t *start);

/* ---- parts ---- */

#define CT_DEMANGLE_MAX_NAME   (64u << 10)
#define CT_DEMANGLE_MAX_OUTPUT (256u << 10)

/* Text in the making. After a failure nothing more is added. */
struct ct_demangle_text {
    char *text;
    size_t length, room;
    bool failed;
};
void ct_demangle_add(struct ct_demangle_text *out, const char *text, size_t length);
void ct_demangle_add_string(struct ct_demangle_text *out, const char *text);
void ct_demangle_add_utf8(struct ct_demangle_text *out, uint32_t character); /* a failure when it is none */

/* False: it is not one of these. What `out` then holds is of no use. */
bool ct_demangle_cxx(struct ct_demangle_text *out, const char *name, size_t length);
bool ct_demangle_rust(struct ct_demangle_text *out, const char *name, size_t length);
bool ct_demangle_rust_legacy(struct ct_demangle_text *out, const char *name, size_t length);
/* What compilers and linkers hang on names of Rust: ".llvm.123", ".cold". Nothing is fine too. */
bool ct_demangle_is_suffix(const char *at, const char *end);
/* Decodes RFC 3492: `plain` characters with those of `code` among them. */
bool ct_demangle_punycode(struct ct_demangle_text *out, const char *plain, size_t plain_length, const char *code,
                          size_t code_length);

#endif
