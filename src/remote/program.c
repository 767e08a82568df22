/* SPDX-License-Identifier: Apache-2.0 */
/* Which file a program's name means, and whether it can be started and recorded. Checked before anything is started. */
#include "base/regular.h"
#include "isa/machine.h"
#include "remote/remote_internal.h"
#include "remote/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

enum { INTERPRETER_DEPTH = 5, HEAD_SIZE = 4096 }; /* the kernel follows as many */

/* ---- finding ---- */

static bool is_candidate(const char *path) {
    struct stat information;
    return stat(path, &information) == 0 && S_ISREG(information.st_mode);
}

static int say_not_in_path(const char *name, bool forbidden, struct ct_remote_error *error) {
    if (forbidden)
        return ct_remote_say(error, CT_ERR_PERMISSION_DENIED,
                             "%s is in PATH but is not executable: make it so with `chmod +x`", name);
    if (is_candidate(name))
        return ct_remote_say(error, CT_ERR_NOT_FOUND, "%s is not in PATH; for the one in this directory give ./%s",
                             name, name);
    return ct_remote_say(error, CT_ERR_NOT_FOUND, "there is no program %s in PATH: check the name or give its path",
                         name);
}

int ct_program_find(const char *name, char path[PATH_MAX], struct ct_remote_error *error) {
    bool forbidden = false;
    const char *at = getenv("PATH");
    if (!*name)
        return ct_remote_say(error, CT_ERR_NOT_FOUND,
                             "the program's name is empty: give a path or a name that is in PATH");
    if (strlen(name) >= PATH_MAX)
        return ct_remote_say(error, CT_ERR_NOT_FOUND, "the program's name is too long for a path");
    if (strchr(name, '/')) {
        (void)snprintf(path, PATH_MAX, "%s", name);
        return CT_OK;
    }
    for (at = at ? at : "/bin:/usr/bin"; at; at = strchr(at, ':'), at = at ? at + 1 : NULL) {
        int size = (int)strcspn(at, ":");
        if (snprintf(path, PATH_MAX, "%.*s%s%s", size, at, size ? "/" : "./", name) >= PATH_MAX || !is_candidate(path))
            continue;
        if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0)
            return CT_OK;
        forbidden = true;
    }
    return say_not_in_path(name, forbidden, error);
}

/* ---- checking ---- */

struct head {
    char bytes[HEAD_SIZE + 1];
    size_t size;
};

static int say_missing(const char *path, const char *user, int failure, struct ct_remote_error *error) {
    if (failure == EACCES)
        return ct_remote_say(error, CT_ERR_PERMISSION_DENIED,
                             "%s cannot be reached: you may not enter a directory of its path", path);
    if (failure == ELOOP)
        return ct_remote_say(error, CT_ERR_NOT_FOUND, "%s is a loop of symbolic links: correct them", path);
    if (user)
        return ct_remote_say(error, CT_ERR_NOT_FOUND, "%s needs %s to run, which does not exist: install or correct it",
                             user, path);
    return ct_remote_say(error, CT_ERR_NOT_FOUND, "there is no file %s: check the path", path);
}

static int check_file(const char *path, const char *user, struct stat *information, struct ct_remote_error *error) {
    if (stat(path, information) != 0)
        return say_missing(path, user, errno, error);
    if (S_ISDIR(information->st_mode))
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s is a directory: give a program in it", path);
    if (!S_ISREG(information->st_mode))
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s is not a regular file: give a program", path);
    if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) != 0)
        return ct_remote_say(error, CT_ERR_PERMISSION_DENIED,
                             "%s is not executable%s: make it so with `chmod +x`, or use a copy", path,
                             information->st_mode & 0111 ? " for you" : "");
    return CT_OK;
}

/* A program that may be executed but not read is left to the kernel. */
static bool read_head(const char *path, struct head *head) {
    head->size = 0;
    int fd = ct_open_regular(path);
    if (fd < 0)
        return false;
    ssize_t size = pread(fd, head->bytes, HEAD_SIZE, 0);
    (void)close(fd);
    head->size = size > 0 ? (size_t)size : 0;
    head->bytes[head->size] = 0;
    return size >= 0;
}

/* A traced exec gives new privileges only if the tracer has all of them. NULL: the file gives none. */
static const char *privileges(const char *path, const struct stat *information) {
    struct statvfs mount;
    if (geteuid() == 0 || (statvfs(path, &mount) == 0 && (mount.f_flag & ST_NOSUID)))
        return NULL;
    if ((information->st_mode & S_ISUID) && information->st_uid != geteuid())
        return "is setuid";
    if ((information->st_mode & S_ISGID) && (information->st_mode & S_IXGRP) && information->st_gid != getegid())
        return "is setgid";
    return getxattr(path, "security.capability", NULL, 0) > 0 ? "has file capabilities" : NULL;
}

static int check_privileges(const char *path, const struct stat *information, struct ct_remote_error *error) {
    const char *what = privileges(path, information);
    return what ? ct_remote_say(error, CT_ERR_SPAWN_FAILED,
                                "%s %s: under contrail it would run without those privileges; run contrail as root",
                                path, what)
                : CT_OK;
}

static bool is_text(const struct head *head) {
    size_t size = strcspn(head->bytes, "\n");
    for (size_t i = 0; i < size && i < head->size; i++)
        if ((unsigned char)head->bytes[i] < ' ' && head->bytes[i] != '\t' && head->bytes[i] != '\r')
            return false;
    return head->size > 0 && size < head->size + 1;
}

static int check_elf(const char *path, const struct head *head, struct ct_remote_error *error) {
    Elf64_Ehdr elf;
    const char *foreign = ct_remote_foreign((const uint8_t *)head->bytes, head->size);
    if (foreign)
        return ct_remote_say(error, CT_ERR_UNSUPPORTED, "%s is %s: this contrail records %s programs only", path,
                             foreign, ct_machine_host()->name);
    if (ct_remote_is_bionic((const uint8_t *)head->bytes, head->size))
        return ct_remote_say(error, CT_ERR_UNSUPPORTED, "%s is a program " CT_REMOTE_BIONIC, path);
    memcpy(&elf, head->bytes, sizeof elf);
    if (elf.e_type != ET_EXEC && elf.e_type != ET_DYN)
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s is an ELF file but no program (an object or core file)",
                             path);
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        Elf64_Phdr segment;
        uint64_t at = elf.e_phoff + (uint64_t)i * sizeof segment;
        if (at > head->size || head->size - at < sizeof segment)
            break;
        memcpy(&segment, head->bytes + at, sizeof segment);
        if (segment.p_type == PT_INTERP && segment.p_offset < head->size &&
            access(head->bytes + segment.p_offset, F_OK) != 0 && errno == ENOENT)
            return say_missing(head->bytes + segment.p_offset, path, ENOENT, error);
    }
    return CT_OK;
}

static int say_no_program(const char *path, const struct head *head, struct ct_remote_error *error) {
    if (head->size == 0)
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s is empty: there is nothing to run", path);
    if (is_text(head))
        return ct_remote_say(error, CT_ERR_SPAWN_FAILED,
                             "%s is a script without an interpreter line: begin it with #!/bin/sh, or run `sh %s`",
                             path, path);
    return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s is neither an ELF program nor a script", path);
}

/* The word after #!, in place. */
static char *interpreter_of(struct head *head) {
    char *at = head->bytes + 2;
    at[strcspn(at, "\n")] = 0;
    at += strspn(at, " \t");
    at[strcspn(at, " \t\r")] = 0;
    return at;
}

/* ---- env ---- */

/* Accepts only what env takes as plain words: no options but -S, no assignments, nothing quoted. */
static bool split_env_line(char *line, struct ct_program_words *words) {
    words->count = 0;
    line += strspn(line, " \t");
    bool several = strncmp(line, "-S", 2) == 0;
    line += several ? 2 : 0;
    if (strpbrk(line, "\"'\\$#=\r") || (!several && strpbrk(line, " \t")))
        return false;
    for (char *rest = NULL, *word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (words->count == CT_PROGRAM_WORDS)
            return false;
        words->word[words->count++] = word;
    }
    return words->count > 0 && words->word[0][0] != '-';
}

int ct_program_skip_env(char path[PATH_MAX], struct ct_program_words *words, struct ct_remote_error *error) {
    struct head head;
    words->count = 0;
    if (!read_head(path, &head) || strncmp(head.bytes, "#!", 2) != 0 || strcspn(head.bytes, "\n") >= CT_PROGRAM_LINE)
        return CT_OK;
    (void)snprintf(words->line, sizeof words->line, "%.*s", (int)strcspn(head.bytes, "\n"), head.bytes);
    const char *interpreter = interpreter_of(&head);
    const char *name = strrchr(interpreter, '/');
    if (!name || strcmp(name, "/env") != 0 ||
        !split_env_line(words->line + (interpreter - head.bytes) + strlen(interpreter), words)) {
        words->count = 0;
        return CT_OK;
    }
    char script[PATH_MAX];
    memcpy(script, path, sizeof script);
    int status = ct_program_find(words->word[0], path, NULL);
    return status == CT_OK ? CT_OK
                           : ct_remote_say(error, status, "%s needs %s to run, which is not in PATH: install it",
                                           script, words->word[0]);
}

int ct_program_check(const char *program, struct ct_remote_error *error) {
    char path[PATH_MAX], user[PATH_MAX] = "";
    struct head head;
    struct stat information;
    (void)snprintf(path, sizeof path, "%s", program);
    for (int depth = 0; depth <= INTERPRETER_DEPTH; depth++) {
        int status = check_file(path, *user ? user : NULL, &information, error);
        if (status != CT_OK)
            return status;
        if (!read_head(path, &head))
            return check_privileges(path, &information, error);
        if (head.size >= SELFMAG && memcmp(head.bytes, ELFMAG, SELFMAG) == 0) {
            status = check_elf(path, &head, error);
            return status == CT_OK ? check_privileges(path, &information, error) : status;
        }
        if (strncmp(head.bytes, "#!", 2) != 0)
            return say_no_program(path, &head, error);
        const char *interpreter = interpreter_of(&head);
        if (!*interpreter)
            return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s names no interpreter after its #!", path);
        memcpy(user, path, sizeof user);
        (void)snprintf(path, sizeof path, "%s", interpreter);
    }
    return ct_remote_say(error, CT_ERR_SPAWN_FAILED, "%s: its interpreters are scripts too, too many for the kernel",
                         program);
}

/* ---- what another process is about to execute ---- */

/* The path of `name` as that process sees it. */
static bool place_of(int pid, int directory, const char *name, char path[PATH_MAX]) {
    int size;
    if (name[0] == '/')
        size = snprintf(path, PATH_MAX, "/proc/%d/root%s", pid, name);
    else if (name[0] && directory == AT_FDCWD)
        size = snprintf(path, PATH_MAX, "/proc/%d/cwd/%s", pid, name);
    else
        size = snprintf(path, PATH_MAX, "/proc/%d/fd/%d%s%s", pid, directory, name[0] ? "/" : "", name);
    return size < PATH_MAX;
}

void ct_program_look(int pid, int directory, const char *name, struct ct_program_kind *kind) {
    char path[PATH_MAX];
    struct head head;
    struct stat information;
    *kind = (struct ct_program_kind){NULL, NULL};
    for (int depth = 0; depth <= INTERPRETER_DEPTH; depth++) {
        if (!place_of(pid, directory, name, path) || stat(path, &information) != 0 || !(information.st_mode & 0111))
            return;
        if (!read_head(path, &head) || strncmp(head.bytes, "#!", 2) != 0) {
            kind->privileges = privileges(path, &information);
            if (head.size >= SELFMAG && memcmp(head.bytes, ELFMAG, SELFMAG) == 0)
                kind->foreign = ct_remote_foreign((const uint8_t *)head.bytes, head.size);
            return;
        }
        name = interpreter_of(&head);
        directory = AT_FDCWD;
    }
}
