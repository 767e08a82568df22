#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Looks for mistakes in shell scripts with shellcheck: in those that are named, or in all of the project.
set -eu
command -v shellcheck >/dev/null || {
    echo "check-shell: shellcheck is missing (make setup installs it)" >&2
    exit 1
}
if [ $# = 0 ]; then
    cd "$(dirname "$0")/.."
    # shellcheck disable=SC2046 # names without spaces
    set -- .ci/run $(find scripts tests -name '*.sh')
fi
# SC2016: programs in single quotes are for other interpreters, or for another shell. SC2317: functions that are called
# by their name as an argument.
shellcheck --exclude=SC2016,SC2317 --format=gcc "$@"
