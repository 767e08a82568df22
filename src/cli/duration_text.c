/* SPDX-License-Identifier: Apache-2.0 */
/* Times of three digits, with integer arithmetic. */
#include "cli/duration_text.h"
#include <string.h>

static char *put_number(char *out, unsigned n, int digits) {
    for (int i = digits; i > 0; i--) {
        out[i - 1] = (char)('0' + n % 10);
        n /= 10;
    }
    return out + digits;
}

/* `value` / `unit` with three significant digits. Rounds halves to even, as printf does. */
static char *put_scaled(char *out, uint64_t value, uint64_t unit) {
    int decimals = value * 1000 < unit * 9995 ? 2 : value * 1000 < unit * 99950 ? 1 : 0;
    uint64_t step = decimals == 2 ? unit / 100 : decimals == 1 ? unit / 10 : unit;
    uint64_t whole = value / step, rest = value % step;
    whole += 2 * rest > step || (2 * rest == step && whole % 2);
    if (decimals == 0)
        return put_number(out, (unsigned)whole, whole > 999 ? 4 : 3);
    unsigned scale = decimals == 2 ? 100 : 10;
    out = put_number(out, (unsigned)whole / scale, decimals == 2 ? 1 : 2);
    *out++ = '.';
    return put_number(out, (unsigned)whole % scale, decimals);
}

size_t ct_duration_text(char buffer[CT_TEXT_SIZE], uint64_t ns) {
    char *out = buffer;
    if (ns < 1000) {
        out = put_number(out, (unsigned)ns, ns < 10 ? 1 : ns < 100 ? 2 : 3);
        memcpy(out, " ns", 4);
        return (size_t)(out - buffer) + 3;
    }
    if (ns >= 99950000000)
        return strlen(ct_text_time(buffer, ns));
    uint64_t unit = ns < 999500 ? 1000 : ns < 999500000 ? 1000000 : 1000000000;
    out = put_scaled(out, ns, unit);
    const char *name = unit == 1000 ? " us" : unit == 1000000 ? " ms" : " s";
    strcpy(out, name);
    return (size_t)(out - buffer) + strlen(name);
}
