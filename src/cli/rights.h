/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that read traces give up their rights: traces contain what hostile programs have written. See docs/TRUST.md,
 * "Readers". */
#ifndef CT_CLI_RIGHTS_H
#define CT_CLI_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The user that reads. */
struct ct_rights {
    uid_t user;
    gid_t group;
    bool search; /* with the right to read all files (CAP_DAC_READ_SEARCH), and no other */
};

/* The user to become for reading these traces: their owner. For traces of root, and traces that their owner has no
 * access to: nobody, with the right to read. Users other than root stay what they are. */
struct ct_rights ct_rights_to_read(char *const *traces, int count);
/* For a command that writes to the trace: its owner, with the right to read (debug files may belong to anybody), if
 * that is not us. */
struct ct_rights ct_rights_to_write(char *const *traces, int count);
/* For a command that talks to the recorder, which knows us: the current user, with the right to read files of
 * others. */
struct ct_rights ct_rights_to_talk(char *const *traces, int count);

/* Gives up, permanently: user, capabilities, rights that an exec could give, and system calls that reading does not
 * need. `sockets`: keeps those for sockets. Keeps what the machine does not let us give up. */
void ct_rights_drop(const struct ct_rights *rights, bool sockets);

#endif
