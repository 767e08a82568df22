/* SPDX-License-Identifier: Apache-2.0 */
/* steps PROGRAM [ARGUMENT...]: runs it one instruction at a time and prints the places of all instructions of its own
 * file that it executes, in order, as offsets from where the file is loaded. What it writes goes to stderr.
 *
 * The loader runs freely: it has a hundred thousand instructions, and a step between exclusive instructions of arm64
 * makes them fail each time. */
#include <elf.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined __x86_64__
#define PC(regs) (regs).rip
enum { BREAKPOINT = 0xcc, BREAKPOINT_MASK = 0xff, BREAKPOINT_SIZE = 1 }; /* pc is after it then */
#else
#define PC(regs) (regs).pc
enum { BREAKPOINT = 0xd4200000, BREAKPOINT_MASK = 0xffffffff, BREAKPOINT_SIZE = 0 };
#endif

static int find_file(pid_t pid, const char *path, uint64_t *start, uint64_t *end) {
    char name[64], line[4096];
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *maps = fopen(name, "r");
    *start = *end = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        uint64_t from, to;
        line[strcspn(line, "\n")] = 0;
        const char *file = strchr(line, '/');
        if (!file || strcmp(file, path) || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        *start = *start ? *start : from;
        *end = to;
    }
    if (maps)
        fclose(maps);
    return *start != 0;
}

/* The program's first instruction, from the vector that the kernel gives to the loader; 0: it cannot be read. */
static uint64_t entry_of(pid_t pid) {
    char name[64];
    uint64_t entry[2] = {0, 0};
    snprintf(name, sizeof name, "/proc/%d/auxv", pid);
    FILE *vector = fopen(name, "r");
    while (vector && fread(entry, sizeof entry, 1, vector) == 1 && entry[0] != AT_ENTRY)
        ;
    if (vector)
        fclose(vector);
    return entry[0] == AT_ENTRY ? entry[1] : 0;
}

static int run_to(pid_t pid, uint64_t address) {
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    int status;
    uint64_t word = (uint64_t)ptrace(PTRACE_PEEKTEXT, pid, address, 0);
    ptrace(PTRACE_POKETEXT, pid, address, (word & ~(uint64_t)BREAKPOINT_MASK) | BREAKPOINT);
    ptrace(PTRACE_CONT, pid, 0, 0);
    waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
        return 0;
    ptrace(PTRACE_POKETEXT, pid, address, word);
    ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &all);
    PC(regs) -= BREAKPOINT_SIZE;
    ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &all);
    return PC(regs) == address;
}

int main(int argc, char **argv) {
    char path[4096];
    if (argc < 2 || !realpath(argv[1], path))
        return 2;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(2, 1);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    uint64_t start, end;
    int status;
    waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status) || !find_file(pid, path, &start, &end) || !run_to(pid, entry_of(pid)))
        return 2;
    for (;;) {
        struct user_regs_struct regs;
        struct iovec all = {&regs, sizeof regs};
        ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &all);
        uint64_t pc = PC(regs);
        if (pc >= start && pc < end)
            printf("%lx\n", pc - start);
        ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
        waitpid(pid, &status, 0);
        if (!WIFSTOPPED(status))
            break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}
