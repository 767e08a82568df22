#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh installs what is missing, tries again when that fails for a while, gives up with a word in the end, and does
# nothing when all is there. With a dpkg-query, an apt-get and a sleep that only pretend. usage: setup_test.sh
# path/to/setup.sh
set -u
setup=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

pretend() {
    cat >"$work/$1"
    chmod +x "$work/$1"
}
# All but the last package are there; with $work/all that one, too.
pretend dpkg-query <<C
#!/bin/sh
shift 2
while [ \$# -gt 1 ] || { [ \$# = 1 ] && [ -e "$work/all" ]; }; do
    echo "installed \$1"
    shift
done
C
# Fails as often as $work/bad has lines.
pretend apt-get <<C
#!/bin/sh
echo "\$@" >>"$work/asked"
if [ -s "$work/bad" ]; then
    sed -i 1d "$work/bad"
    echo "E: Could not get lock"
    exit 100
fi
case " \$* " in *" install "*) touch "$work/all" ;; esac
C
pretend sleep <<C
#!/bin/sh
echo "\$1" >>"$work/slept"
C
pretend sudo <<C
#!/bin/sh
exec "\$@"
C

# run FAILURES: its exit code, with what it says in $work/said.
run() {
    rm -f "$work/all" "$work/asked" "$work/slept"
    yes | head -n "$1" >"$work/bad"
    PATH=$work:$PATH CONTRAIL_NO_SETUP='' CONTRAIL_NODE_HEADERS=/ sh "$setup" >"$work/said" 2>&1
}

expect() {
    what=$1
    shift
    if "$@"; then
        echo "ok: $what"
    else
        echo "FAILED: $what"
        cat "$work/said"
        failures=$((failures + 1))
    fi
}

expect "installs" run 0
expect "asks twice" test "$(wc -l <"$work/asked")" = 2
expect "does not wait for nothing" test ! -e "$work/slept"
expect "tries again" run 3
expect "waits in between" test "$(wc -l <"$work/slept")" = 3
expect "has installed then" test -e "$work/all"
run 1000
expect "gives up" test $? = 1
expect "shows why" grep -q "Could not get lock" "$work/said"
expect "names what is missing" grep -q "could not install ." "$work/said"

rm -f "$work/asked"
touch "$work/all"
PATH=$work:$PATH CONTRAIL_NO_SETUP='' sh "$setup" >"$work/said" 2>&1
expect "is quiet when all is there" test ! -s "$work/said" -a ! -e "$work/asked"

[ "$failures" = 0 ]
