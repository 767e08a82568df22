#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers keep their promise: programs run with a library that is newer or older than their headers.

    abi_test.py HEADERS CALLER LIBRARY-DIRECTORY CC CXX
    abi_test.py --newer-library SOURCE-ROOT CC

Every struct begins with its size, is a fixed record, or cannot be seen. abi_caller.c is built with headers in which
each struct has one field less, with those of this version, and with headers in which it has one field more, and runs
with the library of this version. With --newer-library a library is built in which each struct has one field more, and
the program of this version runs with that: it takes some minutes.

Each header compiles alone, as C and as C++, and contrail.h includes them all."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# They come in large numbers, or belong to a machine, and never change.
FIXED = {"ct_event", "ct_stalker_event", "ct_stalker_call_count", "ct_trace_event", "ct_cpu_x64", "ct_cpu_a64",
         "ct_vectors_a64"}
STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.M | re.S)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def fields(body):
    return [" ".join(field.split()) for field in without_comments(body).split(";") if field.strip()]


def last_name(field):
    """Name of the last variable that a declaration declares."""
    if "(*" in field:
        return re.search(r"\(\*(\w+)\)", field).group(1)
    return re.search(r"(\w+)(\[[^\]]*\])*$", field).group(1)


def structs(headers):
    """Name of a struct: the list of its fields."""
    found = {}
    for name in sorted(os.listdir(headers)):
        with open(os.path.join(headers, name)) as file:
            for struct, body in STRUCT.findall(file.read()):
                found[struct] = fields(body)
    return found


def sized(headers):
    """Structs that begin with their size; fails when another one is no fixed record."""
    result = {}
    for name, body in structs(headers).items():
        if body[0] == "size_t size":
            result[name] = body
        elif name not in FIXED:
            sys.exit("struct %s begins with `%s`, not with `size_t size`, and is no fixed record" % (name, body[0]))
    if len(result) < 20:
        sys.exit("only %d structs were found that begin with their size" % len(result))
    return result


def one_less(match):
    """The struct without its last field."""
    if not fields(match.group(2))[0] == "size_t size":
        return match.group(0)
    blank = re.sub(r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment.group(0)), match.group(2), flags=re.S)
    last = blank.rindex(";", 0, blank.rindex(";"))
    return "struct %s {\n%s\n};" % (match.group(1), blank[:last + 1])


def one_more(match):
    if not fields(match.group(2))[0] == "size_t size":
        return match.group(0)
    return "struct %s {\n%s    uint64_t added;\n};" % match.groups()


def change(headers, to, how):
    """A copy of the headers with changed structs."""
    os.makedirs(to, exist_ok=True)
    for name in os.listdir(headers):
        with open(os.path.join(headers, name)) as file:
            text = file.read()
        with open(os.path.join(to, name), "w") as file:
            file.write(STRUCT.sub(how, text) if how else text)


def run(command, quiet=False, **options):
    """`quiet`: what it prints is shown when it fails."""
    if quiet:
        options.update(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    done = subprocess.run(command, **options)
    if done.returncode:
        sys.exit("%sfailed: %s" % (done.stdout or "", " ".join(command)))


def run_caller(work, cc, caller, include, library, options=()):
    program = os.path.join(work, "abi_caller")
    traces = os.path.join(work, "traces")
    run(cc + ["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I", include, *options, caller, "-o", program, "-L", library,
              "-lcontrail", "-Wl,-rpath," + library])
    os.mkdir(traces)
    run([program, traces], timeout=240)
    shutil.rmtree(traces)


def check_padding(work, cc, headers):
    """Padding at the end of a struct would have no value in older programs, and be a field in newer ones."""
    source = os.path.join(work, "padding.c")
    with open(source, "w") as file:
        file.write("#include <contrail/contrail.h>\n")
        for name, body in sized(headers).items():
            file.write('_Static_assert(offsetof(struct {0}, {1}) + sizeof((struct {0} *)0)->{1} == sizeof(struct {0}), '
                       '"struct {0} ends with padding");\n'.format(name, last_name(body[-1])))
    run(cc + ["-fsyntax-only", "-I", os.path.dirname(headers), source])


def check_headers(work, headers, cc, cxx):
    names = sorted(os.listdir(headers))
    with open(os.path.join(headers, "contrail.h")) as file:
        included = set(re.findall(r"#include <contrail/(\w+\.h)>", file.read()))
    missing = set(names) - included - {"contrail.h"}
    if missing:
        sys.exit("contrail.h does not include " + ", ".join(sorted(missing)))
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", os.path.dirname(headers)]
    for name in names:
        for compiler, kind in ((cc + ["-std=c11"], "c"), (cxx + ["-std=c++11"], "cc")):
            source = os.path.join(work, "alone." + kind)
            with open(source, "w") as file:
                file.write("#include <contrail/%s>\n#include <contrail/%s>\nint alone(void);\n" % (name, name))
            run(compiler + strict + [source])


def check_this_library(headers, caller, library, cc, cxx):
    with tempfile.TemporaryDirectory() as work:
        check_headers(work, headers, cc, cxx)
        check_padding(work, cc, headers)
        for name, how, options in (("older", one_less, []), ("this", None, []), ("newer", one_more, ["-DNEWER"])):
            changed = os.path.join(work, name, "contrail")
            change(headers, changed, how)
            before, after = sized(headers), sized(changed)
            if how and [struct for struct in before if len(before[struct]) == len(after[struct])]:
                sys.exit("%s: not every struct was changed" % name)
            print("headers: %s" % name, flush=True)
            run_caller(work, cc, caller, os.path.join(work, name), library, options)


def check_newer_library(root, cc):
    with tempfile.TemporaryDirectory() as work:
        tree, build = os.path.join(work, "tree"), os.path.join(work, "build")
        shutil.copytree(root, tree, ignore=lambda folder, names: [
            n for n in names if folder == root and (n == ".git" or os.path.isdir(os.path.join(root, n)) and
                                                    n.startswith("build"))])
        change(os.path.join(root, "include", "contrail"), os.path.join(tree, "include", "contrail"), one_more)
        run(["meson", "setup", "-Dtests=false", build, tree], quiet=True)
        run(["ninja", "-C", build], quiet=True)
        run_caller(work, cc, os.path.join(root, "tests", "tools", "abi_caller.c"), os.path.join(root, "include"),
                   os.path.join(build, "src"))


def main(arguments):
    if arguments[0] == "--newer-library":
        check_newer_library(os.path.abspath(arguments[1]), arguments[2].split())
    else:
        headers, caller, library, cc, cxx = arguments
        check_this_library(headers, caller, library, cc.split(), cxx.split())
    print("passed")


main(sys.argv[1:])
