#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files: what another user can do to root's recorder through the files that it reads and writes. Root plays root, and a
user without rights plays mallory.

Usage: files.py CONTRAIL"""
import contextlib
import glob
import grp
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

CONTRAIL = os.path.abspath(sys.argv.pop(1))
MALLORY = 65534
AS_MALLORY = {"user": MALLORY, "group": MALLORY, "extra_groups": []}
SECRET = b"hunter2-the-secret-word"
TIMEOUT = 120

# Swaps ./.contrail.conf without an end between a link to a file of root and a file of mallory's.
SWAPPER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (;;)
        syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[argc - 1], 2 /* RENAME_EXCHANGE */);
}
"""

# Has a secret word in its arguments, on its stack while it makes calls, and in vector registers.
KEEPER = r"""
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
__attribute__((noinline)) int inner(volatile char *text) { return text[0]; }
__attribute__((noinline)) int outer(const char *word) {
    volatile char text[64];
    memset((char *)text, 0, sizeof text);
    strncpy((char *)text, word, sizeof text - 1);
    return inner(text) + inner(text + 1);
}
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 100; i++) sum += outer(argv[1]);
    if (argc > 2) return sum == 0;
    if (!fork()) { char *a[] = {argv[0], argv[1], "child", 0}; execv(argv[0], a); _exit(1); }
    wait(0);
    return sum == 0;
}
"""


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def everything(directory):
    for place, directories, names in os.walk(directory):
        for name in directories + names:
            yield os.path.join(place, name)


def read(path):
    with open(path, "rb") as text:
        return text.read()


def as_mallory(act):
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setresgid(MALLORY, MALLORY, MALLORY)
            os.setresuid(MALLORY, MALLORY, MALLORY)
            act()
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise AssertionError("mallory could not do it")


class Files(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="contrail-files-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        os.chmod(self.dir, 0o755)
        self.his = self.path("his")
        os.mkdir(self.his)
        os.chown(self.his, MALLORY, MALLORY)
        self.mine = self.path("mine")
        os.mkdir(self.mine, 0o700)
        self.env = dict(os.environ, XDG_CACHE_HOME=self.path("mine", "cache"), LC_ALL="C")

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def build(self, text):
        program = self.path("program%d" % len(glob.glob(self.path("program*"))))
        subprocess.run(["gcc", "-O1", "-g", "-x", "c", "-o", program, "-"], input=text.encode(), check=True)
        return program

    def run_root(self, *words, cwd=None, env=None, umask=-1):
        return subprocess.run([CONTRAIL, *words], cwd=cwd or self.mine, env=env or self.env, umask=umask,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)

    def spawn(self, *options, program=("true",), **more):
        done = self.run_root("spawn", "-q", *options, "--", *program, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    @contextlib.contextmanager
    def mallory(self, *command):
        process = subprocess.Popen(command, cwd=self.his, **AS_MALLORY)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def session(self, output):
        found = glob.glob(os.path.join(output, "session_*"))
        self.assertEqual(len(found), 1, found)
        return found[0]

    # ---- modes ----

    def check_modes(self, output, directory, file, group=0):
        paths = list(everything(output))
        self.assertTrue(any(p.endswith("index.ctp") for p in paths))
        self.assertTrue(any(p.endswith("detail.atf") for p in paths))
        for path in [output] + paths:
            self.assertEqual(mode_of(path), directory if os.path.isdir(path) else file, path)
            self.assertEqual(os.lstat(path).st_gid, group, path)

    def test_modes(self):
        for i, umask in enumerate((0o000, 0o022, 0o077, 0o777)):
            output = self.path("mine", "t%d" % i)
            self.spawn("--detail", "always", "-o", output, umask=umask)
            self.check_modes(output, 0o700, 0o600)

    def test_modes_of_following(self):
        output = self.path("mine", "t")
        done = self.run_root("stalk", "-q", "-e", "call,ret,block", "-c", "cover", "-o", output, "--", "true", umask=0)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(glob.glob(os.path.join(output, "*", "*", "thread_*", "code.ctc")))
        for path in [output, self.path("mine", "cover")] + list(everything(output)):
            self.assertEqual(mode_of(path) & 0o077, 0, path)

    def test_modes_with_segments(self):
        output = self.path("mine", "t")
        self.spawn("--keep", "64K", "--format", "atf2", "--detail", "always", "-o", output,
                   program=("ls", "-lR", "/etc/default"), umask=0)
        for path in [output] + list(everything(output)):
            self.assertEqual(mode_of(path) & 0o077, 0, path)
        # the oldest were found, and are gone
        self.assertFalse(glob.glob(os.path.join(output, "*", "*", "*", "index_000001.atf")))
        self.assertEqual(self.run_root("verify", self.session(output)).returncode, 0)

    def test_others_cannot_read(self):
        self.spawn("-o", self.path("traces"), umask=0)
        self.assertNotEqual(subprocess.run(["ls", self.path("traces")], capture_output=True, **AS_MALLORY).returncode,
                            0)

    def test_group(self):
        output = self.path("mine", "t")
        group = grp.getgrgid(MALLORY)
        self.spawn("--group", group.gr_name, "--detail", "always", "-o", output, umask=0o077)
        self.check_modes(output, 0o750, 0o640, MALLORY)
        os.chmod(self.mine, 0o755)
        done = subprocess.run([CONTRAIL, "report", self.session(output)], capture_output=True, **AS_MALLORY)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_group_that_is_wrong(self):
        done = self.run_root("spawn", "--group", "no-such-group", "true")
        self.assertEqual(done.returncode, 64)
        self.assertIn('there is no group "no-such-group"', done.stderr)
        done = subprocess.run([CONTRAIL, "spawn", "--group", "root", "true"], cwd=self.his, capture_output=True,
                              text=True, **AS_MALLORY)
        self.assertEqual(done.returncode, 64)
        self.assertIn('you are not in the group "root"', done.stderr)
        self.assertEqual(os.listdir(self.his) + os.listdir(self.mine), [])

    def test_inherited_acl(self):
        """Mallory's directory hands rights down to what is made in it."""
        everybody = 0xffffffff
        entries = ((1, 7, everybody), (2, 7, MALLORY), (4, 5, everybody), (0x10, 7, everybody), (0x20, 5, everybody))
        try:
            os.setxattr(self.his, "system.posix_acl_default",
                        struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))
        except OSError:
            self.skipTest("no access control lists here")
        self.spawn("--group", "root", cwd=self.his)
        for path in (self.path("his", "traces"), self.session(self.path("his", "traces"))):
            self.assertNotEqual(subprocess.run(["ls", path], capture_output=True, **AS_MALLORY).returncode, 0, path)

    # ---- where root writes ----

    def test_directory_of_another_user(self):
        """The ordinary case: sudo in somebody's project."""
        for _ in range(2):  # the second time ./traces is there
            self.spawn(cwd=self.his)
        os.chown(self.path("his", "traces"), MALLORY, MALLORY)
        os.chmod(self.path("his", "traces"), 0o755)
        self.spawn(cwd=self.his)  # ./traces is mallory's
        found = glob.glob(self.path("his", "traces", "session_*"))
        self.assertEqual(len(found), 3)
        for path in found:
            self.assertEqual((os.lstat(path).st_uid, mode_of(path)), (0, 0o700))
        self.assertEqual(self.run_root("verify", sorted(found)[-1]).returncode, 0)

    def test_links_are_refused(self):
        target = self.path("mine", "target")
        os.mkdir(target)
        for link, output in (("traces", None), ("traces", "traces/below"), ("up", "up/../traces")):
            path = self.path("his", link)
            os.symlink(target, path)
            os.lchown(path, MALLORY, MALLORY)
            done = self.run_root("spawn", *(["-o", output] if output else []), "true", cwd=self.his)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("symbolic link", done.stderr)
            self.assertIn("--output DIR", done.stderr)
            self.assertEqual(os.listdir(target), [])
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            os.unlink(path)

    def test_own_links_are_followed(self):
        os.mkdir(self.path("mine", "real"))
        os.symlink("real", self.path("mine", "traces"))
        self.spawn()
        self.session(self.path("mine", "real"))

    def put_links(self, session, pid, victim):
        os.rename(session, os.path.join(os.path.dirname(session), "moved"))
        os.makedirs(os.path.join(session, pid, "thread_1"))
        names = ["manifest.json", ".manifest.json.new", "symbols", ".symbols.new", "blocks", "calls"]
        names += ["thread_1/index_%06d.ctp" % i for i in range(1, 20)] + ["thread_%d" % i for i in range(2, 60)]
        for name in names:
            os.symlink(victim, os.path.join(session, pid, name))
        os.unlink(self.path("his", "m.prom"))
        os.symlink(victim, self.path("his", "m.prom"))

    def test_session_is_swapped(self):
        """Mallory owns ./traces. He renames the session and puts one of his own there, with links at every name."""
        os.mkdir(self.path("his", "traces"))
        os.chown(self.path("his", "traces"), MALLORY, MALLORY)
        victim = self.path("mine", "victim")
        with open(victim, "w") as out:
            out.write("root's own\n")
        program = self.build("#include <unistd.h>\n#include <pthread.h>\n"
                             "void *other(void *a) { for (int i = 0; i < 100; i++) getppid(); return a; }\n"
                             "int main(void) { for (int i = 0; i < 40; i++) { pthread_t t;\n"
                             "pthread_create(&t, 0, other, 0); pthread_join(t, 0); usleep(100000); } }\n")
        recorder = subprocess.Popen([CONTRAIL, "spawn", "--keep", "64K", "--metrics-file", "m.prom", program],
                                    cwd=self.his, env=self.env,
                                    stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.kill)
        self.addCleanup(recorder.stderr.close)
        deadline = time.monotonic() + TIMEOUT
        while not glob.glob(self.path("his", "traces", "session_*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        session = self.session(self.path("his", "traces"))
        while not (pids := os.listdir(session)) and time.monotonic() < deadline:
            time.sleep(0.01)
        while not glob.glob(os.path.join(session, pids[0], "thread_*", "index*")):
            self.assertLess(time.monotonic(), deadline, "no thread is in the trace")
            time.sleep(0.01)
        as_mallory(lambda: self.put_links(session, pids[0], victim))
        self.assertEqual(recorder.wait(TIMEOUT), 0)
        self.assertEqual(read(victim), b"root's own\n")
        self.assertFalse(os.path.islink(self.path("his", "m.prom")))  # replaced, not followed
        moved = self.path("his", "traces", "moved", pids[0])
        with open(os.path.join(moved, "manifest.json")) as text:
            self.assertTrue(json.load(text)["complete"])
        self.assertEqual(self.run_root("verify", moved).returncode, 0)
        for name in os.listdir(os.path.join(session, pids[0])):
            path = os.path.join(session, pids[0], name)
            self.assertTrue(os.path.islink(path) or name == "thread_1")
            self.assertEqual(os.lstat(path).st_uid, MALLORY)

    def test_output_is_swapped(self):
        """./traces is a directory and a link to one of root's, in turns: nothing is ever made through the link."""
        target = self.path("mine", "target")
        os.mkdir(target)
        os.mkdir(self.path("his", "traces"))
        os.symlink(target, self.path("his", "other"))
        for name in ("traces", "other"):
            os.lchown(self.path("his", name), MALLORY, MALLORY)
        with self.mallory(self.build(SWAPPER), "traces", "other"):
            for _ in range(30):
                self.run_root("spawn", "-q", "true", cwd=self.his)
        self.assertEqual(os.listdir(target), [])

    # ---- what a user names ----

    def test_metrics_file(self):
        victim = self.path("mine", "victim")
        os.mkdir(self.path("mine", "elsewhere"))
        with open(victim, "w") as out:
            out.write("x")
        for name, path in (("link", "link"), ("d", "d/file")):
            os.symlink(victim if name == "link" else self.path("mine", "elsewhere"), self.path("his", name))
            os.lchown(self.path("his", name), MALLORY, MALLORY)
            done = self.run_root("spawn", "--metrics-file", path, "true", cwd=self.his)
            self.assertIn("--metrics-file PATH", done.stderr)
            self.assertNotEqual(done.returncode, 0)
        self.assertEqual(read(victim), b"x")
        self.assertEqual(os.listdir(self.path("mine", "elsewhere")), [])
        self.spawn("--metrics-file", "m.prom", umask=0o022)
        self.assertEqual(mode_of(self.path("mine", "m.prom")), 0o644)

    def test_exports(self):
        self.spawn("-o", self.path("mine", "traces"))
        trace = self.session(self.path("mine", "traces"))
        victim = self.path("mine", "victim")
        os.mkdir(self.path("mine", "elsewhere"))
        with open(victim, "w") as out:
            out.write("x")
        for name, target in (("file", victim), ("dir", self.path("mine", "elsewhere")),
                             ("none", self.path("mine", "none"))):
            os.symlink(target, self.path("his", name))
            os.lchown(self.path("his", name), MALLORY, MALLORY)
        os.mkfifo(self.path("his", "pipe"))
        os.chown(self.path("his", "pipe"), MALLORY, MALLORY)
        os.mkdir(self.path("his", "empty"))
        os.chown(self.path("his", "empty"), MALLORY, MALLORY)
        with open(self.path("his", "pipe"), "rb", opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)) as reader:
            for format, output in (("chrome", "file"), ("chrome", "none"), ("ctf", "dir"), ("atf2", "dir"),
                                   ("ctf", "none"),
                                   ("chrome", "dir/x"), ("atf2", "dir/x"), ("chrome", "pipe"), ("ctf", "empty")):
                done = self.run_root("export", "-f", format, "-o", output, trace, cwd=self.his)
                self.assertNotEqual(done.returncode, 0, (format, output))
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertFalse(reader.read())
        self.assertEqual(read(victim), b"x")
        self.assertEqual(os.listdir(self.path("mine", "elsewhere")), [])
        self.assertFalse(os.path.exists(self.path("mine", "none")))
        for format in ("chrome", "ctf", "atf2"):
            done = self.run_root("export", "-f", format, "-o", "new." + format, trace, cwd=self.his, umask=0)
            self.assertEqual(done.returncode, 0, done.stderr)
            for path in [self.path("his", "new." + format)] + list(everything(self.path("his", "new." + format))):
                self.assertEqual((os.lstat(path).st_uid, mode_of(path) & 0o077), (0, 0), path)

    def test_symbolize(self):
        self.spawn("-o", self.path("mine", "traces"))
        trace = glob.glob(self.path("mine", "traces", "*", "pid_*"))[0]
        done = self.run_root("symbolize", trace, umask=0)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(mode_of(os.path.join(trace, "symbols")), 0o600)
        # Mallory's trace: a file in the place of the one that he can foresee does not lead root elsewhere.
        his = self.path("his", "trace")
        shutil.copytree(trace, his)
        for path in [his] + list(everything(his)):
            os.lchown(path, MALLORY, MALLORY)
        victim = self.path("mine", "victim")
        os.rename(os.path.join(his, "symbols"), victim)
        before = read(victim)
        os.symlink(victim, os.path.join(his, "symbols"))
        os.lchown(os.path.join(his, "symbols"), MALLORY, MALLORY)
        self.run_root("symbolize", his)
        self.assertEqual(read(victim), before)
        self.assertFalse(os.path.islink(victim))

    # ---- the config file ----

    def config(self, path, owner, mode=0o644):
        with open(path, "w") as out:
            out.write("metrics_file = %s\n" % self.path("mine", "written-by-root"))
        os.chown(path, owner, owner)
        os.chmod(path, mode)

    def check_config(self, directory, used):
        done = self.run_root("spawn", "-q", "true", cwd=directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.path.exists(self.path("mine", "written-by-root")), used)
        if used:
            os.unlink(self.path("mine", "written-by-root"))
        self.assertEqual(done.stderr.count("is left out"), 0 if used else 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 0 if used else 1, done.stderr)

    def test_config_of_others(self):
        own = self.path("mine", ".contrail.conf")
        self.config(own, 0)
        self.check_config(self.mine, True)
        for mode in (0o666, 0o664, 0o646):
            os.chmod(own, mode)
            self.check_config(self.mine, False)
        self.config(own, MALLORY)
        self.check_config(self.mine, False)
        self.config(own, 0)
        for mode in (0o777, 0o1777, 0o770):
            os.chmod(self.mine, mode)
            self.check_config(self.mine, False)
        os.chmod(self.mine, 0o700)
        os.rename(own, self.path("mine", "real"))
        os.symlink("real", own)
        self.check_config(self.mine, False)
        self.config(self.path("his", ".contrail.conf"), 0)  # root's, in a directory of mallory's
        self.check_config(self.his, False)
        os.unlink(self.path("his", ".contrail.conf"))
        os.mkfifo(self.path("his", ".contrail.conf"))
        self.check_config(self.his, False)

    def test_config_is_swapped(self):
        os.symlink("/etc/hostname", self.path("his", ".contrail.conf"))
        self.config(self.path("his", "b"), MALLORY)
        os.lchown(self.path("his", ".contrail.conf"), MALLORY, MALLORY)
        with self.mallory(self.build(SWAPPER), ".contrail.conf", "b"):
            for _ in range(60):
                self.run_root("spawn", "-q", "--output", self.path("mine", "t"), "true", cwd=self.his)
                self.assertFalse(os.path.exists(self.path("mine", "written-by-root")))

    # ---- the cache ----

    def planned(self, **env):
        environment = {k: v for k, v in self.env.items() if k not in ("XDG_CACHE_HOME", "HOME")}
        self.spawn("-o", self.path("mine", "traces"), env=dict(environment, **env))

    def entries(self, *names):
        return sorted(glob.glob(os.path.join(*names, "*.plan")))

    def test_cache_is_ours(self):
        home = self.path("home")
        os.mkdir(home, 0o755)
        self.planned(HOME=home)
        cache = self.path("home", ".cache", "contrail")
        self.assertTrue(self.entries(cache))
        for path in [self.path("home", ".cache"), cache] + self.entries(cache):
            self.assertEqual(mode_of(path), 0o700 if os.path.isdir(path) else 0o600)

    def test_cache_that_others_can_change(self):
        for name, change in (("his home", lambda h: os.chown(h, MALLORY, MALLORY)),
                             ("open home", lambda h: os.chmod(h, 0o777)),
                             ("group's home", lambda h: os.chmod(h, 0o775))):
            home = self.path(name)
            os.mkdir(home)
            change(home)
            self.planned(HOME=home)
            self.assertEqual(os.listdir(home), [], name)
        for mode in (0o777, 0o770):
            cache = self.path("cache%o" % mode)
            os.makedirs(os.path.join(cache, "contrail"))
            os.chmod(os.path.join(cache, "contrail"), mode)
            self.planned(XDG_CACHE_HOME=cache)
            self.assertEqual(self.entries(cache, "contrail"), [])
        os.symlink(self.mine, self.path("his", "cache"))
        os.lchown(self.path("his", "cache"), MALLORY, MALLORY)
        before = os.listdir(self.mine)
        self.planned(XDG_CACHE_HOME=self.path("his", "cache"))
        self.assertEqual(os.listdir(self.mine), before)

    def test_cache_is_bounded(self):
        cache = self.path("mine", "cache", "contrail")
        os.makedirs(cache, 0o700)
        for i in range(8):  # of another build: used last, and still the first that go
            with open(os.path.join(cache, "%040x-0000000000000000.plan" % i), "wb") as out:
                out.write(b"CTPLAN\0\0" + bytes(1 << 20))
        left = os.path.join(cache, "%040x-0000000000000000.plan.77" % 9)
        with open(left, "wb") as out:
            out.write(bytes(1 << 20))
        os.utime(left, (1, 1))
        self.spawn("--cache-size", "6M", "-o", self.path("mine", "t"))
        fresh = [p for p in self.entries(cache) if not os.path.basename(p).startswith("00000")]
        self.assertTrue(fresh)
        self.assertFalse(os.path.exists(left))
        self.assertLessEqual(sum(os.path.getsize(p) for p in self.entries(cache)), 6 << 20)
        for p in fresh:  # not used for years, until now
            os.utime(p, (1, 1))
        self.spawn("--cache-size", "6M", "-o", self.path("mine", "t"))
        for p in fresh:
            self.assertGreater(os.path.getmtime(p), 1, p)

    def test_least_used_go_first(self):
        cache = self.path("mine", "cache", "contrail")
        self.spawn("-o", self.path("mine", "t"))
        first = max(self.entries(cache), key=os.path.getsize)
        image = read(first)
        made = []
        for i in range(4):  # of this build
            made.append(os.path.join(cache, "%040x-0000000000000000.plan" % i))
            with open(made[-1], "wb") as out:
                out.write(image[:1000].ljust(700 << 10, b"\0"))
            os.utime(made[-1], (1000 - i, 1000 - i))
        os.unlink(first)  # so that something is added
        self.spawn("--cache-size", "2M", "-o", self.path("mine", "t"))
        there = [os.path.exists(p) for p in made]
        self.assertEqual(there, sorted(there, reverse=True), there)  # the oldest are the last of them
        self.assertIn(False, there)

    # ---- what is left out ----

    def contains(self, output):
        found = []
        for path in everything(output):
            if os.path.isfile(path) and SECRET[:16] in read(path):
                found.append(os.path.relpath(path, output))
        return found

    def texts(self, output):
        session = self.session(output)
        yield "replay", self.run_root("replay", "--json", session).stdout
        yield "info", self.run_root("info", "--all", session).stdout
        for format in ("chrome", "perfetto"):
            done = self.run_root("export", "-f", format, "-o", self.path("mine", "out"), session)
            self.assertEqual(done.returncode, 0, done.stderr)
            yield format, read(self.path("mine", "out")).decode(errors="replace")

    def test_redact(self):
        program = self.build(KEEPER)
        for output, options in (("plain", []), ("redacted", ["--redact"]),
                                ("vectors", ["--redact", "--vectors", "--stack-bytes", "512"])):
            self.spawn("--detail", "always", "--format", "atf2", *options, "-o", self.path("mine", output),
                       program=(program, SECRET.decode()))
        plain = self.contains(self.path("mine", "plain"))
        self.assertTrue(any(p.endswith("detail.atf") for p in plain), plain)  # else the test shows nothing
        self.assertEqual(sum(p.endswith("manifest.json") for p in plain), 3, plain)
        for output in ("redacted", "vectors"):
            self.assertEqual(self.contains(self.path("mine", output)), [])
            for name, text in self.texts(self.path("mine", output)):
                self.assertNotIn(SECRET.decode()[:8], text, name)
            for path in glob.glob(self.path("mine", output, "*", "*", "manifest.json")):
                with open(path) as text:
                    manifest = json.load(text)
                self.assertIs(manifest["redacted"], True)
                self.assertEqual(manifest["command_line"], os.path.basename(program))
                self.assertEqual(manifest["detail"]["stack_bytes"], 0)
                self.assertGreater(manifest["detail"]["written"], 0)
        self.assertIn("Redacted", self.run_root("info", self.session(self.path("mine", "redacted"))).stdout)
        self.assertNotIn("Redacted", self.run_root("info", self.session(self.path("mine", "plain"))).stdout)

    def test_redact_attached(self):
        program = self.build("#include <unistd.h>\nint main(void) { for (;;) { getppid(); usleep(1000); } }\n")
        with subprocess.Popen([program, SECRET.decode()]) as process:
            self.addCleanup(process.kill)
            done = self.run_root("attach", "--redact", "-d", "200ms", "-o", self.path("mine", "t"), str(process.pid))
            process.kill()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.contains(self.path("mine", "t")), [])

    def test_redact_followed(self):
        program = self.build(KEEPER)
        done = self.run_root("stalk", "--redact", "-o", self.path("mine", "t"), "--", program, SECRET.decode())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.contains(self.path("mine", "t")), [])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root can play both users")
        sys.exit(77)
    unittest.main(verbosity=2)
