#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prepares the guest in which arm64 tests run (docs/ARM64.md): a kernel, a small first file system that finds the disks,
# and the image of a Debian with what the tests use. Nothing is done when all of it is there and the lists are the same.
#
# usage: arm64-guest-setup.sh [DIRECTORY]   (build-arm64/guest by default; packages come through build-arm64/setup)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-$root/build-arm64/guest}
list=$root/packages-arm64-guest.txt
"$root/scripts/setup.sh" packages-arm64.txt packages-arm64-test.txt
mkdir -p "$dir"
cd "$dir"
PATH=$PATH:/usr/sbin:/sbin
wanted=$(cat "$list" "$root/scripts/arm64-guest-setup.sh" | sha256sum)
if [ -f "done" ] && [ "$(cat "done")" = "$wanted" ]; then
    exit 0
fi

packages() {
    "$root/scripts/arm64-packages.sh" "$root/build-arm64/setup/apt" "$@"
}

# The kernel of cloud machines: it has what a virtual machine needs, and few modules.
make_kernel() {
    rm -rf kernel
    packages kernel-debs "$(packages --depends linux-image-cloud-arm64)"
    dpkg -x kernel-debs/*.deb kernel
    cp kernel/boot/vmlinuz-* vmlinuz
}

# A Debian where no package was configured: files are enough for tests. /bin and /lib are links first, as Debian's
# own tools make them.
make_root() {
    rm -rf root
    mkdir -p root/{usr/{bin,sbin,lib},etc,proc,sys,dev,tmp,run,root,mnt,var/tmp}
    local name package
    for name in bin sbin lib; do
        ln -s usr/$name root/$name
    done
    mapfile -t names < <(sed -E 's/#.*//; /^$/d' "$list")
    packages debs --needed "${names[@]}"
    for package in debs/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --keep-directory-symlink -xf - -C root
    done
    rm -rf root/usr/share/{doc,man,locale,info} # a third of it
    ln -sf mawk root/usr/bin/awk
    ln -sf gcc root/usr/bin/cc
    ln -sf gdb root/usr/bin/gdb-multiarch
    echo 'root:x:0:0:root:/root:/bin/bash' >root/etc/passwd
    echo 'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin' >>root/etc/passwd
    printf 'root:x:0:\nnogroup:x:65534:\n' >root/etc/group
    echo '127.0.0.1 localhost guest' >root/etc/hosts
    echo guest >root/etc/hostname
    chmod 1777 root/tmp root/var/tmp
    rm -f root.ext4
    mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 -d root root.ext4 1400M
}

# Mounts the Debian, and beside it the disk with the project at the path that it has here.
make_first() {
    rm -rf first
    mkdir -p first/{bin,modules,proc,sys,dev,new}
    cp root/bin/busybox first/bin/
    cp kernel/lib/modules/*/kernel/drivers/virtio/virtio{,_ring,_pci_modern_dev,_pci_legacy_dev,_pci}.ko \
        kernel/lib/modules/*/kernel/drivers/block/virtio_blk.ko first/modules/
    cat >first/init <<'END'
#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
# Which module needs which one changes with kernels: what fails is tried again after the others.
for round in 1 2 3 4; do
    for module in /modules/*.ko; do
        busybox insmod $module 2>/dev/null
    done
done
n=0
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do
    n=$((n + 1))
    [ $n -lt 100 ] || break
    busybox sleep 0.1
done
busybox mount -t ext4 /dev/vda /new
project=$(busybox sed 's/.*project=//; s/ .*//' /proc/cmdline)
busybox mkdir -p "/new$project"
busybox mount -t ext4 /dev/vdb "/new$project"
busybox umount /proc
exec busybox switch_root /new /usr/bin/python3 "$project/scripts/arm64_inside.py"
END
    chmod +x first/init
    (cd first && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1) >first.cpio.gz
}

make_kernel
make_root
make_first
rm -rf kernel kernel-debs debs first
echo "$wanted" >"done"
