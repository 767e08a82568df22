/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions while the C++ runtime and the unwinder themselves are hooked: every function of libstdc++ and libgcc_s.
 *
 * An engine can go wrong here because the unwinder starts from a hooked function of its own, looks for its caller, and
 * leaves it by jumping into the landing pad. */
#include "harness.h"
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#define FN extern "C" E2E_FN __attribute__((visibility("hidden")))

struct counter {
    int *count;
    explicit counter(int *c) : count(c) {
    }
    ~counter() {
        ++*count;
    }
};

FN int parse(const std::string &text, int *destroyed) {
    counter c(destroyed);
    std::string copy = text + "!";
    if (copy.size() > 100)
        throw std::length_error("too long");
    return std::stoi(text); /* throws std::invalid_argument from inside libstdc++ */
}

FN int parse_all(const std::vector<std::string> &texts, int *destroyed) {
    int sum = 0;
    for (const auto &text : texts) {
        try {
            sum += parse(text, destroyed);
        } catch (const std::invalid_argument &) {
            sum += 1000;
        } catch (const std::out_of_range &) {
            sum += 10000;
        }
    }
    return sum;
}

FN int through_stream(int *destroyed) {
    std::istringstream in("12 34 word");
    in.exceptions(std::ios::failbit);
    int sum = 0;
    try {
        counter c(destroyed);
        for (;;) {
            int value;
            in >> value; /* throws ios_base::failure through libstdc++ frames */
            sum += value;
        }
    } catch (const std::ios_base::failure &) {
        return sum;
    }
}

/* Compared from user code called by libstdc++'s tree: the exception passes through hooked library code. */
struct picky {
    int value;
};
FN bool less_than(int a, int b) {
    if (a == 13 || b == 13)
        throw std::domain_error("thirteen");
    return a < b;
}
bool operator<(const picky &a, const picky &b);
bool operator<(const picky &a, const picky &b) {
    return less_than(a.value, b.value);
}

FN int through_map() {
    std::map<picky, int> m;
    int thrown = 0;
    for (int i = 0; i < 20; i++) {
        try {
            m[picky{i}] = i;
        } catch (const std::domain_error &e) {
            thrown += static_cast<int>(std::strlen(e.what()));
        }
    }
    return static_cast<int>(m.size()) * 100 + thrown;
}

static int rethrow_chain(int depth) {
    try {
        if (depth == 0)
            throw std::string("bottom");
        return rethrow_chain(depth - 1);
    } catch (const std::string &s) {
        if (depth == 10)
            return static_cast<int>(s.size());
        throw s + ".";
    }
}

static void work() {
    int destroyed = 0;
    std::vector<std::string> texts = {"1", "22", "nonsense", "99999999999999999999", "5"};
    E2E_EQUAL(parse_all(texts, &destroyed), 11028);
    E2E_EQUAL(destroyed, 5);
    E2E_EQUAL(through_stream(&destroyed), 46);
    E2E_EQUAL(destroyed, 6);
    E2E_EQUAL(through_map(), 19 * 100 + 8);
    E2E_EQUAL(rethrow_chain(10), 16);
}

static void hook_module(const char *name) {
    struct ct_hooks_module what = {};
    what.size = sizeof what;
    what.module = name;
    what.flavor = CT_HOOK_FLAVOR_RECORD;
    int rc = ct_hooks_attach_module(e2e_hooks, &what);
    if (rc < 0)
        e2e_fail(__FILE__, __LINE__, "%s cannot be hooked: %s", name, ct_status_text(rc));
}

int main(int argc, char **argv) {
    e2e_begin_with(argc, argv, nullptr, 32768);
    work();
    if (!e2e_plain()) {
        E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
        E2E_RECORD(parse);
        E2E_RECORD(parse_all);
        E2E_RECORD(less_than);
        E2E_RECORD(through_map);
        E2E_RECORD(through_stream);
        hook_module("libstdc++.so.6");
        hook_module("libgcc_s.so.1");
        E2E_EQUAL(ct_hooks_commit(e2e_hooks), 0);
    }
    for (int i = 0; i < 20; i++)
        work();
    if (!e2e_plain()) {
        E2E_EQUAL(e2e_count(0, 0, CT_EVENT_CALL), 100); /* parse */
        E2E_EQUAL(e2e_count(0, 0, CT_EVENT_RETURN), 60);
        E2E_EQUAL(e2e_count(0, 0, CT_EVENT_EXCEPTION), 40);
        E2E_EQUAL(e2e_count(0, 1, CT_EVENT_RETURN), 20); /* parse_all */
        E2E_EQUAL(e2e_count(0, 2, CT_EVENT_EXCEPTION), 20);
        E2E_EQUAL(e2e_count(0, 3, CT_EVENT_RETURN), 20);
        E2E_EQUAL(e2e_count(0, 4, CT_EVENT_RETURN), 20);
        struct e2e_summary s = e2e_summarize(0);
        E2E_CHECK(s.calls > 10000);
        E2E_EQUAL(s.unpaired, 0);
    }
    return e2e_end();
}
