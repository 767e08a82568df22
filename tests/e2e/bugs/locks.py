#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`contrail report --locks`: each kind of lock, who waits and who holds it, word for word what the program did.

Usage: locks.py CONTRAIL"""
import json
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "record"))
import session_case

# The first word of a mutex of glibc is 2 once a thread sleeps for it. At the end the main thread waits for a lock that
# it holds itself.
LOCKS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER, again = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct { long before; pthread_mutex_t lock; } station = {0, PTHREAD_MUTEX_INITIALIZER};
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t book = PTHREAD_RWLOCK_INITIALIZER;
static int rung;

static void wait_for_sleeper(void) { while (*(volatile int *)&gate != 2) usleep(1000); }
static void run(void *(*function)(void *), void *arg) {
    pthread_t thread;
    pthread_create(&thread, NULL, function, arg);
    pthread_join(thread, NULL);
}
static void *try_mutex(void *mutex) {
    if (!pthread_mutex_trylock(mutex))
        pthread_mutex_unlock(mutex);
    return NULL;
}
static void *try_to_write(void *lock) {
    if (!pthread_rwlock_trywrlock(lock))
        pthread_rwlock_unlock(lock);
    return NULL;
}
static __attribute__((noinline)) void pass_gate(void) { pthread_mutex_lock(&gate); }
static void *visit(void *arg) {
    if (pthread_mutex_trylock(&gate) != EBUSY)
        _exit(2);
    pass_gate();
    pthread_mutex_unlock(&gate);
    return arg;
}
static void *ring(void *arg) {
    pthread_mutex_lock(&station.lock); /* the main thread is in pthread_cond_wait now */
    run(try_mutex, &station.lock);
    rung = 1;
    pthread_cond_signal(&bell);
    pthread_mutex_unlock(&station.lock);
    return arg;
}
static void *leave(void *arg) { wait_for_sleeper(); _exit(0); return arg; }

int main(void) {
    pthread_t visitor, ringer, last;
    pthread_mutex_lock(&gate);
    pthread_create(&visitor, NULL, visit, NULL);
    wait_for_sleeper();
    pthread_mutex_unlock(&gate);
    pthread_join(visitor, NULL);

    pthread_mutex_lock(&again);
    pthread_mutex_lock(&again);
    pthread_mutex_unlock(&again);
    run(try_mutex, &again); /* in vain */
    pthread_mutex_unlock(&again);
    run(try_mutex, &again);

    pthread_mutex_lock(&station.lock);
    pthread_create(&ringer, NULL, ring, NULL);
    while (!rung)
        pthread_cond_wait(&bell, &station.lock);
    pthread_mutex_unlock(&station.lock);
    pthread_join(ringer, NULL);

    pthread_rwlock_rdlock(&book);
    run(try_to_write, &book); /* in vain */
    pthread_rwlock_unlock(&book);
    run(try_to_write, &book);

    pthread_mutex_lock(&gate);
    pthread_create(&last, NULL, leave, NULL);
    pthread_mutex_lock(&gate);
    return 1;
}
"""

# Only calls around `look` have arguments: the main thread's lock, and that of the other thread, but not the unlock
# between them.
WINDOWS = r"""
#include <pthread.h>
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static __attribute__((noinline)) int look(int i) { volatile int sum = i; return ++sum; }
static __attribute__((noinline)) int step(int i) { volatile int sum = i; return --sum; }
static void walk(void) { for (int i = 0; i < 20000; i++) step(i); }
static void *visit(void *arg) {
    pthread_mutex_lock(&gate);
    look(2);
    walk();
    pthread_mutex_unlock(&gate);
    return arg;
}
int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&gate);
    look(1);
    walk();
    pthread_mutex_unlock(&gate);
    walk();
    pthread_create(&thread, NULL, visit, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"""


class Locks(session_case.SessionCase):
    def ask(self, *words):
        done = subprocess.run([session_case.CONTRAIL, "report", "--locks", *words, self.session()],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def report(self, *words):
        report = json.loads(self.ask("--json", *words))
        return report, {lock["name"]: lock for lock in report["locks"]}

    def test_all(self):
        done, manifests = self.record(self.build("locks", LOCKS), options=("--detail", "always"))
        self.assertEqual(done.returncode, 0, done.stderr)
        report, locks = self.report()
        main = manifests[0]["pid"]
        self.assertEqual(report["lock_calls"], report["detailed_lock_calls"])

        def waits(name):
            return [(wait["tid"] == main, wait["holder_tid"] == main, wait["count"])
                    for wait in locks[name]["waits"]]

        # main, the visitor's trylock and lock, main twice at the end
        self.assertEqual((locks["gate"]["kind"], locks["gate"]["calls"], locks["gate"]["waited"]), ("mutex", 5, 3))
        self.assertEqual(sorted(waits("gate")), [(False, True, 2), (True, True, 1)])
        self.assertEqual({wait.get("max_caller") for wait in locks["gate"]["waits"]}, {"pass_gate", "main"})
        self.assertEqual((locks["again"]["calls"], waits("again")), (4, [(False, True, 1)]))
        # Whether the ringer had to wait is chance. The trylock meets the ringer, not main: that waits for the bell.
        station = locks["station+8"]
        self.assertEqual(station["calls"], 3)
        self.assertIn((False, False, 1), waits("station+8"))
        self.assertEqual((locks["book"]["kind"], locks["book"]["calls"], waits("book")),
                         ("rwlock", 3, [(False, True, 1)]))
        self.assertGreater(locks["gate"]["held_max_ns"], 0)

        self.assertEqual(report["deadlocks"], 1)
        wait, = report["open"]
        self.assertEqual((wait["tid"], wait["holder_tid"], wait["name"], wait["deadlock"]), (main, main, "gate", 1))
        self.assertRegex(self.ask(), r"Deadlock.*\n  thread 1 has waited .* for mutex gate \(0x\w+\) in main, held by "
                                     r"thread 1 since .* \(locked in main\)")
        self.check_selection(main)
        self.check_wall_clock(wait)

    def check_wall_clock(self, wait):
        """Moments as date and time, in the text and beside those of the machine's clock."""
        report, locks = self.report("--clock", "wall")
        (walled,) = report["open"]
        self.assertNotIn("time", wait)
        for key in ("time", "held_since"):
            self.assertRegex(walled[key], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}[+-]\d\d:\d\d$")
        self.assertLess(walled["held_since"], walled["time"])
        text = self.ask("--clock", "wall")
        self.assertIn(f"since {walled['held_since']} (locked in main)", text)
        self.assertIn(f" at {locks['gate']['waits'][0]['max_time']} in ", text)

    def check_selection(self, main):
        """Waits that do not fit do not count; their holders are found nevertheless."""
        report, locks = self.report("--thread", str(main))
        self.assertEqual((locks["gate"]["calls"], locks["gate"]["waited"], report["deadlocks"]), (3, 1, 1))
        report, locks = self.report("--where", "function like '*trylock'")
        self.assertEqual((locks["gate"]["calls"], locks["gate"]["waited"]), (1, 1))
        self.assertEqual(locks["gate"]["waits"][0]["holder_tid"], main)
        self.assertEqual({row["name"] for row in report["functions"]}, {"pthread_mutex_trylock"})

    def test_separate_debug_file(self):
        """Names of a stripped program: from a debug file that .gnu_debuglink names, or by the build-id."""
        program = self.build("locks", LOCKS)
        debug = program + ".debug"
        for command in (["objcopy", "--only-keep-debug", program, debug], ["strip", "--strip-all", program],
                        ["objcopy", "--add-gnu-debuglink=" + debug, program]):
            subprocess.run(command, check=True)
        away = os.path.join(self.dir, "away")
        os.rename(debug, away)
        self.record(program, options=("--detail", "always"))
        self.assertEqual(sum(name.startswith("locks+0x") for name in self.report()[1]), 4)
        os.rename(away, debug)
        self.assertLessEqual({"gate", "again", "station+8", "book"}, set(self.report()[1]))
        notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
        build_id = re.search(r"Build ID: (\w+)", notes)[1]
        place = os.path.join(self.dir, "files", ".build-id", build_id[:2])
        os.makedirs(place)
        os.rename(debug, os.path.join(place, build_id[2:] + ".debug"))
        self.assertNotIn("gate", self.report()[1])
        self.assertIn("gate", self.report("--debug-dir", os.path.join(self.dir, "files"))[1])

    def test_without_arguments(self):
        """Times and callers, and what to do to know more."""
        self.record(self.build("locks", LOCKS), options=("--detail", "off"))
        report, locks = self.report()
        self.assertEqual((locks, report["open"], report["detailed_lock_calls"]), ({}, [], 0))
        rows = {(row["name"], row.get("caller")): row for row in report["functions"]}
        self.assertEqual(rows["pthread_mutex_lock", "pass_gate"]["calls"], 1)
        self.assertEqual(rows["pthread_mutex_lock", "main"]["open"], 1)
        self.assertIn("Record with --detail always", self.ask())

    def test_unlock_without_arguments(self):
        """Who unlocked something unknown is not taken for a holder."""
        self.record(self.build("windows", WINDOWS), options=("--trigger", "symbol=look", "--pre-roll-events", "20",
                                                             "--post-roll-events", "20"))
        _, locks = self.report("--function", "pthread_mutex_lock")
        self.assertEqual(locks["gate"]["waited"], 0)
        # Of two marks soon after each other the second may find no memory for its records (LIMITS.md).
        self.assertIn(locks["gate"]["calls"], (1, 2))


if __name__ == "__main__":
    session_case.CONTRAIL = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
