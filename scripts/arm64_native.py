#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the project as an arm64 machine with Debian does: in such a Debian, under qemu's emulation of user programs.

usage: arm64_native.py [--directory DIRECTORY] [TARGET...]   `make TARGET...` there, of the last commit; default: tool

The Debian is made once (build-arm64/native). Its programs run in namespaces where the kernel knows the emulator (Linux
6.7 or newer), so nothing of this machine changes. It needs root and the network. Compilers are emulated too: it takes
hours. There is no ptrace, so tests of recordings run in the guest (arm64_guest.py).
"""

import argparse
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

PROJECT = pathlib.Path(__file__).resolve().parent.parent
SUITE = "bookworm"
NEWNS, NEWUSER, NEWPID, BIND, RECURSIVE, PRIVATE = 0x20000, 0x10000000, 0x20000000, 0x1000, 0x4000, 0x40000
FIRST_BYTES = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00"
MASK = b"\xff" * 7 + b"\x00" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
# container: debootstrap makes no devices then, which namespaces forbid.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb",
               "DEBIAN_FRONTEND": "noninteractive", "QEMU_CPU": "max,pauth-impdef=on,sve=off", "container": "lxc"}
libc = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags=0):
    must(libc.mount(source.encode(), str(target).encode(), kind and kind.encode(), flags, None), f"mounting {target}")


def enter(directory, command):
    """In the namespaces, as their first process."""
    root = directory / "root"
    mount("none", "/", None, RECURSIVE | PRIVATE)
    mount("binfmt_misc", "/proc/sys/fs/binfmt_misc", "binfmt_misc")
    texts = ["".join(f"\\x{byte:02x}" for byte in part) for part in (FIRST_BYTES, MASK)]
    with open("/proc/sys/fs/binfmt_misc/register", "w", encoding="ascii") as register:
        register.write(f":qemu-aarch64:M::{texts[0]}:{texts[1]}:{directory}/tools/usr/bin/qemu-aarch64-static:FPOC")
    mount("/dev", root / "dev", None, BIND | RECURSIVE)
    mount("proc", root / "proc", "proc")
    os.chroot(root)
    os.chdir("/")
    os.execvpe(command[0], command, ENVIRONMENT)


def inside(directory, *command):
    """Runs a command in the Debian; its exit code."""
    ready, mapped = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        must(libc.unshare(NEWUSER | NEWNS | NEWPID), "unshare")
        os.write(ready[1], b"x")
        os.read(mapped[0], 1)
        os.setgid(0)
        os.setuid(0)
        first = os.fork()
        if first == 0:
            enter(directory, command)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 255)
    os.read(ready[0], 1)
    for kind in "uid", "gid":
        pathlib.Path(f"/proc/{child}/{kind}_map").write_text("0 0 65536\n", encoding="ascii")
    os.write(mapped[1], b"x")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def mirror():
    """Where this machine's packages come from: there are arm64's, too."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
                            check=True, capture_output=True, text=True).stdout
    for place, release in (line.split() for line in listed.splitlines()):
        if release == SUITE:
            return place
    raise SystemExit(f"apt knows no source of Debian's packages ({SUITE}): add one to /etc/apt/sources.list")


def make_debian(directory):
    """Its packages are configured, as a machine's are."""
    if (directory / "done").exists():
        return
    root, tools = directory / "root", directory / "tools"
    for old in root, tools:
        shutil.rmtree(old, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "-q", "debootstrap", "qemu-user-static"], cwd=directory, check=True)
    for package in directory.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(tools)], check=True)
    subprocess.run([str(tools / "usr/sbin/debootstrap"), "--foreign", "--arch=arm64", "--variant=minbase",
                    "--include=ca-certificates,git,make", SUITE, str(root), mirror()], check=True,
                   env={**os.environ, "DEBOOTSTRAP_DIR": str(tools / "usr/share/debootstrap")})
    if inside(directory, "/debootstrap/debootstrap", "--second-stage"):
        raise SystemExit("the Debian could not be made")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    (directory / "done").touch()


def main(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("--directory", type=pathlib.Path, default=PROJECT / "build-arm64/native")
    parser.add_argument("targets", nargs="*", default=["tool"])
    options = parser.parse_args(arguments)
    directory = options.directory.resolve()
    make_debian(directory)
    copy = directory / "root/root/contrail"
    if not copy.exists():
        subprocess.run(["git", "clone", "-q", str(PROJECT), str(copy)], check=True)
    subprocess.run(["git", "pull", "-q", "--ff-only", str(PROJECT), "HEAD"], cwd=copy, check=True)
    return inside(directory, "make", "-C", "/root/contrail", *options.targets)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
