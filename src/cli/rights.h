/* Commands that read traces give up what rights they have: traces hold what hostile programs have written. docs/TRUST.md,
 * "Readers". */
#ifndef CT_CLI_RIGHTS_H
#define CT_CLI_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Who reads. */
struct ct_rights {
    uid_t user;
    gid_t group;
    bool search; /* with the right to read all files (CAP_DAC_READ_SEARCH), and no other */
};

/* Who we become to read these traces: their owner; for root's own, and those that their owner cannot get at, nobody, with the right to
 * read. Whoever is not root stays the same. */
struct ct_rights ct_rights_to_read(char *const *traces, int count);
/* For the command that writes to the trace: its owner, with the right to read (debug files may be anybody's), if that is not us. */
struct ct_rights ct_rights_to_write(char *const *traces, int count);
/* For the command that talks to the recorder, which knows us: the user that we are; with the right to read what is another's. */
struct ct_rights ct_rights_to_talk(char *const *traces, int count);

/* For good: user, capabilities, what an exec could give, and system calls that reading does not need. `sockets`: those stay. What the
 * machine does not let us give up, we keep. */
void ct_rights_drop(const struct ct_rights *rights, bool sockets);

#endif
