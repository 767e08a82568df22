#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Function tables against elfutils, on every program and library of this machine.
set -eu
cd "$(dirname "$0")/.."

find /usr/bin /usr/sbin /usr/lib /usr/libexec -type f -size +0 -print0 2>/dev/null |
    xargs -0 -n 500 "${1:-build}/tests/unit/functions_oracle_test"
