#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sanitizers.py: programs built with sanitizers report the same, with the same stacks, whether or not they are
recorded.

Reports are compared with the untraced ones: modules and offsets of each frame in most runs, names in one."""
import os
import re
import shutil
import sys

import building
from checks import Checks
from recorder import Failure, Gate, finish

# What the program does.
ADDRESS = ["clean", "leak", "use_after_free", "throws", "threads"]
LEAK = ["clean", "leak", "throws", "threads"]
THREAD = ["clean", "race", "throws"]
UNDEFINED = ["clean", "overflow", "throws"]
# name: compiler, flags, deeds
BUILDS = {
    "gcc_address": ("gcc", ["-fsanitize=address"], ADDRESS),
    "gcc_address_static": ("gcc", ["-fsanitize=address", "-static-libasan"], ["clean", "leak", "use_after_free"]),
    "gcc_address_no_pie": ("gcc", ["-fsanitize=address", "-fno-pie", "-no-pie"], ["clean", "leak"]),
    "gcc_leak": ("gcc", ["-fsanitize=leak"], LEAK),
    "gcc_thread": ("gcc", ["-fsanitize=thread"], THREAD),
    "gcc_undefined": ("gcc", ["-fsanitize=undefined"], UNDEFINED),
    "clang_address": ("clang", ["-fsanitize=address"], ADDRESS),
    "clang_address_shared": ("clang", ["-fsanitize=address", "-shared-libasan"], ["clean", "leak", "use_after_free"]),
    "clang_leak": ("clang", ["-fsanitize=leak"], LEAK),
    "clang_thread": ("clang", ["-fsanitize=thread"], THREAD),
    "clang_undefined": ("clang", ["-fsanitize=undefined"], UNDEFINED),
}
RUNTIMES = ("ASAN", "LSAN", "TSAN", "UBSAN")


def options_for(text):
    return {name + "_OPTIONS": text for name in RUNTIMES}


PLAIN = options_for("symbolize=0:print_stacktrace=1")
NAMED = options_for("symbolize=1:print_stacktrace=1")


def runtime_path(compiler):
    """Where the shared runtime is, for a program that is linked with it."""
    file = building.tool([compiler, "-print-file-name=libclang_rt.asan-x86_64.so"]).strip()
    return ["-Wl,-rpath," + os.path.dirname(file)] if os.path.isabs(file) else []


def build(directory, name):
    compiler, flags, _ = BUILDS[name]
    path = os.path.join(directory, name)
    source = os.path.join(building.PROGRAMS, "sanitized.cc")
    command = [building.CPP[compiler], "-O1", "-g", "-fno-omit-frame-pointer", "-pthread"] + flags
    if "-shared-libasan" in flags:
        command += runtime_path(compiler)
    building.tool(command + ["-I" + building.PROGRAMS, source, "-o", path])
    return path


def normal(text):
    """A report without what differs from run to run: process and thread ids, addresses, the dump of shadow memory.
    Modules and offsets in them stay."""
    text = text.decode(errors="replace")
    text = re.sub(r"(?s)Shadow bytes around.*?(?===|\Z)", "", text)
    text = re.sub(r"=+\d+=+", "==", text)
    text = re.sub(r"\b(tid|pid)=\d+", r"\1", text)
    text = re.sub(r"\(pid \d+\)|, pid: \d+", "", text)
    # The runtime's own frames are as they are; offsets of others are kept with their module.
    return re.sub(r"(?<!\+)0x[0-9a-f]+", "X", text)


def difference(a, b):
    for left, right in zip(a.splitlines() + ["(end)"], b.splitlines() + ["(end)"]):
        if left != right:
            return "untraced: %s\n  traced:   %s" % (left, right)
    return "one is longer"


def compare(plain, traced, what):
    if plain.code != traced.code:
        raise Failure("%s: exit code %d became %d: %s" % (what, plain.code, traced.code,
                                                         traced.err.decode(errors="replace")[-1500:]))
    for name, a, b in (("output", plain.out, traced.out), ("report", plain.err, traced.err)):
        if normal(a) != normal(b):
            raise Failure("%s: the %s differs:\n  %s" % (what, name, difference(normal(a), normal(b))))


def trace_in(output):
    return os.path.join(output, os.listdir(output)[0])


def spawned(shop, command, environment, options=()):
    output = shop.new_output()
    result = shop.run(shop.spawn_command(output, list(options), command), environment=environment)
    return result, output


def attached(shop, command, environment):
    gate = Gate(shop.path("gate%d" % shop.outputs))
    process = shop.start(command, environment=dict(environment, E2E_WAIT=gate.path))
    gate.wait(process)
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    gate.open()
    result = finish(process)
    finish(recorder)
    return result, output


def stalked(shop, command, environment):
    output = shop.new_output()
    result = shop.run([shop.contrail, "stalk", "--quiet", "--output", output, "--"] + command, environment=environment)
    return result, output


def ways(shop, command):
    """Recorded in other ways than by spawn alone: what, result, directory of traces."""
    yield ("some functions only",) + spawned(shop, command, PLAIN, ["--only", "*allocate*"])
    yield ("with detail",) + spawned(shop, command, PLAIN, ["--detail", "marked"])
    yield ("attached",) + attached(shop, command, PLAIN)
    yield ("followed",) + stalked(shop, command, PLAIN)


def reports(path, deed, times):
    """A check: `deed` by the program at `path`."""
    def check(shop):
        command = [path, deed]
        plain = shop.run(command, environment=PLAIN)
        for i in range(times):
            result, output = spawned(shop, command, PLAIN)
            compare(plain, result, "run %d of %d" % (i + 1, times))
            if i < times - 1:
                shutil.rmtree(output)
        shop.read("verify", trace_in(output))
        for what, result, output in ways(shop, command):
            compare(plain, result, what)
            shop.read("verify", trace_in(output))
        return "%d runs" % times
    return check


def names(path, deed):
    """A check: the report with the names of functions, which the runtime, or a program that it starts, looks up."""
    def check(shop):
        command = [path, deed]
        plain = shop.run(command, environment=NAMED)
        result, _ = spawned(shop, command, NAMED)
        compare(plain, result, "with names")
        if b"allocate_below" not in plain.err:
            raise Failure("there are no names in the report: %r" % plain.err[:1500])
    return check


def held(path):
    """A check: the recorder is the program's tracer, so that the leak checker cannot be. Without it all is right."""
    def check(shop):
        environment = options_for("symbolize=0:detect_leaks=0")
        plain = shop.run([path, "leak"], environment=environment)
        result, _ = spawned(shop, [path, "leak"], environment, ["--trigger", "crash"])
        compare(plain, result, "without the search for leaks")
        refused = shop.run([shop.contrail, "spawn", "--output", shop.new_output(), "--trigger", "crash", "--", path,
                            "leak"],
                           environment=PLAIN)
        for sentence in (b"no other program can trace it (gdb, strace, LeakSanitizer)", b"does not work under ptrace"):
            if sentence not in refused.err:
                raise Failure("it is not said that %r: %r" % (sentence, refused.err[-1500:]))
    return check


def add_options(parser):
    parser.add_argument("--times", type=int, default=10, help="how often each program is spawned")
    parser.add_argument("--compiler", choices=building.CPP, help="only what this one builds")


def main():
    checks = Checks(__doc__, add_options)
    for name, (compiler, _, deeds) in BUILDS.items():
        if checks.arguments.compiler not in (None, compiler):
            continue
        try:
            path = build(checks.directory(name), name)
        except (building.NoCompiler, RuntimeError) as e:
            print("%s: skipped: %s" % (name, str(e).splitlines()[-1]))
            continue
        for deed in deeds:
            checks.run("%s_%s" % (name, deed), reports(path, deed, checks.arguments.times))
        for deed in ("leak", "use_after_free"):
            if name.endswith("_address"):
                checks.run("%s_%s_names" % (name, deed), names(path, deed))
        if name.endswith("_address"):
            checks.run(name + "_held", held(path))
    return checks.verdict()


if __name__ == "__main__":
    sys.exit(main())
