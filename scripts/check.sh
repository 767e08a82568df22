#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What to run before each commit (`make check`): layers, format, the unit suite as gcc compiles it, and the hazards that
# have found most mistakes. `make test` has the rest.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}

hazards="backtrace cancel coroutines entry_shapes exceptions exceptions_signals fork longjmp profiled recursion \
    registers short_functions signals stepping stress tail_calls threads toggling unload vectors \
    record_closes_all record_constructors"

scripts/check-layers.sh
scripts/check_sources.py
scripts/format.sh --check
scripts/check-shell.sh
# shellcheck disable=SC2086
meson test -C "$build" --no-rebuild --print-errorlogs --quiet --suite unit
# shellcheck disable=SC2086
meson test -C "$build" --no-rebuild --print-errorlogs --quiet $hazards
