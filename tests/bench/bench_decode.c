/* SPDX-License-Identifier: Apache-2.0 */
/* Our decoder against Zydis, linearly over the code of libc and libcrypto; the best of several rounds in one run. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <Zydis/Zydis.h>

#include "isa/x64/decode.h"

#define ROUNDS 7

struct text {
    const uint8_t *bytes;
    size_t size;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The section .text of a library that dlopen finds, mapped from its file. */
static bool find_text(const char *soname, struct text *text) {
    struct link_map *map;
    struct stat st;
    void *handle = dlopen(soname, RTLD_LAZY);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return false;
    int fd = open(map->l_name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return false;
    const uint8_t *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED)
        return false;
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)file;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(file + e->e_shoff);
    const char *names = (const char *)file + s[e->e_shstrndx].sh_offset;
    for (unsigned i = 0; i < e->e_shnum; i++) {
        if (strcmp(names + s[i].sh_name, ".text") != 0)
            continue;
        *text = (struct text){file + s[i].sh_offset, s[i].sh_size};
        return true;
    }
    return false;
}

static uint64_t run_ours(const struct text *t) {
    struct ct_x64_insn insn;
    uint64_t n = 0;
    for (size_t at = 0; at < t->size; n++)
        at += ct_x64_decode(t->bytes + at, t->size - at, &insn) == 0 ? insn.length : 1;
    return n;
}

static uint64_t run_effects(const struct text *t) {
    struct ct_x64_insn insn;
    struct ct_x64_effects effects;
    uint64_t n = 0;
    for (size_t at = 0; at < t->size; n++) {
        if (ct_x64_decode(t->bytes + at, t->size - at, &insn) == 0) {
            ct_x64_effects(&insn, &effects);
            at += insn.length;
        } else {
            at++;
        }
    }
    return n;
}

static uint64_t run_zydis(const struct text *t) {
    static ZydisDecoder decoder;
    ZydisDecodedInstruction insn;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    uint64_t n = 0;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t at = 0; at < t->size; n++)
        at += ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, t->bytes + at, t->size - at, &insn, operands)) ? insn.length
                                                                                                           : 1;
    return n;
}

/* Seconds per instruction in one round over all texts. */
static double measure(uint64_t (*run)(const struct text *), const struct text *texts, size_t count) {
    double start = now();
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += run(&texts[i]);
    return (now() - start) / (double)n;
}

int main(void) {
    struct text texts[2];
    size_t count = 0;
    count += find_text("libc.so.6", &texts[count]);
    count += find_text("libcrypto.so.3", &texts[count]);
    if (count == 0) {
        fprintf(stderr, "bench_decode: no text to decode\n");
        return 1;
    }
    double ours = 1, effects = 1, zydis = 1;
    for (int i = 0; i < ROUNDS; i++) {
        double t = measure(run_ours, texts, count);
        ours = t < ours ? t : ours;
        t = measure(run_effects, texts, count);
        effects = t < effects ? t : effects;
        t = measure(run_zydis, texts, count);
        zydis = t < zydis ? t : zydis;
    }
    printf("decoder: ours %.1f ns/insn, Zydis full %.1f ns/insn, ratio %.1f\n", ours * 1e9, zydis * 1e9, zydis / ours);
    printf("decoder with effects: ours %.1f ns/insn, ratio %.1f\n", effects * 1e9, zydis / effects);
    return 0;
}
