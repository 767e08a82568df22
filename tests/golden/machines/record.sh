#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Records sample.c on this machine: what each build reads of the other one's (tests/golden/meson.build). The archive goes
# to standard output: the trace, and the program in base64, because a guest has nothing but its console.
#
# usage: record.sh CONTRAIL >x86_64.tar.xz.base64
#        scripts/arm64_guest.py build-arm64/tree -- tests/golden/machines/record.sh build-arm64/tree/src/cli/contrail
# then: base64 -d <...base64 >tests/golden/machines/MACHINE.tar.xz; meson test -C build machines (--update: see
# reading.py)
set -eu
here=$(dirname "$(realpath "$0")")
contrail=$(realpath "$1")
directory=/tmp/recorded # the trace has it
mkdir "$directory"
trap 'rm -rf "$directory"' EXIT
machine=$(uname -m)
mkdir -p "$directory/$machine"
cd "$directory/$machine"
gcc -O1 -g -fdebug-prefix-map="$here=." -pthread "$here/sample.c" -o sample
"$contrail" spawn --quiet --startup-timeout 120 --output traces --detail always --trigger crash --strings 64 --structs --vectors \
    --stack-bytes 256 --only sample -- ./sample >/dev/null 2>&1 || true
mv traces/session_* session
"$contrail" stalk --quiet --startup-timeout 120 --output traces --events call,ret,block --exclude 'ld-linux*' \
    -- ./sample >/dev/null 2>&1 || true
mv traces/session_* followed
rmdir traces
sed -i 's/"host": *"[^"]*"/"host": "host"/; s/"kernel": *"[^"]*"/"kernel": "6.1.0"/' ./*/pid_*/manifest.json
cd ..
tar --owner=0 --group=0 --sort=name -cJf - "$machine" | base64
