/* SPDX-License-Identifier: Apache-2.0 */
/* Demangled names for tables: the names that people use for types of the standard library, without arguments that are
 * defaults, and with one level of template arguments.
 *
 *   std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::allocator<...> >
 *   is std::vector<std::string>, and a map of vectors of int is std::map<int, std::vector<…>>.
 *
 * Names come from unchecked files: depth and output are bounded, and a name that is not understood stays as it is. Any
 * thread. */
#ifndef CT_SYMBOLS_SHORT_NAME_H
#define CT_SYMBOLS_SHORT_NAME_H

#include <stdbool.h>

/* malloc'ed; NULL: it stays as it is, or there is no memory. `dots` replace what is left out. */
char *ct_short_name(const char *name, const char *dots);
/* Like ct_short_name, without the arguments of any template: std::map<…>::find. */
char *ct_shorter_name(const char *name, const char *dots);
/* The name without its result, and with dots for its parameters: "f(…) const". malloc'ed; NULL: it has neither, or
 * there is no memory. */
char *ct_short_parameters(const char *name, const char *dots);

#endif
