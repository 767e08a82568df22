/* SPDX-License-Identifier: Apache-2.0 */
/* The A64 decoder against objdump: random words, words of each line of the table, and programs.
 *
 *     decode_a64_diff [--seed N] [--random WORDS] [--lines WORDS-OF-EACH] [--sample WORDS] [FILE | DIRECTORY]...
 *
 * Fails when there is a disagreement that compare_a64.c does not explain. 77: there is no objdump for arm64. */
#include <elf.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare_a64.h"
#include "isa/a64/text.h"
#include "isa/a64/text_tables.h"

#define OBJDUMP "aarch64-linux-gnu-objdump"

static uint64_t counts[A64_VERDICTS], all_words;
static uint64_t seed = 1, left = UINT64_MAX; /* words of files that may still be taken */

static uint64_t next_random(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* ---- a batch of words ---- */

static void show(enum a64_verdict verdict, uint32_t word, uint64_t address, const char *text) {
    struct ct_a64_insn insn;
    struct ct_a64_effects e = {0};
    char ours[CT_A64_TEXT_MAX] = ".inst";
    if (!ct_a64_decode(word, &insn)) {
        ct_a64_text(&insn, address, ours, sizeof ours);
        ct_a64_effects(&insn, &e);
    }
    printf("%08x %s: %s | objdump: %s | reads %08x writes %08x%s%s%s%s\n", word, a64_verdict_names[verdict], ours, text,
           e.regs_read, e.regs_written, e.flags_read ? " fr" : "", e.flags_written ? " fw" : "",
           e.mem_read ? " ld" : "", e.mem_written ? " st" : "");
}

static void judge(uint32_t word, uint64_t address, const char *text) {
    enum a64_verdict verdict = a64_compare(word, address, text);
    if (verdict > A64_NO_TEXT && counts[verdict] < 20)
        show(verdict, word, address, text);
    counts[verdict]++;
    all_words++;
}

/* "  10:\t52800020 \tmov\tw0, #0x1   \t// #1": without comments, tabs as spaces. */
static bool read_line(char *line, uint64_t *address, uint32_t *word, char **text) {
    char *end;
    *address = strtoull(line, &end, 16);
    if (end == line || *end++ != ':')
        return false;
    *word = (uint32_t)strtoul(end, &end, 16);
    while (*end == ' ' || *end == '\t')
        end++;
    *text = end;
    for (char *p = end; *p; p++)
        if (*p == '\t')
            *p = ' ';
    static const char *const ends[] = {"//", " ; ", "\n"};
    for (size_t i = 0; i < 3; i++) {
        char *found = strstr(end, ends[i]);
        if (found)
            *found = 0;
    }
    size_t n = strlen(end);
    while (n && end[n - 1] == ' ')
        end[--n] = 0;
    if (!strncmp(end, ".inst", 5))
        end[5] = 0;
    return true;
}

static void compare_words(const uint32_t *words, size_t count) {
    char name[] = "/tmp/contrail-words-XXXXXX", command[128], line[512];
    int fd = mkstemp(name);
    if (fd < 0 || write(fd, words, count * 4) != (ssize_t)(count * 4))
        exit(2);
    close(fd);
    snprintf(command, sizeof command, OBJDUMP " -D -z -b binary -m aarch64 %s", name);
    FILE *objdump = popen(command, "r");
    size_t seen = 0;
    while (objdump && fgets(line, sizeof line, objdump)) {
        uint64_t address;
        uint32_t word;
        char *text;
        if (line[0] != ' ' || !read_line(line, &address, &word, &text))
            continue;
        judge(word, address, text);
        seen++;
    }
    if (!objdump || pclose(objdump) || seen != count) {
        printf("objdump has shown %zu of %zu words\n", seen, count);
        exit(2);
    }
    unlink(name);
}

/* ---- where words come from ---- */

#define BATCH 250000
static uint32_t batch[BATCH];
static size_t batched;

static void flush(void) {
    if (batched)
        compare_words(batch, batched);
    batched = 0;
}

static void add_word(uint32_t word) {
    batch[batched++] = word;
    if (batched == BATCH)
        flush();
}

/* Register 31, register 0 and equal registers mean something else in many instructions. */
static uint32_t vary(uint32_t word) {
    static const uint8_t places[4] = {0, 5, 10, 16};
    unsigned place = places[next_random() & 3];
    switch (next_random() % 12) {
    case 0:
        return word | 31u << place;
    case 1:
        return word & ~(31u << place);
    case 2:
        return (word & ~(31u << 16)) | (word >> 5 & 31) << 16;
    default:
        return word;
    }
}

static void add_random(uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        add_word(vary((uint32_t)(next_random() >> 16)));
}

static void add_tests(const struct ct_a64_test *tests, unsigned count, uint64_t each) {
    for (unsigned i = 1; i < count; i++)
        for (uint64_t k = 0; k < each; k++)
            add_word((vary((uint32_t)(next_random() >> 16)) & ~tests[i].mask) | tests[i].value);
}

static void add_lines(uint64_t each) {
    add_tests(ct_a64_decode_tests, ct_a64_decode_test_count, each);
    add_tests(ct_a64_alias_tests, ct_a64_alias_test_count, each);
}

static void add_section(FILE *file, const Elf64_Shdr *section) {
    uint32_t word;
    fseek(file, (long)section->sh_offset, SEEK_SET);
    for (uint64_t at = 0; at + 4 <= section->sh_size && left && fread(&word, 4, 1, file) == 1; at += 4, left--)
        add_word(word);
}

static int add_file(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)where;
    Elf64_Ehdr header;
    Elf64_Shdr section;
    FILE *file = type == FTW_F ? fopen(path, "r") : NULL;
    if (!file)
        return 0;
    if (fread(&header, sizeof header, 1, file) == 1 && !memcmp(header.e_ident, ELFMAG, 4) &&
        header.e_machine == EM_AARCH64)
        for (unsigned i = 0; i < header.e_shnum && left; i++) {
            fseek(file, (long)(header.e_shoff + i * sizeof section), SEEK_SET);
            if (fread(&section, sizeof section, 1, file) == 1 && section.sh_type == SHT_PROGBITS &&
                section.sh_flags & SHF_EXECINSTR)
                add_section(file, &section);
        }
    fclose(file);
    return 0;
}

static int report(void) {
    int failed = 0;
    printf("%lu words\n", all_words);
    for (unsigned i = 0; i < A64_VERDICTS; i++) {
        if (counts[i])
            printf("%12lu  %s%s\n", counts[i], i > A64_NO_TEXT ? "DIFFERENT: " : "", a64_verdict_names[i]);
        failed |= i > A64_NO_TEXT && counts[i];
    }
    return failed;
}

int main(int argc, char **argv) {
    if (system("command -v " OBJDUMP " >/dev/null")) {
        puts("there is no " OBJDUMP " (make setup-arm64 installs it)");
        return 77;
    }
    for (int i = 1; i < argc; i++) {
        uint64_t number = i + 1 < argc ? strtoull(argv[i + 1], NULL, 0) : 0;
        if (argv[i][0] != '-')
            nftw(argv[i], add_file, 16, FTW_PHYS);
        else if (!strcmp(argv[i], "--seed"))
            seed = number;
        else if (!strcmp(argv[i], "--random"))
            add_random(number);
        else if (!strcmp(argv[i], "--lines"))
            add_lines(number);
        else if (!strcmp(argv[i], "--sample"))
            left = number;
        i += argv[i][0] == '-';
    }
    flush();
    return report();
}
