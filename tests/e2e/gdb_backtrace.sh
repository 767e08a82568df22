#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gdb sees the program's own frames through hooked ones, with the unwinder script that comes with Contrail:
# the same functions as in an unhooked run, from the innermost to main; and the program goes on unharmed.
# usage: gdb_backtrace.sh PROGRAM UNWINDER
program=$1
unwinder=$2
command -v gdb >/dev/null || { echo "skipped: no gdb"; exit 77; }
[ -f "$unwinder" ] || { echo "skipped: no $unwinder"; exit 77; }

frames() {
    gdb -batch -nx -ex 'set confirm off' -ex 'set debuginfod enabled off' -ex "source $unwinder" \
        -ex 'break gdb_stop_here' -ex run -ex bt -ex continue --args "$program" "$@" 2>&1
}
# jumps_on has left the stack by a tail call; gdb guesses it back in where debug information allows.
names() { sed -nE 's/^#[0-9]+ +(0x[0-9a-f]+ in )?([A-Za-z_0-9]+).*/\2/p' | grep -v jumps_on; }

plain=$(frames --plain)
status=0
for mode in "" --listen; do
    hooked=$(frames $mode)
    if [ "$(printf '%s\n' "$plain" | names)" != "$(printf '%s\n' "$hooked" | names)" ]; then
        printf 'the backtraces differ\nunhooked:\n%s\nhooked %s:\n%s\n' "$plain" "$mode" "$hooked"
        status=1
    fi
    case $hooked in
    *'exited normally'*) ;;
    *) printf 'the program did not end well:\n%s\n' "$hooked"; status=1 ;;
    esac
done
printf '%s\n' "$plain" | names | grep -qx main || { echo "gdb shows no main:"; printf '%s\n' "$plain"; status=1; }
exit $status
