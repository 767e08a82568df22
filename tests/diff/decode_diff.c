/* SPDX-License-Identifier: Apache-2.0 */
/* Our decoder against Zydis over the executable sections of the programs and libraries of this machine.
 *
 *   decode_diff [--sample N | --all] [--jobs N] [folder or file ...]     (default: a sample of 50 M, /usr/bin /usr/lib)
 *
 * Each section is cut into chunks. A sample takes chunks at even steps over the sorted list of files, so it is the same
 * on every run and includes every larger file. Both decode a chunk linearly; if both say "bad", one byte is skipped.
 * Exits with 1 on any disagreement that the table of oracle errors (known.h) does not explain. */
#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"

#define CHUNK          (16 * 1024)
#define PRINTED        25  /* disagreements per process */
#define BYTES_PER_INSN 4.8 /* more than any program has, so that a sample is never too small */

struct file {
    char *path;
    dev_t device;
    ino_t inode;
};

struct chunk {
    uint32_t file;
    uint64_t start, end;  /* offsets in the file */
    uint64_t section_end; /* an instruction may reach up to here */
    bool taken;           /* part of the sample */
};

struct totals { /* in shared memory; each is written by one process */
    uint64_t instructions, bytes, bad, unexplained, by_class[DIFF_COUNT], explained[DIFF_COUNT];
    uint64_t known[128];
};

static struct file *files;
static struct chunk *chunks;
static size_t file_count, chunk_count;
static uint64_t all_bytes;
static uint64_t sample = 50000000; /* instructions; 0: everything */
static unsigned jobs = 2;

static void *grow(void *array, size_t count, size_t size) {
    if (count & (count - 1))
        return array; /* room is doubled at powers of two */
    array = realloc(array, (count ? 2 * count : 1) * size);
    if (!array)
        abort();
    return array;
}

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)ftw;
    if (type != FTW_F || !S_ISREG(st->st_mode) || st->st_size < (off_t)sizeof(Elf64_Ehdr))
        return 0;
    files = grow(files, file_count, sizeof *files);
    files[file_count++] = (struct file){strdup(path), st->st_dev, st->st_ino};
    return 0;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static int by_inode(const void *a, const void *b) {
    const struct file *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->inode != y->inode)
        return x->inode < y->inode ? -1 : 1;
    return by_path(a, b);
}

/* Hard links count once: the first path is kept. */
static void sort_files(void) {
    size_t n = 0;
    qsort(files, file_count, sizeof *files, by_inode);
    for (size_t i = 0; i < file_count; i++)
        if (n == 0 || files[i].inode != files[n - 1].inode || files[i].device != files[n - 1].device)
            files[n++] = files[i];
    file_count = n;
    qsort(files, file_count, sizeof *files, by_path);
}

static const uint8_t *map_file(const char *path, size_t *size) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *map = MAP_FAILED;
    if (fstat(fd, &st) == 0 && st.st_size > 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    *size = (size_t)st.st_size;
    return map == MAP_FAILED ? NULL : map;
}

static void add_section(size_t file, uint64_t start, uint64_t end) {
    for (uint64_t at = start; at < end; at += CHUNK) {
        chunks = grow(chunks, chunk_count, sizeof *chunks);
        chunks[chunk_count++] = (struct chunk){(uint32_t)file, at, at + CHUNK < end ? at + CHUNK : end, end, false};
    }
    all_bytes += end - start;
}

/* The executable sections of an x86_64 ELF file; anything else adds nothing. */
static bool add_sections(size_t file) {
    size_t size, before = chunk_count;
    const uint8_t *map = map_file(files[file].path, &size);
    if (!map)
        return false;
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)map;
    if (size >= sizeof *e && memcmp(e->e_ident, ELFMAG, SELFMAG) == 0 && e->e_ident[EI_CLASS] == ELFCLASS64 &&
        e->e_machine == EM_X86_64 && e->e_shentsize == sizeof(Elf64_Shdr) && e->e_shoff < size && e->e_shoff % 8 == 0 &&
        (size - e->e_shoff) / sizeof(Elf64_Shdr) >= e->e_shnum) {
        const Elf64_Shdr *s = (const Elf64_Shdr *)(map + e->e_shoff);
        for (unsigned i = 0; i < e->e_shnum; i++)
            if (s[i].sh_type == SHT_PROGBITS && s[i].sh_flags & SHF_EXECINSTR && s[i].sh_offset < size &&
                s[i].sh_size <= size - s[i].sh_offset)
                add_section(file, s[i].sh_offset, s[i].sh_offset + s[i].sh_size);
    }
    munmap((void *)map, size);
    return chunk_count > before;
}

static void compare_chunk(const uint8_t *map, const struct chunk *k, struct totals *t) {
    struct compared c;
    uint64_t at = k->start;
    while (at < k->end) {
        size_t step = diff_compare(map + at, k->section_end - at, 0x400000 + at, &c);
        t->instructions += c.zydis_valid;
        t->bad += !c.zydis_valid;
        if (c.unexplained | c.known) {
            for (unsigned i = 0; i < DIFF_COUNT; i++) {
                t->by_class[i] += c.unexplained >> i & 1;
                t->explained[i] += c.known >> i & 1;
            }
            if (c.unexplained && t->unexplained++ < PRINTED) {
                printf("%s+0x%llx: ", files[k->file].path, (unsigned long long)at);
                diff_print(map + at, k->section_end - at, &c);
            }
        }
        at += step;
    }
    t->bytes += k->end - k->start;
}

/* Marks chunks at even steps until the sample has `wanted` bytes; returns the number of chunks. */
static size_t take_sample(uint64_t wanted) {
    uint64_t due = 0;
    size_t n = 0;
    for (size_t i = 0; i < chunk_count; i++) {
        uint64_t length = chunks[i].end - chunks[i].start;
        due += length * wanted;
        chunks[i].taken = due >= length * all_bytes;
        if (chunks[i].taken)
            due -= length * all_bytes;
        n += chunks[i].taken;
    }
    return n;
}

static void run_job(unsigned job, struct totals *t) {
    const uint8_t *map = NULL;
    size_t size = 0, taken = 0;
    uint32_t open_file = UINT32_MAX;
    diff_init();
    for (size_t i = 0; i < chunk_count; i++) {
        if (!chunks[i].taken || taken++ % jobs != job)
            continue;
        if (chunks[i].file != open_file) {
            if (map)
                munmap((void *)map, size);
            map = map_file(files[chunks[i].file].path, &size);
            open_file = chunks[i].file;
        }
        if (map && chunks[i].section_end <= size)
            compare_chunk(map, &chunks[i], t);
    }
    diff_known_hits(t->known);
    fflush(stdout);
}

static int run_jobs(struct totals *t) {
    int failed = 0;
    fflush(stdout);
    for (unsigned j = 0; j < jobs; j++) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0) {
            run_job(j, &t[j]);
            _exit(0);
        }
    }
    for (unsigned j = 0; j < jobs; j++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            failed = 1;
    }
    return failed;
}

static void add_totals(struct totals *sum, const struct totals *t) {
    const uint64_t *from = (const uint64_t *)t;
    uint64_t *to = (uint64_t *)sum;
    for (size_t i = 0; i < sizeof *t / sizeof(uint64_t); i++)
        to[i] += from[i];
}

static void report(const struct totals *t, size_t elf_files, size_t taken) {
    printf("%zu ELF files, %zu of %zu chunks, %.1f MB of code\n", elf_files, taken, chunk_count,
           (double)t->bytes / 1e6);
    printf("%llu instructions, %llu bytes bad for both\n", (unsigned long long)t->instructions,
           (unsigned long long)t->bad);
    printf("disagreements (unexplained, explained by an error of the oracle):\n");
    for (unsigned i = 0; i < DIFF_COUNT; i++)
        printf("  %-30s %10llu %10llu\n", diff_class_names[i], (unsigned long long)t->by_class[i],
               (unsigned long long)t->explained[i]);
    printf("errors of the oracle that were met:\n");
    diff_known_print(t->known);
}

static void parse(int argc, char **argv) {
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0)
            sample = 0;
        else if (strcmp(argv[i], "--sample") == 0 && i + 1 < argc)
            sample = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
            jobs = (unsigned)strtoul(argv[++i], NULL, 0);
        else
            any = true, nftw(argv[i], add_file, 32, FTW_PHYS);
    }
    if (jobs < 1 || jobs > 64)
        jobs = 2;
    if (any)
        return;
    nftw("/usr/bin", add_file, 32, FTW_PHYS);
    nftw("/usr/lib", add_file, 32, FTW_PHYS);
}

int main(int argc, char **argv) {
    parse(argc, argv);
    sort_files();
    size_t elf_files = 0;
    for (size_t i = 0; i < file_count; i++)
        elf_files += add_sections(i);
    uint64_t wanted = (uint64_t)((double)sample * BYTES_PER_INSN);
    size_t taken = take_sample(sample == 0 || wanted > all_bytes ? all_bytes : wanted);
    struct totals *t = mmap(NULL, jobs * sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED || diff_known_count() > sizeof t->known / sizeof *t->known)
        return 1;
    int failed = run_jobs(t);
    for (unsigned j = 1; j < jobs; j++)
        add_totals(&t[0], &t[j]);
    report(&t[0], elf_files, taken);
    if (t->instructions < sample && taken < chunk_count) {
        printf("the sample is too small\n");
        failed = 1;
    }
    printf("%s\n", failed || t->unexplained ? "FAILED" : "no unexplained disagreement");
    return failed || t->unexplained || t->instructions == 0 ? 1 : 0;
}
