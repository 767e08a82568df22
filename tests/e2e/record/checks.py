# SPDX-License-Identifier: Apache-2.0
"""What the scripts beside run.py share: options, programs, a count of what failed."""
import argparse
import os
import sys

import building
from recorder import Failure, Workshop


class Checks:
    """Named checks; each is a function that raises Failure. The verdict is the exit status."""

    def __init__(self, description, options=lambda parser: None):
        parser = argparse.ArgumentParser(description=description.split("\n")[0])
        parser.add_argument("--contrail", default="build/contrail")
        parser.add_argument("--build", default="/tmp", help="where programs are built")
        parser.add_argument("--keep", action="store_true", help="keep the working directories")
        parser.add_argument("only", nargs="*", help="names of checks")
        options(parser)
        self.arguments = parser.parse_args()
        self.arguments.contrail = os.path.abspath(self.arguments.contrail)
        self.ran = self.failed = 0

    def directory(self, *names):
        """Where programs are built: a place of this script's own, because others run at the same time."""
        script = os.path.splitext(os.path.basename(sys.argv[0]))[0]
        directory = os.path.join(os.path.abspath(self.arguments.build), "record", "of_" + script, *names)
        os.makedirs(directory, exist_ok=True)
        return directory

    def program(self, name, flags=("-pthread",), suffix=".c"):
        directory = self.directory(name, "O2")
        return building.build(directory, name, [os.path.join(building.PROGRAMS, name + suffix)], "O2", flags)

    def workshop(self, name):
        return Workshop(self.arguments.contrail, name, os.path.join(os.path.abspath(self.arguments.build), "cache"))

    def run(self, name, function):
        if self.arguments.only and name not in self.arguments.only:
            return
        shop = self.workshop(name)
        problems = []
        try:
            text = function(shop) or ""
            problems = shop.leftovers()
        except Failure as e:
            text = ""
            problems = [str(e)]
        finally:
            shop.close(keep=self.arguments.keep)
        if text.startswith("skipped"):
            print("%s: %s" % (name, text))
            return
        self.ran += 1
        self.failed += bool(problems)
        print("%s %s%s%s" % ("FAILED " if problems else "ok     ", name, ": " + text if text else "",
                             " (kept in %s)" % shop.directory if self.arguments.keep else ""))
        for problem in problems[:10]:
            print("  " + problem.replace("\n", "\n  "))
        sys.stdout.flush()

    def verdict(self):
        if not self.ran:
            return 77
        print("%d checks, %d failed" % (self.ran, self.failed))
        return 1 if self.failed else 0
