/* SPDX-License-Identifier: Apache-2.0 */
/* Demangling, by examples, and within its bounds. */
#include "symbols/demangle.h"
#include "symbols/name_match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct example {
    const char *mangled, *display; /* NULL: is no mangled name */
};

static void check(const struct example *examples) {
    for (; examples->mangled; examples++) {
        char *display = ct_demangle(examples->mangled);
        if (!examples->display) {
            if (display)
                fail_msg("%s: %s", examples->mangled, display);
            continue;
        }
        if (!display || strcmp(display, examples->display) != 0)
            fail_msg("%s\n  is  %s\n  not %s", examples->mangled, display ? display : "(nothing)", examples->display);
        free(display);
    }
}

static void test_functions(void **state) {
    (void)state;
    check((struct example[]){
        {"_Z1fv", "f()"},
        {"_Z1fiPKcz", "f(int, char const*, ...)"},
        {"_ZN2ns1fEv", "ns::f()"},
        {"_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()"},
        {"_ZNK3Foo3barEi", "Foo::bar(int) const"},
        {"_ZNVK3Foo3barEv", "Foo::bar() const volatile"},
        {"_ZNKR3Foo3barEv", "Foo::bar() const &"},
        {"_ZNO3Foo3barEv", "Foo::bar() &&"},
        {"_ZL6staticv", "static()"},
        {"_ZSt4movev", "std::move()"},
        {"_ZN3FooC1Ev", "Foo::Foo()"},
        {"_ZN3FooD0Ev", "Foo::~Foo()"},
        {"_ZN3FooC2ERKS_", "Foo::Foo(Foo const&)"},
        {"_ZN3BoxIiEC1Ev", "Box<int>::Box()"},
        {"_Z3fooIiEvT_.isra.0", "void foo<int>(int) [clone .isra.0]"},
        {"_Z1fv.part.3.cold", "f() [clone .part.3] [clone .cold]"},
        {"_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc",
         "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(char const*)"},
        {"_ZN3foo3barB5cxx11Ev", "foo::bar[abi:cxx11]()"},
        {0},
    });
}

static void test_operators(void **state) {
    (void)state;
    check((struct example[]){
        {"_ZN1AplERKS_", "A::operator+(A const&)"},
        {"_ZNK1AclEi", "A::operator()(int) const"},
        {"_ZN1AixEm", "A::operator[](unsigned long)"},
        {"_ZlsRSo1A", "operator<<(std::basic_ostream<char, std::char_traits<char> >&, A)"},
        {"_ZltIiEbT_S0_", "bool operator< <int>(int, int)"},
        {"_Znwm", "operator new(unsigned long)"},
        {"_ZdaPv", "operator delete[](void*)"},
        {"_ZNK1AcvbEv", "A::operator bool() const"},
        {"_ZNK1AcvPKcEv", "A::operator char const*() const"},
        {"_ZN1AcvT_IiEEv", "A::operator int<int>()"},
        {"_ZNK1AssERKS_", "A::operator<=>(A const&) const"},
        {"_Zli3_kmd", "operator\"\" _km(double)"},
        {0},
    });
}

static void test_types(void **state) {
    (void)state;
    check((struct example[]){
        {"_Z1fPFviE", "f(void (*)(int))"},
        {"_Z1fRA3_i", "f(int (&) [3])"},
        {"_Z1fRA3_A4_Ki", "f(int const (&) [3][4])"},
        {"_Z1fM1AFvvE", "f(void (A::*)())"},
        {"_Z1fM1AKFvvE", "f(void (A::*)() const)"},
        {"_Z1fM1Ai", "f(int A::*)"},
        {"_Z1fPPFPFvvEPKcE", "f(void (*(**)(char const*))())"},
        {"_Z1fPDoFvvE", "f(void (*)() noexcept)"},
        {"_Z1fOKi", "f(int const&&)"},
        {"_Z1fPKPVc", "f(char volatile* const*)"},
        {"_Z1fSt8functionIFiicEE", "f(std::function<int (int, char)>)"},
        {"_Z1fIiEPFvT_EPS1_", "void (*f<int>(void (*)(int)))(int)"},
        {"_Z1fDnDiDsDu", "f(decltype(nullptr), char32_t, char16_t, char8_t)"},
        {"_Z1fDv4_f", "f(float __vector(4))"},
        {"_Z1fabcdefghijlmnostwxyz",
         "f(signed char, bool, char, double, long double, float, __float128, unsigned char, int, unsigned int, long, "
         "unsigned long, __int128, unsigned __int128, short, unsigned short, wchar_t, long long, unsigned long long, "
         "...)"},
        {0},
    });
}

static void test_templates(void **state) {
    (void)state;
    check((struct example[]){
        {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)"},
        {"_Z1fIJiicEEvDpT_", "void f<int, int, char>(int, int, char)"},
        {"_Z1fIJEEvDpT_", "void f<>()"},
        {"_Z1fIJicEEvDpRKT_", "void f<int, char>(int const&, char const&)"},
        {"_Z1fIRiEvOT_", "void f<int&>(int&)"},
        {"_Z1fIKiEvRKT_", "void f<int const>(int const&)"},
        {"_Z1fILi3ELb1ELm7ELin2ELc65EEvv", "void f<3, true, 7ul, -2, (char)65>()"},
        {"_Z1fIXadL_Z1gvEEEvv", "void f<&(g())>()"},
        {"_Z1fIXadL_ZN1A1gEvEEEvv", "void f<&A::g>()"},
        {"_Z1fIiEDTcl1gfp_EET_", "decltype (g({parm#1})) f<int>(int)"},
        {"_Z1fIiEDTplfp_fp0_ET_S1_", "decltype ({parm#1}+{parm#2}) f<int>(int, int)"},
        {"_Z1fIiENSt9enable_ifIXsr3std11is_integralIT_EE5valueEvE4typeES1_",
         "std::enable_if<std::is_integral<int>::value, void>::type f<int>(int)"},
        {"_Z1fIiENSt9enable_ifIXsrSt11is_integralIT_E5valueEvE4typeES2_",
         "std::enable_if<std::is_integral<int>::value, void>::type f<int>(int)"},
        {"_ZN1AIiE1BIcE1fIsEEvT_", "void A<int>::B<char>::f<short>(short)"},
        {0},
    });
}

static void test_lambdas_and_locals(void **state) {
    (void)state;
    check((struct example[]){
        {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const"},
        {"_ZZ4mainENKUlT_E0_clIiEEDaS_", "auto main::{lambda(auto:1)#2}::operator()<int>(int) const"},
        {"_ZZ1fvE1x", "f()::x"},
        {"_ZZ1fvE1x_0", "f()::x"},
        {"_ZZ1fIiEvT_E1x", "f<int>(int)::x"},
        {"_ZZN1A1fEvENK1B1gEv", "A::f()::B::g() const"},
        {"_ZZ1fvEs", "f()::string literal"},
        {"_ZN1AUt_1fEv", "A::{unnamed type#1}::f()"},
        {"_ZZN1A1fEiEd_NKUlvE_clEv", "A::f(int)::{default arg#1}::{lambda()#1}::operator()() const"},
        {0},
    });
}

static void test_special(void **state) {
    (void)state;
    check((struct example[]){
        {"_ZTV3Foo", "vtable for Foo"},
        {"_ZTI3Foo", "typeinfo for Foo"},
        {"_ZTS3Foo", "typeinfo name for Foo"},
        {"_ZTT3Foo", "VTT for Foo"},
        {"_ZTC3Foo8_3Bar", "construction vtable for Bar-in-Foo"},
        {"_ZThn16_N3Foo3barEv", "non-virtual thunk to Foo::bar()"},
        {"_ZTv0_n24_N3Foo3barEv", "virtual thunk to Foo::bar()"},
        {"_ZGVZ1fvE1x", "guard variable for f()::x"},
        {"_ZGRN1A1xE_", "reference temporary #0 for A::x"},
        {"_ZTH1x", "TLS init function for x"},
        {"_ZTW1x", "TLS wrapper function for x"},
        {0},
    });
}

static void test_rust_legacy(void **state) {
    (void)state;
    check((struct example[]){
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
        {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
         "<Test + 'static as foo::Bar<Test>>::bar"},
        {"_ZN3foo17h05af221e174051e9E.llvm.1234", "foo"},
        {"_ZN5alloc3vec12Vec$LT$T$GT$4push17habcdef0123456789E", "alloc::vec::Vec<T>::push"},
        {"_ZN8$RF$str$C3foo17h05af221e174051e9E", NULL},
        {"_ZN3foo17hE", NULL},
        /* The hash is no hash: C++. */
        {"_ZN3foo17h0000000000000000E", "foo::h0000000000000000"},
        {0},
    });
}

static void test_rust_v0(void **state) {
    (void)state;
    check((struct example[]){
        {"_RNvC6_123foo3bar", "123foo::bar"},
        {"_RNvC7mycrate4main", "mycrate::main"},
        {"_RNvMs1_NtNtCsbLd7R6uW4Ys_6ruzstd8decoding12decodebufferNtB5_12DecodeBuffer8read_all",
         "<ruzstd::decoding::decodebuffer::DecodeBuffer>::read_all"},
        {"_RNvMsr_NtCsjrHSEGnQ3l9_3std4pathNtB5_7PathBuf5__push", "<std::path::PathBuf>::_push"},
        {"_RNvXsL_NtCsfoXig8kEbyV_12simd_adler324hashAhj2f_NtB7_11Adler32Hash4hash",
         "<[u8; 47] as simd_adler32::Adler32Hash>::hash"},
        {"_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"},
        {"_RNCNvC7mycrate4main0", "mycrate::main::{closure#0}"},
        {"_RNCNvC7mycrate4mains_0", "mycrate::main::{closure#1}"},
        {"_RINvC1a1fTEThELb1_Kj7_Kan5_KcE", NULL},
        {"_RINvC1a1fThKb1_Kj7_Kan5_Kc41_E", NULL},
        {"_RINvC1a1fKb1_Kj7_Kan5_Kc41_E", "a::f::<true, 7, -5, 'A'>"},
        {"_RINvC1a1fTElThEThtEE", "a::f::<(), i32, (u8,), (u8, u16)>"},
        {"_RINvC1a1fRhQtPlOxSbE", "a::f::<&u8, &mut u16, *const i32, *mut i64, [bool]>"},
        {"_RINvC1a1fFUKCRheEuE", "a::f::<unsafe extern \"C\" fn(&u8, str)>"},
        {"_RINvC1a1fFEhE", "a::f::<fn() -> u8>"},
        {"_RINvC1a1fDNtC1b1TEL_E", "a::f::<dyn b::T>"},
        {"_RINvC1a1fDINtC1b2FnThEEp6OutputtEL_E", "a::f::<dyn b::Fn<(u8,), Output = u16>>"},
        {"_RINvC1a1fFG_RL0_hEuE", "a::f::<for<'a> fn(&'a u8)>"},
        {"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
         "utf8_idents::"
         "\xe1\x83\xa1\xe1\x83\x90\xe1\x83\xad\xe1\x83\x9b\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x90\xe1\x83\x93_"
         "\xe1\x83\x92\xe1\x83\x94\xe1\x83\x9b\xe1\x83\xa0\xe1\x83\x98\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x98_"
         "\xe1\x83\xa1\xe1\x83\x90\xe1\x83\x93\xe1\x83\x98\xe1\x83\x9a\xe1\x83\x98"},
        {"_RNvC7mycrate4main.llvm.77", "mycrate::main"},
        {"_RNvC7mycrate4mainC9elsewhere", "mycrate::main"},
        {"_R", NULL},
        {"_RNvC7mycrate", NULL},
        {"_RNvB_3foo", NULL},
        {"_RB_", NULL},
        {0},
    });
}

static void test_not_mangled(void **state) {
    (void)state;
    check((struct example[]){
        {"main", NULL},
        {"", NULL},
        {"_", NULL},
        {"_Z", NULL},
        {"_ZZZ", NULL},
        {"_Z1", NULL},
        {"_Z99f", NULL},
        {"_Z1fT_", NULL}, /* there is no such parameter */
        {"_Z1fS_", NULL},
        {"_Z1fIiEvT1_", NULL},
        {"_ZN3FooE", "Foo"},
        {"_Z1fv!", NULL},
        {"_Z99999999999999999999f", NULL},
        {0},
    });
}

/* ---- bounds ---- */

static char *repeat(const char *head, const char *part, size_t times, const char *tail) {
    size_t length = strlen(head) + times * strlen(part) + strlen(tail) + 1;
    char *text = malloc(length), *at = text;
    at = stpcpy(at, head);
    while (times--)
        at = stpcpy(at, part);
    stpcpy(at, tail);
    return text;
}

/* Deep, long, and growing at every step: ends soon, with nothing or with something of bounded size. */
static void test_bounds(void **state) {
    (void)state;
    const struct {
        const char *head, *part, *tail;
    } shapes[] = {
        {"_Z1f", "P", "i"},         {"_Z1f", "PFv", "i"},           {"_Z1fI", "N1AI", "i"},
        {"_ZZ", "Z1fvE", "1x"},     {"_Z1fIX", "pl", "E"},          {"_Z1fILi", "9", "EEvv"},
        {"_R", "Nv", "C1a1b"},      {"_RINvC1a1f", "T", "E"},       {"_RINvC1a1f", "F", "u"},
        {"_ZN", "1a", "E"},         {"_Z1f", "M1A", "i"},           {"_Z1f", "A3_", "i"},
        {"_ZTc", "h_", "1f"},       {"_ZN", "cvT_I", "E"},          {"_Z1fv", ".a", ""},
        {"_RINvC1a1f", "G_", "E"},  {"_Z1f", "KVr", "i"},           {"_ZN1a", "B1b", "Ev"},
        {"_Z1fDT", "sr1aI", "E"},   {"_Z1fIX", "cvcv", "E"},        {"_RNvC1a", "s_", "1b"},
        {"_Z1fUlvE_", "Ul", "vE_"}, {"_Z1fIX", "sr1aIXcvT_I", "E"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t times = 1; times <= 20000; times = times * 3 + 1) {
            char *name = repeat(shapes[i].head, shapes[i].part, times, shapes[i].tail), *display = ct_demangle(name);
            if (display)
                assert_true(strlen(display) <= CT_DEMANGLE_MAX_OUTPUT);
            free(display);
            free(name);
        }
}

/* Each substitution is twice the one before: without a bound this takes longer than the universe has. */
static void test_doubling(void **state) {
    (void)state;
    char name[4096] = "_Z1fI1AIiiE", number[16];
    for (int i = 0; i < 100; i++) {
        if (i < 36)
            snprintf(number, sizeof number, "%c", i < 10 ? '0' + i : 'A' + i - 10);
        else
            snprintf(number, sizeof number, "1%c", (i - 36) % 36 < 10 ? '0' + (i - 36) % 36 : 'A' + (i - 36) % 36 - 10);
        char part[64];
        snprintf(part, sizeof part, "S_IS%s_S%s_E", number, number);
        strcat(name, part);
    }
    strcat(name, "Evv");
    free(ct_demangle(name));
    char rust[4096] = "_RINvC1a1f";
    for (int i = 0; i < 60; i++)
        strcat(rust, "TB9_B9_B9_");
    free(ct_demangle(rust));
    char back[4096] = "_RINvC1a1fTThhE";
    for (int i = 0; i < 200; i++)
        strcat(back, "TBa_Bb_Bc_E");
    free(ct_demangle(back));
}

/* ---- the name alone ---- */

static void test_base(void **state) {
    (void)state;
    const struct {
        const char *display, *base;
    } examples[] = {
        {"main", "main"},
        {"f(int)", "f"},
        {"void f<int>(int)", "f<int>"},
        {"ns::Box<int>::get(int const&) const", "ns::Box<int>::get"},
        {"(anonymous namespace)::f()", "(anonymous namespace)::f"},
        {"A::operator()(int) const", "A::operator()"},
        {"bool operator< <int>(int, int)", "operator< <int>"},
        {"operator new(unsigned long)", "operator new"},
        {"A::operator char const*() const", "A::operator char const*"},
        {"std::vector<int, std::allocator<int> >::push_back(int const&)",
         "std::vector<int, std::allocator<int> >::push_back"},
        {"main::{lambda()#1}::operator()() const", "main::{lambda()#1}::operator()"},
        {"f()::B::g()", "f()::B::g"},
        {"decltype (g({parm#1})) f<int>(int)", "f<int>"},
        {"void f<void (int)>()", "f<void (int)>"},
        {"<Test as foo::Bar>::bar", "<Test as foo::Bar>::bar"},
        {"a::f::<fn() -> u8>", "a::f::<fn() -> u8>"},
        {"f() [clone .isra.0]", "f"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        size_t start, length = ct_demangled_base(examples[i].display, &start);
        if (length != strlen(examples[i].base) || memcmp(examples[i].display + start, examples[i].base, length) != 0)
            fail_msg("%s: %.*s", examples[i].display, (int)length, examples[i].display + start);
    }
}

static void test_globs(void **state) {
    (void)state;
    const char *name = "_ZNK2ns3BoxIiE3getERKi"; /* ns::Box<int>::get(int const&) const */
    static const char *const good[] = {"_ZNK2ns*", "ns::*", "ns::Box<int>::get", "*::get", "*(int const&) const"};
    static const char *const bad[] = {"get", "ns", "ns::Box", "", "_ZN2ns*"};
    for (size_t i = 0; i < 5; i++) {
        assert_true(ct_name_fits((const char *const[]){"nothing", good[i], NULL}, name));
        assert_false(ct_name_fits((const char *const[]){bad[i], NULL}, name));
    }
    assert_false(ct_name_fits((const char *const[]){"*", NULL}, ""));
    assert_true(ct_name_fits((const char *const[]){"main", NULL}, "main"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_lambdas_and_locals),
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_rust_legacy),
        cmocka_unit_test(test_rust_v0),
        cmocka_unit_test(test_not_mangled),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_base),
        cmocka_unit_test(test_globs),
    };
    return cmocka_run_group_tests_name("demangle", tests, NULL, NULL);
}
