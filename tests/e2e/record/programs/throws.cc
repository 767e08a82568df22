/* SPDX-License-Identifier: Apache-2.0 */
/* C++ exceptions in programs of every kind: with the unwinder shared, or linked in. */
#include "zoo.h"
#include <stdexcept>
#include <string>

ZOO_GATES

extern "C" {
static FN void note(int) {
    BARRIER();
}

static FN int thrower(int value) {
    if (value % 3 == 0)
        throw value;
    if (value % 3 == 1)
        throw std::runtime_error("text");
    BARRIER();
    return value;
}

struct cleaner {
    int mark;
    __attribute__((always_inline)) ~cleaner() {
        note(mark);
    }
};

static FN int through(int depth, int value) {
    cleaner c = {depth};
    int below = depth ? through(depth - 1, value) : thrower(value);
    BARRIER();
    return below + c.mark;
}

static FN int catcher(int depth, int value) {
    try {
        return through(depth, value);
    } catch (int caught) {
        note(caught);
        return caught;
    } catch (const std::exception &e) {
        return -static_cast<int>(std::string(e.what()).size());
    }
}

static FN int rethrower(int value) {
    try {
        return thrower(value);
    } catch (...) {
        note(1);
        throw;
    }
}

static FN int outer(int value) {
    try {
        return rethrower(value);
    } catch (int) {
        return 1;
    } catch (...) {
        return 2;
    }
}
}

int main() {
    wait_for_start();
    CHECK(catcher(2, 3) == 3);
    CHECK(catcher(1, 1) == -4);
    CHECK(catcher(1, 2) == 3);
    CHECK(outer(3) == 1);
    CHECK(outer(4) == 2);
    for (int i = 0; i < 100; i++)
        CHECK(catcher(3, 3) == 3);
    puts("done");
    wait_for_end();
    return zoo_failures;
}
