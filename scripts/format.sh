#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Formats all C and C++ files; with --check only says which ones differ, and fails then.
set -eu
cd "$(dirname "$0")/.."

# Version 14 decides: other versions format differently.
tool=$(command -v clang-format-14 || command -v clang-format) || {
    echo "format: clang-format is missing (make setup installs it)" >&2
    exit 1
}
mode=-i
[ "${1:-}" != --check ] || mode='--dry-run --Werror'
# shellcheck disable=SC2086
git ls-files -z -- '*.c' '*.h' '*.cc' | xargs -0 "$tool" $mode
