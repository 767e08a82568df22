/* SPDX-License-Identifier: Apache-2.0 */
/* C++ exceptions through hooked frames: thrown through, caught inside, rethrown, from destructors and catch blocks,
 * from deep recursion; destructors run in order, and call hooked functions while the stack unwinds.
 *
 * An engine can go wrong here because the unwinder meets a stub where it expects a caller, because landing pads run
 * while frames below them are gone, and because the frames that were left must be closed before the next call. */
#include "harness.h"
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#define FN extern "C" E2E_FN __attribute__((visibility("hidden")))

static std::string order;

FN void note(int mark) {
    order += static_cast<char>(mark);
    E2E_BARRIER();
}

struct guard {
    char mark;
    explicit guard(char m) : mark(m) {
    }
    ~guard() {
        note(mark);
    }
};

FN void thrower(int value) {
    guard g('t');
    if (value >= 0)
        throw value;
    E2E_BARRIER();
}

FN int through(int depth, int value) {
    guard g('a');
    if (depth > 0)
        return through(depth - 1, value);
    thrower(value);
    return 1;
}

FN int catcher(int depth, int value) {
    guard g('c');
    try {
        return through(depth, value);
    } catch (int caught) {
        note('!');
        return caught * 2;
    }
}

FN int rethrower(int value) {
    try {
        thrower(value);
    } catch (...) {
        note('r');
        throw;
    }
    return 0;
}

FN int catch_rethrown(int value) {
    try {
        return rethrower(value);
    } catch (int caught) {
        return caught + 100;
    }
}

/* caught inside: nothing leaves the frame */
FN int inside(int value) {
    try {
        throw std::runtime_error("inside");
    } catch (const std::exception &e) {
        note('i');
        return value + static_cast<int>(std::string(e.what()).size());
    }
}

/* A catch block that throws something else */
FN void translate(int value) {
    try {
        thrower(value);
    } catch (int caught) {
        throw std::out_of_range("translated " + std::to_string(caught));
    }
}

FN int catch_translated(int value) {
    try {
        translate(value);
    } catch (const std::out_of_range &e) {
        return static_cast<int>(std::string(e.what()).size());
    }
    return 0;
}

/* A destructor that throws and catches while another exception is on its way */
FN void quiet(int value) {
    try {
        thrower(value);
    } catch (int) {
        note('q');
    }
}

struct busy_guard {
    ~busy_guard() {
        quiet(7);
        note('d');
    }
};

FN void unwinds_busily() {
    busy_guard g;
    thrower(3);
}

FN int nested() {
    try {
        unwinds_busily();
    } catch (int caught) {
        return caught;
    }
    return 0;
}

/* A function try block of a constructor: members are gone, the exception goes on by itself */
struct member {
    explicit member(int value) {
        thrower(value);
    }
};

struct with_try_block {
    guard g;
    member m;
    explicit with_try_block(int value);
};

E2E_FN with_try_block::with_try_block(int value) try : g('g'), m(value) {
} catch (int) {
    note('f');
}

FN int function_try(int value) try {
    thrower(value);
    return 0;
} catch (int caught) {
    return caught + 1;
}

FN int construct(int value) {
    try {
        with_try_block object(value);
        return 0;
    } catch (int caught) {
        return caught;
    }
}

/* std::exception_ptr and nested exceptions */
static E2E_FN std::exception_ptr keep(int value) {
    try {
        thrower(value);
    } catch (...) {
        return std::current_exception();
    }
    return nullptr;
}

FN int release(const std::exception_ptr &kept) {
    try {
        std::rethrow_exception(kept);
    } catch (int caught) {
        return caught;
    }
}

/* From recursion, in two ways: straight up, and caught and thrown again at every level */
FN int deep(int depth) {
    guard g('.');
    if (depth == 0)
        throw 1;
    int below = deep(depth - 1);
    E2E_BARRIER();
    return below + 1;
}

FN int deep_again(int depth) {
    try {
        if (depth == 0)
            throw 1;
        return deep_again(depth - 1);
    } catch (int value) {
        throw value + 1;
    }
}

FN int deep_catcher(int which, int depth) {
    try {
        return which ? deep_again(depth) : deep(depth);
    } catch (int value) {
        return value;
    }
}

FN int throws_bad_alloc() {
    try {
        std::vector<int> v;
        v.reserve(v.max_size() + (order.empty() ? 0 : 1)); /* length_error out of libstdc++ */
        return 0;
    } catch (const std::length_error &) {
        return 1;
    }
}

static void expect_order(int line, const char *expected) {
    if (order != expected)
        e2e_fail(__FILE__, line, "destructors ran as %s, expected %s", order.c_str(), expected);
    order.clear();
}
#define ORDER(expected) expect_order(__LINE__, expected)

static void check_simple() {
    E2E_EQUAL(catcher(0, -1), 1); /* nothing thrown */
    ORDER("tac");
    E2E_EXPECT("catcher(through(thrower(note()) note()) note())");
    E2E_EQUAL(catcher(0, 21), 42);
    ORDER("ta!c");
    E2E_EXPECT("catcher(through(thrower(note())! note())! note()*2)");
    E2E_EQUAL(catcher(2, 21), 42);
    ORDER("taaa!c");
    E2E_EXPECT("catcher(through(through(through(thrower(note())! note())! note())! note())! note()*2)");
    E2E_EQUAL(catch_rethrown(1), 101);
    ORDER("tr");
    E2E_EXPECT("catch_rethrown(rethrower(thrower(note())! note())!)");
    E2E_EQUAL(inside(4), 10);
    ORDER("i");
    E2E_EXPECT("inside(note())");
    E2E_EQUAL(catch_translated(5), 12);
    ORDER("t");
    E2E_EXPECT("catch_translated(translate(thrower(note())!)!)");
}

static void check_nested() {
    E2E_EQUAL(nested(), 3);
    ORDER("ttqd");
    E2E_EXPECT("nested(unwinds_busily(thrower(note())! quiet(thrower(note())! note()) note())!)");
    E2E_EQUAL(function_try(4), 5);
    ORDER("t");
    E2E_EXPECT("function_try(thrower(note())!)");
    E2E_EQUAL(construct(6), 6);
    ORDER("tgf");
    E2E_EXPECT("construct(thrower(note())! note()*2)");
    std::exception_ptr kept = keep(8);
    E2E_EQUAL(release(kept), 8);
    ORDER("t");
    E2E_EXPECT("keep(thrower(note())!) release()");
    note('x');
    E2E_EQUAL(throws_bad_alloc(), 1);
    E2E_EXPECT("note() throws_bad_alloc()");
    order.clear();
}

static void check_deep() {
    E2E_EQUAL(deep_catcher(0, 2000), 1);
    E2E_EQUAL(order.size(), 2001);
    order.clear();
    struct e2e_summary s = e2e_summarize(0);
    if (!e2e_plain()) {
        E2E_EQUAL(s.calls, 1 + 2001 + 2001);
        E2E_EQUAL(s.left, 2001);
        E2E_EQUAL(s.returns, 1 + 2001);
        E2E_EQUAL(s.open + s.unpaired, 0);
    }
    e2e_forget();
    E2E_EQUAL(deep_catcher(1, 500), 502);
    s = e2e_summarize(0);
    if (!e2e_plain()) {
        E2E_EQUAL(s.calls, 1 + 501);
        E2E_EQUAL(s.left, 501);
        E2E_EQUAL(s.returns, 1);
        E2E_EQUAL(s.open + s.unpaired, 0);
    }
    e2e_forget();
    for (int i = 0; i < 1000; i++) /* again and again: nothing may be left behind */
        if (catcher(3, i) != 2 * i)
            e2e_fail(__FILE__, __LINE__, "wrong value caught");
    order.clear();
    E2E_EXPECT("catcher(through(through(through(through(thrower(note())! note())! note())! note())! note())!"
               "note()*2)*1000");
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_RECORD(note);
    E2E_RECORD(thrower);
    E2E_RECORD(through);
    E2E_RECORD(catcher);
    E2E_RECORD(rethrower);
    E2E_RECORD(catch_rethrown);
    E2E_RECORD(inside);
    E2E_RECORD(translate);
    E2E_RECORD(catch_translated);
    E2E_RECORD(quiet);
    E2E_RECORD(unwinds_busily);
    E2E_RECORD(nested);
    E2E_RECORD(function_try);
    E2E_RECORD(construct);
    E2E_RECORD(keep);
    E2E_RECORD(release);
    E2E_RECORD(deep);
    E2E_RECORD(deep_again);
    E2E_RECORD(deep_catcher);
    E2E_RECORD(throws_bad_alloc);
    check_simple();
    check_nested();
    check_deep();
    return e2e_end();
}
