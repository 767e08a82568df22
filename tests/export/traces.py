# SPDX-License-Identifier: Apache-2.0
"""Traces whose events a test knows: scripts for script_trace, written by hand or at random, and what readers must find.

A model of a process is kept while its script is written: which calls are open, what was lost. It knows nothing about
the exporters."""
import random
import subprocess

LONG = "std::map<std::basic_string<char>, int>::operator[](std::basic_string<char> const&)"
START = 5_000_000_000
NAMELESS = "sample+0x1600"
ENTRY_ONLY = "setjmp"
FUNCTIONS = ["main", "work", "leaf", "recurse", "thrower", NAMELESS, "other", LONG, "worker"]


def in_script(name):
    return "?" if name == NAMELESS else name.replace(" ", "\1")


class Thread:
    """What one thread did. `events`: (time, kind, name, depth) of the events in the file."""

    def __init__(self, number, tid, name):
        self.number, self.tid, self.name = number, tid, name
        self.script, self.events, self.losses, self.open = [], [], [], []
        self.entry_places = set()  # indexes in events of calls that are recorded on entry only
        self.loss_places = []  # for each loss: the number of events before it
        self.time, self.hidden = 0, 0
        self.end_ns, self.cut = 0, False

    def put(self, operator, name, depth):
        if self.hidden is None:
            return
        self.script.append(f"{self.time}{operator}{in_script(name)}@{depth}")
        kind = {"+": "call", "-": "return", "!": "exception"}[operator]
        if name == ENTRY_ONLY:
            self.entry_places.add(len(self.events))
        self.events.append((START + self.time, kind, name, depth))

    def call(self, name):
        self.put("+", name, len(self.open))
        if name != ENTRY_ONLY:
            self.open.append(name)

    def end(self, place, operator="-"):
        """Ends the frame at this place, which is the innermost of its function."""
        self.put(operator, self.open.pop(place), place)

    def lose(self, events, reason):
        if events:
            self.script.append(f"{self.time}~{events}/{reason}")
            self.losses.append((events, reason))
            self.loss_places.append(len(self.events))

    def count(self, kind):
        return sum(event[1] == kind for event in self.events)

    def frames(self):
        """The calls that open a frame."""
        return [event for i, event in enumerate(self.events) if event[1] == "call" and i not in self.entry_places]


class Process:
    def __init__(self, pid, threads, end_ns=0, unfinished=False):
        self.pid, self.threads, self.end_ns, self.unfinished = pid, threads, end_ns, unfinished
        self.program = "sample"


class Trace:
    def __init__(self, processes):
        self.processes = processes
        self.path = None
        self.recorded = False  # not from a script: the open calls at the end are not known

    def threads(self):
        return [thread for process in self.processes for thread in process.threads]

    def count(self, kind):
        return sum(thread.count(kind) for thread in self.threads())

    def calls(self):
        return self.count("call")

    def entries(self):
        return sum(len(thread.entry_places) for thread in self.threads())

    def events(self):
        return sum(len(thread.events) for thread in self.threads())

    def losses(self):
        return [loss for thread in self.threads() for loss in thread.losses]

    def write(self, script_trace, directory):
        lines = []
        for process in self.processes:
            lines.append(f"process {process.pid} {process.end_ns} {int(process.unfinished)}")
            for thread in process.threads:
                lines.append(f"thread {thread.number} {thread.tid} {thread.end_ns} {int(thread.cut)} {thread.name}")
                lines.append(" ".join(thread.script))
        done = subprocess.run([script_trace, directory], input="\n".join(lines) + "\n", text=True, check=True,
                              capture_output=True)
        self.path = done.stdout.strip()
        return self


# ---- by hand ----

def hand_written():
    """Recursion, an exception, entries, a gap in the middle of a call, calls open at the end, two processes."""
    a = Thread(1, 1000, "sample")
    for time, name in ((1000, "main"), (1500, ENTRY_ONLY), (2000, "recurse"), (3000, "recurse"), (4000, LONG)):
        a.time = time
        a.call(name)
    for time in (4250, 6000, 8000):
        a.time = time
        a.end(len(a.open) - 1)
    a.time = 10_000
    a.call("work")
    a.time = 11_000
    a.call("thrower")
    for time in (12_000, 13_000):
        a.time = time
        a.end(len(a.open) - 1, "!")
    a.time = 2_000_000
    a.call(NAMELESS)
    b = Thread(2, 1001, "worker-1")
    b.time = 5000
    b.call("worker")
    b.time = 7000
    b.call("other")
    b.time = 900_000
    b.lose(250, "DRAIN_LAG")
    b.time = 901_000
    b.end(1)
    b.time = 950_000
    b.end(0)
    c = Thread(1, 2000, "child")
    c.time = 20_000
    c.call("main")
    c.time = 30_500
    c.end(0)
    return Trace([Process(1000, [a, b], 3_000_000), Process(2000, [c], 40_000)])


def coroutines():
    """Two coroutines that a scheduler resumes in turn: frames end while inner ones are open."""
    t = Thread(1, 1000, "sample")

    def call(name, step=1000):
        t.time += step
        t.call(name)

    def end(place, step=1000):
        t.time += step
        t.end(place)

    call("main")
    call("other")  # resume of the first: its body begins above it
    call("worker")
    call("leaf")  # the yield that suspends it
    end(1)  # resume returns; worker and leaf are suspended
    call("other")  # resume of the second
    call("recurse")
    call("work")
    end(3)  # other: the second is suspended too; open: main worker leaf recurse work
    call("other")
    end(2)  # leaf: the first continues
    call("thrower")
    end(t.open.index("thrower"))
    end(t.open.index("other"))
    end(t.open.index("work"))
    end(t.open.index("recurse"))
    end(t.open.index("worker"))
    end(0)
    assert not t.open
    return Trace([Process(1000, [t], t.time + 1000)])


def many_coroutines(count, rounds):
    """A scheduler that resumes this many coroutines in turn, again and again."""
    t = Thread(1, 1000, "sample")

    def call(name):
        t.time += 10
        t.call(name)

    def end(name):
        t.time += 10
        t.end(len(t.open) - 1 - t.open[::-1].index(name))

    call("main")
    for _ in range(count):
        call("other")
        call("worker")
        call("leaf")
        end("other")
    for _ in range(count * rounds):
        call("other")
        end("leaf")
        call("thrower")
        end("thrower")
        call("leaf")
        end("other")
    return Trace([Process(1000, [t], t.time + 1000)])


def gap_at_the_end():
    """The last thing known about two open calls is that events after them were lost."""
    t = Thread(1, 1000, "sample")
    t.time = 1000
    t.call("main")
    t.time = 2000
    t.call("work")
    t.lose(7, "POOL_EXHAUSTED")
    return Trace([Process(1000, [t], 500_000)])


# ---- random traces ----

def nested(seed):
    """Calls of the names that the questions of `contrail query --examples` use, without gaps and coroutines, no two
    events at one time."""
    r = random.Random(seed)
    threads = []
    for number in range(1, 4):
        t = Thread(number, 999 + number, f"worker-{number}")
        t.time = 1_000 * number
        t.call("main")
        while t.time < 3_000_000:
            t.time += r.randrange(1, 20_000)
            if len(t.open) > 1 and r.random() < 0.5:
                t.end(len(t.open) - 1, "!" if t.open[-1] == "thrower" and r.random() < 0.5 else "-")
            elif len(t.open) < 9:
                t.call(r.choice(["work", "leaf", "recurse", "thrower", "other", ENTRY_ONLY]))
        threads.append(t)
    return Trace([Process(1000, threads, 3_100_000)])


def innermost(thread):
    """Places of the frames that a return would end: the innermost of each function."""
    return sorted({name: place for place, name in enumerate(thread.open)}.values())


def random_step(r, t, style):
    roll = r.random()
    if t.open and roll < style["end"]:
        places = innermost(t)
        place = r.choice(places) if r.random() < style["coroutine"] else places[-1]
        t.end(place, "!" if r.random() < style["exception"] else "-")
    elif r.random() < style["entry"]:
        t.call(ENTRY_ONLY)
    elif len(t.open) < style["depth"]:
        t.call(r.choice(FUNCTIONS))


def random_thread(r, number, tid, style):
    t = Thread(number, tid, r.choice(["sample", "worker-%d" % number, "ab\"c\\d", "näme"]))
    for _ in range(r.randrange(0, style["steps"])):
        t.time += r.choice([0, 1, 7, 130, 999, 12_345])
        if r.random() < style["gap"]:
            hidden, t.hidden = t.hidden, None
            before = len(t.open)
            for _ in range(r.randrange(1, 12)):
                random_step(r, t, style)
                t.time += r.randrange(0, 300)
            t.hidden = hidden
            t.lose(abs(len(t.open) - before) + r.randrange(1, 9), r.choice(["DRAIN_LAG", "POOL_EXHAUSTED"]))
        random_step(r, t, style)
    if r.random() < 0.3:
        t.end_ns = t.time + r.randrange(0, 5000)
    return t


def random_trace(seed):
    r = random.Random(seed)
    processes = []
    for i in range(r.choice([1, 1, 1, 2, 3])):
        style = {"end": r.choice([0.4, 0.5, 0.55]), "coroutine": r.choice([0, 0, 0.05, 0.4]),
                 "exception": r.choice([0, 0.1]), "entry": 0.05, "gap": r.choice([0, 0, 0.01, 0.05]),
                 "depth": r.choice([3, 12, 60]), "steps": r.choice([10, 120, 600])}
        pid = 1000 * (i + 1)
        threads = [random_thread(r, n + 1, pid + n, style) for n in range(r.randrange(1, 5))]
        unfinished = r.random() < 0.2
        if unfinished:
            for t in threads:
                t.cut = r.random() < 0.5
        end = max(t.time for t in threads) + r.randrange(1, 10_000)
        processes.append(Process(pid, threads, end if r.random() < 0.8 else 0, unfinished))
    return Trace(processes)
