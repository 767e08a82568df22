#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crashes.py: programs that die, or handle what others die of, under --trigger crash and --trigger signal.

Output, exit code and core file are those of an untraced run; every call that the program has counted is in the trace;
signals are in index, detail file and manifest, with the stacks as they stood."""
import json
import os
import platform
import resource
import shutil
import signal
import struct
import subprocess
import sys

import atf
import building
from checks import Checks
from expectation import own_functions
from recorder import EMULATED, Failure, finish, read_line, wait_for

PROGRAM = {}
GDB_SCRIPT = os.path.join(building.E2E, "..", "..", "scripts", "gdb", "contrail.py")
THREADS = 8
ARM64 = platform.machine() == "aarch64"
# Of a signal record, the last two are pc and flags; and how far in moved_load() the instruction is that faults.
PC, SP, REGISTERS, MOVED = ("pc", "sp", 34, 0) if ARM64 else ("rip", "rsp", 18, 3)


def cores_allowed():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def no_cores():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def core_files_are_plain():
    """Core files land in the working directory here."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    with open("/proc/sys/kernel/core_pattern") as f:
        return f.read().strip() == "core" and hard == resource.RLIM_INFINITY


def counted(path):
    with open(path, "rb") as f:
        numbers = struct.unpack("<%dQ" % (2 * (THREADS + 1)), f.read(16 * (THREADS + 1)))
    return numbers[:THREADS + 1], numbers[THREADS + 1:]


class Run:
    """The program untraced and recorded, compared; then what the trace holds."""

    def __init__(self, shop, way, options=("--trigger", "crash"), core=False, program="crashes", words=()):
        self.shop, self.program = shop, PROGRAM[program]
        self.output = shop.new_output()
        before = cores_allowed if core else no_cores
        ends = []
        for recorded in (False, True):
            directory = shop.path("work%d" % (shop.outputs * 2 + recorded))
            self.counts = directory + "_counts"
            os.mkdir(directory)
            command = [self.program.path, way, self.counts, *words]
            if recorded:
                command = shop.spawn_command(self.output, ["--lossless"] + list(options), command)
            result = shop.run(command, cwd=directory, preexec_fn=before)
            ends.append((result.code % 256 if result.code >= 0 else 128 - result.code, result.out, result.err,
                         any(n.startswith("core") for n in os.listdir(directory))))
            subprocess.run(["rm", "-rf", directory], check=True)
        if ends[0] != ends[1]:
            raise Failure("%s: (code, output, errors, core) untraced is %s, recorded %s" % (way, ends[0], ends[1]))
        if core and not ends[0][3]:
            raise Failure("no core file even untraced")
        self.code = ends[0][0]

    def trace(self, number=0, total=1):
        found = atf.find(self.output)
        if len(found) != total:
            raise Failure("%d traces instead of %d" % (len(found), total))
        return self.look_at(found[number])

    def look_at(self, directory):
        self.shop.read("verify", directory)
        self.shop.read("info", directory)
        trace = atf.Trace(directory)
        problems = trace.check()
        if problems or trace.lost or not trace.complete:
            raise Failure("%s, %d lost, complete: %s" % (problems[:1], trace.lost, trace.complete))
        return trace

    def check_steps(self, trace, only=None):
        """Each thread's steps, as it has counted them."""
        steps, tids = counted(self.counts)
        names = own_functions(trace, self.program)
        for number, (expected, tid) in enumerate(zip(steps, tids)):
            if not tid or (only is not None and number not in only):
                continue
            calls = sum(names[f] == "step" and kind == atf.CALL for t in trace.threads if t.tid == tid
                        for _, _, f, kind in t.chosen(names))
            if calls != expected:
                raise Failure("thread %d has made %d steps, %d are in its trace" % (tid, expected, calls))


def signals_of(trace):
    return trace.manifest["signals"]


def events_of(trace):
    """[(thread, position)] of signals in the index."""
    return [(t, i) for t in trace.threads for i, f in enumerate(t.functions) if f == atf.SIGNAL]


def detail_of(trace, thread, position):
    """The signal record: (signal, code, fault address, registers), read without Contrail's code."""
    path = os.path.join(trace.directory, "thread_%d" % thread.id, "detail.atf")
    with open(path, "rb") as f:
        content = f.read()
    at = 64
    for _ in range(thread.details[position]):
        at += struct.unpack_from("<I", content, at)[0]
    length, kind, _, sequence, tid, time_ns = struct.unpack_from("<IHHIIQ", content, at)
    if (length, kind, sequence, tid, time_ns) != (40 + 8 * REGISTERS, 5, position, thread.tid, thread.times[position]):
        raise Failure("signal record %s of event %d at %d ns" % ((length, kind, sequence, tid, time_ns), position,
                                                               thread.times[position]))
    number, code, fault = struct.unpack_from("<IIQ", content, at + 24)
    return number, code, fault, struct.unpack_from("<%dQ" % REGISTERS, content, at + 40)


def expect_crash(trace, number, frames, code=None, fault=None):
    """One fatal signal: in the manifest with this backtrace, and at the end of its thread's index."""
    fatal = [s for s in signals_of(trace) if s["fatal"]]
    if [s["signal"] for s in fatal] != [number] or trace.manifest["end"].get("signal") != number:
        raise Failure("fatal signals %s, end %s" % (fatal, trace.manifest["end"]))
    entry = fatal[0]
    if (code is not None and entry["code"] != code) or (fault is not None and entry["fault_address"] != fault):
        raise Failure("code %s and address %s" % (entry["code"], entry.get("fault_address")))
    stack = [f["function"] for f in entry["stacks"][0]["frames"]]
    if [f for f in stack if f in frames][:len(frames)] != list(frames):
        raise Failure("the backtrace is %s, expected %s" % (stack, frames))
    events = [(t, i) for t, i in events_of(trace) if t.tid == entry["tid"]]
    thread, position = events[-1]
    if position != len(thread) - 1:
        raise Failure("the signal is event %d of %d" % (position, len(thread)))
    found = detail_of(trace, thread, position)
    if found[0] != number or found[2] != entry.get("fault_address", 0) or found[3][-2] != int(
            entry["registers"][PC], 16):
        raise Failure("signal record %s, manifest %s" % (found[:3], entry))
    if "crash" not in json.dumps(trace.manifest["windows"]):
        raise Failure("no window has the crash as its reason: %s" % trace.manifest["windows"])
    return entry


# ---- ends ----

def dies(way, number, frames, **more):
    def check(shop):
        run = Run(shop, way)
        trace = run.trace()
        expect_crash(trace, number, frames, **more)
        run.check_steps(trace)
        if run.code != 128 + number:
            raise Failure("exit code %d" % run.code)
    return check


def fpe(shop):
    if ARM64:
        return "skipped: a division by zero is 0 there"
    return dies("fpe", signal.SIGFPE, ["fpe", "main"], code=1)(shop)


def moved(shop):
    """In an instruction that runs in a stub: its place in the program is reported."""
    run = Run(shop, "moved")
    entry = expect_crash(run.trace(), signal.SIGSEGV, ["moved_load", "moved", "main"], code=1, fault=0x18)
    innermost = entry["stacks"][0]["frames"][0]
    if innermost["offset"] != MOVED or innermost["pc"] != int(entry["registers"][PC], 16):
        raise Failure("the innermost frame is %s, pc %s" % (innermost, entry["registers"][PC]))


def gdb_frames(shop, options):
    """What gdb shows of the core file, with the script that comes with Contrail."""
    directory, output = shop.path("core%d" % shop.outputs), shop.new_output()
    os.mkdir(directory)
    program = PROGRAM["crashes"].path
    shop.run(shop.spawn_command(output, options, [program, "moved", directory + "_counts"]), cwd=directory,
             preexec_fn=cores_allowed)
    core = [os.path.join(directory, n) for n in os.listdir(directory) if n.startswith("core")]
    text = subprocess.run(["gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "source " + GDB_SCRIPT,
                           "-ex", "bt", program] + core, capture_output=True, text=True).stdout
    subprocess.run(["rm", "-rf", directory], check=True)
    frames = [line.split(" in ")[-1].split()[0] for line in text.splitlines() if line.startswith("#")]
    return frames[1:]  # it shows the innermost one by itself first


def gdb_core(shop):
    if not core_files_are_plain() or not shutil.which("gdb"):
        return "skipped: needs gdb, and core files in the working directory"
    for options in (["--trigger", "crash"], []):
        frames = gdb_frames(shop, options)
        if [f for f in frames if f != "??"][:3] != ["moved_load", "moved", "main"]:
            raise Failure("with %s gdb shows %s" % (options, frames))
    return None


def core_file(shop):
    if not core_files_are_plain():
        return "skipped: core files do not land in the working directory here"
    Run(shop, "null", core=True)
    run = Run(shop, "child", core=True)  # its output has WCOREDUMP
    return None if run.code == 7 else "exit code %d" % run.code


def terminate(shop):
    run = Run(shop, "-", program="crashes_cc")
    # On x86_64 gcc has put the one that throws into a cold part.
    expect_crash(run.trace(), signal.SIGABRT, ["_Z7throweri"] * (5 if ARM64 else 4) + ["main"])


def stack_overflow(shop):
    run = Run(shop, "overflow")
    trace = run.trace()
    entry = expect_crash(trace, signal.SIGSEGV, ["deeper"])
    if not entry["stacks"][0].get("more"):
        raise Failure("the stack ends after %d frames" % len(entry["stacks"][0]["frames"]))
    if abs(entry["fault_address"] - int(entry["registers"][SP], 16)) > 1 << 16:
        raise Failure("fault at %#x, sp %s" % (entry["fault_address"], entry["registers"][SP]))
    run.check_steps(trace)


def killed(shop):
    """SIGKILL cannot be seen before it strikes."""
    run = Run(shop, "killed", ["--trigger", "crash", "--no-children"])
    trace = run.trace()
    if [(s["name"], s["fatal"]) for s in signals_of(trace)] != [("SIGKILL", True)]:
        raise Failure("signals %s" % signals_of(trace))
    run.check_steps(trace)


def threads(shop):
    run = Run(shop, "threads")
    trace = run.trace()
    entry = expect_crash(trace, signal.SIGSEGV, ["fall", "worker"], fault=0x18)
    tops = [next((f["function"] for f in s["frames"] if f["function"] in ("worker", "threads")), "")
            for s in entry["stacks"]]
    if sorted(tops) != ["threads"] + ["worker"] * THREADS:
        raise Failure("stacks of %s" % tops)
    run.check_steps(trace)


def child(shop):
    run = Run(shop, "child")
    first = run.trace(0, 2)
    second = run.look_at(next(d for d in atf.find(run.output) if d != first.directory))
    if first.manifest["end"].get("signal"):
        first, second = second, first
    expect_crash(second, signal.SIGSEGV, ["fall", "child", "main"], fault=0x18)
    if signals_of(first) or first.manifest["end"] != {"reason": "exit", "exit_code": 7}:
        raise Failure("the parent: %s, %s" % (signals_of(first), first.manifest["end"]))
    run.check_steps(first, [0])
    run.check_steps(second, [1])


def library(shop):
    trace = Run(shop, "library").trace()
    expect_crash(trace, signal.SIGSEGV, ["crash_deep"] * 4 + ["crash_in_library", "library", "main"], fault=0x20)


def executes(shop):
    """Execs that fail, which the process survives held, and one that is followed."""
    run = Run(shop, "exec")
    traces = [run.look_at(d) for d in atf.find(run.output)]
    if len(traces) != 2:
        raise Failure("%d traces" % len(traces))
    crashed = next(t for t in traces if t.manifest["end"].get("signal"))
    if [t.manifest["unrecorded"] for t in traces] != [[], []]:
        raise Failure("unrecorded %s" % [t.manifest["unrecorded"] for t in traces])
    expect_crash(crashed, signal.SIGSEGV, ["fall", "null", "main"])
    run.counts += "_second"
    run.check_steps(crashed)


# ---- what is handled ----

def handlers(shop):
    for way, number in (("jumps", 50), ("altstack", 1)):
        run = Run(shop, way)
        trace = run.trace()
        events = events_of(trace)
        if len(events) != number or [s for s in signals_of(trace) if s["fatal"] or not s["handled"]]:
            raise Failure("%s: %d signals, %s" % (way, len(events), signals_of(trace)[:1]))
        names = own_functions(trace, run.program)
        for thread, position in events:
            detail_of(trace, thread, position)
            if way == "jumps" and names.get(thread.functions[position + 1]) != "on_fault":
                raise Failure("behind signal %d comes %s" % (position, names.get(thread.functions[position + 1])))
        run.check_steps(trace)
        if trace.manifest["windows"]:
            raise Failure("a signal that was handled is no crash: %s" % trace.manifest["windows"])


def storm(shop):
    count = 5000 if EMULATED else 100000
    trace = Run(shop, "storm", ["--trigger", "signal=USR1", "--only", "crashes"], words=[str(count)]).trace()
    events, told = events_of(trace), trace.manifest["signals_told"]
    if len(events) != count or told != count:
        raise Failure("%d of %d signals in the index, %d told" % (len(events), count, told))


def jobs(shop):
    """Job control, sigwait and EINTR; also where signals of that kind are reported."""
    if ARM64:
        return "skipped: newer kernels do not show how to repeat the call (docs/LIMITS.md)"
    Run(shop, "jobs")
    trace = Run(shop, "jobs", ["--trigger", "signal=CONT", "--trigger", "signal=WINCH", "--no-children"]).trace()
    if [s["name"] for s in signals_of(trace)] != ["SIGCONT", "SIGWINCH"]:
        raise Failure("signals %s" % [s["name"] for s in signals_of(trace)])


# ---- coming and going ----

def start_service(shop, command=None):
    process = shop.start(command or [PROGRAM["crashes"].path, "serve", shop.path("counts")], stdin=subprocess.PIPE)
    line = read_line(process.stdout, "the service has begun") + read_line(process.stdout, "it is ready")
    if line != b"begin serve\nready\n":
        raise Failure("it says %r" % line)
    return process


def wait_for_signals(shop):
    """The service has done some rounds more, each with a signal."""
    done = lambda: counted(shop.path("counts"))[0][0]
    before = done()
    wait_for("the service goes on", lambda: done() >= before + 100)


def check_service(process, what, code=7):
    result = finish(process, what=what)  # it ends when its input does
    if result.out != b"handled all\n" or (code is not None and result.code != code) or result.err:
        raise Failure("%s: it ends with %d, %r, %r" % (what, result.code, result.out, result.err))


def tracer_of(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(next(line for line in f if line.startswith("TracerPid:")).split()[1])


def detach(shop):
    """Attached, held, detached: three times."""
    process = start_service(shop)
    for _ in range(3):
        recorder = shop.attach(process.pid, shop.new_output(), ["--trigger", "crash"])
        if not tracer_of(process.pid):
            raise Failure("it is not held")
        other = shop.run([shop.contrail, "attach", "--output", shop.new_output(), str(process.pid)])
        if other.code == 0 or b"contrail detach %d" % process.pid not in other.err:
            raise Failure("a second recorder: %d, %r" % (other.code, other.err))
        shop.detach(process.pid, recorder)
        if tracer_of(process.pid):
            raise Failure("it is still traced")
    check_service(process, "after detach")


def live(shop):
    """Held from the moment when the trigger is added, until it is removed; then again, for the end."""
    process, output = start_service(shop), shop.new_output()
    recorder = shop.attach(process.pid, output)
    for words, held in ((["add", "signal=USR1"], True), (["add", "crash"], True), (["remove", "signal=USR1"], True),
                        (["remove", "crash"], False), (["add", "crash"], True)):
        result = shop.run([shop.contrail, "ctl", str(process.pid), "trigger"] + words)
        if result.code != 0 or bool(tracer_of(process.pid)) != held:
            raise Failure("%s: code %d, held by %d, %r" % (words, result.code, tracer_of(process.pid), result.err))
        wait_for_signals(shop)
    process.send_signal(signal.SIGSEGV)
    finish(process)
    finish(recorder, what="contrail")
    shop.read("verify", atf.find(output)[0])
    trace = atf.Trace(atf.find(output)[0])
    names = [s["name"] for s in signals_of(trace)]
    if names[-1:] != ["SIGSEGV"] or not signals_of(trace)[-1]["fatal"] or "SIGUSR1" not in names:
        raise Failure("signals %s" % names)


def recorder_killed(shop):
    for _ in range(3):
        process = start_service(shop)
        recorder = shop.attach(process.pid, shop.new_output(), ["--trigger", "crash", "--trigger", "signal=USR1"])
        wait_for_signals(shop)
        recorder.kill()
        recorder.communicate()
        check_service(process, "after its recorder was killed")
    for name in os.listdir(shop.runtime):  # nobody was there to remove it
        path = os.path.join(shop.runtime, name)
        subprocess.run(["rm", "-rf", path], check=True)


def handlers_alone(shop):
    """Handlers of faults work on when the recorder is killed, and for the next one."""
    gates = [shop.path("gate%d" % i) for i in range(2)]
    for gate in gates:
        os.mkfifo(gate)
    process = shop.start([PROGRAM["faults"].path], environment={"E2E_WAIT": gates[0], "E2E_WAIT_END": gates[1]})
    for gate in gates:
        with open(gate, "wb") as f:  # it is there
            recorder = shop.attach(process.pid, shop.new_output())
            if gate == gates[0]:
                recorder.kill()
                recorder.communicate()
            f.write(b".")
    result = finish(process, what="faults")
    finish(recorder, what="contrail")
    if (result.code, result.out) != (0, b"0 wrong\n"):
        raise Failure("it ends with %d and says %s %s" % (result.code, result.out, result.err[-300:]))
    for name in os.listdir(shop.runtime):  # the killed one's
        subprocess.run(["rm", "-rf", os.path.join(shop.runtime, name)], check=True)


def default(shop):
    """Without the trigger nothing is held, and the end is known all the same."""
    run = Run(shop, "threads", [])
    trace = run.trace()
    if trace.manifest["ptrace_held"] or events_of(trace) or [s["name"] for s in signals_of(trace)] != ["SIGSEGV"]:
        raise Failure("held %s, signals %s" % (trace.manifest["ptrace_held"], signals_of(trace)))
    run.check_steps(trace)
    text = run.shop.read("info", trace.directory).out.decode()
    for word in ("SIGSEGV", "fall", "worker", "--trigger crash"):
        if word not in text:
            raise Failure("info does not tell of %s" % word)


def main():
    checks = Checks(__doc__)
    directory = checks.directory("crashes")

    def source(name):
        return os.path.join(building.PROGRAMS, name)
    PROGRAM["crashes"] = building.build(directory, "crashes", [source("crashes.c")], "O2", ["-pthread"],
                                        [("@libcrashes.so", [source("crashes_library.c")])])
    PROGRAM["faults"] = building.build(directory, "faults", [source("faults.c")], "O2", ["-pthread"])
    PROGRAM["crashes_cc"] = building.build(directory, "crashes_cc", [source("crashes_cc.cc")], "O2")
    for name, check in (
            ("null", dies("null", signal.SIGSEGV, ["fall", "null", "main"], code=1, fault=0x18)),
            ("bus", dies("bus", signal.SIGBUS, ["bus", "main"], code=2)),
            ("ill", dies("ill", signal.SIGILL, ["ill", "main"])),
            ("fpe", fpe),
            ("abort", dies("abort", signal.SIGABRT, ["abort", "aborts", "main"])),
            ("term", dies("term", signal.SIGTERM, ["terminated", "main"])),
            ("moved", moved), ("gdb_core", gdb_core), ("core_file", core_file), ("terminate", terminate),
            ("overflow", stack_overflow), ("killed", killed),
            ("threads", threads), ("child", child), ("library", library), ("exec", executes), ("handlers", handlers),
            ("storm", storm), ("jobs", jobs), ("detach", detach), ("live", live), ("recorder_killed", recorder_killed),
            ("handlers_alone", handlers_alone), ("default", default)):
        checks.run(name, check)
    return checks.verdict()


if __name__ == "__main__":
    sys.exit(main())
