/* SPDX-License-Identifier: Apache-2.0 */
/* See disasm.h. */
#include "report/disasm.h"
#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libZydis.so.4.0"
#define PACKAGE "; on Debian it is in the package libzydis4.0"

typedef __typeof__(ZydisDisassembleIntel) disassemble;

static disassemble *zydis;
static const char *zydis_missing;
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static void load_library(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "ZydisDisassembleIntel") : NULL;
    if (found)
        memcpy(&zydis, &found, sizeof zydis);
    else
        zydis_missing = library ? LIBRARY " (the installed one is another version)" PACKAGE
                                : LIBRARY " (it is not installed)" PACKAGE;
}

const char *ct_disasm_missing(const struct ct_machine *machine) {
    if (ct_insn_has_text(machine))
        return NULL;
    (void)pthread_once(&loaded, load_library);
    return zydis_missing;
}

size_t ct_disasm_text(const struct ct_machine *machine, const uint8_t *bytes, size_t size, uint64_t address,
                      char text[CT_INSN_TEXT_MAX]) {
    ZydisDisassembledInstruction insn;
    if (ct_insn_has_text(machine))
        return ct_insn_text(machine, bytes, size, address, text);
    if (ct_disasm_missing(machine) || !ZYAN_SUCCESS(zydis(ZYDIS_MACHINE_MODE_LONG_64, address, bytes, size, &insn)))
        return 0;
    snprintf(text, CT_INSN_TEXT_MAX, "%s", insn.text);
    return insn.info.length;
}
