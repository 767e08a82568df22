#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh [LIST...]: installs the Debian packages of packages.txt and of further lists that are missing, as root or
# with sudo. Says nothing when all are there. CONTRAIL_NO_SETUP=1 leaves the machine alone.
set -eu
cd "$(dirname "$0")/.."

[ -z "${CONTRAIL_NO_SETUP:-}" ] || exit 0
if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system: please see to the packages in packages.txt yourself" >&2
    exit 0
fi

wanted=$(sed 's/#.*//' packages.txt "$@")
# Debian has the headers of Node in a package of its own, which would bring Debian's Node: so only where that is, or
# none. Others bring their headers along.
if [ ! -e "${CONTRAIL_NODE_HEADERS:-/usr/include/node}" ]; then
    case $(dpkg-query --show --showformat='${Version}' nodejs 2>/dev/null) in
    *nodesource*) ;;
    '') command -v node >/dev/null || wanted="$wanted libnode-dev" ;;
    *) wanted="$wanted libnode-dev" ;;
    esac
fi
# shellcheck disable=SC2086  # the list is to be split
present=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
    sed -n 's/^installed //p' || true)
missing=
for package in $wanted; do
    printf '%s\n' "$present" | grep -qxF "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: these packages are missing, and installing them needs root or sudo:$missing" >&2
        exit 1
    fi
    as_root=sudo
fi

echo "setup: installing$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Once. The lock of the package lists is not waited for by apt-get itself.
install() {
    # shellcheck disable=SC2086
    $as_root apt-get $patience update -q &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get $patience install -q -y --no-install-recommends $missing
}

# Another apt-get may be at work (machines update themselves when they have just started), and mirrors fail now and
# then.
patience="-o Acquire::Retries=3 -o DPkg::Lock::Timeout=300"
for pause in 5 10 20 30 60 0; do
    if install >"$log" 2>&1; then
        exit 0
    fi
    [ "$pause" = 0 ] || sleep "$pause"
done
cat "$log" >&2
echo "setup: could not install$missing" >&2
exit 1
