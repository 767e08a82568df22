/* letter forked|exec PID [TID]: asks contrail, in the name of another process, to follow it.
 *
 * The letter says that PID is a child that was just forked, or that it is about to execute a program. */
#include "hostile.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static char program[] = "/bin/true";

int main(int argc, char **argv) {
    struct hostile_lane lane;
    if (argc < 3)
        hostile_end("usage: letter forked|exec PID [TID]");
    hostile_begin();
    hostile_wait_for_lane(&lane);
    struct ct_shm_letter letter = {
        .kind = !strcmp(argv[1], "exec") ? CT_LETTER_EXEC : CT_LETTER_FORKED,
        .pid = atoi(argv[2]),
        .tid = atoi(argv[argc > 3 ? 3 : 2]),
        .argument = (uintptr_t)program,
        .directory = AT_FDCWD,
    };
    hostile_post(&lane, &letter);
    hostile_say("attacked");
    hostile_say("answer %d", hostile_answer(&lane));
    hostile_beat_on();
}
