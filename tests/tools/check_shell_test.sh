#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/check-shell.sh finds a mistake, and nothing in a script without one. usage: check_shell_test.sh SCRIPT
set -u
script=$1
command -v shellcheck >/dev/null || {
    echo "skipped: no shellcheck"
    exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2016 # not for this shell
{
    printf '%s\n' '#!/bin/sh' 'echo "$1"' >"$work/good.sh"
    printf '%s\n' '#!/bin/sh' 'rm -rf $1/cache' >"$work/bad.sh"
}
"$script" "$work/good.sh" || {
    echo "FAILED: a good script is refused"
    exit 1
}
said=$("$script" "$work/good.sh" "$work/bad.sh") && {
    echo "FAILED: an unquoted variable is not found"
    exit 1
}
case $said in
*bad.sh:2:*SC2086*) ;;
*)
    echo "FAILED: it says $said"
    exit 1
    ;;
esac
"$script" # all of the project
