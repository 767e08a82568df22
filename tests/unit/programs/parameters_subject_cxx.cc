/* SPDX-License-Identifier: Apache-2.0 */
// Functions of C++ in all shapes: see parameters_subject.h.
#include "parameters_subject.h"
#include <memory>
#include <string>

#define F VISIBLE

enum class Level : unsigned char { low = 1, high = 250 };
struct Base {
    int b;
};
struct Derived : Base {
    int d;
};
struct Virtual {
    virtual ~Virtual() {
    }
    int v = 3;
};
struct Destroyed {
    long a = 7;
    ~Destroyed() {
        __asm__ volatile("");
    }
};
struct Copied {
    int n;
    Copied(int v) : n(v) {
    }
    Copied(const Copied &other) : n(other.n) {
    }
};
struct Trivial {
    int n;
    int twice() const {
        return 2 * n;
    }
    Trivial() = default;
    explicit Trivial(int v) : n(v) {
    }
};
struct Empty {};
template <typename T> struct Box { T value; };

struct Large {
    long a[3];
};

struct Machine {
    int state;
    F int run(int by, Level level);
    F Large name(int n) const;
    F static int shared(int n);
    F virtual int over(const int &ref, int &&moved);
};
int Machine::run(int by, Level level) {
    return state + by + (int)level;
}
Large Machine::name(int n) const {
    return Large{{n, state, 0}};
}
int Machine::shared(int n) {
    return n + 1;
}
int Machine::over(const int &ref, int &&moved) {
    return ref + moved;
}

struct Guard {
    int n;
    F explicit Guard(int v);
    F ~Guard();
};
Guard::Guard(int v) : n(v) {
}
Guard::~Guard() {
    n = 0;
}
struct Virtually : virtual Base {
    int m;
    F explicit Virtually(int v);
};
Virtually::Virtually(int v) : m(v) {
}

F int derived(Derived a, int n) {
    return a.b + a.d + n;
}
F int by_reference(Destroyed a, Copied b, int n) {
    return (int)a.a + b.n + n;
}
F Destroyed hidden(int n) {
    Destroyed d;
    d.a = n;
    return d;
}
F int trivial(Trivial a, Empty, int n) {
    return a.twice() + n;
}
F int boxes(Box<double> a, Box<short> b, std::nullptr_t, int n) {
    return (int)a.value + b.value + n;
}
F long members(int Machine::*field, int n) {
    return field != nullptr ? n : 0;
}
F int unique(std::unique_ptr<int> p, int n) {
    return *p + n;
}

static Machine machine{};
static long room[8];
static char *address_of_machine() {
    static char text[64];
    snprintf(text, sizeof text, "this=%p", (void *)&machine);
    return text;
}

template <typename R, typename... A> static R call(R (*f)(A...), A... arguments) {
    capture_target = (const void *)f;
    return ((R(*)(A...))capture_entry)((A &&) arguments...);
}

// Member functions are called as what they are to the machine: functions whose first argument is the object.
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wpmf-conversions"
int run_symbol(Machine *, int, Level) __asm__("_ZN7Machine3runEi5Level");
Large name_symbol(const Machine *, int) __asm__("_ZNK7Machine4nameEi");
void guard_symbol(Guard *, int) __asm__("_ZN5GuardC1Ei");
void unguard_symbol(Guard *) __asm__("_ZN5GuardD1Ev");
void virtually_symbol(Virtually *, int) __asm__("_ZN9VirtuallyC1Ei");

static void call_run() {
    call(run_symbol, &machine, 5, Level::high);
}
static void call_name() {
    capture_target = (const void *)name_symbol;
    ((Large(*)(const Machine *, int))capture_entry)(&machine, 9);
}
static void call_guard() {
    call(guard_symbol, (Guard *)&room, 17);
}
static void call_unguard() {
    call(unguard_symbol, (Guard *)&room);
}
static void call_virtually() {
    call(virtually_symbol, (Virtually *)&room, 18);
}
static void call_shared() {
    call(&Machine::shared, 41);
}
static void call_derived() {
    Derived d;
    d.b = 1;
    d.d = 2;
    call(derived, d, 3);
}
static void call_by_reference() {
    capture_target = (const void *)by_reference;
    ((int (*)(Destroyed, Copied, int))capture_entry)(Destroyed(), Copied(8), 9);
}
static void call_hidden() {
    call(hidden, 4);
}
static void call_trivial() {
    call(trivial, Trivial(6), Empty(), 7);
}
static void call_boxes() {
    call(boxes, Box<double>{2.5}, Box<short>{-3}, nullptr, 4);
}
static void call_members() {
    call(members, &Machine::state, 5);
}
static void call_unique() {
    capture_target = (const void *)unique;
    ((int (*)(std::unique_ptr<int>, int))capture_entry)(std::make_unique<int>(3), 4);
}

extern "C" __attribute__((visibility("default"))) const subject_case *cases_cxx();
const subject_case *cases_cxx() {
    static std::string run = std::string(address_of_machine()) + ", by=5, level=high";
    static std::string name = std::string(address_of_machine()) + ", n=9";
    static const subject_case cases[] = {
        {(const void *)run_symbol, call_run, run.c_str(), "255"},
        {(const void *)name_symbol, call_name, name.c_str(), "*"},
        {(const void *)guard_symbol, call_guard, "this=0x*, v=17", ""},
        {(const void *)unguard_symbol, call_unguard, "this=0x*", ""},
        {(const void *)virtually_symbol, call_virtually, "this=0x*", ""},
        {(const void *)&Machine::shared, call_shared, "n=41", "42"},
        {(const void *)derived, call_derived, "a={{b=1}, d=2}, n=3", "6"},
        {(const void *)by_reference, call_by_reference, "a={a=7}, b={n=8}, n=9", "24"},
        {(const void *)hidden, call_hidden, "n=4", "*"},
        {(const void *)trivial, call_trivial, "a={n=6}, {}, n=7", "19"},
        {(const void *)boxes, call_boxes, "a={value=2.5}, b={value=-3}, 0x0, n=4", "3"},
        {(const void *)members, call_members, "field=8, n=5", "5"},
        {(const void *)unique, call_unique, "p=0x*, n=4", "7"},
        {},
    };
    return cases;
}
