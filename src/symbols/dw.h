/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libdw that are used, loaded at run time. Private to src/symbols/lines*.c and
 * parameters*.c. */
#ifndef CT_SYMBOLS_DW_H
#define CT_SYMBOLS_DW_H

#include <dwarf.h>
#include <elfutils/libdw.h>

#define CT_DW_LIST(X)                                                                                                  \
    X(dwarf_begin)                                                                                                     \
    X(dwarf_end)                                                                                                       \
    X(dwarf_get_units)                                                                                                 \
    X(dwarf_ranges)                                                                                                    \
    X(dwarf_getsrclines)                                                                                               \
    X(dwarf_onesrcline)                                                                                                \
    X(dwarf_lineaddr)                                                                                                  \
    X(dwarf_lineno)                                                                                                    \
    X(dwarf_linesrc)                                                                                                   \
    X(dwarf_lineendsequence)                                                                                           \
    X(dwarf_child)                                                                                                     \
    X(dwarf_siblingof)                                                                                                 \
    X(dwarf_tag)                                                                                                       \
    X(dwarf_attr)                                                                                                      \
    X(dwarf_attr_integrate)                                                                                            \
    X(dwarf_formstring)                                                                                                \
    X(dwarf_formudata)                                                                                                 \
    X(dwarf_diename)                                                                                                   \
    X(dwarf_entrypc)                                                                                                   \
    X(dwarf_haspc)                                                                                                     \
    X(dwarf_getsrcfiles)                                                                                               \
    X(dwarf_filesrc)                                                                                                   \
    X(dwarf_formref_die)                                                                                               \
    X(dwarf_formsdata)                                                                                                 \
    X(dwarf_whatform)                                                                                                  \
    X(dwarf_formflag)                                                                                                  \
    X(dwarf_bytesize)                                                                                                  \
    X(dwarf_getlocation_addr)                                                                                          \
    X(dwarf_srclang)                                                                                                   \
    X(dwarf_cu_die)                                                                                                    \
    X(dwarf_diecu)

struct ct_dw {
#define CT_DW_MEMBER(name) __typeof__(&name) name;
    CT_DW_LIST(CT_DW_MEMBER)
#undef CT_DW_MEMBER
};

/* NULL: the library is not installed. Any thread. */
const struct ct_dw *ct_dw(void);

#endif
