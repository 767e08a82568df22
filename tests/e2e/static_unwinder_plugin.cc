/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin of static_unwinder.c: throws through its own frames and catches, destructors running on the way. */
static int destroyed;

struct counted {
    ~counted() {
        destroyed++;
    }
};

extern "C" __attribute__((noinline)) int plugin_throw(int depth) {
    counted local;
    __asm__ volatile("" ::: "memory");
    if (!depth)
        throw 7;
    return plugin_throw(depth - 1) + 1;
}

/* 7 when everything went as it should. */
extern "C" __attribute__((noinline)) int plugin_catch(int depth) {
    destroyed = 0;
    try {
        return plugin_throw(depth);
    } catch (int thrown) {
        return destroyed == depth + 1 ? thrown : -destroyed;
    }
}
