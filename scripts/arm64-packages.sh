#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Downloads arm64 packages of Debian through an apt state of its own. With `dpkg --add-architecture arm64` a later
# install could replace a program of this machine by its arm64 twin.
#
# usage: arm64-packages.sh STATE DIRECTORY [--needed] PACKAGE...   --needed: also all packages that they depend on
#        arm64-packages.sh STATE --depends PACKAGE                 prints the first package that PACKAGE depends on
set -euo pipefail
mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
state=$(cd "$1" && pwd)
shift
[ -f "$state/status" ] || : >"$state/status"
options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::Lists=$state/lists"
    -o "Dir::Cache=$state/cache" -o "Dir::State::status=$state/status" -o APT::Sandbox::User=root
    -o Acquire::Retries=3)
# Lists of the last hour are new enough.
if [ -z "$(find "$state/updated" -mmin -60 2>/dev/null)" ]; then
    apt-get "${options[@]}" update -qq >&2
    touch "$state/updated"
fi
if [ "$1" = --depends ]; then
    apt-cache "${options[@]}" depends "$2" | awk '/Depends:/ { print $2; exit }'
    exit
fi
rm -rf "$1"
mkdir -p "$1"
cd "$1"
shift
if [ "$1" = --needed ]; then
    shift
    mapfile -t names < <(apt-get "${options[@]}" install --simulate -qq --no-install-recommends "$@" |
        awk '$1 == "Inst" { print $2 }')
    set -- "${names[@]}"
fi
apt-get "${options[@]}" download -qq "$@" >&2
