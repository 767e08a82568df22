#!/usr/bin/env python3
"""special.py: targets that need more than a program: containers, set-uid programs, other tracers, full disks, signals to
the recorder."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import atf
from checks import Checks
from recorder import Failure, Gate, descriptors, finish, status_of, text_changes
from run import Expectation, compare_trees, own_functions
import building

checks = None
programs = {}


def built(name, variant="O2"):
    if (name, variant) not in programs:
        directory = os.path.join(os.path.abspath(checks.arguments.build), "record", "special", variant)
        os.makedirs(directory, exist_ok=True)
        flags = [] if variant.startswith("musl") else ["-pthread"]
        programs[name, variant] = building.build(directory, name, [os.path.join(building.PROGRAMS, name + ".c")], variant,
                                                 flags)
    return programs[name, variant]


def compare(shop, output, name, mode, program):
    """The trace is right, as the program's .expect says."""
    found = atf.find(output)
    if len(found) != 1:
        raise Failure("%d traces" % len(found))
    shop.read("verify", found[0])
    trace = atf.Trace(found[0])
    problems = compare_trees(Expectation(os.path.join(building.PROGRAMS, name + ".expect")), mode, trace,
                             own_functions(trace, program))
    if problems:
        raise Failure(problems[0])
    return trace


def need_root():
    return "skipped: needs root" if os.getuid() != 0 else None


# ---- containers ----

CONTAINER = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"]


def can_unshare():
    return subprocess.run(CONTAINER + ["mount -o remount,bind,ro /"], stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def inner_pid(pid):
    """The first process of the container that a process started."""
    for _ in range(500):
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
                children = f.read().split()
        except OSError:
            children = []
        if children:
            return int(children[0])
        time.sleep(0.01)
    raise Failure("no process in the container")


def container_attach(shop):
    """A target with its own mount and pid namespace and a read-only root, whose program has another path in there, from outside."""
    if not can_unshare():
        return "skipped: no namespaces here"
    program = built("jumps")
    gate = Gate(shop.path("gate"))
    script = "mount --bind %s %s && mount -o remount,bind,ro / && cd / && exec %s" % (
        os.path.dirname(program.path), "/mnt", "/mnt/jumps")
    process = shop.start(CONTAINER + [script], environment={"E2E_WAIT": gate.path})
    inner = inner_pid(process.pid)
    gate.wait(process, inner)
    output = shop.new_output()
    recorder = shop.attach(inner, output, ["--lossless"])
    gate.open()
    result = finish(process)
    finish(recorder)
    if (result.code, result.out, result.err) != (0, b"5 8\n", b""):
        raise Failure("the program ends with %d: %r %r" % (result.code, result.out, result.err))
    compare(shop, output, "jumps", "attach", program)
    return None


def container_spawn(shop):
    """contrail itself in a container with a read-only root."""
    if not can_unshare():
        return "skipped: no namespaces here"
    program = built("jumps", "static")
    script = "mount -t tmpfs none /mnt && mount -o remount,bind,ro / && %s spawn --quiet --output /mnt/t %s; echo code $?; " \
             "%s verify /mnt/t/session_* && cp -r /mnt/t %s" % (shop.contrail, program.path, shop.contrail, shop.path("copy"))
    # The working directory stays writable, to bring the trace out.
    script = "mount --bind %s %s && " % (shop.directory, shop.directory) + script
    result = shop.run(CONTAINER + [script])
    if b"5 8\ncode 0\n" not in result.out or result.code != 0:
        raise Failure("it ends with %d: %r %r" % (result.code, result.out, result.err))
    compare(shop, shop.path("copy"), "jumps", "spawn", program)
    return None


# ---- refused ----

def refused(result, code, words):
    text = result.err.decode(errors="replace")
    if result.code != code:
        raise Failure("exit code %d instead of %d: %s" % (result.code, code, text))
    if len(text.splitlines()) != 1 or not re.search(words, text):
        raise Failure("not one sentence with %r: %r" % (words, text))


def nothing_made(output):
    if os.path.exists(output) and os.listdir(output):
        raise Failure("a directory is left: %s" % os.listdir(output))


def setuid_program(shop):
    """Refused when the program would gain rights by it, and not run at all."""
    if need_root() or not shutil.which("setpriv"):
        return need_root() or "skipped: no setpriv"
    program, contrail = shutil.copy(built("test_cli").path, shop.path("setuid")), shutil.copy(shop.contrail, shop.path("contrail"))
    os.chmod(program, 0o4755)
    os.chmod(contrail, 0o755)
    for place in (shop.directory, shop.runtime, shop.temporary):
        os.chmod(place, 0o777)
    output = shop.new_output()
    result = shop.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", contrail, "spawn", "--quiet",
                       "--output", output, program])
    if result.out:
        raise Failure("it ran: %r" % result.out)
    refused(result, 69, "set-?uid.*root")
    nothing_made(output)
    return None


def gs_user(shop):
    """A program that uses the GS register for itself cannot be recorded, and goes on."""
    program = built("uses_gs")
    gate = Gate(shop.path("gate"))
    process = shop.start([program.path], environment={"E2E_WAIT": gate.path})
    gate.wait(process)
    output = shop.new_output()
    result = shop.run([shop.contrail, "attach", "--quiet", "--output", output, str(process.pid)])
    gate.open()
    ended = finish(process)
    if (ended.code, ended.out) != (0, b"right\n"):
        raise Failure("the program ends with %d: %r" % (ended.code, ended.out + ended.err))
    refused(result, 69, "GS")
    nothing_made(output)
    return None


def tight_memory_attach(shop):
    """No address space for us: either it works or it is refused; the target does not suffer."""
    program = built("no_room")
    gate = Gate(shop.path("gate"))
    process = shop.start([program.path], environment={"E2E_WAIT": gate.path})
    gate.wait(process)
    output = shop.new_output()
    recorder = shop.start([shop.contrail, "attach", "--quiet", "--output", output, str(process.pid)])
    deadline = time.monotonic() + 30
    while recorder.poll() is None and not shop.is_recording(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    text = "recorded" if recorder.poll() is None else "refused"
    gate.open()
    ended = finish(process)
    result = finish(recorder)
    if (ended.code, ended.out) != (0, b"right\n"):
        raise Failure("the program ends with %d: %r" % (ended.code, ended.out + ended.err))
    if text == "refused":
        refused(result, result.code if result.code in (69, 70) else 69, "memory|address space")
        nothing_made(output)
    return text


def traced_already(shop):
    """Somebody else traces it."""
    if not shutil.which("strace"):
        return "skipped: no strace"
    program = built("test_cli")
    gate = Gate(shop.path("gate"))
    process = shop.start([program.path], environment={"E2E_WAIT": gate.path})
    gate.wait(process)
    tracer = shop.start(["strace", "-o", "/dev/null", "-p", str(process.pid)])
    deadline = time.monotonic() + 10
    while "tracer 0" in status_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    output = shop.new_output()
    result = shop.run([shop.contrail, "attach", "--quiet", "--output", output, str(process.pid)])
    gate.open()
    ended = finish(process)
    finish(tracer)
    if ended.code != 3:
        raise Failure("the program ends with %d" % ended.code)
    refused(result, 69, "trac")
    nothing_made(output)
    return None


def recorded_already(shop):
    """A second contrail is refused; the first goes on."""
    program = built("test_cli")
    gate = Gate(shop.path("gate"))
    process = shop.start([program.path], environment={"E2E_WAIT": gate.path})
    gate.wait(process)
    output, second = shop.new_output(), shop.new_output()
    recorder = shop.attach(process.pid, output, ["--lossless"])
    result = shop.run([shop.contrail, "attach", "--quiet", "--output", second, str(process.pid)])
    gate.open()
    ended = finish(process)
    finish(recorder)
    if ended.code != 3:
        raise Failure("the program ends with %d" % ended.code)
    refused(result, 69, "record")
    nothing_made(second)
    compare(shop, output, "test_cli", "attach", program)
    return None


# ---- odd states ----

def count_calls(output, program, name):
    trace = atf.Trace(atf.find(output)[0])
    names = own_functions(trace, program)
    return sum(kind == atf.CALL and names[f] == name for t in trace.threads for _, _, f, kind in t.chosen(names))


def stopped_target(shop):
    """A target that is stopped (Ctrl-Z) stays so; recording begins when it goes on."""
    program = built("answer")
    process = shop.start([program.path, "600"])
    process.stdout.readline()
    os.kill(process.pid, signal.SIGSTOP)
    while "state T" not in status_of(process.pid):
        time.sleep(0.005)
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    time.sleep(0.1)
    if "state T" not in status_of(process.pid):
        raise Failure("it goes on: %s" % status_of(process.pid))
    os.kill(process.pid, signal.SIGCONT)
    result = finish(process)
    finish(recorder)
    if result.code != 21:
        raise Failure("the program ends with %d" % result.code)
    shop.read("verify", atf.find(output)[0])
    if not count_calls(output, program, "mix"):
        raise Failure("nothing was recorded")
    return None


def waits_for_child(shop):
    """A thread in vfork cannot be stopped before its child is through: it is waited for, or everything is undone."""
    program = built("vfork_wait")
    for i in range(4):
        process = shop.start([program.path])
        process.stdout.readline()
        time.sleep(0.05 + 0.15 * i)
        output = shop.new_output()
        recorder = shop.start([shop.contrail, "attach", "--quiet", "--output", output, str(process.pid)])
        result = finish(process)
        ended = finish(recorder)
        if (result.code, result.out, result.err) != (0, b"right\n", b""):
            raise Failure("the program ends with %d: %r; contrail with %d: %r" % (result.code, result.out + result.err,
                                                                                ended.code, ended.err))
        if ended.code == 0:
            shop.read("verify", atf.find(output)[0])
    return None


def headless(shop):
    """The main thread is a zombie."""
    program = built("headless")
    gate = Gate(shop.path("gate"))
    process = shop.start([program.path], environment={"E2E_WAIT": gate.path})
    time.sleep(0.1)
    gate.wait(process, next(int(t) for t in os.listdir("/proc/%d/task" % process.pid) if int(t) != process.pid))
    output = shop.new_output()
    recorder = shop.attach(process.pid, output, ["--lossless"])
    gate.open()
    result = finish(process)
    finish(recorder)
    if (result.code, result.out) != (0, b"right\n"):
        raise Failure("the program ends with %d: %r" % (result.code, result.out))
    if count_calls(output, program, "leaf") != 1000:
        raise Failure("%d calls instead of 1000" % count_calls(output, program, "leaf"))
    return None


def other_tools(shop):
    """While it records nobody is kept out: strace attaches to the target and leaves again."""
    if not shutil.which("strace"):
        return "skipped: no strace"
    program = built("answer")
    process = shop.start([program.path, "2000"])
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    tracer = shop.start(["strace", "-f", "-o", shop.path("strace"), "-p", str(process.pid)])
    time.sleep(0.2)
    tracer.send_signal(signal.SIGINT)
    finish(tracer)
    result = finish(process)
    finish(recorder)
    if result.code != 21:
        raise Failure("the program ends with %d" % result.code)
    with open(shop.path("strace")) as f:
        if "nanosleep" not in f.read():
            raise Failure("strace saw nothing")
    shop.read("verify", atf.find(output)[0])
    return None


def ordinary_user(shop):
    """Without root: one's own programs by spawn and attach, not others'."""
    if need_root() or not shutil.which("setpriv"):
        return need_root() or "skipped: no setpriv"
    for place in (shop.directory, shop.runtime, shop.temporary):
        os.chmod(place, 0o777)
    contrail, program = shutil.copy(shop.contrail, shop.path("contrail")), shutil.copy(built("answer").path, shop.path("answer"))
    os.chmod(contrail, 0o755)
    os.chmod(program, 0o755)
    shop.environment["XDG_CACHE_HOME"] = shop.path("tmp")
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    output = shop.new_output()
    result = shop.run(user + [contrail, "spawn", "--quiet", "--output", output, program, "300"])
    if result.code != 21 or result.err:
        raise Failure("spawn ends with %d: %r" % (result.code, result.err))
    shop.read("verify", atf.find(output)[0])
    process, output = shop.start(user + [program, "1500"]), shop.new_output()
    process.stdout.readline()
    attached = shop.run(user + [contrail, "attach", "--quiet", "--output", output, str(process.pid)])
    result = finish(process)
    if (result.code, attached.code) != (21, 0):
        raise Failure("attach ends with %d: %r; the program with %d" % (attached.code, attached.err, result.code))
    shop.read("verify", atf.find(output)[0])
    process, output = shop.start([program, "1500"]), shop.new_output()
    attached = shop.run(user + [contrail, "attach", "--quiet", "--output", output, str(process.pid)])
    finish(process)
    refused(attached, 77, "permission|user|root")
    nothing_made(output)
    shutil.rmtree(shop.path("tmp", "contrail"), ignore_errors=True)
    return None


def attached_after(shop, program, change, code, arguments=()):
    """Starts a program, changes something, attaches to it until its end; the trace."""
    process, output = shop.start([program] + list(arguments)), shop.new_output()
    process.stdout.readline()
    change()
    recorder = shop.attach(process.pid, output)
    result = finish(process)
    ended = finish(recorder)
    if result.code != code or ended.err:
        raise Failure("the program ends with %d: %r; contrail says %r" % (result.code, result.out + result.err, ended.err))
    shop.read("verify", atf.find(output)[0])
    return atf.Trace(atf.find(output)[0])


def deleted_program(shop):
    """Its file is gone."""
    program = shutil.copy(built("answer").path, shop.path("answer"))
    trace = attached_after(shop, program, lambda: os.unlink(program), 21, ["1500"])
    if not any(f.name == "mix" for f in trace.functions.values()):
        raise Failure("its functions are not known: %s" % [m.path for m in trace.modules.values()])
    return None


def replaced_program(shop):
    """Its file is another one now, as after an update: that one says nothing about the running program."""
    program = shutil.copy(built("answer").path, shop.path("answer"))

    def replace():
        shutil.copy(shutil.which("ls"), shop.path("new"))
        os.rename(shop.path("new"), program)
    trace = attached_after(shop, program, replace, 21, ["1500"])
    if not any(f.name == "mix" for f in trace.functions.values()):
        raise Failure("its functions are not known: %s" % [m.path for m in trace.modules.values()])
    return None


def replaced_library(shop):
    """The same with a library."""
    source = lambda name: [os.path.join(building.PROGRAMS, name)]
    for place, code in (("old", "uses_library_old.c"), ("new", "uses_library_new.c")):
        os.mkdir(shop.path(place))
        program = building.build(shop.path(place), "uses_library", source("uses_library.c"), "O2" if place == "old" else "O0",
                                 (), [("libused.so", source(code))])
        if place == "old":
            first = program
    gate = Gate(shop.path("gate"))
    process = shop.start([first.path], environment={"E2E_WAIT": gate.path})
    gate.wait(process)
    os.rename(shop.path("new", "libused.so"), shop.path("old", "libused.so"))
    output = shop.new_output()
    recorder = shop.attach(process.pid, output, ["--lossless"])
    gate.open()
    result = finish(process)
    finish(recorder)
    if (result.code, result.out) != (0, b"right\n"):
        raise Failure("the program ends with %d: %r" % (result.code, result.out))
    shop.read("verify", atf.find(output)[0])
    if count_calls(output, first, "from_library") != 1000:
        raise Failure("%d calls of the old library's function" % count_calls(output, first, "from_library"))
    return None


def strange_names(shop):
    """A path with blanks, a tab, a line end and a byte that is no UTF-8, in all that is written and printed."""
    program = os.fsdecode(os.fsencode(shop.path("we ird")) + b"\t\n\xff\x1b[31m.name")
    shutil.copy(built("answer").path, program)
    output = shop.new_output()
    result = shop.run(shop.spawn_command(output, [], [program, "50"]))
    if result.code != 21 or result.err:
        raise Failure("it ends with %d: %r" % (result.code, result.err))
    shop.read("verify", atf.find(output)[0])
    for command in ("info", "report"):
        said = shop.read(command, atf.find(output)[0]).out
        if b"\x1b" in said:
            raise Failure("%s prints the name as it is: %r" % (command, said[:300]))
    trace = atf.Trace(atf.find(output)[0])
    if program not in [m.path for m in trace.modules.values()]:
        raise Failure("the path became %r" % [m.path for m in trace.modules.values()])
    return None


def other_layouts(shop):
    """Address spaces that are laid out bottom-up, or not at random."""
    program = built("answer")
    for words in (["sh", "-c", 'ulimit -s unlimited; exec "$@"', "sh"], ["setarch", "-R"]):
        output = shop.new_output()
        result = shop.run(words + shop.spawn_command(output, [], [program.path, "50"]))
        if result.code != 21 or result.err:
            raise Failure("%s: it ends with %d: %r" % (words, result.code, result.err))
        shop.read("verify", atf.find(output)[0])
    return None


def crowd(shop):
    """A thousand threads are attached to, and let go."""
    program = built("crowd")
    process = shop.start([program.path, "1000"], stdin=subprocess.PIPE)
    process.stdout.readline()
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    time.sleep(0.3)
    shop.detach(process.pid, recorder)
    changes = text_changes(process.pid)
    process.stdin.close()
    process.stdin = None
    result = finish(process)
    if (result.code, result.out) != (0, b"right\n") or changes:
        raise Failure("the program ends with %d: %r; %s" % (result.code, result.out, changes))
    shop.read("verify", atf.find(output)[0])
    trace = atf.Trace(atf.find(output)[0])
    if len(trace.threads) < 1000:
        raise Failure("%d threads were recorded" % len(trace.threads))
    return "paused %d ms" % (trace.manifest["pause_ns"] // 1000000)


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
        wrong = {n: calls.get(n) for n, times in expected.items() if calls.get(n) is None or times not in (None, calls[n])}
        wrong = {n: c for n, c in wrong.items() if n not in ("wait_for_start", "wait_for_end") or c}
        if wrong:
            raise Failure("%s: calls %s, expected %s" % (options, wrong, expected))
    return None


def losses_add_up(shop):
    """Whatever is lost is counted: events on disk and lost ones are together as many as without losses."""
    program = built("file_limit")
    totals = []
    for options in (["--lossless"], ["--index-mem", "1M", "--drain-interval-ms", "200"]):
        output = shop.new_output()
        result = shop.run(shop.spawn_command(output, options, [program.path]))
        if result.code != 0 or result.err:
            raise Failure("it ends with %d: %r" % (result.code, result.err))
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

def interrupted(shop, number, group):
    """A signal to contrail detaches an attached target; one to the whole group reaches a spawned target, as it would untraced."""
    program = built("answer")
    process = shop.start([program.path, "2000"])
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
    program, source = built("answer"), random.Random(1)
    for i in range(8):
        process = shop.start([program.path, "1200"])
        output = shop.new_output()
        recorder = shop.start([shop.contrail, "attach", "--quiet", "--output", output, str(process.pid)])
        time.sleep(source.random() * 0.25)
        recorder.send_signal(signal.SIGINT)
        finish(recorder, what="contrail after a signal")
        changes = text_changes(process.pid) if process.poll() is None else []
        if changes:
            raise Failure("attempt %d: %s" % (i, changes[0]))
        result = finish(process)
        if result.code != 21:
            raise Failure("attempt %d: the program ends with %d: %r" % (i, result.code, result.err))
    return None


def group_signal(shop):
    """Ctrl-C on a terminal reaches contrail and its target; a target that ignores it lives on and is recorded."""
    program = built("answer")
    output = shop.new_output()
    process = shop.start(["sh", "-c", 'trap "" INT; exec "$@"', "sh"] +
                         shop.spawn_command(output, ["--lossless"], [program.path, "2000"]), start_new_session=True)
    process.stdout.readline()
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    result = finish(process)
    if result.code != 21 or not re.search(rb"[0-9a-f]{16}\n", result.out):
        raise Failure("it ends with %d: %r %r" % (result.code, result.out, result.err))
    return None


def target_signalled(shop):
    """The target dies of a signal that contrail does not: 128 + number."""
    program = built("answer")
    output = shop.new_output()
    process = shop.start(shop.spawn_command(output, [], [program.path, "5000"]))
    process.stdout.readline()
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as f:
        os.kill(int(f.read().split()[0]), signal.SIGTERM)
    result = finish(process)
    if result.code != 128 + signal.SIGTERM:
        raise Failure("it ends with %d: %r" % (result.code, result.err))
    shop.read("verify", atf.find(output)[0])
    return None


def recorder_stopped(shop):
    """A stopped contrail is not a dead one: the target goes on, and what it did is recorded when contrail continues."""
    program = built("sequence")
    output, announced = shop.new_output(), shop.path("announced")
    process = shop.start([program.path, announced, "4000"])
    recorder = shop.attach(process.pid, output)
    os.kill(recorder.pid, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(recorder.pid, signal.SIGCONT)
    result = finish(process)
    finish(recorder)
    if (result.code, result.out) != (0, b"finished\n"):
        raise Failure("the program ends with %d: %r" % (result.code, result.out))
    shop.read("verify", atf.find(output)[0])
    return None


def killed_while_waited_for(shop):
    """The lane is full and the target waits for contrail (--lossless), which is killed: the target goes on."""
    program = built("sequence")
    output, announced = shop.new_output(), shop.path("announced")
    process = shop.start([program.path, announced, "60000"])
    recorder = shop.attach(process.pid, output, ["--lossless", "--index-mem", "1M"])
    os.kill(recorder.pid, signal.SIGSTOP)
    last, deadline = None, time.monotonic() + 20
    while time.monotonic() < deadline:  # until it makes no progress
        with open(announced, "rb") as f:
            now = f.read(16)
        if now == last:
            break
        last = now
        time.sleep(0.3)
    else:
        raise Failure("it never waits")
    os.kill(recorder.pid, signal.SIGKILL)
    recorder.communicate()
    result = finish(process)
    if (result.code, result.out) != (0, b"finished\n"):
        raise Failure("the program ends with %d: %r" % (result.code, result.out))
    shop.read("info", atf.find(output)[0])
    shutil.rmtree(shop.runtime)  # nobody was there to remove the socket
    os.mkdir(shop.runtime)
    return None


def for_a_while(shop):
    """--duration lets go by itself."""
    program = built("answer")
    process = shop.start([program.path, "3000"])
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


def full_disk(shop):
    """The disk is full: recording stops and says so, the target does not notice, what is on disk can be read."""
    if need_root():
        return need_root()
    place = shop.path("small")
    os.mkdir(place)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", place]).returncode != 0:
        return "skipped: cannot mount"
    try:
        program = built("answer")
        result = shop.run([shop.contrail, "spawn", "--output", place, program.path, "1500"])
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
    "container, attach": container_attach,
    "container, spawn": container_spawn,
    "set-uid program": setuid_program,
    "program that uses GS": gs_user,
    "no address space": tight_memory_attach,
    "traced already": traced_already,
    "recorded already": recorded_already,
    "stopped target": stopped_target,
    "target in vfork": waits_for_child,
    "main thread gone": headless,
    "strace beside us": other_tools,
    "ordinary user": ordinary_user,
    "deleted program": deleted_program,
    "replaced program": replaced_program,
    "replaced library": replaced_library,
    "strange names": strange_names,
    "other layouts": other_layouts,
    "a thousand threads": crowd,
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
    "full disk": full_disk,
}


def main():
    global checks
    checks = Checks(__doc__)
    for name, function in TABLE.items():
        checks.run(name, function)
    return checks.verdict()


if __name__ == "__main__":
    sys.exit(main())
