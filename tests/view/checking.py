# SPDX-License-Identifier: Apache-2.0
"""The checks of view.py, in the order in which they are defined, and what they share."""
import json
import subprocess

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def rows(contrail, trace, sql):
    done = subprocess.run([contrail, "query", "--json", "--allow-damaged", trace, sql], capture_output=True, check=True)
    return json.loads(done.stdout)


def cells_of(served, **words):
    """(thread, depth, cell) of an answer; a cell: start, end, function's name, share, calls, call."""
    answer = served.ask("cells", **words)
    for thread in answer["threads"]:
        for depth, flat in enumerate(thread["depths"]):
            for at in range(0, len(flat), 6):
                start, end, function, share, calls, call = flat[at:at + 6]
                yield thread["thread"], depth, (start, end, answer["functions"][str(function)][0], share, calls, call)
