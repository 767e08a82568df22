#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill.py: kill -9 of contrail, and of what it records, at random moments.

Of contrail, during spawn, attach, recording and detach: the target comes to its right answer, and the trace opens. Of
the target: `verify` has nothing to say, and everything that the target had announced is in the trace.

--times N is the number of kills of each side; --seed repeats a run."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import atf
from checks import Checks
from recorder import Failure, TIMEOUT, children_of, finish, wait_for
from expectation import own_functions

# of the program that answers; an emulated processor takes minutes to look at more
ROUNDS = "100" if os.environ.get("CONTRAIL_TEST_EMULATED") else "1000"


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def look_at(shop, output, lossless):
    """A trace that was begun opens; `verify` has nothing to say. Returns the number of events."""
    events = 0
    for directory in atf.find(output):
        if not os.path.exists(os.path.join(directory, "manifest.json")):
            continue
        shop.read("info", directory)
        verified = shop.run([shop.contrail, "verify", directory])
        words = (verified.out + verified.err).decode(errors="replace")
        if verified.code != 0:
            raise Failure("verify ended with %d: %s" % (verified.code, words[:1000]))
        trace = atf.Trace(directory)
        problems = trace.check() if lossless else []  # the last gaps are in no manifest
        if problems:
            raise Failure("the trace of a killed recorder: %s" % problems[0])
        events += sum(len(t) for t in trace.threads)
    return events


def check_answer(out, code, answer, what):
    if out != answer[0] or (code is not None and code != answer[1]):
        raise Failure("%s: the program says %r and ends with %s; right is %r" % (what, out, code, answer))


class Controller:
    """Kills of contrail. Moments are spread over how long the whole thing takes when nothing is killed."""

    def __init__(self, shop, program, random_source):
        self.shop, self.program, self.random = shop, program, random_source
        plain = shop.run([program.path, ROUNDS])
        self.answer = (plain.out, plain.code)
        self.never_ran = self.events = 0
        self.lossless = False

    def options(self):
        return ["--lossless"] if self.lossless else []

    def spawn_command(self, output):
        return self.shop.spawn_command(output, self.options(), [self.program.path, ROUNDS])

    def measure_spawn(self):
        started = time.monotonic()
        result = self.shop.run(self.spawn_command(self.shop.new_output()))
        check_answer(result.out, result.code, self.answer, "spawn")
        return time.monotonic() - started

    def spawn(self, span):
        """The target is contrail's child: how it ended is not known, but what it said is."""
        output = self.shop.new_output()
        moment = self.random.random() ** 2 * span  # more of them at the start, where most is done
        process = self.shop.start(self.spawn_command(output))
        time.sleep(moment)
        kill(process)
        try:
            out, err = process.communicate(timeout=TIMEOUT)  # its output ends when the target does
        except subprocess.TimeoutExpired:
            raise Failure("spawn, killed after %.1f ms: the program hangs" % (moment * 1e3))
        if not out:
            self.never_ran += 1
        else:
            check_answer(out, None, self.answer, "spawn, killed after %.1f ms" % (moment * 1e3))
        if err:
            raise Failure("spawn, killed after %.1f ms: it says %r" % (moment * 1e3, err))
        self.events += look_at(self.shop, output, self.lossless)

    def start_target(self):
        """Goes on until finish_target()."""
        process = self.shop.start([self.program.path, ROUNDS, "hold"], stdin=subprocess.PIPE)
        time.sleep(0.01)
        return process

    def finish_target(self, process, what):
        result = finish(process, what=what)
        check_answer(result.out, result.code, self.answer, what)

    def start_recorded(self, options=()):
        """A target and its recorder."""
        process, output = self.start_target(), self.shop.new_output()
        started = time.monotonic()
        return process, output, self.shop.attach(process.pid, output, options), time.monotonic() - started

    def measure_attach(self):
        process, output, recorder, attached = self.start_recorded()
        started = time.monotonic()
        self.shop.detach(process.pid, recorder)
        detached = time.monotonic() - started
        self.finish_target(process, "attach and detach")
        return attached, detached

    def attach(self, span):
        process, output, moment = self.start_target(), self.shop.new_output(), self.random.random() * span
        recorder = self.shop.start([self.shop.contrail, "attach", "--quiet", "--output", output] + self.options() +
                                   [str(process.pid)])
        time.sleep(moment)
        kill(recorder)
        recorder.communicate()
        self.finish_target(process, "attach, killed after %.1f ms" % (moment * 1e3))
        self.events += look_at(self.shop, output, self.lossless)

    def detach(self, span):
        moment = self.random.random() * span
        process, output, recorder, _ = self.start_recorded(self.options())
        other = self.shop.start([self.shop.contrail, "detach", str(process.pid)])
        time.sleep(moment)
        kill(recorder)
        recorder.communicate()
        finish(other, what="detach of a killed contrail")
        self.finish_target(process, "detach, killed after %.1f ms" % (moment * 1e3))
        self.events += look_at(self.shop, output, self.lossless)

    def again(self):
        """Somebody attaches again to what a killed contrail has left."""
        process, output, recorder, _ = self.start_recorded()
        kill(recorder)
        recorder.communicate()
        second = self.shop.start([self.shop.contrail, "attach", "--quiet", "--output", self.shop.new_output(),
                                  str(process.pid)])
        self.finish_target(process, "attached to again")
        finish(second, what="the second attach")


def kill_controllers(shop, program, times, source):
    controller = Controller(shop, program, source)
    spawned = controller.measure_spawn()
    attached, detached = controller.measure_attach()
    kinds = [(controller.spawn, spawned * 1.1), (controller.attach, attached * 1.5),
             (controller.detach, detached * 1.5)]
    for i in range(times):
        function, span = kinds[i % len(kinds)]
        controller.lossless = bool(i // len(kinds) % 2)
        function(span)
        left = [x for x in shop.leftovers() if not x.endswith(".sock is left")]  # nobody was there to remove it
        if left:
            raise Failure("%s: %s" % (function.__name__, left[0]))
    for _ in range(3):
        controller.again()
    shutil.rmtree(shop.runtime)
    os.mkdir(shop.runtime)
    return "%d kills, %d before the program ran; %d events in their traces" % (times, controller.never_ran,
                                                                             controller.events)


def kill_target(shop, program, moment):
    output, announced = shop.new_output(), shop.path("announced")
    process = shop.start(shop.spawn_command(output, ["--lossless"], [program.path, announced]))
    wait_for("the program begins", lambda: process.poll() is not None or read_announced(announced) != (0, 0))
    time.sleep(moment)
    children = children_of(process.pid)
    if len(children) != 1:
        raise Failure("contrail has the children %s" % children)
    os.kill(children[0], signal.SIGKILL)
    result = finish(process, what="contrail after its target's death")
    if result.code != 128 + 9:
        raise Failure("exit code %d after a kill: %r" % (result.code, result.err))
    done = read_announced(announced)
    os.unlink(announced)
    directory = atf.find(output)[0]
    shop.read("verify", directory)
    return compare_announced(directory, program, done)


def read_announced(path):
    try:
        with open(path, "rb") as f:
            content = f.read(16)
    except OSError:
        return (0, 0)
    return (int.from_bytes(content[:8], "little"), int.from_bytes(content[8:], "little"))


def compare_announced(directory, program, done):
    trace = atf.Trace(directory)
    problems = trace.check()
    if problems or trace.lost:
        raise Failure("the trace of a killed program: %s, %d lost" % (problems[:1], trace.lost))
    if not trace.complete:
        raise Failure("contrail lived, and its trace is not complete")
    names, events = own_functions(trace, program), 0
    for thread in trace.threads:
        steps = batches = 0
        for _, _, function, kind in thread.chosen(names):
            if kind == atf.RETURN:
                steps += names[function] == "step"
                batches += names[function] == "batch"
        events += len(thread)
        expected = done[0] if thread.tid == trace.pid else done[1]
        if batches < expected or batches > expected + 1 or steps < 50 * batches:
            raise Failure("%d batches were announced, %d are in the trace, with %d steps" % (expected, batches, steps))
    return events


def kill_targets(shop, program, times, source):
    events = 0
    for _ in range(times):
        events += kill_target(shop, program, source.random() * 0.1)
    return "%d kills, %d events, none missing" % (times, events)


def main():
    def options(parser):
        parser.add_argument("--times", type=int, default=40)
        parser.add_argument("--seed", type=int, default=int(time.time()))
    checks = Checks(__doc__, options)
    arguments = checks.arguments
    if os.environ.get("CONTRAIL_TEST_EMULATED"):  # an emulated processor takes minutes for a dozen
        arguments.times = min(arguments.times, 3)
    print("seed %d" % arguments.seed)
    source = random.Random(arguments.seed)
    answer, sequence = checks.program("answer"), checks.program("sequence")
    checks.run("controller", lambda shop: kill_controllers(shop, answer, arguments.times, source))
    checks.run("target", lambda shop: kill_targets(shop, sequence, arguments.times, source))
    return checks.verdict()


if __name__ == "__main__":
    sys.exit(main())
