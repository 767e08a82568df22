#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unharmed.py --contrail C --build DIR [--times N] [NAME...]: programs that are easily harmed, taken over and let go
again.

Each is attached to and followed in turns. Afterwards it has ended rightly, and its memory is what it was.
Exit status: 0 passed, 1 failed."""
import argparse
import glob
import os
import random
import resource
import sys
import time

from command import Bench, same
from recorder import PATIENCE, Failure, finish, read_line, wait_for

SKIPPED = 77


def memory_of(pid):
    """Sizes of all mappings, and how many there are."""
    with open("/proc/%d/maps" % pid) as f:
        ends = [[int(n, 16) for n in line.split()[0].split("-")] for line in f]
    return sum(b - a for a, b in ends), len(ends)


def descriptors_of(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def start(b, name, *arguments):
    process = b.shop.start([b.build(name)] + list(arguments), cwd=b.shop.temporary)
    line = read_line(process.stdout, "the program's process id")
    return process, int(line) if line else None


def take_over(b, how, pid):
    command = [b.arguments.contrail, how, "--quiet", "--output", b.shop.new_output(), "--duration", "0.05"]
    return b.shop.run(command + (["-p"] if how == "stalk" else PATIENCE) + [str(pid)])


def must_take_over(b, how, pid):
    result = take_over(b, how, pid)
    same("%s of %d: %s" % (how, pid, result.err.decode()), 0, result.code)


def cycles(b, name, *arguments):
    process, pid = start(b, name, *arguments)
    if pid is None and finish(process).code == SKIPPED:
        return "this kernel forbids it"
    for how in ("attach", "stalk"):
        must_take_over(b, how, pid)
    before = memory_of(pid), descriptors_of(pid)
    for _ in range(b.arguments.times):
        for how in ("attach", "stalk"):
            must_take_over(b, how, pid)
    same("memory and descriptors", before, (memory_of(pid), descriptors_of(pid)))
    b.end_busy(process)
    return None


def test_io_uring(b):
    return cycles(b, "uring")


def test_io_uring_polled(b):
    """`contrail threads` lists the program's own threads."""
    process, pid = start(b, "uring", "poll")
    if pid is None and finish(process).code == SKIPPED:
        return "this kernel forbids it"
    tasks = [int(t) for t in os.listdir("/proc/%d/task" % pid)]
    if len(tasks) < 2:
        raise Failure("there is no thread of the kernel's")
    lines = b.shop.read("threads", str(pid)).out.decode().splitlines()
    same("threads", [pid], [int(line.split()[0]) for line in lines])
    b.end_busy(process)
    return cycles(b, "uring", "poll")


def test_faults(b):
    return cycles(b, "faults")


def test_stack_overflows(b):
    return cycles(b, "faults", "overflow")


def test_threads(b):
    """What was made for each thread is gone."""
    return cycles(b, "busy")


def test_forks(b):
    """Each process of many is followed, and costs little: pages that the recorder touches, which do not depend on the
    machine's load."""
    forks, pages_each = 100, 3000
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    plain = b.shop.run([b.build("forks"), str(forks)])
    native = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before
    result, directory = b.stalk([], [b.build("forks"), str(forks)], code=3)
    same("output", plain.out, result.out)
    pages = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before - 2 * native
    family = b.family(directory)
    same("processes", forks + 1, len(family))
    same("losses", {0}, {n for manifest, _ in family for n in manifest["events"]["lost"].values()})
    if pages > forks * pages_each:
        raise Failure("%d pages were touched for %d forks" % (pages, forks))
    b.check(directory)


def kill_while(b, command, span):
    recorder = b.shop.start(command)
    time.sleep(b.random.random() * span)
    recorder.kill()
    finish(recorder)


def kill_attach(b, how):
    """A recorder that is killed on its way in leaves nothing that the next one does not take away."""
    process, pid = start(b, "busy")
    must_take_over(b, "attach", pid)
    must_take_over(b, "stalk", pid)
    before, began = memory_of(pid), time.monotonic()
    must_take_over(b, how, pid)
    span = time.monotonic() - began
    for _ in range(4 * b.arguments.times):
        kill_while(b, [b.arguments.contrail, how, "--quiet", "--output", b.shop.new_output()] +
                   (["-p"] if how == "stalk" else []) + [str(pid)], span)
        wait_for("the process is free again", lambda: take_over(b, "attach", pid).code == 0)
        same("memory after a kill", before, memory_of(pid))
    b.end_busy(process)


def test_killed_attach(b):
    kill_attach(b, "attach")


def test_killed_stalk(b):
    kill_attach(b, "stalk")


def test_killed_names(b):
    """What is on disk is explained by what was there before it, whenever the recorder is killed."""
    began = time.monotonic()
    program = ["bash", "-c", "for i in 1 2 3 4 5 6; do /bin/true; (exit $i); done"]
    b.stalk(["--quiet"], program, code=6)
    span, looked = time.monotonic() - began, 0
    for _ in range(4 * b.arguments.times):
        output = b.shop.new_output()
        kill_while(b, [b.arguments.contrail, "stalk", "--quiet", "--output", output, "--"] + program, span)
        for session in glob.glob(os.path.join(output, "*")):
            if not glob.glob(os.path.join(session, "pid_*", "manifest.json")):
                continue
            verified = b.shop.run([b.arguments.contrail, "verify", session])
            same("verify: %s" % (verified.out + verified.err).decode()[:500], 0, verified.code)
            looked += 1
    return "%d traces" % looked


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contrail", default="build/contrail")
    parser.add_argument("--build", default="/tmp")
    parser.add_argument("--times", type=int, default=3, help="how often each is taken over and let go")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.contrail, arguments.build = os.path.abspath(arguments.contrail), os.path.abspath(arguments.build)
    bench, failed = Bench(arguments), 0
    bench.random = random.Random(arguments.seed)
    tests = {n[len("test_"):]: f for n, f in globals().items() if n.startswith("test_")}
    for name in arguments.names or tests:
        bench.open(name)
        try:
            said, problem = tests[name](bench), None
        except (Failure, OSError) as e:
            said, problem = None, str(e) or repr(e)
        finally:
            bench.shop.close()
        failed += bool(problem)
        print("%s %s%s" % ("FAILED " if problem else "ok     ", name, " (%s)" % (problem or said) if problem
                           or said else ""))
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
