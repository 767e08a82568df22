#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torture.py: recorders and programs are killed, stopped and starved at random moments, in all modes.

A round is a program, a mode, a trouble and a moment, all chosen by the seed and the round's number. After it: a program
that was not killed comes to its answer and exit code; the next attach works and leaves nothing in the program; traces
can be read, and `verify` has nothing to say; no process, shared memory or temporary file is left. A failing round
prints the command that repeats it."""
import argparse
import collections
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.append(os.path.join(ROOT, "tests", "e2e", "record"))

import atf  # noqa: E402
import building  # noqa: E402
from recorder import (Failure, Workshop, finish, processes_with, shell_code, status_of, text_changes,  # noqa: E402
                      wait_for)

MODES = ("record", "detail", "stalk", "attach", "attach-detail", "stalk-attach")
VERBS = {"record": ["spawn"], "detail": ["spawn", "--detail", "always"], "stalk": ["stalk"], "attach": ["attach"],
         "attach-detail": ["attach", "--detail", "always"], "stalk-attach": ["stalk"]}
TROUBLES = ("kill contrail", "kill target", "kill both", "stall contrail", "stall target", "stall and kill contrail",
            "full disk", "file size", "few descriptors", "few processes", "little memory", "leave")
LIMITS = {"file size": (resource.RLIMIT_FSIZE, 1 << 18), "few descriptors": (resource.RLIMIT_NOFILE, 24),
          "few processes": (resource.RLIMIT_NPROC, 8), "little memory": (resource.RLIMIT_AS, 128 << 20)}
PYTHON = "import sys, threading\n" \
         "done = False\n" \
         "def work(k, r):\n    s = k\n    for i in range(60000):\n        s = (s * 75 + i) % 65537\n    r[k] = s\n" \
         "    while not done: s = (s * 75 + 1) % 65537\n" \
         "r = [0] * 3\nthreads = [threading.Thread(target=work, args=(k, r)) for k in range(3)]\n" \
         "[t.start() for t in threads]\nsys.stdin.read(); done = True\n" \
         "[t.join() for t in threads]\nprint(r); sys.exit(9)\n"
# What a recorder may say to a process that a killed one has left (docs/TROUBLESHOOTING.md).
STILL_INSIDE = "carries hooks of a recorder that was killed, and a thread is still inside one"


def build(directory):
    """Programs that go on until their input ends, and then print what is always the same: their commands."""
    commands = {"python3": ["/usr/bin/python3", "-c", PYTHON]}
    for name, suffix in (("answer", ".c"), ("busy", ".c"), ("churn", ".c"), ("leaves_throwing", ".cc")):
        place = os.path.join(directory, "torture", name)
        os.makedirs(place, exist_ok=True)
        program = building.build(place, name, [os.path.join(building.PROGRAMS, name + suffix)], "O2", ["-pthread"])
        commands[name] = [program.path] + (["500", "hold"] if name == "answer" else [])
    return commands


class Round:
    def __init__(self, shop, commands, answers, seed, number, troubles=TROUBLES):
        self.shop, self.number = shop, number
        source = random.Random("%d:%d" % (seed, number))
        self.name = source.choice(sorted(commands))
        self.mode, self.trouble = source.choice(MODES), source.choice(troubles)
        if (self.name, self.trouble) == ("busy", "stall target"):
            self.name = "answer"  # SIGCONT ends calls of busy with EINTR, traced or not (signal(7))
        if (self.name, self.trouble) == ("churn", "little memory"):
            self.name = "answer"  # each of its threads takes its part of the limit while recorded (docs/LIMITS.md)
        self.command, self.answer = commands[self.name], answers.get(self.name)
        self.options = ["--lossless"] if source.random() < 0.3 and "stalk" not in self.mode else []
        self.moment = source.random() ** 2 * 1.5
        self.stall = source.random() * 0.5
        self.next_verb = source.choice(("attach", "stalk"))
        self.attaching = "attach" in self.mode
        self.output, self.mounted = shop.new_output(), None
        self.recorder = self.target = self.pid = None
        self.killed_contrail = self.killed_target = False
        self.notes = []

    def describe(self):
        return "%s %s, %s after %.0f ms" % (self.mode, self.name, self.trouble, self.moment * 1e3) + "".join(
            " " + o for o in self.options)

    # ---- the course of a round ----

    def run(self):
        try:
            self.start()
            time.sleep(self.moment)
            self.find_target()
            self.make_trouble()
            self.settle()
            if self.pid and not self.killed_target and status_of(self.pid) != "gone":
                self.attach_again()
            self.end_target()
            self.look_at_traces()
            self.look_around()
        finally:
            for process in (self.recorder, self.target):
                if process and process.poll() is None:
                    process.kill()
                    process.communicate()
            if self.mounted:
                subprocess.run(["umount", "-l", self.mounted], check=False)

    def start(self):
        if self.trouble == "full disk":
            self.make_small_disk()
        words = [self.shop.contrail] + VERBS[self.mode] + ["--quiet", "--output", self.output] + self.options
        if not self.attaching:
            self.recorder = self.shop.start(words + ["--"] + self.command, stdin=subprocess.PIPE,
                                            preexec_fn=self.limit())
            return
        self.target = self.shop.start(self.command, stdin=subprocess.PIPE)
        self.pid = self.target.pid
        time.sleep(0.05)
        self.recorder = self.shop.start(words + (["--pid"] if self.mode == "stalk-attach" else []) + [str(self.pid)],
                                        preexec_fn=self.limit())

    def limit(self):
        """What the recorder starts with. Memory and descriptors are the target's trouble where it is not our child."""
        if self.trouble not in LIMITS:
            return None
        which, value = LIMITS[self.trouble]
        if self.trouble == "little memory" and not self.attaching:
            value *= 8  # the program inherits it, and needs some of what the recorder leaves
        if self.attaching and self.trouble in ("few descriptors", "little memory"):
            if self.trouble == "little memory":
                value = settled_size(self.pid) + (64 << 20) + int(self.stall * (2 << 30))  # half is the program's
            resource.prlimit(self.pid, which, (value, resource.prlimit(self.pid, which)[1]))
            return None

        def set_limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(which, (value, value))
        return set_limit

    def make_small_disk(self):
        os.mkdir(self.output)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", self.output],
                              stderr=subprocess.DEVNULL)
        if made.returncode:
            self.trouble = "file size"  # not root
        else:
            self.mounted = self.output

    def find_target(self):
        """In modes that start it: the child of contrail that has executed the program."""
        if self.attaching:
            return
        name = os.path.basename(self.command[0])
        for pid, command in processes_with(self.shop.marker.encode()):
            words = command.split(" ")
            if os.path.basename(words[0]) == name and parent_of(pid) == self.recorder.pid:
                self.pid = pid

    def make_trouble(self):
        trouble = self.trouble
        if trouble in ("kill contrail", "kill both"):
            self.kill_contrail()
        if trouble in ("kill target", "kill both") and self.pid:
            self.killed_target = True
            send(self.pid, signal.SIGKILL)
        if trouble.startswith("stall"):
            victim = self.pid if "target" in trouble else self.recorder.pid
            if victim:
                send(victim, signal.SIGSTOP)
                time.sleep(self.stall)
                if "kill" in trouble:
                    self.kill_contrail()
                send(victim, signal.SIGCONT)
        if trouble in LIMITS or trouble == "full disk":
            time.sleep(self.stall)

    def kill_contrail(self):
        if self.recorder.poll() is None:
            self.killed_contrail = True
            self.recorder.kill()
            self.recorder.wait()

    def settle(self):
        """A recorder that lives is asked to go, and goes."""
        if self.killed_target and not self.killed_contrail:
            self.finish_recorder()
        elif not self.killed_contrail and self.attaching:
            if self.recorder.poll() is None:
                self.recorder.send_signal(signal.SIGINT)
            self.finish_recorder()

    def finish_recorder(self):
        self.recorder.stdin = None if self.attaching else self.recorder.stdin
        result = finish(self.recorder, what="contrail (%s)" % self.trouble)
        said = result.err.decode(errors="replace").strip()
        refused = result.code in (64, 69, 70, 77)
        starved = self.trouble in LIMITS or self.trouble == "full disk"
        expected = {137} if self.killed_target and not self.attaching else {0}
        given_up = "ended the start" in said or result.code == 128 + signal.SIGINT and not said  # while it began
        allowed = given_up or refused and (starved or self.killed_target)
        if result.code == 70 or result.code not in expected and not allowed:
            raise Failure("contrail ends with %d: %s" % (result.code, said))
        if said:
            self.notes.append("says")

    # ---- what is to be so afterwards ----

    def attach_again(self):
        """The next recorder clears away what was left, and leaves nothing."""
        if not self.attaching and (self.trouble in LIMITS or self.mounted):
            return  # it lives under the limit
        if not self.attaching and not self.killed_contrail and not self.let_go():
            return
        if self.attaching and self.trouble in ("few descriptors", "little memory"):
            which = LIMITS[self.trouble][0]
            resource.prlimit(self.pid, which, (resource.prlimit(self.pid, which)[1],) * 2)
        output, until = self.shop.new_output(), time.monotonic() + 20
        while True:
            try:
                next_one = self.shop.attach(self.pid, output, ["--pid"] if self.next_verb == "stalk" else [],
                                            self.next_verb)
                break
            except Failure as e:
                if status_of(self.pid) == "gone" or "state Z" in status_of(self.pid):
                    return
                if STILL_INSIDE not in str(e):
                    raise Failure("the next %s: %s" % (self.next_verb, e))
                if time.monotonic() > until:
                    self.notes.append("still inside")  # a thread that sleeps in a call: documented
                    return
                time.sleep(0.2)
        time.sleep(0.05)
        ended = self.shop.detach(self.pid, next_one)
        if ended.code:
            raise Failure("the next %s ends with %d: %r" % (self.next_verb, ended.code, ended.err))
        self.look_into_target()
        self.notes.append("next")
        self.check_trace(output)

    def let_go(self):
        """By the recorder that has started it, as soon as it records. False: it has ended before."""
        wait_for("contrail records", lambda: self.recorder.poll() is not None or self.shop.is_recording(self.pid))
        if self.recorder.poll() is not None or not self.shop.is_recording(self.pid):
            return False
        done = self.shop.run([self.shop.contrail, "detach", str(self.pid)])
        if done.code and self.recorder.poll() is None:
            raise Failure("detach ends with %d: %r" % (done.code, done.err))
        return True

    def look_into_target(self):
        for found in text_changes(self.pid) + strange_mappings(self.pid):
            raise Failure("after the next %s: %s" % (self.next_verb, found))

    def end_target(self):
        process = self.target if self.attaching else self.recorder
        if self.killed_target:
            if self.attaching:
                self.target.communicate()
            else:
                drain(process)
            return
        if process.stdin:
            process.stdin.close()
            process.stdin = None
        if self.attaching:
            result = finish(process)
            self.compare(result.code, result.out, result.err)
            return
        try:
            out, err = process.communicate(timeout=200)  # ends when the target does
        except subprocess.TimeoutExpired:
            raise Failure("the program hangs: %s" % (status_of(self.pid) if self.pid else "not found"))
        code = None if self.killed_contrail else shell_code(process.returncode)
        if (self.trouble in LIMITS or self.trouble == "full disk") and code in (64, 69, 77):
            code = None  # contrail says that it could not record; the program's own code is not reported
        if code is None and self.trouble in LIMITS and not out or self.killed_contrail and not out and not self.pid:
            self.notes.append("never ran")
        else:
            err = b"\n".join(line for line in err.split(b"\n") if not line.startswith(b"contrail: "))
            self.compare(code, out, err)

    def compare(self, code, out, err):
        if self.trouble in ("few processes", "little memory", "few descriptors", "file size") and not self.attaching:
            right = self.limited_answer()
        else:
            right = self.answer
        if (out, err) != right[1:] or code is not None and code != right[0]:
            raise Failure("the program says %r and %r, and ends with %s; right is %r" % (out[-300:], err[-300:], code,
                                                                                         right))

    def limited_answer(self):
        """What the program does under the same limit by itself."""
        return run_plain(self.shop, self.command, self.limit())

    def look_at_traces(self):
        self.check_trace(self.output)

    def check_trace(self, output):
        for directory in atf.find(output):
            if not os.path.exists(os.path.join(directory, "manifest.json")):
                continue
            self.shop.read("info", directory)
            verified = self.shop.run([self.shop.contrail, "verify", directory])
            if verified.code:
                raise Failure("verify ends with %d: %s" %
                              (verified.code, (verified.out + verified.err).decode(errors="replace")[:500]))
            self.notes.append("trace")

    def look_around(self):
        left = [x for x in self.shop.leftovers() if not (self.killed_contrail and x.endswith(".sock is left"))]
        if left:
            raise Failure(left[0])
        shutil.rmtree(self.shop.runtime)
        os.mkdir(self.shop.runtime, 0o700)


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def drain(process):
    """The output of a process that has been waited for."""
    for stream in (process.stdout, process.stderr, process.stdin):
        if stream and not stream.closed:
            stream.close()


def size_of(pid):
    with open("/proc/%d/statm" % pid) as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def settled_size(pid):
    """Address space of a program that has started its threads."""
    sizes, until = [0, size_of(pid)], time.monotonic() + 10
    while len(set(sizes[-6:])) > 1 and time.monotonic() < until or len(sizes) < 6:
        time.sleep(0.05)
        sizes.append(size_of(pid))
    return sizes[-1]


def parent_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def strange_mappings(pid):
    """Executable memory of no file, and memory of contrail's."""
    found = []
    with open("/proc/%d/maps" % pid) as f:
        for line in f:
            fields = line.split(None, 5)
            name = fields[5].strip() if len(fields) > 5 else ""
            if "contrail" in name and "memfd" in name or "x" in fields[1] and not name:
                found.append("a mapping is left: %s" % line.strip())
    return found


def run_plain(shop, command, limit=None):
    process = shop.start(command, stdin=subprocess.PIPE, preexec_fn=limit)
    time.sleep(0.3)
    result = finish(process)
    return (result.code, result.out, result.err)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contrail", default="build/src/cli/contrail")
    parser.add_argument("--build", default="/tmp", help="where programs are built and analyses are cached")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--round", type=int, help="this one only")
    parser.add_argument("--trouble", action="append", choices=TROUBLES,
                        help="of this kind; may be repeated (default: all)")
    parser.add_argument("--keep", action="store_true", help="keep the directories of rounds that fail")
    parser.add_argument("--verbose", action="store_true", help="print every round")
    return parser.parse_args()


def run_round(arguments, commands, answers, number):
    """The round, and the sentence that says what is wrong with it."""
    shop = Workshop(os.path.abspath(arguments.contrail), "torture",
                    os.path.join(os.path.abspath(arguments.build), "cache"))
    problem = ""
    this = Round(shop, commands, answers, arguments.seed, number, arguments.trouble or TROUBLES)
    try:
        this.run()
    except (Failure, OSError) as e:
        problem = str(e)
    finally:
        shop.close(keep=bool(problem) and arguments.keep)
    if arguments.verbose or problem:
        print("%s round %d: %s: %s" % ("FAILED" if problem else "ok    ", number, this.describe(),
                                       " ".join(this.notes)))
    if problem:
        print("  %s\n  repeat: tests/fidelity/torture.py --contrail %s --seed %d --round %d%s" % (
            problem.replace("\n", "\n  "), arguments.contrail, arguments.seed, number,
            "".join(" --trouble '%s'" % t for t in arguments.trouble or ())))
    sys.stdout.flush()
    return this, problem


def main():
    arguments = parse()
    print("seed %d" % arguments.seed)
    commands = build(os.path.abspath(arguments.build))
    shop = Workshop(os.path.abspath(arguments.contrail), "torture-answers", "")
    answers = {name: run_plain(shop, command) for name, command in commands.items()}
    shop.close()
    count, failed = collections.Counter(), collections.Counter()
    for number in [arguments.round] if arguments.round is not None else range(arguments.rounds):
        try:
            this, problem = run_round(arguments, commands, answers, number)
        except KeyboardInterrupt:
            break
        count[this.trouble] += 1
        failed[this.trouble] += bool(problem)
        count.update(set(this.notes))
    for trouble in TROUBLES:
        if count[trouble]:
            print("%-24s %4d rounds, %d failed" % (trouble, count[trouble], failed[trouble]))
    print("%d rounds, %d failed; %d times the next recorder was let in, %d times it was refused "
          "because of a thread that sleeps; %d programs never ran" % (
        sum(count[t] for t in TROUBLES), sum(failed.values()), count["next"], count["still inside"],
        count["never ran"]))
    return 1 if sum(failed.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
