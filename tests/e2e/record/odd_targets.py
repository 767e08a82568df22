#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""odd_targets.py: targets that need more than a program: containers, set-uid programs, other tracers, files that were
replaced, ordinary users, crowds of threads."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import atf
import building
import targets
from expectation import own_functions
from recorder import Failure, Gate, finish, read_line, status_of, text_changes, wait_for
from targets import built, compare, count_calls, need_root, start_answer


# ---- containers ----

CONTAINER = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"]


def can_unshare():
    return subprocess.run(CONTAINER + ["mount -o remount,bind,ro /"], stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def inner_pid(pid):
    """The first process of the container that a process started."""
    children = []

    def look():
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            children.extend(f.read().split())
        return children
    wait_for("there is a process in the container", look)
    return int(children[0])


def container_attach(shop):
    """From outside: a target with its own mount and pid namespace and a read-only root, whose program has another path
    there."""
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
    script = "mount -t tmpfs none /mnt && mount -o remount,bind,ro / && %s spawn --quiet --output /mnt/t %s; " \
             "echo code $?; %s verify /mnt/t/session_* && cp -r /mnt/t %s" % (
                 shop.contrail, program.path, shop.contrail, shop.path("copy"))
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
    program, contrail = shutil.copy(built("test_cli").path, shop.path("setuid")), shutil.copy(shop.contrail,
                                                                                              shop.path("contrail"))
    os.chmod(program, 0o4755)
    os.chmod(contrail, 0o755)
    for place in (shop.directory, shop.temporary):
        os.chmod(place, 0o777)
    os.chown(shop.runtime, 65534, 65534)  # sockets are made only where nobody else can make one
    os.chmod(shop.runtime, 0o700)
    output = shop.new_output()
    result = shop.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", contrail, "spawn",
                       "--quiet", "--output", output, program])
    if result.out:
        raise Failure("it ran: %r" % result.out)
    refused(result, 69, "set-?uid.*root")
    nothing_made(output)
    return None


def tight_memory_attach(shop):
    """No address space for us: that is reported before anything is mapped, and the target does not suffer."""
    program = built("no_room")
    for verb in (["attach"], ["stalk", "--pid"]):
        gate = Gate(shop.path("gate " + verb[0]))
        process = shop.start([program.path], environment={"E2E_WAIT": gate.path})
        gate.wait(process)
        output = shop.new_output()
        result = shop.run([shop.contrail, verb[0], "--quiet", "--output", output] + verb[1:] + [str(process.pid)])
        gate.open()
        ended = finish(process)
        if (ended.code, ended.out) != (0, b"right\n"):
            raise Failure("the program ends with %d: %r" % (ended.code, ended.out + ended.err))
        refused(result, 69, "the limit of its address space .ulimit -v. leaves 0 MiB to process %d" % process.pid)
        nothing_made(output)
    return None


def traced_already(shop):
    """Somebody else traces it."""
    if not shutil.which("strace"):
        return "skipped: no strace"
    program = built("test_cli")
    gate = Gate(shop.path("gate"))
    process = shop.start([program.path], environment={"E2E_WAIT": gate.path})
    gate.wait(process)
    tracer = shop.start(["strace", "-o", "/dev/null", "-p", str(process.pid)])
    wait_for("strace has it", lambda: "tracer 0" not in status_of(process.pid))
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

def stopped_target(shop):
    """A target that is stopped (Ctrl-Z) stays so; recording begins when it goes on."""
    program = built("answer")
    process = start_answer(shop, [program.path])
    os.kill(process.pid, signal.SIGSTOP)
    wait_for("it is stopped", lambda: "state T" in status_of(process.pid))
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    wait_for("it is stopped as before", lambda: "state T" in status_of(process.pid))
    wait_for("a tenth of a second of recording", lambda: shop.status(process.pid)["recording_ns"] > 100000000)
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
        read_line(process.stdout, "the program has begun")
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
    others = lambda: [int(t) for t in os.listdir("/proc/%d/task" % process.pid) if int(t) != process.pid]
    wait_for("the main thread is gone", lambda: others() and "state Z" in status_of(process.pid))
    gate.wait(process, others()[0])
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
    process = start_answer(shop, [program.path])
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    tracer = shop.start(["strace", "-f", "-o", shop.path("strace"), "-p", str(process.pid)])

    def strace_sees():
        with open(shop.path("strace")) as f:
            return "nanosleep" in f.read()
    wait_for("strace sees something", lambda: os.path.exists(shop.path("strace")) and strace_sees())
    tracer.send_signal(signal.SIGINT)
    finish(tracer)
    result = finish(process)
    finish(recorder)
    if result.code != 21:
        raise Failure("the program ends with %d" % result.code)
    shop.read("verify", atf.find(output)[0])
    return None


def ordinary_user(shop):
    """Without root: one's own programs by spawn and attach, not others'."""
    if need_root() or not shutil.which("setpriv"):
        return need_root() or "skipped: no setpriv"
    for place in (shop.directory, shop.temporary):
        os.chmod(place, 0o777)
    os.chown(shop.runtime, 65534, 65534)  # sockets are made only where nobody else can make one
    os.chmod(shop.runtime, 0o700)
    contrail, program = shutil.copy(shop.contrail, shop.path("contrail")), shutil.copy(built("answer").path,
                                                                                       shop.path("answer"))
    os.chmod(contrail, 0o755)
    os.chmod(program, 0o755)
    shop.environment["XDG_CACHE_HOME"] = shop.path("tmp")
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    output = shop.new_output()
    result = shop.run(user + [contrail, "spawn", "--quiet", "--output", output, program, "300"])
    if result.code != 21 or result.err:
        raise Failure("spawn ends with %d: %r" % (result.code, result.err))
    shop.read("verify", atf.find(output)[0])
    process, output = start_answer(shop, user + [program]), shop.new_output()
    recorder = shop.start(user + [contrail, "attach", "--quiet", "--output", output, str(process.pid)])
    asks = user + [contrail, "ctl", str(process.pid), "status"]  # its socket is for itself
    wait_for("it is recorded", lambda: recorder.poll() is not None or b"running" in shop.run(asks).out)
    result, attached = finish(process), finish(recorder)
    if (result.code, attached.code) != (21, 0):
        raise Failure("attach ends with %d: %r; the program with %d" % (attached.code, attached.err, result.code))
    shop.read("verify", atf.find(output)[0])
    process, output = start_answer(shop, [program]), shop.new_output()
    attached = shop.run(user + [contrail, "attach", "--quiet", "--output", output, str(process.pid)])
    finish(process)
    refused(attached, 77, "permission|user|root")
    nothing_made(output)
    shutil.rmtree(shop.path("tmp", "contrail"), ignore_errors=True)
    return None


def attached_after(shop, program, change):
    """Starts a copy of `answer`, changes something, attaches to it until its end; the trace."""
    process, output = start_answer(shop, [program]), shop.new_output()
    change()
    recorder = shop.attach(process.pid, output)
    result = finish(process)
    ended = finish(recorder)
    if result.code != 21 or ended.err:
        raise Failure("the program ends with %d: %r; contrail says %r" % (result.code, result.out + result.err,
                                                                          ended.err))
    shop.read("verify", atf.find(output)[0])
    return atf.Trace(atf.find(output)[0])


def deleted_program(shop):
    """Its file is gone."""
    program = shutil.copy(built("answer").path, shop.path("answer"))
    trace = attached_after(shop, program, lambda: os.unlink(program))
    if not any(f.name == "mix" for f in trace.functions.values()):
        raise Failure("its functions are not known: %s" % [m.path for m in trace.modules.values()])
    return None


def replaced_program(shop):
    """Its file is another one now, as after an update: that one says nothing about the running program."""
    program = shutil.copy(built("answer").path, shop.path("answer"))

    def replace():
        shutil.copy(shutil.which("ls"), shop.path("new"))
        os.rename(shop.path("new"), program)
    trace = attached_after(shop, program, replace)
    if not any(f.name == "mix" for f in trace.functions.values()):
        raise Failure("its functions are not known: %s" % [m.path for m in trace.modules.values()])
    return None


def replaced_library(shop):
    """The same with a library."""
    source = lambda name: [os.path.join(building.PROGRAMS, name)]
    for place, code in (("old", "uses_library_old.c"), ("new", "uses_library_new.c")):
        os.mkdir(shop.path(place))
        program = building.build(shop.path(place), "uses_library", source("uses_library.c"),
                                 "O2" if place == "old" else "O0", (), [("libused.so", source(code))])
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
    read_line(process.stdout, "the threads are there")
    output = shop.new_output()
    recorder = shop.attach(process.pid, output)
    process.stdin.write(b"x")
    process.stdin.flush()
    read_line(process.stdout, "each thread has made a call")
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


def zero_pointers(shop):
    """Threads whose thread pointers are all zero, as Go's: each has its own events, with all detail."""
    if os.uname().machine != "x86_64":
        return "skipped: its system calls are x86_64's instructions"
    program = building.build(targets.checks.directory("zero_pointers"), "zero_pointers",
                             [os.path.join(building.PROGRAMS, "zero_pointers.c")], "static",
                             ["-nostdlib", "-ffreestanding", "-fno-stack-protector"])
    for _ in range(3):
        output = shop.new_output()
        result = shop.run(shop.spawn_command(output, ["--lossless", "--detail", "always"], [program.path]))
        if (result.code, result.out) != (0, b"right\n"):
            raise Failure("the program ends with %d: %r %r" % (result.code, result.out, result.err))
        shop.read("verify", atf.find(output)[0])
        trace = atf.Trace(atf.find(output)[0])
        names = own_functions(trace, program)
        calls = [sum(kind == atf.CALL and names[f] == "leaf" for _, _, f, kind in t.chosen(names))
                 for t in trace.threads]
        if calls != [5000] * 5:
            raise Failure("calls of the threads: %r" % calls)
    return None


TABLE = {
    "container, attach": container_attach,
    "container, spawn": container_spawn,
    "set-uid program": setuid_program,
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
    "threads without pointers": zero_pointers,
}


if __name__ == "__main__":
    sys.exit(targets.run_table(__doc__, TABLE))
