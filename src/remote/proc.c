/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc shows about a process and its threads. */
#include "isa/machine.h"
#include "remote/remote_internal.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

static bool find_line(int pid, int tid, const char *title, char *line, size_t size) {
    char path[64];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, (int)size, file))
        found = strncmp(line, title, strlen(title)) == 0;
    (void)fclose(file);
    return found;
}

long ct_remote_status_number(int pid, int tid, const char *title, bool last) {
    char line[512], *end = NULL;
    if (!find_line(pid, tid, title, line, sizeof line))
        return -1;
    long value = -1;
    for (char *at = line + strlen(title);; at = end) {
        long next = strtol(at, &end, 10);
        if (end == at)
            return value;
        value = next;
        if (!last)
            return value;
    }
}

int ct_remote_open_tasks(int pid) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task", pid);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A file that does not fit (a long list of groups) is read in the other way. */
long ct_remote_task_number(int tasks, int pid, int tid, const char *title) {
    char path[32], text[4096];
    (void)snprintf(path, sizeof path, "%d/status", tid);
    int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        (void)close(fd);
    text[size > 0 ? size : 0] = 0;
    const char *line = strstr(text, title);
    if (line && (line == text || line[-1] == '\n'))
        return strtol(line + strlen(title), NULL, 10);
    return ct_remote_status_number(pid, tid, title, false);
}

bool ct_remote_has_inner_numbers(int pid) {
    char line[512];
    int columns = 0;
    if (!find_line(pid, pid, "NSpid:", line, sizeof line))
        return false;
    for (const char *at = line; *at; at++)
        columns += *at == '\t';
    return columns > 1;
}

char ct_remote_state(int pid, int tid) {
    char line[128];
    if (!find_line(pid, tid, "State:", line, sizeof line))
        return 0;
    return line[strspn(line + 6, " \t") + 6];
}

static ssize_t read_program(const char *who, char *path, size_t size) {
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/%s/exe", who);
    return readlink(link, path, size);
}

/* A tracer without a program is about to end. */
unsigned ct_remote_patience_ms(int tracer) {
    enum { OTHERS_MS = 200, OURS_MS = 3000 };
    char who[32], program[PATH_MAX], own[PATH_MAX];
    (void)snprintf(who, sizeof who, "%d", tracer);
    if (tracer > 0 && ct_remote_status_number(tracer, tracer, "Tgid:", false) == getpid())
        return OTHERS_MS; /* ourselves: nobody else will detach it */
    ssize_t size = tracer > 0 ? read_program(who, program, sizeof program) : 0;
    if (size < 0 && errno != ENOENT && errno != ESRCH)
        return OTHERS_MS;
    ssize_t own_size = read_program("self", own, sizeof own);
    return size <= 0 || (size == own_size && !memcmp(program, own, (size_t)size)) ? OURS_MS : OTHERS_MS;
}

static bool has_ended(int pid, int tid) {
    char state = ct_remote_state(pid, tid);
    return state == 0 || state == 'Z' || state == 'X';
}

int ct_remote_find_view(int pid) {
    char path[64];
    int found = 0;
    if (!has_ended(pid, pid))
        return pid;
    (void)snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *directory = opendir(path);
    if (!directory)
        return 0;
    for (struct dirent *entry; !found && (entry = readdir(directory));) {
        int tid = atoi(entry->d_name);
        if (tid > 0 && !has_ended(pid, tid))
            found = tid;
    }
    (void)closedir(directory);
    return found;
}

int ct_remote_read_auxv(struct ct_remote *remote) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/auxv", remote->view);
    FILE *file = fopen(path, "re");
    if (!file)
        return CT_ERR_NOT_FOUND;
    remote->auxv_count = fread(remote->auxv, sizeof remote->auxv[0], CT_REMOTE_AUXV, file);
    (void)fclose(file);
    return remote->auxv_count > 0 ? CT_OK : CT_ERR_NOT_FOUND;
}

const char *ct_remote_foreign(const uint8_t *header, size_t size) {
    Elf64_Ehdr elf;
    static const struct {
        uint16_t machine;
        const char *name;
    } others[] = {{EM_ARM, "a 32-bit arm program"}, {EM_386, "a 32-bit program"}, {EM_RISCV, "a RISC-V program"},
                  {EM_PPC64, "a POWER program"},    {EM_S390, "an s390 program"}, {EM_LOONGARCH, "a LoongArch program"},
                  {EM_MIPS, "a MIPS program"}};
    if (size < sizeof elf)
        return "an incomplete ELF file";
    memcpy(&elf, header, sizeof elf);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (elf.e_machine == others[i].machine)
            return others[i].name;
    const struct ct_machine *machine = ct_machine_by_elf(elf.e_machine);
    if (!machine)
        return "a program for another kind of machine";
    if (machine != ct_machine_host())
        return machine->program;
    return elf.e_ident[EI_CLASS] == ELFCLASS64 ? NULL : machine->small_program;
}

static bool is_at(const uint8_t *file, size_t size, uint64_t at, const char *text) {
    size_t length = strlen(text);
    return at < size && size - at >= length && memcmp(file + at, text, length) == 0;
}

bool ct_remote_is_bionic(const uint8_t *file, size_t size) {
    Elf64_Ehdr elf;
    Elf64_Phdr segment;
    if (size < sizeof elf)
        return false;
    memcpy(&elf, file, sizeof elf);
    for (size_t i = 0; i < elf.e_phnum && elf.e_phoff < size; i++) {
        size_t at = elf.e_phoff + i * sizeof segment;
        if (at > size || size - at < sizeof segment)
            return false;
        memcpy(&segment, file + at, sizeof segment);
        if (segment.p_type == PT_INTERP && (is_at(file, size, segment.p_offset, "/system/bin/linker") ||
                                            is_at(file, size, segment.p_offset, "/apex/com.android.runtime/")))
            return true;
        if (segment.p_type == PT_NOTE && is_at(file, size, segment.p_offset + sizeof(Elf64_Nhdr), "Android"))
            return true;
    }
    return false;
}
