#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh CONTRAIL: compiles examples/tour.c, records it, and shows what is in its trace. The trace stays in
# ./traces.
set -eu
root=$(dirname "$0")/..
contrail=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# show LINES COMMAND...: what one would type, and the first lines of what it answers.
show() {
    lines=$1
    shift
    echo
    echo "\$ contrail $(echo "$*" | sed "s|$work/|./|")"
    "$contrail" "$@" >"$work/output"
    head -n "$lines" "$work/output"
    more=$(($(wc -l <"$work/output") - lines))
    [ "$more" -le 0 ] || echo "... and $more more lines"
}

echo "\$ cc -O1 -fno-inline -pthread examples/tour.c -o tour"
${CC:-cc} -O1 -fno-inline -pthread "$root/examples/tour.c" -o "$work/tour"
show 5 spawn "$work/tour"
show 15 report
show 12 report --module tour --sort calls
show 25 replay --module tour
echo
echo "Next: contrail info; contrail replay; contrail spawn ANY-PROGRAM; contrail --help"
