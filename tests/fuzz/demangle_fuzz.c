/* SPDX-License-Identifier: Apache-2.0 */
/* The demanglers on anything: they end, stay within their bounds, and give text that ends where it says.
 *
 * As a libFuzzer target, or alone: replays the files given as arguments, then tries `--cases N` deterministic ones, put
 * together from pieces of names and then damaged. */
#include "symbols/demangle.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* A copy of its very size, so that the address sanitizer sees a read past the end. */
    char *name = malloc(size + 1);
    memcpy(name, data, size);
    name[size] = 0;
    char *display = ct_demangle(name);
    size_t start, length;
    if (display) {
        if (strlen(display) > CT_DEMANGLE_MAX_OUTPUT)
            abort();
        length = ct_demangled_base(display, &start);
        if (start + length > strlen(display))
            abort();
    }
    length = ct_demangled_base(name, &start);
    if (start + length > strlen(name))
        abort();
    free(display);
    free(name);
    return 0;
}

#ifndef CT_LIBFUZZER
#include "alone.h"

static const char *const seeds[] = {
    "_ZNSt6vectorIiSaIiEE9push_backERKi",
    "_ZN9__gnu_cxxeqIPKcSsEEbRKNS_17__normal_iteratorIT_T0_EES8_",
    "_Z1fIiENSt9enable_ifIXsr3std11is_integralIT_EE5valueEvE4typeES1_",
    "_ZZ4mainENKUlT_E0_clIiEEDaS_",
    "_Z1fIJicEEvDpRKT_",
    "_ZNK3MapcvT_I6StringEEv",
    "_Z1fIiEDTplfp_fp0_ET_S1_",
    "_ZN71_$LT$Test$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
    "_RNvXsL_NtCsfoXig8kEbyV_12simd_adler324hashAhj2f_NtB7_11Adler32Hash4hash",
    "_RINvC1a1fDINtC1b2FnThEEp6OutputtEL_FG_RL0_hEuE",
    "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
};
static const char *const pieces[] = {"N",  "E",    "I",  "J",   "T_",  "T0_", "S_",  "S0_", "S1_",  "St", "Ss",   "P",
                                     "R",  "O",    "K",  "F",   "A3_", "M",   "X",   "L",   "Li1",  "cv", "cl",   "sr",
                                     "Dp", "DT",   "Ul", "Ut_", "Z",   "1a",  "2bc", "v",   "i",    "D1", "C1",   "B1x",
                                     "_",  "fp_",  "sp", "sZ",  "tl",  "nw",  "qu",  "dt",  "pt",   "_Z", "G",    "Nv",
                                     "Nt", "NC",   "B_", "B0_", "Mx",  "Y",   "s_",  "u",   "Kj1_", "D",  "L_",   "p",
                                     ".x", "$LT$", "..", "17h", "h_",  "n1_", "TV",  "GV",  "Tc",   "il", "fL0p_"};

static void random_case(void) {
    char text[2048];
    size_t size = 0;
    if (pick(2)) {
        const char *seed = seeds[pick(sizeof seeds / sizeof *seeds)];
        size = strlen(seed);
        memcpy(text, seed, size);
    } else {
        memcpy(text, pick(3) ? "_Z" : "_R", size = 2);
    }
    for (unsigned n = pick(pick(8) ? 12 : 200); n; n--) {
        const char *piece = pieces[pick(sizeof pieces / sizeof *pieces)];
        size_t length = strlen(piece), at = 2 + pick((unsigned)size - 1); /* up to the end */
        if (size + length > sizeof text)
            break;
        memmove(text + at + length, text + at, size - at);
        memcpy(text + at, piece, length);
        size += length;
    }
    for (unsigned n = pick(4); n && size > 3; n--) {
        size_t at = 2 + pick((unsigned)size - 2);
        if (pick(2))
            text[at] = (char)(pick(95) + 32);
        else
            memmove(text + at, text + at + 1, --size - at);
    }
    LLVMFuzzerTestOneInput((uint8_t *)text, size);
}

int main(int argc, char **argv) {
    return run_alone(argc, argv, 300000, random_case);
}
#endif
