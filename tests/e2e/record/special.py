#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""special.py: special ways to record: some functions only, with losses, until a signal or a time, onto a full disk."""
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import atf
import targets
from expectation import own_functions
from recorder import Failure, Gate, children_of, finish, read_line, status_of, text_changes, wait_for
from targets import built, need_root, start_answer


# ---- what is recorded ----

def only_some(shop):
    """--only, --exclude and --max-depth."""
    program = built("test_cli")
    names = set(program.own["test_cli"].values())
    for options, expected in (
            (["--only", "fib", "--only", "half"], {"fib": 15, "half": 1}),
            (["--exclude", "libc.so*", "--exclude", "ld-linux*", "--exclude", "fib", "--exclude", "is_*"],
             {n: None for n in names - {"fib", "is_even", "is_odd"}}),
            (["--only", "test_cli", "--max-depth", "6"], {"factorial": None, "main": 1})):
        output = shop.new_output()
        result = shop.run(shop.spawn_command(output, ["--lossless"] + options, [program.path]))
        if result.code != 3 or result.err:
            raise Failure("%s: it ends with %d: %r" % (options, result.code, result.err))
        shop.read("verify", atf.find(output)[0])
        trace = atf.Trace(atf.find(output)[0])
        own = own_functions(trace, program)
        calls = {}
        for thread in trace.threads:
            for function, kind in zip(thread.functions, thread.kinds):
                if kind == atf.CALL:
                    name = own.get(function, trace.functions[function].where)
                    calls[name] = calls.get(name, 0) + 1
            if "--max-depth" in options and max(thread.depths) > 5:
                raise Failure("depth %d" % max(thread.depths))
        if "--max-depth" not in options and (set(calls) - {"_start", "_init", "_fini"} - set(expected) -
                                             {c for c in calls if c not in names and "+0x" in c} - {
                "deregister_tm_clones", "register_tm_clones", "__do_global_dtors_aux", "frame_dummy"}):
            raise Failure("%s: recorded %s" % (options, calls))
        wrong = {n: calls.get(n) for n, times in expected.items() if calls.get(n) is None
                 or times not in (None, calls[n])}
        wrong = {n: c for n, c in wrong.items() if n not in ("wait_for_start", "wait_for_end") or c}
        if wrong:
            raise Failure("%s: calls %s, expected %s" % (options, wrong, expected))
    return None


def losses_add_up(shop):
    """Whatever is lost is counted: events on disk and lost ones are together as many as without losses. The recorder is
    stopped while the program makes more events than there is memory for."""
    program = built("file_limit")
    totals = []
    for stopped in (False, True):
        output, gates = shop.new_output(), [Gate(shop.path("%s%d" % (name, stopped))) for name in ("start", "end")]
        process = shop.start([program.path], environment={"E2E_WAIT": gates[0].path, "E2E_WAIT_END": gates[1].path})
        gates[0].wait(process)
        recorder = shop.attach(process.pid, output,
                               ["--only", "file_limit"] + (["--index-mem", "1M"] if stopped else ["--lossless"]))
        if stopped:
            os.kill(recorder.pid, signal.SIGSTOP)
            wait_for("the recorder stops", lambda: "state T" in status_of(recorder.pid))
        gates[0].open()
        gates[1].wait(process)
        os.kill(recorder.pid, signal.SIGCONT)
        gates[1].open()
        result, ended = finish(process), finish(recorder)
        if result.code != 0 or result.err or ended.code != 0:
            raise Failure("it ends with %d: %r; the recorder with %d: %r" % (result.code, result.err, ended.code,
                                                                             ended.err))
        shop.read("verify", atf.find(output)[0])
        trace = atf.Trace(atf.find(output)[0])
        totals.append((sum(len(t) for t in trace.threads), trace.lost))
    if totals[0][1] or not totals[1][1]:
        raise Failure("(written, lost) is %s" % totals)
    if sum(totals[0]) != sum(totals[1]):
        raise Failure("lossless %d events, otherwise %d written and %d lost: %d are missing" % (
            totals[0][0], totals[1][0], totals[1][1], totals[0][0] - sum(totals[1])))
    return "%d written and %d lost" % totals[1]


# ---- signals, time, disks ----

def progress(announced):
    with open(announced, "rb") as f:
        return struct.unpack("<2Q", f.read(16))


def start_sequence(shop):
    """Goes on until its input ends; also returns the file that says how far it is."""
    announced = shop.path("announced")
    process = shop.start([built("sequence").path, announced, "hold"], stdin=subprocess.PIPE)
    wait_for("the program begins", lambda: os.path.exists(announced) and os.path.getsize(announced)
             and all(progress(announced)))
    return process, announced


def interrupted(shop, number, group):
    """A signal to contrail detaches an attached target; one to the whole group reaches a spawned target, as it would
    untraced."""
    process = start_answer(shop, [built("answer").path])
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    recorder.send_signal(number)
    ended = finish(recorder, what="contrail after a signal")
    if ended.code != 0:
        raise Failure("attach ends with %d after a signal: %r" % (ended.code, ended.err))
    changes = text_changes(process.pid)
    if changes:
        raise Failure(changes[0])
    result = finish(process)
    if result.code != 21:
        raise Failure("the program ends with %d" % result.code)
    shop.read("verify", atf.find(output)[0])
    return None


def interrupted_early(shop):
    """Ctrl-C at any moment of an attach: undone, the target goes on."""
    source = random.Random(1)
    for i in range(8):
        process = start_answer(shop, [built("answer").path])
        output = shop.new_output()
        recorder = shop.start([shop.contrail, "attach", "--quiet", "--output", output, str(process.pid)])
        time.sleep(source.random() * 0.25)
        recorder.send_signal(signal.SIGINT)
        finish(recorder, what="contrail after a signal")
        changes = text_changes(process.pid)
        if changes:
            raise Failure("attempt %d: %s" % (i, changes[0]))
        result = finish(process)
        if result.code != 21:
            raise Failure("attempt %d: the program ends with %d: %r" % (i, result.code, result.err))
    return None


def group_signal(shop):
    """Ctrl-C on a terminal reaches contrail and its target; a target that ignores it lives on and is recorded."""
    output = shop.new_output()
    process = shop.start(["sh", "-c", 'trap "" INT; exec "$@"', "sh"] +
                         shop.spawn_command(output, ["--lossless"], [built("answer").path, "100", "hold"]),
                         start_new_session=True, stdin=subprocess.PIPE)
    read_line(process.stdout, "the program has begun")
    shop.wait_for_events(children_of(process.pid)[0], 1)
    os.killpg(process.pid, signal.SIGINT)
    result = finish(process)
    if result.code != 21 or not re.search(rb"[0-9a-f]{16}\n", result.out):
        raise Failure("it ends with %d: %r %r" % (result.code, result.out, result.err))
    return None


def target_signalled(shop):
    """The target dies of a signal that contrail does not: 128 + number."""
    output = shop.new_output()
    process = shop.start(shop.spawn_command(output, [], [built("answer").path, "100", "hold"]), stdin=subprocess.PIPE)
    read_line(process.stdout, "the program has begun")
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as f:
        os.kill(int(f.read().split()[0]), signal.SIGTERM)
    result = finish(process)
    if result.code != 128 + signal.SIGTERM:
        raise Failure("it ends with %d: %r" % (result.code, result.err))
    shop.read("verify", atf.find(output)[0])
    return None


def recorder_stopped(shop):
    """A stopped contrail is not a dead one: the target goes on, and what it did is recorded when contrail continues."""
    process, announced = start_sequence(shop)
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    os.kill(recorder.pid, signal.SIGSTOP)
    wait_for("the recorder stops", lambda: "state T" in status_of(recorder.pid))
    seen = progress(announced)
    wait_for("the target goes on", lambda: all(now > before + 100 for now, before in zip(progress(announced), seen)))
    os.kill(recorder.pid, signal.SIGCONT)
    result = finish(process)
    finish(recorder)
    if (result.code, result.out) != (0, b"finished\n"):
        raise Failure("the program ends with %d: %r" % (result.code, result.out))
    shop.read("verify", atf.find(output)[0])
    return None


def killed_while_waited_for(shop):
    """The lane is full and the target waits for contrail (--lossless), which is killed: the target goes on."""
    process, announced = start_sequence(shop)
    output = shop.new_output()
    recorder = shop.attach(process.pid, output, ["--lossless", "--index-mem", "1M"])
    os.kill(recorder.pid, signal.SIGSTOP)
    wait_for("the recorder stops", lambda: "state T" in status_of(recorder.pid))
    recent = []

    def stands():
        """No progress in ten looks: both threads wait."""
        recent.append(progress(announced))
        time.sleep(0.05)
        return len(recent) > 10 and recent[-1] == recent[-11]
    wait_for("the target waits", stands)
    os.kill(recorder.pid, signal.SIGKILL)
    recorder.communicate()
    seen = progress(announced)
    wait_for("the target goes on", lambda: all(now > before + 100 for now, before in zip(progress(announced), seen)))
    result = finish(process)
    if (result.code, result.out) != (0, b"finished\n"):
        raise Failure("the program ends with %d: %r" % (result.code, result.out))
    shop.read("info", atf.find(output)[0])
    shutil.rmtree(shop.runtime)  # nobody was there to remove the socket
    os.mkdir(shop.runtime)
    return None


def for_a_while(shop):
    """--duration lets go by itself."""
    process = start_answer(shop, [built("answer").path])
    output = shop.new_output()
    result = shop.run([shop.contrail, "attach", "--quiet", "--output", output, "--duration", "0.2", str(process.pid)])
    if result.code != 0:
        raise Failure("attach ends with %d: %r" % (result.code, result.err))
    changes = text_changes(process.pid)
    if changes:
        raise Failure(changes[0])
    ended = finish(process)
    if ended.code != 21:
        raise Failure("the program ends with %d" % ended.code)
    shop.read("verify", atf.find(output)[0])
    return None


def full_disk(shop, encoding, size, rounds):
    """The disk is full: recording stops and says so, the target does not notice, what is on disk can be read."""
    if need_root():
        return need_root()
    place = shop.path("small")
    os.mkdir(place)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "none", place]).returncode != 0:
        return "skipped: cannot mount"
    try:
        program = built("answer")
        result = shop.run([shop.contrail, "spawn", "--lossless", "--format", encoding, "--output", place, program.path,
                           rounds])
        if result.code != 69 or not re.search(rb"[0-9a-f]{16}\n", result.out):
            raise Failure("it ends with %d: %r %r" % (result.code, result.out, result.err))
        if not re.search(rb"disk|space", result.err):
            raise Failure("it does not say that the disk is full: %r" % result.err)
        shop.read("info", atf.find(place)[0])
        shop.read("verify", atf.find(place)[0])
    finally:
        subprocess.run(["umount", place])
    return None


TABLE = {
    "only some functions": only_some,
    "losses add up": losses_add_up,
    "SIGINT": lambda shop: interrupted(shop, signal.SIGINT, False),
    "SIGTERM": lambda shop: interrupted(shop, signal.SIGTERM, False),
    "SIGINT at any moment": interrupted_early,
    "SIGINT to the group": group_signal,
    "SIGTERM to the target": target_signalled,
    "recorder stopped": recorder_stopped,
    "recorder killed while the target waits": killed_while_waited_for,
    "duration": for_a_while,
    "full disk": lambda shop: full_disk(shop, "packed", "1m", "4000"),
    "full disk, raw": lambda shop: full_disk(shop, "atf2", "3m", "1500"),
}


if __name__ == "__main__":
    sys.exit(targets.run_table(__doc__, TABLE))
