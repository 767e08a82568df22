/* SPDX-License-Identifier: Apache-2.0 */
/* The listing of executed blocks: by function, with counts. Code is read from the modules' files. */
#include "cli/message.h"
#include "cli/stalk_blocks.h"
#include "report/disasm.h"
#include "symbols/elf_image.h"
#include "trace/reader.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct listing {
    struct ct_symbols *symbols;
    const struct ct_blocks_module *module;
    uint64_t functions; /* of the module */
    void *file;
    size_t file_size;
    struct ct_elf elf;
    bool has_code;
    uint64_t shown; /* function + 1 whose name was printed last */
};

/* ---- modules ---- */

static void close_module(struct listing *l) {
    if (l->file)
        munmap(l->file, l->file_size);
    l->file = NULL;
    l->has_code = false;
}

static void open_module(struct listing *l, const struct ct_blocks_module *m) {
    struct stat info;
    close_module(l);
    l->module = m;
    l->functions = l->shown = 0;
    for (size_t i = 0; i < ct_symbols_module_count(l->symbols); i++)
        if (m && ct_symbols_module_at(l->symbols, i).id == m->id)
            l->functions = ct_symbols_module_at(l->symbols, i).functions;
    int fd = m ? open(m->path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && !fstat(fd, &info) && info.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            l->file = bytes;
            l->file_size = (size_t)info.st_size;
            l->has_code = !ct_elf_open_host(&l->elf, bytes, l->file_size);
        }
    }
    if (fd >= 0)
        close(fd);
    fputs("\n", stderr);
    ct_message_print(stderr, m ? m->path : "code of no file");
    fputs(l->has_code ? "\n" : ": it cannot be read, so instructions are not known\n", stderr);
}

/* ---- functions ---- */

/* The function that contains an offset, or the last one before it; NULL: the offset is before the first. */
static const struct ct_trace_function *function_at(const struct listing *l, uint64_t offset, uint64_t *index) {
    uint64_t low = 0, high = l->functions;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct ct_trace_function *f = ct_symbols_find(l->symbols, (uint64_t)l->module->id << 32 | middle);
        if (f && f->offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low;
    return low ? ct_symbols_find(l->symbols, (uint64_t)l->module->id << 32 | (low - 1)) : NULL;
}

static void print_heading(struct listing *l, uint64_t offset) {
    uint64_t index = 0;
    const struct ct_trace_function *f = l->module ? function_at(l, offset, &index) : NULL;
    if (f && index != l->shown) {
        fputs("\n", stderr);
        ct_message_print(stderr, f->name);
        fputs(":\n", stderr);
    }
    l->shown = index;
}

/* ---- blocks ---- */

static void print_instructions(const struct listing *l, const struct ct_executed *block) {
    struct ct_span code = l->has_code ? ct_elf_at(&l->elf, block->offset) : (struct ct_span){0};
    uint64_t size = block->size < code.size ? block->size : code.size;
    for (uint64_t at = 0, length; at < size; at += length) {
        char text[CT_INSN_TEXT_MAX];
        length = ct_disasm_text(l->elf.machine, code.data + at, size - at, block->offset + at, text);
        fprintf(stderr, "%14s %10" PRIx64 "  %s\n", "", block->offset + at, length ? text : "(bad)");
        if (!length)
            break;
    }
}

static void print_block(struct listing *l, const struct ct_executed *block) {
    char count[CT_TEXT_SIZE];
    print_heading(l, block->offset);
    fprintf(stderr, "%13sx %10" PRIx64 "..%" PRIx64 "\n", ct_text_count(count, block->count), block->offset,
            block->offset + block->size);
    print_instructions(l, block);
}

int ct_blocks_print(const struct ct_blocks *b, const char *directory) {
    static char buffer[1 << 16];
    const char *missing = ct_disasm_missing(ct_machine_host()); /* only programs of this machine are followed */
    struct listing l = {.symbols = ct_symbols_load(directory)};
    bool can_list = !missing;
    if (missing)
        ct_message_error("--disasm needs %s", missing);
    else
        setvbuf(stderr, buffer, _IOFBF, sizeof buffer);
    for (size_t i = 0; can_list && i < b->count; i++) {
        if (!i || b->blocks[i].module != b->blocks[i - 1].module)
            open_module(&l, ct_blocks_module(b, b->blocks[i].module));
        print_block(&l, &b->blocks[i]);
    }
    fflush(stderr);
    setvbuf(stderr, NULL, _IONBF, 0);
    close_module(&l);
    ct_symbols_free(l.symbols);
    return !can_list;
}
