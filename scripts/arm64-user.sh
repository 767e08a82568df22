#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs an arm64 program on this machine, under qemu's emulation of user programs: `arm64-user.sh PROGRAM ARGUMENT...`.
# There is no ptrace, and programs that it starts are not emulated: tests that need these run in the guest
# (scripts/arm64_guest.py).
#
# pauth-impdef: the architected algorithm is slow. sve: with it, what a handler changes in vector registers is lost.
set -eu
export CONTRAIL_TEST_EMULATED=1
sysroot=$(cd "$(dirname "$0")/.." && pwd)/build-arm64/setup/sysroot
exec qemu-aarch64 -cpu "${QEMU_CPU:-max,pauth-impdef=on,sve=off}" -L /usr/aarch64-linux-gnu \
    -E "LD_LIBRARY_PATH=$sysroot/usr/lib/aarch64-linux-gnu:$sysroot/lib/aarch64-linux-gnu" "$@"
