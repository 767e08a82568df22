#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a change did to the figures of `make bench`.

usage: compare.py OLD.json [NEW.json]

NEW is the newest result beside OLD when it is not given. A figure is marked when both its best and its median moved by
more than the spread of the old and new runs: what is inside the spread is noise."""
import json
import os
import sys


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def newest_beside(path):
    folder = os.path.dirname(os.path.abspath(path))
    others = [os.path.join(folder, name) for name in os.listdir(folder)
              if name.endswith(".json") and not os.path.samefile(os.path.join(folder, name), path)]
    if not others:
        sys.exit("compare: there is no other result beside %s; run `make bench` first" % path)
    return max(others, key=os.path.getmtime)


def spread(figure):
    """The part of a figure that differs from run to run: from the best to the median."""
    best, median = figure["best"], figure["median"]
    return abs(median - best) / abs(best) if best else 0.0


def change(old, new):
    return (new["best"] - old["best"]) / abs(old["best"]) if old["best"] else 0.0


def mark(old, new):
    """'better', 'worse', or '' for what may be noise."""
    noise = max(spread(old), spread(new), 0.02)
    moved = change(old, new)
    median = (new["median"] - old["median"]) / abs(old["median"]) if old["median"] else 0.0
    if abs(moved) <= noise or moved * median <= 0:
        return ""
    return "better" if (moved > 0) == new["more"] else "worse"


def rows(old, new):
    before = {figure["name"]: figure for figure in old["figures"]}
    for figure in new["figures"]:
        was = before.pop(figure["name"], None)
        if was is None:
            yield figure["name"], None, figure, "new"
        else:
            yield figure["name"], was, figure, mark(was, figure)
    for name, figure in before.items():
        yield name, figure, None, "no longer measured"


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 64
    new_path = arguments[1] if len(arguments) == 2 else newest_beside(arguments[0])
    old, new = load(arguments[0]), load(new_path)
    print("%s (%s) -> %s (%s)" % (arguments[0], old.get("commit", "?"), new_path, new.get("commit", "?")))
    if old["machine"]["model"] != new["machine"]["model"] or old["machine"]["cpus"] != new["machine"]["cpus"]:
        print("These are of different machines: compare what is a ratio only.")
    for name, was, now, what in rows(old, new):
        percent = "%+.1f %%" % (100 * change(was, now)) if was and now else ""
        print("%-66s %10s %10s %9s  %s" % (name[:66], "%.4g" % was["best"] if was else "-",
                                          "%.4g" % now["best"] if now else "-", percent, what))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
