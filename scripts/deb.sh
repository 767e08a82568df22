#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deb.sh [DIRECTORY]: builds the Debian packages from a copy of the tree, so that nothing is left in it, puts them into
# DIRECTORY (build/deb), and has lintian look at them: it must have nothing to say.
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/deb}
version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" meson.build)
packaged=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
[ "$version" = "$packaged" ] || {
    echo "deb: debian/changelog has version $packaged, meson.build has $version" >&2
    exit 1
}

mkdir -p "$out"
out=$(realpath "$out")
tree=$out/contrail-$version
log=$out/build.log
rm -rf "$out"/contrail* "$out"/libcontrail* "$log"
mkdir "$tree"
if [ -e .git ] && command -v git >/dev/null; then
    git ls-files -z --cached --others --exclude-standard
else
    find . \( -path './build*' -o -path ./traces -o -name __pycache__ \) -prune -o -type f -print0
fi | tar --null --no-recursion --ignore-failed-read --files-from - --create 2>/dev/null |
    tar --extract --directory "$tree"

if ! (cd "$tree" && dpkg-buildpackage --no-sign) >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "deb: the packages could not be built; $log has it all" >&2
    exit 1
fi
rm -rf "$tree"
# As root, too: lintian says that it should not be, and works.
lintian --allow-root --fail-on error,warning --tag-display-limit 0 \
    "$out"/contrail_"$version"_*.changes
ls "$out"/*.deb
