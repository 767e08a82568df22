/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal: see screen.h. The functions of ncurses are declared here, as its ABI 6 has them, so that nothing of it
 * is needed to build. */
#include "tui/screen.h"
#include <contrail/status.h>
#include <dlfcn.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1024, ATTRIBUTE_SHIFT = 8, REVERSE = 1 << 18, DIM = 1 << 20, BOLD = 1 << 21 };

#define FUNCTIONS(X)                                                                                                   \
    X(void *, newterm, (const char *type, FILE *out, FILE *in))                                                        \
    X(void, delscreen, (void *screen))                                                                                 \
    X(int, endwin, (void))                                                                                             \
    X(int, raw, (void))                                                                                                \
    X(int, noecho, (void))                                                                                             \
    X(int, nonl, (void))                                                                                               \
    X(int, curs_set, (int visible))                                                                                    \
    X(int, set_escdelay, (int milliseconds))                                                                           \
    X(_Bool, has_colors, (void))                                                                                       \
    X(int, start_color, (void))                                                                                        \
    X(int, use_default_colors, (void))                                                                                 \
    X(int, init_pair, (short pair, short foreground, short background))                                                \
    X(int, keypad, (void *window, _Bool on))                                                                           \
    X(void, wtimeout, (void *window, int milliseconds))                                                                \
    X(int, wgetch, (void *window))                                                                                     \
    X(int, werase, (void *window))                                                                                     \
    X(int, wmove, (void *window, int row, int column))                                                                 \
    X(int, waddnstr, (void *window, const char *text, int bytes))                                                      \
    X(int, wattrset, (void *window, int look))                                                                         \
    X(int, wrefresh, (void *window))                                                                                   \
    X(int, getmaxy, (const void *window))                                                                              \
    X(int, getmaxx, (const void *window))

static struct {
#define MEMBER(type, name, parameters) type(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
    void **window; /* stdscr */
    void *screen;
} library;

static bool load_library(void) {
    void *handle = dlopen("libncursesw.so.6", RTLD_NOW | RTLD_GLOBAL);
    if (!handle)
        return false;
    bool whole = true;
#define LOAD(type, name, parameters)                                                                                   \
    *(void **)&library.name = dlsym(handle, #name);                                                                    \
    whole &= library.name != NULL;
    FUNCTIONS(LOAD)
#undef LOAD
    library.window = dlsym(handle, "stdscr");
    return whole && library.window;
}

static void prepare_colours(void) {
    static const short colours[CT_COLOURS] = {6, 2, 3, 5, 4, 1};
    const char *no = getenv("NO_COLOR");
    if ((no && *no) || !library.has_colors())
        return;
    library.start_color();
    library.use_default_colors();
    for (short i = 0; i < CT_COLOURS; i++)
        library.init_pair((short)(i + 1), colours[i], -1);
}

int ct_screen_open(FILE *out, FILE *in) {
    (void)setlocale(LC_CTYPE, "");
    if (!load_library() || !(library.screen = library.newterm(NULL, out, in)))
        return CT_ERR_UNSUPPORTED;
    library.raw();
    library.noecho();
    library.nonl();
    library.curs_set(0);
    library.set_escdelay(50);
    library.keypad(*library.window, true);
    prepare_colours();
    return 0;
}

void ct_screen_close(void) {
    library.endwin();
    library.delscreen(library.screen);
    library.screen = NULL;
}

int ct_screen_height(void) {
    return library.getmaxy(*library.window);
}

int ct_screen_width(void) {
    return library.getmaxx(*library.window);
}

int ct_screen_key(int milliseconds) {
    library.wtimeout(*library.window, milliseconds);
    int key = library.wgetch(*library.window);
    if (key == '\r' || key == '\n')
        return CT_KEY_ENTER;
    return key == 127 || key == 8 ? CT_KEY_BACKSPACE : key;
}

void ct_screen_erase(void) {
    library.werase(*library.window);
}

static int attributes(unsigned look) {
    unsigned bits = 0;
    bits |= look & CT_LOOK_BOLD ? BOLD : 0;
    bits |= look & CT_LOOK_CHOSEN ? REVERSE : 0;
    bits |= look & CT_LOOK_DIM ? DIM : 0;
    return (int)(bits | look / CT_LOOK_COLOUR << ATTRIBUTE_SHIFT);
}

void ct_screen_put(int row, int column, unsigned look, const char *text) {
    int room = ct_screen_width() - column;
    char shown[TEXT];
    size_t length = 0;
    /* Characters of several bytes count as one column. */
    for (int used = 0; text[length] && length < sizeof shown - 1; length++) {
        used += ((unsigned char)text[length] & 0xc0) != 0x80;
        if (used > room)
            break;
        shown[length] = (char)((unsigned char)text[length] < ' ' || text[length] == 127 ? '.' : text[length]);
    }
    if (room <= 0 || row < 0 || row >= ct_screen_height() || column < 0)
        return;
    library.wattrset(*library.window, attributes(look));
    library.wmove(*library.window, row, column);
    library.waddnstr(*library.window, shown, (int)length);
}

void ct_screen_format(int row, int column, unsigned look, const char *format, ...) {
    char text[TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ct_screen_put(row, column, look, text);
}

void ct_screen_fill(int row, unsigned look) {
    char spaces[TEXT];
    memset(spaces, ' ', sizeof spaces - 1);
    spaces[sizeof spaces - 1] = 0;
    ct_screen_put(row, 0, look, spaces);
}

void ct_screen_show(void) {
    library.wrefresh(*library.window);
}
