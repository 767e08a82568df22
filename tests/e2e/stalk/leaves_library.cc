/* SPDX-License-Identifier: Apache-2.0 */
// leaves.cc followed by the library, with each of its libraries excluded: the thread is followed again each time it has
// left one.
#include <contrail/stalker.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <unwind.h>

long leave_all(int times);
extern "C" int witness(int x);

static int depth, wrong, seen;

static void receive(void *, int, const struct ct_stalker_event *events, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (events[i].kind == CT_STALKER_CALL && events[i].target == reinterpret_cast<uint64_t>(&witness)) {
            wrong += seen && events[i].depth != depth;
            depth = events[i].depth;
            seen++;
        }
}

static bool exclude_module_of(struct ct_stalker *stalker, void *part) {
    Dl_info info;
    char path[PATH_MAX];
    return !dladdr(part, &info) || !realpath(info.dli_fname, path) || ct_stalker_exclude_module(stalker, path);
}

int main() {
    void *const parts[] = {reinterpret_cast<void *>(&std::qsort), reinterpret_cast<void *>(&std::terminate),
                           reinterpret_cast<void *>(&_Unwind_Resume)};
    long expected = leave_all(100);
    int bad = 0;
    for (unsigned set = 0; set < 8; set++) {
        struct ct_stalker *stalker;
        struct ct_stalker_sink sink = {};
        sink.size = sizeof sink;
        sink.mask = CT_STALKER_CALL;
        sink.on_receive = receive;
        seen = wrong = 0;
        bad += ct_stalker_create(&stalker, nullptr) != 0;
        for (unsigned i = 0; i < 3; i++)
            if (set & 1u << i)
                bad += exclude_module_of(stalker, parts[i]);
        bad += ct_stalker_follow_me(stalker, nullptr, &sink) != 0;
        long sum = leave_all(100);
        bad += ct_stalker_unfollow_me(stalker) != 0;
        bad += ct_stalker_destroy(stalker) != 0;
        // every call is made by a function that leave_all calls: all have the same depth
        if (sum != expected || seen != 400 || wrong) {
            std::printf("set %u: %ld, %ld expected; %d calls, %d at another depth\n", set, sum, expected, seen, wrong);
            bad++;
        }
    }
    return bad ? 1 : 0;
}
