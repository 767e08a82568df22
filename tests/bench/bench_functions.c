/* SPDX-License-Identifier: Apache-2.0 */
/* How fast function tables open: functions per second, compared with only reading the same records with elfutils. */
#include "symbols/functions.h"
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 9

static const char *const files[] = {
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
    "/usr/bin/python3.11",
};

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double time_table(const char *path, size_t *count) {
    struct ct_functions *table;
    double start = now_ms();
    if (ct_functions_open(&table, path))
        return -1;
    double spent = now_ms() - start;
    *count = ct_functions_count(table);
    ct_functions_close(table);
    return spent;
}

/* Only reads the same records through libelf and libdw: nothing is sorted, merged or kept. */
static void look(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *name) {
    unsigned char *ident = (unsigned char *)elf_getident(elf, NULL);
    Dwarf_CFI_Entry entry;
    Dwarf_Off next = 0;
    GElf_Sym symbol;
    Elf_Data *data = elf_getdata(section, NULL);
    if (header->sh_type == SHT_SYMTAB || header->sh_type == SHT_DYNSYM)
        for (int i = 0; gelf_getsym(data, i, &symbol); i++)
            ;
    else if (strcmp(name, ".eh_frame") == 0)
        while (next != (Dwarf_Off)-1 && dwarf_next_cfi(ident, data, true, next, &next, &entry) == 0)
            ;
}

static double time_oracle(const char *path) {
    double start = now_ms();
    size_t names;
    GElf_Shdr header;
    Elf_Scn *section = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(file, ELF_C_READ_MMAP, NULL);
    elf_getshdrstrndx(elf, &names);
    while ((section = elf_nextscn(elf, section)) && gelf_getshdr(section, &header))
        look(elf, section, &header, elf_strptr(elf, names, header.sh_name));
    elf_end(elf);
    close(file);
    return now_ms() - start;
}

int main(void) {
    printf("opening function tables (best of %d)\n", ROUNDS);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        double table = 1e9, plain = 1e9;
        size_t count = 0;
        for (int round = 0; round < ROUNDS; round++) {
            double t = time_table(files[i], &count), p = time_oracle(files[i]);
            table = t < table ? t : table;
            plain = p < plain ? p : plain;
        }
        if (table < 0)
            printf("  %-48s not on this machine\n", files[i]);
        else
            printf("  %-48s %6zu functions %6.2f ms = %5.1f M functions/s, %.1f x elfutils looking at the records\n",
                   files[i], count, table, (double)count / table / 1e3, table / plain);
    }
    return 0;
}
