#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is not recorded runs as it would by itself, and is reported: programs that gain rights, programs of other
machines, code that a program makes at run time.

Usage: left_alone.py CONTRAIL"""
import contextlib
import glob
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import threading
import time
import unittest

import session_case
from recorder import read_line

ON_X86_64 = platform.machine() == "x86_64"

WHO = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int user(void) { return (int)geteuid(); }
int main(void) { printf("user %d\\n", user()); return 7; }
"""

# Without a libc of its kind: writes "32\n", exits with 9. (On arm64: arm_program().)
SMALL = """
void _start(void) {
    __asm__ volatile("mov $4, %eax; mov $1, %ebx; call 1f; .ascii \\"32\\\\n\\"; 1: pop %ecx; mov $3, %edx; int $0x80;"
                     "mov $1, %eax; mov $9, %ebx; int $0x80");
}
"""

JIT = """
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int rest(void) { char byte; return read(0, &byte, 1); }
int main(void) {
#ifdef __x86_64__
    static const unsigned char code[] = {0x8d, 0x04, 0x7f, 0xc3}; /* lea eax, [rdi + rdi * 2]; ret */
#else
    static const unsigned code[] = {0x0b000400, 0xd65f03c0}; /* add w0, w0, w0, lsl #1; ret */
#endif
    int sum = 0, file = memfd_create("engine", 0);
    if (ftruncate(file, 4096)) return 1;
    for (int i = 0; i < 4; i++) {
        void *at = i == 3 ? mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                          : mmap((void *)(0x200000000l + i * 0x100000), 4096, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(at, code, sizeof code);
        __builtin___clear_cache(at, (char *)at + sizeof code);
        mprotect(at, 4096, PROT_READ | PROT_EXEC);
        for (int k = 0; k < 1000; k++) sum += ((int (*)(int))at)(k);
    }
    puts("made");
    fflush(stdout);
    rest();
    printf("%d\\n", sum);
    return 0;
}
"""


def arm_program():
    """32-bit: write(1, "32\\n", 3); exit(9)"""
    code = [0xe3a00001, 0xe28f1014, 0xe3a02003, 0xe3a07004, 0xef000000, 0xe3a00009, 0xe3a07001, 0xef000000]
    body = struct.pack("<8I", *code) + b"32\n"
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 40, 1, 0x10054, 52, 0, 0x5000400, 52,
                                                             32, 1, 0, 0, 0)
    segment = struct.pack("<8I", 1, 0, 0x10000, 0x10000, 84 + len(body), 84 + len(body), 5, 0x1000)
    return header + segment + body


def x86_64_program():
    """write(1, "x86\\n", 4); exit(9)"""
    body = bytes.fromhex("6a01586a015f488d350d0000006a045a0f056a3c586a095f0f05") + b"x86\n"
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x400078, 64, 0, 0, 64, 56, 1,
                                                             0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 120 + len(body), 120 + len(body), 0x1000)
    return header + segment + body


def arm64_program():
    """write(1, "arm\\n", 4); exit(9)"""
    code = [0xd2800020, 0x10000101, 0xd2800082, 0xd2800808, 0xd4000001, 0xd2800120, 0xd2800ba8, 0xd4000001, 0xd503201f]
    body = struct.pack("<9I", *code) + b"arm\n"
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, 0x400078, 64, 0, 0, 64, 56, 1,
                                                             0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 120 + len(body), 120 + len(body), 0x1000)
    return header + segment + body


class LeftAlone(session_case.SessionCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)

    def unrecorded(self, manifests):
        return [(m["origin"], os.path.basename(u["program"])) for m in manifests for u in m["unrecorded"]]

    def info(self):
        return subprocess.run([session_case.CONTRAIL, "info", "--all", self.session()], capture_output=True, text=True,
                              check=True).stdout

    def check_foreign(self, name, what, before=()):
        """As by itself; when it runs, contrail reports that it does so unrecorded. By a child, and in place of the
        program."""
        program = self.path(name)
        for script in (f"{program}; echo $?", f"exec {program}"):
            plain = subprocess.run([*before, "sh", "-c", script], capture_output=True, text=True)
            runs = "Exec format error" not in plain.stderr
            done, manifests = self.record("sh", "-c", script, check=False, before=before)
            self.assertEqual((done.returncode, done.stdout), (plain.returncode, plain.stdout), done.stderr)
            said = f"contrail: 1 process could not be recorded: {program} is {what} and runs unrecorded"
            self.assertEqual(said in done.stderr, runs, done.stderr)
            self.assertEqual([name for _, name in self.unrecorded(manifests)], [name] if runs else [])
            self.assertEqual("Processes that are not in the trace (1)" in self.info(), runs)
            self.assertNotIn(name, [os.path.basename(m["command_line"].split()[0]) for m in manifests
                                    if m["origin"] == "exec"])
        return runs

    def make(self, name, program):
        with open(self.path(name), "wb") as file:
            file.write(program)
        os.chmod(self.path(name), 0o755)

    def check_refused(self, name, what):
        """By itself it is not even started."""
        done = subprocess.run([session_case.CONTRAIL, "spawn", "--output", self.path("none"), self.path(name)],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertIn(f"{name} is {what}: this contrail records {platform.machine()} programs only", done.stderr)
        self.assertFalse(os.path.exists(self.path("none")))

    def test_32_bit(self):
        if ON_X86_64:
            self.build("small", SMALL, "-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie")
        else:
            self.make("small", arm_program())
        what = "a 32-bit program" if ON_X86_64 else "a 32-bit arm program"
        self.check_foreign("small", what)
        self.check_refused("small", what)

    def make_arm64(self):
        self.make("arm", arm64_program())

    def test_other_machine(self):
        name, what, program = (("arm", "an arm64 program", arm64_program()) if ON_X86_64 else
                               ("x86", "an x86_64 program", x86_64_program()))
        self.make(name, program)
        self.check_foreign(name, what)
        self.check_refused(name, what)

    @unittest.skipUnless(ON_X86_64 and shutil.which("qemu-aarch64"), "there is no qemu-aarch64")
    def test_arm64_emulated(self):
        """In a namespace whose kernel runs arm64 programs by an emulator."""
        self.make_arm64()
        mask = b"\xff" * 7 + b"\x00" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
        magic = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00"
        texts = ["".join("\\x%02x" % byte for byte in part) for part in (magic, mask)]
        line = ":qemu:M::%s:%s:%s:F" % (*texts, shutil.which("qemu-aarch64"))
        script = "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && " \
                 f"printf %s '{line}' >/proc/sys/fs/binfmt_misc/register && exec \"$@\""
        before = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
        if subprocess.run([*before, "true"], capture_output=True).returncode:
            self.skipTest("no namespace with programs of other machines can be made here")
        self.assertTrue(self.check_foreign("arm", "an arm64 program", before))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a setuid program")
    def test_setuid(self):
        """Root records it; others let it run with its rights."""
        program = self.build("who", WHO)
        os.chmod(program, 0o4755)
        contrail = shutil.copy(session_case.CONTRAIL, self.path("contrail"))
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if subprocess.run([*other, program], capture_output=True, text=True).stdout != "user 0\n":
            self.skipTest("setuid programs get no rights here")
        for script, code in ((f"{program}; exit 3", 3), (f"exec {program}", 7)):
            os.mkdir(self.path("traces"), 0o777)
            os.chmod(self.path("traces"), 0o777)
            done, manifests = self.record("sh", "-c", script, check=False, before=other, contrail=contrail, keep=True)
            self.assertEqual((done.returncode, done.stdout), (code, "user 0\n"), done.stderr)
            said = f"contrail: 1 process could not be recorded: {program} is setuid and runs unrecorded, " \
                   "with its rights: run contrail as root to record it too\n"
            self.assertIn(said, done.stderr)
            self.assertEqual([name for _, name in self.unrecorded(manifests)], ["who"])
            self.assertIn("who is setuid and runs unrecorded", self.info())
            self.assertNotIn("user", self.calls())
            done, manifests = self.record("sh", "-c", script)
            self.assertEqual((done.returncode, done.stdout), (code, "user 0\n"), done.stderr)
            self.assertEqual(self.unrecorded(manifests), [])
            self.assertEqual(self.calls()["user"], 1)
            shutil.rmtree(self.path("traces"))

    def left(self, manifest):
        return {code["name"]: code for code in manifest["left_alone"]}

    def record_until_seen(self, *command, options=()):
        """The program waits for the end of its input, which comes when the recorder has seen generated code."""
        end, feed = os.pipe()

        def wait():
            with contextlib.suppress(IndexError, OSError):
                with open(glob.glob(self.path("traces/session_*/pid_*/manifest.json"))[0]) as file:
                    return "anonymous code (JIT)" not in file.read()
            return True

        def close_when_seen():
            deadline = time.monotonic() + 150
            while wait() and time.monotonic() < deadline:
                time.sleep(0.05)
            os.close(feed)
        thread = threading.Thread(target=close_when_seen)
        thread.start()
        try:
            return self.record(*command, options=options, stdin=end)
        finally:
            thread.join()
            os.close(end)

    def test_generated_code(self):
        done, manifests = self.record_until_seen(self.build("jit", JIT))
        self.assertEqual((done.returncode, done.stdout), (0, "made\n%d\n" % (4 * sum(3 * k for k in range(1000)))),
                         done.stderr)
        left = self.left(manifests[0])
        self.assertEqual(left["anonymous code (JIT)"]["mappings"], 3)
        self.assertEqual(left["anonymous code (JIT)"]["bytes"], 3 * 4096)
        self.assertEqual(left["[vdso]"]["mappings"], 1)
        self.assertEqual([name for name in left if "engine" in name], ["/memfd:engine"])
        self.assertNotIn("contrail", str(left))
        text = self.info()
        self.assertIn("\n  [vdso]: left alone: the kernel's code\n", text)
        self.assertIn("\n  anonymous code (JIT): 3 mappings, 12.0 KiB, left alone: made at run time", text)

    def test_modules_of_a_process(self):
        words = [session_case.CONTRAIL, "modules"]
        with subprocess.Popen([self.build("jit", JIT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
            self.assertEqual(read_line(target.stdout, "the code is made"), b"made\n")
            text = subprocess.run([*words, str(target.pid)], capture_output=True, text=True, check=True).stdout
            found = json.loads(subprocess.run([*words, "--json", str(target.pid)], capture_output=True,
                                              check=True).stdout)
            target.stdin.close()
        self.assertIn("\n[vdso]: left alone when the process is recorded\n", text)
        self.assertRegex(text, r"\nanonymous code \(JIT\): 3 mappings, \S+ KiB, left alone\n$")
        self.assertFalse(found["anonymous_code"]["with_hooks"])

    def test_short_and_forked(self):
        done, manifests = self.record("sh", "-c", "(:); true")
        self.assertEqual((done.returncode, len(manifests)), (0, 2), done.stderr)
        for manifest in manifests:
            self.assertEqual(set(self.left(manifest)) - {"[vsyscall]"}, {"[vdso]"})

    @unittest.skipUnless(shutil.which("node"), "there is no node")
    def test_node(self):
        script = ("process.stdin.resume(); process.stdin.on('end', () => "
                  "{ let s = 0; for (let i = 0; i < 1e5; i++) s += i % 7; console.log(s) })")
        done, manifests = self.record_until_seen("node", "-e", script, options=["--only", "uv_*"])
        self.assertEqual((done.returncode, done.stdout), (0, "%d\n" % sum(i % 7 for i in range(100000))), done.stderr)
        self.assertGreater(self.left(manifests[0])["anonymous code (JIT)"]["mappings"], 0)


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
