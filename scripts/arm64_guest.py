#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests of an arm64 build in a virtual machine of that kind, with a kernel of its own (docs/ARM64.md).

usage: arm64_guest.py [OPTION...] TREE [NAME...]      tests by their names ("record_*"); TREE: build-arm64/tree
       arm64_guest.py [OPTION...] TREE -- COMMAND...  a command, in the project's directory
  --guests N    run this many machines side by side (2); each has one processor, because qemu may run stale code when
                one processor changes what another one runs
  --log FILE    write the results as `meson test` does, for scripts/count_tests.py
  --cpus N      processors of a machine
  --patience N  tests have N times as long as on hardware (4); more where this machine has other work
  --verbose     print which test begins

The guest sees the sources and the build at the paths that they have here, on a disk of their own that is thrown away.
Results are lines `ok NAME` and `not ok NAME`, as they come.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

PROJECT = pathlib.Path(__file__).resolve().parent.parent
GUEST = PROJECT / "build-arm64" / "guest"
SOURCES = ["abi", "bindings", "docs", "examples", "include", "meson.build", "proto", "scripts", "src", "tests"]
NOT_NEEDED = (".o", ".a", ".ninja", ".d")
BOOT_LIMIT = 300
PATIENCE = 4
CPU = "max,pauth-impdef=on,sve=off"  # see scripts/arm64-user.sh


def all_tests(tree):
    """The tests of a build, as meson describes them, with short names for suites."""
    tests = json.loads(subprocess.check_output(["meson", "introspect", str(tree), "--tests"]))
    for test in tests:
        test["suite"] = [suite.split(":")[-1] for suite in test["suite"]]
    return sorted(tests, key=lambda test: -test["priority"])


def link_tree(source, target):
    """Links instead of copies: the image is made from them, and they are removed again."""
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target)
        return
    for directory, names, files in os.walk(source):
        names[:] = [name for name in names if not name.endswith(".p") and name not in ("meson-private", "node_modules")]
        place = target / os.path.relpath(directory, source)
        place.mkdir(parents=True, exist_ok=True)
        for name in files:
            path = os.path.join(directory, name)
            if name.endswith(NOT_NEEDED):
                continue
            if os.path.islink(path):
                os.symlink(os.readlink(path), place / name)
            else:
                os.link(path, place / name)


def make_disk(directory, tree, job):
    """An image of the project: sources, what was built, and what is to be done."""
    stage = directory / "project"
    for name in SOURCES:
        link_tree(PROJECT / name, stage / name)
    link_tree(tree, stage / tree.relative_to(PROJECT))
    (stage / "job.json").write_text(json.dumps(job), encoding="utf-8")
    size = int(subprocess.check_output(["du", "-sm", str(stage)]).split()[0])
    image = directory / "project.ext4"
    environment = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", str(stage), str(image),
                    f"{size * 13 // 10 + 400}M"], check=True, env=environment, stdout=subprocess.DEVNULL)
    shutil.rmtree(stage)
    return image


class Guest:
    """One virtual machine, and its console."""

    def __init__(self, disk, cpus):
        drives = [f"file={path},format=raw,if=none,id=d{n},snapshot=on" for n, path in
                  enumerate([GUEST / "root.ext4", disk])]
        command = ["qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", CPU, "-accel", "tcg,thread=multi",
                   "-smp", str(cpus), "-m", "3072", "-nodefaults", "-display", "none", "-no-reboot",
                   "-serial", "stdio", "-device", "virtio-rng-pci", "-kernel", str(GUEST / "vmlinuz"),
                   "-initrd", str(GUEST / "first.cpio.gz"),
                   "-append", f"console=ttyAMA0 panic=-1 quiet project={PROJECT} cryptomgr.notests rdinit=/init"]
        for n, drive in enumerate(drives):
            command += ["-drive", drive, "-device", f"virtio-blk-pci,drive=d{n}"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.other = []

    def answer(self, limit, show=None):
        """The next line that begins with @@, without it; None when the machine has ended or is silent too long."""
        timer = threading.Timer(limit, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                text = line.decode(errors="replace").rstrip("\r\n")
                if text.startswith("@@"):
                    return text[2:]
                if show:
                    show(text)
                self.other = self.other[-200:] + [text]
            return None
        finally:
            timer.cancel()

    def ask(self, text):
        try:
            self.process.stdin.write((text + "\n").encode())
            self.process.stdin.flush()
        except OSError:  # it has ended: no answer comes
            pass

    def end(self):
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Run:
    """Tests that are distributed to machines as these become free."""

    def __init__(self, tree, tests, disk, options):
        self.tree, self.tests, self.disk, self.options = tree, tests, disk, options
        self.waiting = queue.SimpleQueue()
        for number in range(len(tests)):
            self.waiting.put(number)
        self.lock = threading.Lock()
        self.results = {}

    def report(self, number, result):
        test, good = self.tests[number], result["result"] in ("OK", "SKIP")
        with self.lock:
            self.results[number] = result
            if not good:
                print(result["stdout"].rstrip())
            state = "skipped" if result["result"] == "SKIP" else "ok" if good else "not ok"
            print(f"{state} {test['name']} ({result['duration']:.1f} s)", flush=True)
            if not good:
                tree = self.tree.relative_to(PROJECT)
                print(f"  again: scripts/arm64_guest.py {tree} '{test['name']}'", flush=True)

    def serve(self, guest):
        """One machine's tests. True when none is left."""
        if guest.answer(BOOT_LIMIT) != "ready":
            return False
        while True:
            try:
                number = self.waiting.get_nowait()
            except queue.Empty:
                guest.ask("end")
                return True
            guest.ask(str(number))
            if self.options.verbose:
                print(f"begins {self.tests[number]['name']}", flush=True)
            answer = guest.answer(self.tests[number]["timeout"] + 60)
            if answer is None:
                self.report(number, {"name": self.tests[number]["name"], "result": "FAIL", "duration": 0,
                                     "stdout": "\n".join(guest.other) + "\nthe guest ended, or did not answer"})
                return False
            self.report(number, json.loads(answer.split(" ", 2)[2]))

    def machine(self):
        """Machines one after the other: what a test does to one ends there."""
        for _ in range(3):
            guest = Guest(self.disk, self.options.cpus)
            done = self.serve(guest)
            if not done:
                guest.process.kill()
            guest.end()
            if done:
                return
        print("\n".join(guest.other))

    def all(self):
        threads = [threading.Thread(target=self.machine) for _ in range(min(self.options.guests, len(self.tests)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, test in enumerate(self.tests):
            if number not in self.results:
                self.report(number, {"name": test["name"], "result": "FAIL", "duration": 0,
                                     "stdout": "no guest was there to run it"})
        return [self.results[number] for number in range(len(self.tests))]


def run_command(disk, options):
    guest = Guest(disk, options.cpus)
    answer = guest.answer(options.limit, lambda text: print(text, flush=True))
    guest.end()
    if answer is None:
        print("the guest ended, or did not answer", file=sys.stderr)
        return 1
    return json.loads(answer.split(" ", 2)[2])["code"]


def prebuild(tree, tests):
    """Has the programs that tests record built here: the guest's compilers take very long. What cannot be built here is
    built there."""
    def uses(test, *scripts):
        return any(word.endswith(scripts) for word in test["cmd"])
    commands = [test["cmd"] + ["--build-only"] for test in tests
                if uses(test, "/record/run.py", "/stalk/command.py") and "--complete" not in test["cmd"]]
    commands += [test["cmd"] for test in tests if uses(test, "/stalk/zoo.sh")]
    store = tree / "prebuilt"
    environment = dict(os.environ, CONTRAIL_CROSS="aarch64-linux-gnu-", CONTRAIL_PREBUILT=str(store))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool, \
            tempfile.TemporaryDirectory() as directory:
        for command in commands:
            if "--build" in command:
                command[command.index("--build") + 1] = directory
            pool.submit(subprocess.run, command, env=environment, check=False, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return {"CONTRAIL_PREBUILT": str(store)}


def run_tests(tree, tests, options):
    """The results of the tests, in their order; a log for count_tests.py when one is wanted."""
    options.environment = {**prebuild(tree, tests), "CONTRAIL_TEST_SLOW": "8", **options.environment}
    for test in tests:  # an emulated machine is slow
        test["timeout"] *= options.patience
    with tempfile.TemporaryDirectory(dir=GUEST) as directory:
        job = {"tree": str(tree), "tests": tests, "command": None, "environment": options.environment}
        disk = make_disk(pathlib.Path(directory), tree, job)
        results = Run(tree, tests, disk, options).all()
    if options.log:
        with open(options.log, "w", encoding="utf-8") as log:
            log.writelines(json.dumps(result) + "\n" for result in results)
    return results


def parse(arguments):
    command = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("--guests", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--patience", type=int, default=PATIENCE)
    parser.add_argument("--log")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--limit", type=int, default=600, help="seconds that a command may take")
    parser.add_argument("--environment", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args(arguments)
    options.environment = dict(word.split("=", 1) for word in options.environment)
    options.tree = options.tree.resolve()
    options.command = command
    return options


def main(arguments):
    options = parse(arguments)
    subprocess.run([str(PROJECT / "scripts/arm64-guest-setup.sh")], check=True, stdout=sys.stderr)
    if options.command:
        with tempfile.TemporaryDirectory(dir=GUEST) as directory:
            job = {"tree": str(options.tree), "command": options.command, "environment": options.environment}
            return run_command(make_disk(pathlib.Path(directory), options.tree, job), options)
    tests = [test for test in all_tests(options.tree)
             if any(fnmatch.fnmatchcase(test["name"], name) for name in options.names)]
    if not tests:
        print(f"no test of {options.tree} has such a name", file=sys.stderr)
        return 2
    results = run_tests(options.tree, tests, options)
    return 0 if all(result["result"] in ("OK", "SKIP") for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
