/* SPDX-License-Identifier: Apache-2.0 */
/* Names for tables, by examples; and what is not understood stays as it is. */
#include "symbols/short_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

struct example {
    const char *name, *expected; /* NULL: stays as it is */
};

static void check(const struct example *examples, char *(*shorten)(const char *name, const char *dots)) {
    for (; examples->name; examples++) {
        char *text = shorten(examples->name, "~");
        const char *expected = examples->expected ? examples->expected : examples->name;
        if (strcmp(text ? text : examples->name, expected) != 0)
            fail_msg("%s\n  is  %s\n  not %s", examples->name, text ? text : "(as it is)", expected);
        free(text);
    }
}

static void the_standard_library(void **state) {
    (void)state;
    static const struct example examples[] = {
        {STRING "::c_str() const", "std::string::c_str() const"},
        {"f(std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char>>)", "f(std::string)"},
        {"f(std::basic_string<wchar_t, std::char_traits<wchar_t>, std::allocator<wchar_t> >)", "f(std::wstring)"},
        {"f(std::basic_string_view<char, std::char_traits<char> >)", "f(std::string_view)"},
        {"f(std::basic_string_view<char16_t, std::char_traits<char16_t> >)", "f(std::u16string_view)"},
        {"operator<<(std::basic_ostream<char, std::char_traits<char> >&, A)", "operator<<(std::ostream&, A)"},
        {"f(std::basic_ostream<char32_t, std::char_traits<char32_t> >&)", "f(std::basic_ostream<char32_t>&)"},
        {"f(std::__cxx11::basic_ostringstream<char, std::char_traits<char>, std::allocator<char> >&)",
         "f(std::ostringstream&)"},
        {"f(std::basic_string<char, my::traits, std::allocator<char> >)", "f(std::basic_string<char, my::traits>)"},
        {"f(my::basic_string<char>)", NULL},
        {"f(mystd::__cxx11::basic_string<char>)", NULL},
        {"std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector<int>::push_back(int const&)"},
        {"std::vector<" STRING ", std::allocator<" STRING " > >::clear()", "std::vector<std::string>::clear()"},
        {"std::map<" STRING ", int, std::less<" STRING " >, std::allocator<std::pair<" STRING
         " const, int> > >::operator[](" STRING " const&)",
         "std::map<std::string, int>::operator[](std::string const&)"},
        {"std::unique_ptr<A, std::default_delete<A> >::get() const", "std::unique_ptr<A>::get() const"},
        {"std::allocator<int>::allocate(unsigned long)", NULL},
        {"std::__cxx11::to_string[abi:cxx11](int)", "std::to_string(int)"},
        {0},
    };
    check(examples, ct_short_name);
}

static void one_level_of_arguments(void **state) {
    (void)state;
    static const struct example examples[] = {
        {"Box<int>::Box()", NULL},
        {"Box<Pair<int, Box<char> > >::get()", "Box<Pair<~>>::get()"},
        {"void A<int>::B<char>::f<A<int> >(A<A<char> >)", "void A<int>::B<char>::f<A<~>>(A<A<~>>)"},
        {"f(std::function<int (std::vector<int, std::allocator<int> >, char)>)",
         "f(std::function<int (std::vector<~>, char)>)"},
        {"Box<A<>, int>::f()", "Box<A<>, int>::f()"},
        {"void f<int, int, char>(int, int, char)", NULL},
        {"core::ptr::drop_in_place<alloc::vec::Vec<alloc::string::String>>",
         "core::ptr::drop_in_place<alloc::vec::Vec<~>>"},
        {"<alloc::vec::Vec<u8> as core::fmt::Debug>::fmt", NULL},
        {"<fn(Box<u8>) -> Box<Vec<u8>> as A>::f", "<fn(Box<u8>) -> Box<Vec<~>> as A>::f"},
        {0},
    };
    check(examples, ct_short_name);
}

static void signs_are_no_brackets(void **state) {
    (void)state;
    static const struct example examples[] = {
        {"bool operator< <int>(int, int)", NULL},
        {"A::operator<=>(A const&) const", NULL},
        {"A<A<int> >::operator->() const", "A<A<~>>::operator->() const"},
        {"A<A<int> >::operator>>(int)", "A<A<~>>::operator>>(int)"},
        {"A<A<int> >::operator()<int>(int)", "A<A<~>>::operator()<int>(int)"},
        {"std::ostream& std::operator<< <std::char_traits<char> >(char const*)",
         "std::ostream& std::operator<< <std::char_traits<~>>(char const*)"},
        {"foo<((1)>(2))>::bar(A<A<int> >)", "foo<((1)>(2))>::bar(A<A<~>>)"},
        {"foo<((1)<(2))>::bar(A<A<int> >)", "foo<((1)<(2))>::bar(A<A<~>>)"},
        {"auto main::{lambda(auto:1)#1}::operator()<A<A<int> > >(int) const",
         "auto main::{lambda(auto:1)#1}::operator()<A<~>>(int) const"},
        {"main > f<A<int> > > g", "main > f<A<~>> > g"},
        {0},
    };
    check(examples, ct_short_name);
}

static void what_is_not_understood_stays(void **state) {
    (void)state;
    static const char *const names[] = {"",         "main",        "<",         ">",     "f<",     "f<int",
                                        "f<int>>",  "f)<A<B<C>>>", "f(",        "f<(>)", "f<[>]>", "a<b<c",
                                        "[abi:cxx", "std::__",     "operator<", "f<a(>", "f<\xff", "{<}",
                                        "f<,",      "operator",    "f<{>"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *text = ct_short_name(names[i], "~"), *parameters = ct_short_parameters(names[i], "~");
        if (text && strcmp(text, names[i]) != 0)
            fail_msg("\"%s\" became \"%s\"", names[i], text);
        free(text);
        free(parameters);
    }
    enum { DEEP = 100000 };
    char *deep = malloc(2 * DEEP + 1);
    assert_non_null(deep);
    for (size_t i = 0; i < DEEP; i++)
        memcpy(deep + 2 * i, "f<", 2);
    deep[(size_t)2 * DEEP] = 0;
    assert_null(ct_short_name(deep, "~"));
    memset(deep, '(', (size_t)2 * DEEP);
    deep[1] = '<';
    assert_null(ct_short_name(deep, "~"));
    free(deep);
}

/* Any bytes: only bounds are checked, by the sanitizers. */
static void garbage_is_safe(void **state) {
    (void)state;
    static const char *const pieces[] = {"std::",    "basic_string", "<", ">", "char",       ",", " ", "(",
                                         ")",        "operator",     "-", "[", "]",          "{", "}", "std::__cxx11::",
                                         "\xe2\x80", "allocator",    "~", ":", "[abi:cxx11]"};
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char name[512] = "";
        size_t used = 0;
        for (int i = 0; i < 24; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const char *piece = pieces[(seed >> 33) % (sizeof pieces / sizeof pieces[0])];
            memcpy(name + used, piece, strlen(piece) + 1);
            used += strlen(piece);
        }
        char *text = ct_short_name(name, "~"), *parameters = ct_short_parameters(name, "~");
        if (text && strlen(text) > strlen(name) + used)
            fail_msg("%s became longer: %s", name, text);
        free(text);
        free(parameters);
    }
}

static void no_arguments(void **state) {
    (void)state;
    static const struct example examples[] = {
        {"std::map<" STRING ", int>::find(" STRING " const&)", "std::map<~>::find(std::string const&)"},
        {"void A<int>::B<char>::f<A<int> >(A<char>)", "void A<~>::B<~>::f<~>(A<~>)"},
        {"A<>::operator< <int>(int)", "A<>::operator< <~>(int)"},
        {"f<int", NULL},
        {0},
    };
    check(examples, ct_shorter_name);
}

static void parameters_are_left_out(void **state) {
    (void)state;
    static const struct example examples[] = {
        {"f(int, char)", "f(~)"},
        {"f()", NULL},
        {"std::pair<int, char>& A::f<int>()", "A::f<int>()"},
        {"main", NULL},
        {"A::f(int (*)(char)) const", "A::f(~) const"},
        {"void f<int>(int) [clone .isra.0]", "f<int>(~) [clone .isra.0]"},
        {"A::operator()(int) const", "A::operator()(~) const"},
        {"main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()(~) const"},
        {"(anonymous namespace)::f(int)", "(anonymous namespace)::f(~)"},
        {0},
    };
    check(examples, ct_short_parameters);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standard_library),  cmocka_unit_test(one_level_of_arguments),
        cmocka_unit_test(signs_are_no_brackets), cmocka_unit_test(what_is_not_understood_stays),
        cmocka_unit_test(garbage_is_safe),       cmocka_unit_test(parameters_are_left_out),
        cmocka_unit_test(no_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
