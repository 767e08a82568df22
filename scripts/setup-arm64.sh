#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prepares cross-compiling for arm64: the compiler, arm64 libraries in a folder of their own, a meson cross file.
#
# usage: setup-arm64.sh [DIRECTORY]   (build-arm64/setup by default); prints the cross file's name
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-$root/build-arm64/setup}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
list=$root/packages-arm64-libraries.txt
"$root/scripts/setup.sh" packages-arm64.txt

if ! cmp -s "$list" "$dir/done"; then
    mapfile -t libraries < <(sed -E 's/#.*//; /^$/d' "$list")
    rm -rf "$dir/sysroot"
    "$root/scripts/arm64-packages.sh" "$dir/apt" "$dir/debs" "${libraries[@]}"
    for package in "$dir"/debs/*.deb; do
        dpkg -x "$package" "$dir/sysroot"
    done
    cp "$list" "$dir/done"
fi

# The compiler has headers and libraries of libc; those of other packages are found in the folder.
# Objects are shared between trees where ccache is installed, as meson does it for the machine's own compiler.
cache=
command -v ccache >/dev/null && cache="'ccache', "
libraries_at=$dir/sysroot/usr/lib/aarch64-linux-gnu
cat >"$dir/cross.new" <<EOF
[binaries]
c = [$cache'aarch64-linux-gnu-gcc']
cpp = [$cache'aarch64-linux-gnu-g++']
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
objcopy = 'aarch64-linux-gnu-objcopy'
pkgconfig = 'pkg-config'
exe_wrapper = '$root/scripts/arm64-user.sh'

[built-in options]
c_args = ['-isystem', '$dir/sysroot/usr/include']
cpp_args = ['-isystem', '$dir/sysroot/usr/include']
c_link_args = ['-L$libraries_at', '-Wl,-rpath-link,$libraries_at:$dir/sysroot/lib/aarch64-linux-gnu']
cpp_link_args = ['-L$libraries_at', '-Wl,-rpath-link,$libraries_at:$dir/sysroot/lib/aarch64-linux-gnu']

[properties]
pkg_config_libdir = '$libraries_at/pkgconfig:$dir/sysroot/usr/share/pkgconfig'
sys_root = '$dir/sysroot'
needs_exe_wrapper = true

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
EOF
# A file that is newer than the build would be configured again.
cmp -s "$dir/cross.new" "$dir/cross.txt" || cp "$dir/cross.new" "$dir/cross.txt"
echo "$dir/cross.txt"
