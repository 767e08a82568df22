#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install_test.sh BUILD CC...: what is installed is enough to use the library as its users do, through pkg-config,
# shared and static, from C; and the static library does not hook itself. Shells find their completion.
set -eu
build=$1
shift # the rest is the compiler: perhaps ccache, and then that
examples=$(dirname "$0")/../../examples
unset LD_LIBRARY_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work meson install -C "$build" --no-rebuild >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
pc=$(find "$work" -name libcontrail.pc)
[ -n "$pc" ] || { echo "no libcontrail.pc"; exit 1; }
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$work"
libdir=$(dirname "${pc%/*}")
cat >"$work/user.c" <<'C'
#include <contrail/contrail.h>
#include <stdio.h>
#include <string.h>
static unsigned long events;
static void count(void *arg, int tid, const struct ct_event *e, size_t n) {
    (void)arg; (void)tid; (void)e; events += n;
}
__attribute__((noinline)) int work(int n) { __asm__ volatile(""); return n ? work(n - 1) + 1 : 0; }
int main(void) {
    struct ct_hooks *hooks;
    struct ct_hooks_module program = {.size = sizeof program};
    struct ct_hooks_statistics s = {.size = sizeof s};
    if (ct_hooks_create(&hooks, NULL) || ct_hooks_set_sink(hooks, count, NULL, 0) ||
        ct_hooks_attach_module(hooks, &program))
        return 1;
    struct ct_hook_listener none = {.size = sizeof none};
    if (ct_hooks_attach(hooks, (void *)ct_hooks_create, &none, NULL) != CT_ERR_OWN_CODE)
        return 2;
    int result = work(100);
    ct_hooks_flush(hooks);
    ct_hooks_statistics(hooks, &s);
    ct_hooks_destroy(hooks);
    printf("%s %d %lu\n", ct_version(), result, events);
    return result == 100 && events == 202 ? 0 : 3;
}
C
# shellcheck disable=SC2046
"$@" -O1 -fno-optimize-sibling-calls -o "$work/shared" "$work/user.c" $(pkg-config --cflags --libs libcontrail)
LD_LIBRARY_PATH=$libdir "$work/shared"
# shellcheck disable=SC2046
"$@" -O1 -fno-optimize-sibling-calls -o "$work/static" "$work/user.c" \
    $(pkg-config --cflags libcontrail) "$libdir/libcontrail.a" \
    $(pkg-config --static --libs libcontrail | tr " " "\n" | grep -v -e -lcontrail -e ^-L)
"$work/static"
# The example of the Stalker counts as it says: the function that qsort calls is among the blocks executed most.
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror -O1 -g -o "$work/hot_blocks" "$examples/hot_blocks.c" \
    $(pkg-config --cflags --libs libcontrail)
LD_LIBRARY_PATH=$libdir "$work/hot_blocks" >"$work/hot_blocks.out"
awk '/hot_blocks\+/ && $1 > 200000 { found = 1 } END { exit !found }' "$work/hot_blocks.out" ||
    { cat "$work/hot_blocks.out"; exit 1; }
"$(find "$work" -path '*/bin/contrail')" --version
for file in share/bash-completion/completions/contrail share/zsh/site-functions/_contrail; do
    [ -n "$(find "$work" -path "*/$file" -size +0)" ] || { echo "no $file"; exit 1; }
done
