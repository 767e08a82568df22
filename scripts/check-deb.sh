#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages (scripts/deb.sh, with lintian), installs them into an empty root, uses what is in them, and
# removes them again.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
say() { echo "check-deb: $*" >&2; }

scripts/deb.sh "$scratch/deb"

root=$scratch/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/tmp"
touch "$root/var/lib/dpkg/status"
in_root() {
    dpkg --root="$root" --log=/dev/null --force-not-root --force-depends --no-triggers "$@" >"$scratch/log" 2>&1 || {
        cat "$scratch/log" >&2
        exit 1
    }
}
in_root --install "$scratch"/deb/contrail_*.deb "$scratch"/deb/libcontrail0_*.deb "$scratch"/deb/libcontrail-dev_*.deb

# The tool: records, and reads what it has recorded. Its manual pages and completions are there.
contrail=$root/usr/bin/contrail
"$contrail" spawn --output "$scratch/traces" /bin/true
"$contrail" verify "$scratch"/traces/session_*
"$contrail" report --limit 3 "$scratch"/traces/session_* | grep -q main || {
    say "the report of /bin/true has no main"
    exit 1
}
for command in "" $("$contrail" --help | sed -n 's/^  \([a-z]*\) .*/-\1/p'); do
    gzip -t "$root/usr/share/man/man1/contrail$command.1.gz"
done
test -s "$root/usr/share/bash-completion/completions/contrail"
test -s "$root/usr/share/zsh/site-functions/_contrail"

# The library: the example of README.md.
sed -n '/^```c$/,/^```$/{/^```/d;p}' README.md >"$scratch/watch.c"
libraries=$root/usr/lib/$(gcc -print-multiarch)
# shellcheck disable=SC2046  # the flags are to be split
gcc "$scratch/watch.c" -o "$scratch/watch" $(PKG_CONFIG_PATH=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root \
    pkg-config --cflags --libs libcontrail)
LD_LIBRARY_PATH=$libraries "$scratch/watch" 2>&1 >/dev/null | grep -q '^puts("hello") called from'

# Each package must recommend what the tool loads when it is there.
for library in libdw1 liblzma5; do
    dpkg-deb --field "$scratch"/deb/contrail_*.deb Recommends | grep -qw "$library"
done

in_root --purge contrail libcontrail-dev libcontrail0
left=$(find "$root/usr" -name '*contrail*' 2>/dev/null || true)
[ -z "$left" ] || {
    say "left behind: $left"
    exit 1
}
say "built, installed, used, removed"
