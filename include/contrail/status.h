/* SPDX-License-Identifier: Apache-2.0 */
/* Result codes. A public function returns 0 or one of these negative values, unless its comment says otherwise.
 *
 * The list exists once, here: name, value and the sentence that a user reads. Values never change; new codes are
 * appended. */
#ifndef CONTRAIL_STATUS_H
#define CONTRAIL_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* clang-format off */
#define CT_STATUS_LIST(X) \
    X(INIT_FAILED,        -1, "initialization failed") \
    X(SPAWN_FAILED,       -2, "the program could not be started") \
    X(ATTACH_FAILED,      -3, "the process could not be attached to") \
    X(HOOK_FAILED,        -4, "the hook could not be installed") \
    X(PERMISSION_DENIED,  -5, "permission denied") \
    X(TIMEOUT,            -6, "timed out") \
    X(INVALID_ARGUMENT,   -7, "invalid argument") \
    X(NO_MEMORY,          -8, "out of memory") \
    X(NOT_MAPPED,         -9, "the address is not mapped") \
    X(NOT_CODE,          -10, "the address is not executable code") \
    X(NOT_FUNCTION,      -11, "the address is not the start of a hookable function") \
    X(ALREADY_HOOKED,    -12, "the function is hooked already") \
    X(INSIDE_HOOK,       -13, "the address lies inside another hook") \
    X(OWN_CODE,          -14, "the address belongs to Contrail itself") \
    X(NOT_FOUND,         -15, "not found") \
    X(BAD_INSTRUCTION,   -16, "not a valid instruction") \
    X(TRUNCATED,         -17, "the bytes end inside an instruction") \
    X(OUT_OF_RANGE,      -18, "out of branch reach") \
    X(NO_SPACE,          -19, "no space left in the buffer") \
    X(UNSUPPORTED,       -20, "not supported on this machine") \
    X(BAD_FILE,          -21, "the file is damaged or not of the expected kind") \
    X(BUSY,              -22, "busy: another operation is in progress") \
    X(SYSTEM,            -23, "a system call failed") \
    X(BAD_STATE,         -24, "the call is not allowed in this state") \
    X(FILE_LIMIT,        -25, "the limit of a file's size is reached (ulimit -f)") \
    X(QUOTA,             -26, "the disk quota of this user is used up") \
    X(NO_THREADS,        -27, "no thread could be started: raise the limit of processes and threads " \
                              "(ulimit -u, or pids.max of the container)") \
    X(UNKNOWN_FIELD,     -28, "the program sets a field that this libcontrail does not have: it needs a newer one")
/* clang-format on */

enum ct_status {
    CT_OK = 0,
#define CT_STATUS_ENUM(name, value, text) CT_ERR_##name = value,
    CT_STATUS_LIST(CT_STATUS_ENUM)
#undef CT_STATUS_ENUM
};

/* "ERR_TIMEOUT"; "OK" for 0. Never NULL. */
const char *ct_status_name(int status);

/* The sentence for a user, without a full stop. Never NULL. */
const char *ct_status_text(int status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
