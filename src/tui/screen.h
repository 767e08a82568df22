/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal, by ncurses, which is loaded when it is needed: other commands run without it. One screen at a time. */
#ifndef CT_TUI_SCREEN_H
#define CT_TUI_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

/* Keys that are no characters. */
enum ct_key {
    CT_KEY_NONE = -1,
    CT_KEY_STOP = 3, /* Ctrl-C */
    CT_KEY_ESCAPE = 27,
    CT_KEY_DOWN = 0402,
    CT_KEY_UP,
    CT_KEY_LEFT,
    CT_KEY_RIGHT,
    CT_KEY_HOME,
    CT_KEY_BACKSPACE,
    CT_KEY_PAGE_DOWN = 0522,
    CT_KEY_PAGE_UP = 0523,
    CT_KEY_ENTER = 0527,
    CT_KEY_END = 0550,
    CT_KEY_RESIZE = 0632,
};

enum ct_look { CT_LOOK_PLAIN, CT_LOOK_BOLD = 1, CT_LOOK_CHOSEN = 2, CT_LOOK_DIM = 4, CT_LOOK_COLOUR = 8 };
enum { CT_COLOURS = 6 }; /* CT_LOOK_COLOUR * (1 + number) */

/* Returns 0 or a negative status; CT_ERR_UNSUPPORTED: ncurses is not installed, or the terminal is not known. */
int ct_screen_open(FILE *out, FILE *in);
void ct_screen_close(void);
int ct_screen_height(void);
int ct_screen_width(void);
/* A key; waits for at most this long, -1: for ever. Enter is CT_KEY_ENTER and backspace CT_KEY_BACKSPACE always. */
int ct_screen_key(int milliseconds);
void ct_screen_erase(void);
/* Writes a text from a column on, up to the last column of the screen; control characters are shown as dots. */
void ct_screen_put(int row, int column, unsigned look, const char *text);
void ct_screen_format(int row, int column, unsigned look, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A whole row in this look. */
void ct_screen_fill(int row, unsigned look);
void ct_screen_show(void);

#endif
